"""The events of a session as blocks: a layout for each agent, made from the state and kept up to date by the events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from jaato.cli.arguments.values import Attachment
from jaato.cli.output.answers import other_answer_text
from jaato.cli.output.console import one_line
from jaato.cli.output.printer import SubagentNames
from jaato.cli.output.transcript import user_text
from jaato.cli.output.wording import event_lines, progress_lines, subagent_lines, summary_line, turn_end_lines
from jaato.cli.repl.session_output import SERVER_NOTICE, interruption_text
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    AgentStatusChanged,
    BackgroundUpdated,
    ClarificationResolved,
    Event,
    MessageModel,
    MessageUser,
    MidTurnInjected,
    MidTurnQueued,
    PermissionRequested,
    PermissionResolved,
    PlanUpdated,
    Retry,
    SessionInfo,
    SystemMessage,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.protocol.events.state import State
from jaato.protocol.messages import Refusal, Text, Thinking
from jaato.tui.transcript.blocks import Block, CallBlock, NoteBlock, TextBlock, ThinkingBlock, UserBlock
from jaato.tui.transcript.layout import Layout
from jaato.tui.transcript.popup import PopupSession

STEERS = "waits for the agent's next pause"
QUEUED = "waits until the turn has ended"
DELIVERED = "delivered in mid-turn"
LINE = 400
"""Characters of a note about an event."""
MAX_PRESENCE_LINES = 4
STREAMED = ("thinking", "model", "refusal")


class Conversation:
    """The blocks of one session. `state` is always the client's state, which is ahead of the events or equal to them."""

    def __init__(self, state: State, own_name: str) -> None:
        self.state = state
        self.layouts: dict[str, Layout] = {}
        self.names = SubagentNames()
        self.seen = 0
        """The last durable event that is among the blocks."""
        self.interrupted = False
        """Whether the open turn was interrupted."""
        self.first_seq: int | None = None
        """Before which event there are earlier entries; None when all are here."""
        self.calls: dict[str, CallBlock] = {}
        """Calls without a result, by id."""
        self.calls_of_tasks: dict[str, CallBlock] = {}
        """The calls that run as background tasks, by the task's id."""
        self.popups: dict[str, PopupSession] = {}
        """The interactive session that each agent's calls continued last, by agent."""
        self.shown_agent_id = ""
        """The agent whose layout notes are added to; empty: the root agent."""
        self.own_answers: set[str] = set()
        """The questions that were answered here and whose events have not arrived."""
        self._own_name = own_name
        self._open: dict[tuple[str, str], TextBlock | ThinkingBlock] = {}
        """The streamed texts, by agent and kind."""
        self._steering: dict[str, UserBlock] = {}
        """Messages that the agent gets at its next pause, by id."""
        self.queued: dict[UserBlock, tuple[str, list[Attachment]]] = {}
        """Messages that this client sends when the turn has ended, with their files."""
        self.outcome = ""
        """How the turn of the root agent has ended; empty while one runs."""
        self._presence = NoteBlock([])
        """The newest lines about clients that join and leave."""
        self._turns: list[TurnCompleted] = []
        """The turns of subagents since the root's last one."""

    def layout(self, agent_id: str) -> Layout:
        """The layout of an agent."""
        found = self.layouts.get(agent_id)
        if found is None:
            found = self.layouts[agent_id] = Layout()
        return found

    @property
    def root(self) -> Layout:
        """The layout of the root agent."""
        return self.layout(self.state.root_agent_id)

    @property
    def is_busy(self) -> bool:
        """Whether a turn of the root agent runs."""
        return self.state.open_turn is not None and not self.interrupted

    # --- the state -----------------------------------------------------------------------------------------------

    def catch_up(self, info: SessionInfo) -> None:
        """Take in what the state has and no event has brought: after joining, and after a connection was lost."""
        state = self.state
        self.names.restore(state.agents)
        before, earlier = self.seen, state.earlier
        for entry in state.entries:
            if entry.seq > before:
                self.take(entry)
        self.seen = max(self.seen, state.seq)
        if not before and earlier and state.entries:
            self.first_seq = state.entries[0].seq
        for call in state.calls.values():
            self._call(call.agent_id, call.call_id, call.tool, call.arguments).start(
                parse_time(call.started_at)
            )
        for task in state.tasks.values():
            self._take_task(task)
        for question in state.questions.values():
            self.take(question)
        self._drop_lost(state)
        if state.open_turn is not None and not info.at_work:
            self._interrupt()
        else:
            self.interrupted = False

    def _drop_lost(self, state: State) -> None:
        """Remove streamed texts and waiting messages that the state no longer has."""
        for agent_id, source in list(self._open):
            agent = state.agents.get(agent_id)
            if agent is None or source not in agent.streaming:
                self.layout(agent_id).remove(self._open.pop((agent_id, source)))
        waiting = {message_id for agent in state.agents.values() for message_id in agent.queued}
        for message_id in self._steering.keys() - waiting:
            self._drop_steering(message_id)
        for agent in state.agents.values():
            for message in agent.queued.values():
                if message.id not in self._steering and message.source == "user":
                    self._steer(agent.id, message.id, message.words)

    def _interrupt(self) -> None:
        """Show that the turn was interrupted, once; a call whose question still waits is as before."""
        asked = {question.call_id for question in self.state.questions.values()}
        for call_id, block in self.calls.items():
            if call_id not in asked:
                block.status = "interrupted"
                block.changed()
        if not self.interrupted:
            self.note(interruption_text(self.state), "yellow")
        self.interrupted, self.outcome = True, "interrupted"

    # --- events --------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Take in one event."""
        self.names(event)
        if event.durable:
            if event.seq <= self.seen and not isinstance(event, PermissionRequested):
                return
            self.seen = max(self.seen, event.seq)
        match event:
            case MessageUser():
                self._take_user(event)
            case MessageModel():
                self._take_model(event)
            case ToolCallStart():
                block = self._call(event.agent_id, event.call_id, event.tool, event.arguments)
                block.arguments = event.arguments
                block.start(parse_time(event.timestamp))
            case ToolCallEnd() if (task := self._find_task(event.call_id)) is not None:
                self._take_task(task)
            case ToolCallEnd():
                block = self._call(event.agent_id, event.call_id, event.tool, event.arguments or {})
                self.calls.pop(event.call_id, None)
                block.finish(event)
                if event.continuation_id is not None and event.show_popup:
                    self._continue_popup(event, event.continuation_id, block)
                if not event.show_output and event.result.ok:
                    self.drop_block(block)
            case PermissionRequested():
                block = self._call(event.agent_id, event.call_id, event.tool, event.arguments)
                block.status, block.preview = "asks", event.preview
                block.changed()
            case PermissionResolved() | ClarificationResolved():
                self._take_answer(event)
            case TurnCompleted():
                self._end_turn(event)
            case _:
                self._take_rest(event)

    def _take_answer(self, event: PermissionResolved | ClarificationResolved) -> None:
        if isinstance(event, PermissionResolved) and (block := self.calls.get(event.call_id)) is not None:
            block.status = "waits"
            block.changed()
        if event.by and event.question_id not in self.own_answers:
            self._notes(event, [(other_answer_text(event), "yellow")])
        self.own_answers.discard(event.question_id)

    def _take_rest(self, event: Event) -> None:
        match event:
            case MidTurnQueued():
                if event.message.source == "user":
                    self._steer(event.agent_id, event.message.id, event.message.words)
            case MidTurnInjected():
                self._drop_steering(event.message_id)
            case Retry():
                self._void(event.agent_id)
                self._notes(event, event_lines(event, LINE, verbose=False))
            case AgentStatusChanged(status="active"):
                if event.agent_id == self.state.root_agent_id:
                    self.interrupted = False
            case SystemMessage() if event.text.startswith(SERVER_NOTICE):
                self._interrupt()
            case BackgroundUpdated():
                self._take_task(event)
            case PlanUpdated():
                pass  # the plan has a panel
            case AgentCreated() | AgentCompleted() if event.agent_id in self.names:
                self._take_subagent(event)
            case _:
                self._notes(event, [*event_lines(event, LINE, verbose=False), *progress_lines(event, LINE)])

    def _continue_popup(self, event: ToolCallEnd, continuation_id: str, block: CallBlock) -> None:
        """Add a call to the interactive session that it continues, or begin another one."""
        popup = self.popups.get(event.agent_id)
        if popup is None or popup.id != continuation_id:
            popup = self.popups[event.agent_id] = PopupSession(continuation_id)
        popup.add(block, event)

    def _find_task(self, call_id: str) -> BackgroundUpdated | None:
        """The task that runs on after its call has returned a promise."""
        return next((task for task in self.state.tasks.values() if task.call_id == call_id), None)

    def _take_task(self, event: BackgroundUpdated) -> None:
        """Let the block of a call run on while its background task does, then end with that one's result."""
        if event.call_id is None:
            return
        if event.status == "running":
            block = self._call(event.agent_id, event.call_id, event.tool, {})
            block.task_id = event.task_id
            self.calls_of_tasks[event.task_id] = block
            if not block.is_running:
                block.start(parse_time(event.timestamp))
            return
        ended = self.calls_of_tasks.pop(event.task_id, None)
        self.calls.pop(event.call_id, None)
        if ended is not None and event.result is not None:
            end = ToolCallEnd(
                session_id=event.session_id,
                agent_id=event.agent_id,
                seq=event.seq,
                timestamp=event.timestamp,
                call_id=event.call_id,
                tool=event.tool,
                result=event.result,
                duration_s=parse_time(event.timestamp) - ended.started_at,
            )
            ended.finish(end)

    def _take_user(self, event: MessageUser) -> None:
        message = event.message
        self.interrupted = False
        if event.agent_id == self.state.root_agent_id:
            self.outcome = ""
        has_waited = message.id in self._steering
        self._drop_steering(message.id)
        if message.source != "user":
            text = one_line(user_text(event).removeprefix(f"[{message.source}] "), LINE)
            self._add(event.agent_id, NoteBlock([(f"{message.source}: {text}", "dim")]), event.seq)
            return
        notes = [DELIVERED] if has_waited else []
        if message.by and message.by != self._own_name:
            notes.insert(0, f"from {one_line(message.by, 80)}")
        self._add(event.agent_id, UserBlock(user_text(event), ", ".join(notes)), event.seq)

    def _take_model(self, event: MessageModel) -> None:
        agent_id = event.agent_id
        texts = {"model": "", "thinking": "", "refusal": ""}
        for part in event.message.parts:
            match part:
                case Text():
                    texts["model"] += part.text
                case Thinking():
                    texts["thinking"] += part.text
                case Refusal():
                    texts["refusal"] += part.text
        for source in STREAMED:
            block = self._open.pop((agent_id, source), None)
            text = texts[source]
            if block is not None and text:
                block.finish(text)
            elif block is not None:
                self.layout(agent_id).remove(block)
            elif text.strip():
                made = ThinkingBlock(text) if source == "thinking" else TextBlock(text)
                self._add(agent_id, made, event.seq)
        for call in event.message.function_calls:
            self._call(agent_id, call.call_id, call.name, call.arguments, event.seq)

    def _take_subagent(self, event: AgentCreated | AgentCompleted) -> None:
        agent = self.state.agents.get(event.agent_id)
        parent = agent.parent_agent_id if agent is not None else None
        name = self.names.name_of(event.agent_id)
        lines = [(f"[{name}] {text}", look) for text, look in subagent_lines(event, LINE, verbose=False)]
        if lines:
            self._add(parent or self.state.root_agent_id, NoteBlock(lines, gap=False), event.seq)

    def _end_turn(self, event: TurnCompleted) -> None:
        self._void(event.agent_id)
        for call_id, block in list(self.calls.items()):
            if not block.task_id and block in self.layout(event.agent_id).blocks:
                block.status = "not run"
                block.changed()
                del self.calls[call_id]
        turns: list[TurnCompleted] = []
        if event.agent_id == self.state.root_agent_id:
            turns, self._turns = self._turns, []
            self.interrupted = False
            self.outcome = event.reason
        else:
            self._turns.append(event)
        summary = summary_line([event], "", turns).removesuffix(", session ")
        self._add(event.agent_id, NoteBlock([*turn_end_lines(event), (summary, "dim")]), event.seq)

    def _void(self, agent_id: str) -> None:
        """Remove what an agent was streaming."""
        for key in [key for key in self._open if key[0] == agent_id]:
            self.layout(agent_id).remove(self._open.pop(key))

    def _notes(self, event: Event, lines: Iterable[tuple[str, str]]) -> None:
        found = list(lines)
        if not found:
            return
        name = self.names.name_of(event.agent_id)
        agent_id = event.agent_id if name else self.state.root_agent_id
        last = self.layout(agent_id).blocks[-1:]
        self._add(agent_id, NoteBlock(found, gap=not isinstance(last[0] if last else None, NoteBlock)))

    # --- blocks --------------------------------------------------------------------------------------------------

    def note(self, text: str, look: str) -> None:
        """Add a line of the program."""
        self.add_notes([(text, look)])

    def add_notes(self, lines: Sequence[tuple[str, str]]) -> NoteBlock:
        """Add lines of the program, to which more can be added."""
        block = NoteBlock(lines)
        self._add(self.shown_agent_id or self.state.root_agent_id, block)
        return block

    def note_presence(self, lines: Sequence[str]) -> None:
        """Add lines about clients that join and leave: to those right before, of which a few are kept."""
        layout = self.layout(self.shown_agent_id or self.state.root_agent_id)
        if lines and self._presence not in layout.blocks[-1:]:
            self._presence = self.add_notes([])
        for line in lines:
            self._presence.add(line, "dim", keep=MAX_PRESENCE_LINES)

    def add_waiting(self, text: str, reason: str) -> UserBlock:
        """Add a message that waits for the server or the connection."""
        block = UserBlock(text, f"waits for {reason}")
        self._add(self.state.root_agent_id, block)
        return block

    def drop_block(self, block: Block) -> None:
        """Remove a block."""
        for layout in self.layouts.values():
            layout.remove(block)

    def _add(self, agent_id: str, block: Block, seq: int = 0) -> None:
        """Add a block at the end, before messages that wait."""
        layout = self.layout(agent_id)
        at = len(layout.blocks)
        while at and (
            layout.blocks[at - 1] in self._steering.values() or layout.blocks[at - 1] in self.queued
        ):
            at -= 1
        block.seq = seq
        layout.insert(at, block)

    def _call(
        self, agent_id: str, call_id: str, tool: str, arguments: dict[str, object], seq: int = 0
    ) -> CallBlock:
        """The block of a call without a result, made if there is none."""
        block = self.calls.get(call_id)
        if block is None:
            block = self.calls[call_id] = CallBlock(call_id, tool, arguments)
            self._add(agent_id, block, seq)
        return block

    def queue(self, text: str, files: list[Attachment]) -> None:
        """Add a message that is sent when the turn has ended."""
        block = UserBlock(text, QUEUED)
        self.outcome = ""
        self.root.append(block)
        self.queued[block] = text, files

    def take_queued(self, at: int) -> tuple[str, list[Attachment]]:
        """Remove a queued message: 0 is the oldest, -1 the newest."""
        block = list(self.queued)[at]
        self.drop_block(block)
        return self.queued.pop(block)

    def _steer(self, agent_id: str, message_id: str, text: str) -> None:
        if message_id not in self._steering:
            block = UserBlock(text, STEERS)
            layout = self.layout(agent_id)
            layout.insert(len(layout.blocks) - (len(self.queued) if layout is self.root else 0), block)
            self._steering[message_id] = block

    def _drop_steering(self, message_id: str) -> None:
        block = self._steering.pop(message_id, None)
        if block is not None:
            self.drop_block(block)

    def draw_frame(self, now: float) -> None:
        """Take in what is streamed and printed now, as the state has it."""
        for agent in self.state.agents.values():
            for source, text in agent.streaming.items():
                if not text.strip():
                    continue
                block = self._open.get((agent.id, source))
                if block is None:
                    block = (
                        ThinkingBlock("", growing=True) if source == "thinking" else TextBlock(growing=True)
                    )
                    self._open[agent.id, source] = block
                    self._add(agent.id, block)
                block.grow(text)
        for call_id, running in self.calls.items():
            if running.is_running:
                call = self.state.calls.get(call_id) or self.state.background_calls.get(call_id)
                running.tick(now, call.output if call is not None else "")

    def prepend(self, events: Iterable[Event], first_seq: int | None) -> dict[str, int]:
        """Put earlier events before the blocks; returns by how many lines each agent's layout has grown at its top."""
        earlier = Conversation(self.state, self._own_name)
        earlier.names = self.names
        for event in events:
            earlier.take(event)
        grown: dict[str, int] = {}
        for agent_id, layout in earlier.layouts.items():
            target = self.layout(agent_id)
            before = target.height
            later = {block.call_id: block for block in target.blocks if isinstance(block, CallBlock)}
            for block in reversed(layout.blocks):
                if isinstance(block, CallBlock) and block.end is None:
                    if (same := later.get(block.call_id)) is not None:
                        same.arguments = same.arguments or block.arguments
                        same.changed()
                        continue
                    block.status = "not run"
                target.insert(0, block)
            grown[agent_id] = target.height - before
        self.first_seq = first_seq
        return grown

    def trim(self) -> None:
        """Remove the oldest blocks where there are too many."""
        for agent_id, layout in self.layouts.items():
            if layout.trim() and agent_id == self.state.root_agent_id:
                self.first_seq = next((block.seq for block in layout.blocks if block.seq), self.first_seq)


def parse_time(timestamp: str) -> float:
    """An ISO 8601 time in seconds since 1970."""
    return datetime.fromisoformat(timestamp).timestamp()
