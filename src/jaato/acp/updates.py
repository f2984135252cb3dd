"""Events of a session as updates for the editor."""

from __future__ import annotations

from typing import Any, TypeVar

from acp.helpers import (
    plan_entry,
    update_agent_message_text,
    update_agent_thought_text,
    update_available_commands,
    update_current_mode,
    update_plan,
    update_user_message_text,
)
from acp.schema import AvailableCommand, ToolCallProgress

from acp import helpers, schema
from jaato.acp.calls import (
    Content,
    kind_of,
    locations_of,
    output_content,
    printed_text,
    raw_value,
    result_content,
    title_of,
)
from jaato.acp.outputs import HeldOutput, exit_code_of
from jaato.acp.terminals import TOOLS, terminal_content
from jaato.cli.output.console import one_line, printable, visible
from jaato.cli.output.deltas import DeltaFilter
from jaato.cli.output.printer import SubagentNames
from jaato.cli.output.transcript import user_text
from jaato.cli.output.wording import compaction_text, retry_text
from jaato.client.session import RemoteSession
from jaato.protocol.codec import encode
from jaato.protocol.events import (
    AgentOutput,
    CommandList,
    ContextUpdated,
    ErrorRaised,
    Event,
    GcCompleted,
    MessageModel,
    MessageUser,
    PermissionRequested,
    PlanCleared,
    PlanUpdated,
    Retry,
    SessionInfo,
    SessionUpdated,
    SystemMessage,
    ToolCallEnd,
    ToolCallStart,
    ToolOutput,
    TurnCompleted,
)
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Thinking
from jaato.protocol.specs import Plan

Update = helpers.SessionUpdate | schema.UsageUpdate | schema.ConfigOptionUpdate
Chunk = TypeVar("Chunk", bound=schema.ContentChunk)
MAX_RAW_BYTES = 64_000
MAX_COMMANDS = 200
MAX_COMMAND_CHARS = 300
MAX_TITLE_CHARS = 100
STEPS: dict[str, Any] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "failed": "completed",
    "skipped": "completed",
}
MODES = {
    "ask": "Ask: reads freely, asks before everything else",
    "accept-edits": "Accept edits: also edits files in the workspace",
    "auto": "Auto: also runs commands that may write in the workspace",
    "plan": "Plan: reads only, until a plan is approved",
    "read-only": "Read-only: everything else is denied",
}
OWN_COMMANDS = {
    "continue": "resume an interrupted turn; calls that had started are not repeated",
    "help": "list the commands",
}


class Updates:
    """Makes the updates of one session's events, each text once. Give it the events in their order."""

    def __init__(self, session: RemoteSession, *, display_terminals: bool = False) -> None:
        self._session = session
        self._display_terminals = display_terminals
        self._held: dict[str, HeldOutput] = {}
        """By call that is shown in a display terminal, the output that was not sent yet."""
        self._terminals: dict[str, str] = {}
        """By call, the terminal that shows its output."""
        self._names = SubagentNames()
        self._names.restore(session.state.agents)
        self._filter = DeltaFilter(self._add)
        self._made: list[Update] = []
        self._open: dict[str, dict[str, Any]] = {}
        """The calls that the editor knows and whose end it does not, with the arguments that it shows."""
        self._reply_id = new_id("m")
        """The message of the model that is being sent; with its own id each, editors keep successive ones apart."""
        self._thought: dict[str, int] = {}
        """By agent, the characters of thinking that were sent of the current message."""
        self.own_messages: set[str] = set()
        """The keys of messages that the editor sent, which it shows already."""
        self._shown: dict[str, str] = {}
        """What was last sent of the mode, the models and the commands."""

    def take(self, event: Event) -> list[Update]:
        """The updates of one event."""
        self._names(event)
        if isinstance(event, ToolOutput) and (held := self._held.get(event.call_id)) is not None:
            held.add(event.offset, event.text)
        self._filter(event)
        made, self._made = self._made, []
        return made

    def reset(self) -> None:
        """Expect every message from its beginning, as a new process sends it."""
        self._filter.reset()
        self._thought.clear()

    def name_of(self, agent_id: str) -> str:
        """The name of a subagent; empty for the agent that the editor speaks with."""
        return self._names.name_of(agent_id)

    def _is_root(self, event: Event) -> bool:
        return event.agent_id not in self._names

    def _add(self, event: Event) -> None:
        made = self._made
        match event:
            case AgentOutput():
                if self._is_root(event):
                    self._add_text(event)
            case MessageUser() if self._is_root(event):
                self._add_user_message(event)
            case MessageModel():
                self._add_message(event)
            case PermissionRequested():
                self._begin(event.call_id, event.tool, event.arguments, event.agent_id)
            case ToolCallStart():
                self._begin(event.call_id, event.tool, event.arguments, event.agent_id, "in_progress")
            case ToolCallEnd():
                self._add_end(event)
            case PlanUpdated() if self._is_root(event):
                made.append(plan_update(event.plan))
            case PlanCleared() if self._is_root(event):
                made.append(update_plan([]))
            case TurnCompleted() if self._is_root(event):
                self._end_reply(event)
                self._add_usage()
            case ContextUpdated() if self._is_root(event):
                self._add_usage()
            case SessionInfo() | SessionUpdated() | CommandList():
                self._add_session(event)
            case _:
                self._add_notice(event)

    def _add_user_message(self, event: MessageUser) -> None:
        """A message of another client, or of an earlier time."""
        if event.message.once in self.own_messages:
            self.own_messages.discard(event.message.once)
        elif event.message.source == "user":
            self._made.append(
                with_message(event.message.id, update_user_message_text(printable(user_text(event))))
            )

    def _add_notice(self, event: Event) -> None:
        """What else people are to see, as thoughts: an answer has the model's words alone."""
        match event:
            case Retry():
                self._end_reply(event)
                text = retry_text(event)
            case GcCompleted():
                text = compaction_text(event)
            case SystemMessage(level="warning" | "error"):
                text = event.text
            case ErrorRaised():
                text = f"error: {event.error.message}"
            case _:
                return
        self._made.append(update_agent_thought_text(f"{printable(text)}\n"))

    def _add_text(self, event: AgentOutput) -> None:
        text = printable(event.text)
        chunk: schema.ContentChunk
        if event.source == "thinking":
            self._thought[event.agent_id] = event.offset + len(event.text)
            chunk = update_agent_thought_text(text)
        else:
            chunk = update_agent_message_text(text)
        self._made.append(with_message(self._reply_id, chunk))

    def _end_reply(self, event: Event) -> None:
        """The message of an agent ends, or begins anew."""
        self._thought.pop(event.agent_id, None)
        if self._is_root(event):
            self._reply_id = new_id("m")

    def _add_message(self, event: MessageModel) -> None:
        """The rest of the thinking, which the filter does not complete, and the calls that the message asks for."""
        sent = self._thought.get(event.agent_id, 0)
        thinking = "".join([part.text for part in event.message.parts if isinstance(part, Thinking)])
        if self._is_root(event) and (rest := thinking[sent:]):
            self._made.insert(0, with_message(self._reply_id, update_agent_thought_text(printable(rest))))
        self._end_reply(event)
        for call in event.message.function_calls:
            self._begin(call.call_id, call.name, call.arguments, event.agent_id)
        if self._is_root(event):
            self._add_usage()

    def _add_usage(self) -> None:
        state = self._session.state
        agent = state.agents.get(state.root_agent_id)
        if agent is None or not agent.context_limit:
            return
        cost = None if state.unpriced else schema.Cost(amount=state.cost_usd, currency="USD")
        usage = schema.UsageUpdate(
            session_update="usage_update", used=agent.context_tokens, size=agent.context_limit, cost=cost
        )
        self._add_changed("usage", usage)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _begin(
        self, call_id: str, tool: str, arguments: dict[str, Any], agent_id: str, status: Any = "pending"
    ) -> None:
        """Show a call, or that it runs now, with the arguments that a user may have edited."""
        known, self._open[call_id] = self._open.get(call_id), arguments
        if known is not None:
            if status != "pending" or known != arguments:
                update = call_update(call_id, status, self._terminal_of(call_id))
                if known != arguments:
                    update = update.model_copy(update=self._looks_of(tool, arguments, agent_id))
                self._made.append(update)
            return
        start = schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=call_id,
            kind=kind_of(tool),
            status=status,
            **self._looks_of(tool, arguments, agent_id),
        )
        if self._display_terminals and tool in TOOLS:
            self._held[call_id], self._terminals[call_id] = HeldOutput(), call_id
            start.content = self._terminal_of(call_id)
            info = {"terminal_id": call_id, "cwd": self._session.state.workspace}
            start.field_meta = {"terminal_info": info}
        self._made.append(start)

    def _looks_of(self, tool: str, arguments: dict[str, Any], agent_id: str) -> dict[str, Any]:
        """The fields of a call that its arguments decide."""
        return {
            "title": title_of(tool, arguments, self._names.name_of(agent_id)),
            "locations": locations_of(arguments, self._session.state.workspace),
            "raw_input": raw_value(arguments),
        }

    def _terminal_of(self, call_id: str) -> list[Content]:
        """The terminal of a call as its content; nothing without one."""
        terminal_id = self._terminals.get(call_id)
        return [] if terminal_id is None else [terminal_content(terminal_id)]

    def show_terminal(self, call_id: str, terminal_id: str) -> list[Update]:
        """The update that shows a running call in a terminal; none if it has ended."""
        if call_id not in self._open:
            return []
        self._terminals[call_id] = terminal_id
        return [call_update(call_id, "in_progress", self._terminal_of(call_id))]

    def hide_terminal(self, call_id: str) -> None:
        """Show the output of a call as text again."""
        self._terminals.pop(call_id, None)

    def output(self, call_id: str) -> list[Update]:
        """The update with what a running call has printed so far; none if it has ended."""
        if (held := self._held.get(call_id)) is not None:
            text = held.take()
            return [display_output(call_id, text)] if text else []
        if call_id in self._terminals:
            return []
        call = self._session.state.calls.get(call_id)
        content = output_content(call.output) if call is not None and call_id in self._open else []
        return [call_update(call_id, status="in_progress", content=content)] if content else []

    def _add_end(self, event: ToolCallEnd) -> None:
        if event.call_id not in self._open:
            self._begin(event.call_id, event.tool, event.arguments or {}, event.agent_id)
        shown = self._open.pop(event.call_id)
        raw = raw_value(event.result.structured)
        terminal = self._terminals.pop(event.call_id, None)
        held = self._held.pop(event.call_id, None)
        update = self.result_update(event, terminal)
        if held is not None:
            text = held.take() if held.end else printed_text(event.result)
            if text:
                self._made.append(display_output(event.call_id, text))
            code = exit_code_of(event.result)
            exited = {"terminal_id": event.call_id, "exit_code": code, "signal": None}
            update.field_meta = {"terminal_exit": exited}
        if raw is not None and len(encode(raw)) <= MAX_RAW_BYTES:
            update.raw_output = raw
        if event.edited is not None and event.edited != shown:  # entries of earlier have no start
            looks = self._looks_of(event.tool, event.edited, event.agent_id)
            update = update.model_copy(update=looks)
        self._made.append(update)

    def result_update(self, event: ToolCallEnd, terminal: str | None = None) -> ToolCallProgress:
        """The update with the result of a call: in its terminal, or as text."""
        return call_update(
            event.call_id,
            status="completed" if event.result.ok else "failed",
            content=result_content(event, self._session.state.workspace, terminal),
        )

    def running_calls(self) -> list[Update]:
        """The calls that run now, of which a conversation that was loaded shows only that the model has asked for them."""
        for call in self._session.state.calls.values():
            self._begin(call.call_id, call.tool, call.arguments, call.agent_id, "in_progress")
            if (held := self._held.get(call.call_id)) is not None:
                held.add(call.output_start, call.output)
        made, self._made = self._made, []
        return made

    def close_calls(self) -> list[Update]:
        """The calls that the editor believes open and that do not run any more, as failed."""
        state = self._session.state
        asked = {question.call_id for question in state.questions.values()}
        lost = [call_id for call_id in self._open if call_id not in state.calls and call_id not in asked]
        for call_id in lost:
            del self._open[call_id]
            self._held.pop(call_id, None)
            self._terminals.pop(call_id, None)
        return [call_update(call_id, status="failed") for call_id in lost]

    # --- the session ---------------------------------------------------------------------------------------------------

    def _add_session(self, event: Event) -> None:
        """The mode, models, commands and title, as far as they have changed."""
        if isinstance(event, SessionUpdated) and (event.name is not None or event.description is not None):
            state = self._session.state
            self._add_changed("title", title_update(state.name or state.description or "", state.updated_at))
        self._add_changed("mode", update_current_mode(current_mode(self._session)))
        options = schema.ConfigOptionUpdate(
            session_update="config_option_update", config_options=list(config_options(self._session))
        )
        self._add_changed("options", options)
        self._add_changed("commands", update_available_commands(commands_of(self._session)))

    def _add_changed(self, what: str, update: Update) -> None:
        text = update.model_dump_json()
        if self._shown.get(what) != text:
            self._shown[what] = text
            self._made.append(update)

    def know_options(self) -> None:
        """The editor gets the mode and the options with the reply that opens the session."""
        mode = update_current_mode(current_mode(self._session))
        options = schema.ConfigOptionUpdate(
            session_update="config_option_update", config_options=list(config_options(self._session))
        )
        self._shown |= {"mode": mode.model_dump_json(), "options": options.model_dump_json()}


def call_update(call_id: str, status: Any, content: list[Content] | None = None) -> ToolCallProgress:
    """A change of a call; without content that stays."""
    update = ToolCallProgress(session_update="tool_call_update", tool_call_id=call_id, status=status)
    if content:
        update.content = list(content)
    return update


def with_message(message_id: str, chunk: Chunk) -> Chunk:
    """A chunk that belongs to a message."""
    chunk.message_id = message_id or None
    return chunk


def title_update(title: str, updated_at: str) -> Update:
    """The title of a session, and when it was changed."""
    text = one_line(title, MAX_TITLE_CHARS)
    return schema.SessionInfoUpdate(session_update="session_info_update", title=text, updated_at=updated_at)


def display_output(call_id: str, text: str) -> ToolCallProgress:
    """Output for the display terminal of a call."""
    update = ToolCallProgress(session_update="tool_call_update", tool_call_id=call_id)
    update.field_meta = {"terminal_output": {"terminal_id": call_id, "data": printable(text)}}
    return update


def plan_update(plan: Plan) -> Update:
    """A plan with its steps; failed and skipped ones say so."""
    entries = []
    for step in plan.steps:
        suffix = f" ({step.status})" if step.status in ("failed", "skipped") else ""
        entries.append(plan_entry(visible(step.description) + suffix, status=STEPS[step.status]))
    return update_plan(entries)


def current_mode(session: RemoteSession) -> str:
    """The permission mode of a session."""
    info = session.info
    if session.state.mode is not None:
        return session.state.mode
    return info.sandbox.mode if info is not None and info.sandbox is not None else "ask"


def mode_state(session: RemoteSession) -> schema.SessionModeState:
    """The permission modes, and which one holds."""
    modes = [
        schema.SessionMode(id=name, name=text.partition(": ")[0], description=text.partition(": ")[2])
        for name, text in MODES.items()
    ]
    return schema.SessionModeState(available_modes=modes, current_mode_id=current_mode(session))


def config_options(
    session: RemoteSession, *, model: str | None = None, mode: str | None = None
) -> list[schema.SessionConfigOptionSelect]:
    """The mode and the model of a session, to be chosen; `mode` and `model` are those that were just chosen."""
    info, current = session.info, model or session.state.model
    models = dict.fromkeys([current, *(info.models if info is not None else [])])
    options = [select("mode", "Permission mode", mode or current_mode(session), MODES)]
    if current:
        options.append(select("model", "Model", current, {name: one_line(name, 200) for name in models}))
    return options


def select(name: Any, title: str, current: str, choices: dict[str, str]) -> schema.SessionConfigOptionSelect:
    """An option with its choices by value: each a name, and a description after a colon and a space."""
    found = []
    for value, text in choices.items():
        label, _, description = text.partition(": ")
        found.append(
            schema.SessionConfigSelectOption(value=value, name=label, description=description or None)
        )
    return schema.SessionConfigOptionSelect(
        type="select", id=name, name=title, category=name, current_value=current, options=found
    )


def commands_of(session: RemoteSession) -> list[AvailableCommand]:
    """What can be typed after a slash."""
    own = [AvailableCommand(name=name, description=text) for name, text in OWN_COMMANDS.items()]
    found = []
    for command in session.state.commands[:MAX_COMMANDS]:
        made = AvailableCommand(
            name=command.name, description=one_line(command.description, MAX_COMMAND_CHARS) or command.name
        )
        if command.parameters or command.is_prompt:
            hint = one_line(command.parameters, MAX_COMMAND_CHARS) or "arguments"
            made.input = schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=hint))
        found.append(made)
    return [*found, *own]


def help_text(session: RemoteSession) -> str:
    """The commands as a list in Markdown."""
    return "\n".join([f"- `/{one.name}`: {one.description}" for one in commands_of(session)])
