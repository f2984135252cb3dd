"""A session that the editor has open: prompts and their ends, updates, questions, and the return after a lost connection."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol

from acp.exceptions import RequestError
from acp.helpers import update_agent_message_text, update_agent_thought_text
from msgspec import Struct

from acp import schema
from jaato.acp.capabilities import Capabilities
from jaato.acp.errors import request_error
from jaato.acp.files import Files
from jaato.acp.opening import open_session
from jaato.acp.questions import Editor, Questions
from jaato.acp.replay import replay_history
from jaato.acp.terminals import TOOLS, TerminalEditor, Terminals
from jaato.acp.updates import Update, Updates, help_text, plan_update, title_update
from jaato.cli.arguments.values import is_command
from jaato.cli.output.answers import other_answer_text
from jaato.cli.output.console import printable
from jaato.client.connection import Client, word
from jaato.client.session import RemoteSession
from jaato.errors import ConfigError, JaatoError, SessionBusy, SessionNotFound, from_code
from jaato.protocol.commands import (
    CallStop,
    File,
    MessageSend,
    SessionCreate,
    SessionDetach,
    TurnContinue,
    resume_command,
)
from jaato.protocol.events import (
    AgentOutput,
    AgentStatusChanged,
    ClarificationQuestion,
    ClarificationResolved,
    Event,
    MessageUser,
    PermissionRequested,
    PermissionResolved,
    SessionInfo,
    ToolCallEnd,
    ToolOutput,
    TurnCompleted,
)
from jaato.protocol.frames import Opened
from jaato.protocol.messages import Usage

SETTLE_TIMEOUT_S = 5.0
OUTPUT_INTERVAL_S = 0.2
"""How often the output of running calls is sent at most."""
STOP_REASONS: dict[str, schema.StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "refusal": "refusal",
    "limit": "max_turn_requests",
    "cancelled": "cancelled",
    "interrupted": "cancelled",
}


class Connection(Editor, Files, TerminalEditor, Protocol):
    """The editor."""


class Prompt(Struct, eq=False):
    """A prompt whose turn has not ended: by the key of its message, and its turn once that has begun."""

    once: str
    done: asyncio.Future[schema.PromptResponse]
    turn_id: str = ""

    def end(self, reason: schema.StopReason, usage: schema.Usage | None = None) -> None:
        """Answer the editor, unless it has been."""
        if not self.done.done():
            response = schema.PromptResponse(stop_reason=reason)
            if usage is not None:
                response.usage = usage
            self.done.set_result(response)

    def fail(self, error: RequestError) -> None:
        """Answer the editor with an error, unless it has been answered."""
        if not self.done.done():
            self.done.set_exception(error)


class EditorSession:
    """One session, watched for the editor. Events are handled one after the other, so that a prompt ends after its updates."""

    def __init__(
        self,
        client: Client,
        session: RemoteSession,
        editor: Connection,
        creation: SessionCreate,
        capabilities: Capabilities,
        *,
        notice: str,
        is_owner: bool,
        withdraw: Callable[[str, str], Coroutine[Any, Any, None]],
        on_lost: Callable[[JaatoError], None],
    ) -> None:
        self.client = client
        self.session = session
        self._editor = editor
        self._creation = creation
        self._notice = notice
        self._is_owner = is_owner
        """Whether the session has the options of this editor: else another client has it open with its own."""
        self.updates = Updates(session, display_terminals=capabilities.display_terminals)
        self._questions = Questions(
            session,
            editor,
            partial(withdraw, session.id),
            name_of=self.updates.name_of,
            capabilities=capabilities,
        )
        self._terminals: Terminals | None = None
        """Terminals that follow calls with the program `follow`; None where the editor has none, or none is needed."""
        if capabilities.follow:
            self._terminals = Terminals(
                session.id,
                editor,
                capabilities.follow,
                show=self._show_terminal,
                hide=self.updates.hide_terminal,
                stop_call=lambda call_id: client.ask(CallStop(session_id=session.id, call_id=call_id)),
            )
        self._prompts: list[Prompt] = []
        self._unsent: list[Prompt] = []
        """Prompts whose message was not sent yet."""
        self._seq = session.state.seq
        """The last durable event that was handled."""
        self._printing: set[str] = set()
        """The calls whose output has changed since it was last sent."""
        self._printer: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._events = session.events()
        self._return: asyncio.Task[None] | None = None
        self._stopping = False
        self._on_lost = on_lost

    @property
    def workspace(self) -> str:
        """The directory of the session, as the editor spells it."""
        given, real = self._creation.workspace, self.session.state.workspace
        return given if os.path.realpath(given) == os.path.realpath(real) else real

    # --- events ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Send what happens from now on, beginning with what is there."""
        if self._listener is None and self.session.watched:
            self._listener = asyncio.get_running_loop().create_task(self._listen())
            self._listener.add_done_callback(self._end_listening)

    async def replay(self) -> None:
        """Send the conversation so far."""
        async for update in replay_history(self.session, self.updates, self._seq):
            await self._send(update)

    async def _send(self, update: Update) -> None:
        await self._editor.session_update(self.session.id, update)

    async def _listen(self) -> None:
        assert self.session.info is not None
        if self._notice:
            await self._send(update_agent_thought_text(f"{printable(self._notice)}\n"))
        await self._catch_up()
        await self._handle(self.session.info)
        with self._events as events:
            async for event in events:
                await self._receive(event)

    def _end_listening(self, listener: asyncio.Task[None]) -> None:
        """There will be no more events: the connection to the server is lost for good, or the editor has gone."""
        error = None if listener.cancelled() else listener.exception()
        if error is None or isinstance(error, ConnectionError):
            return
        reason = error if isinstance(error, JaatoError) else JaatoError(f"Internal error: {error!r}")
        self._fail(request_error(reason))
        self._on_lost(reason)

    async def _receive(self, event: Event) -> None:
        if isinstance(event, SessionInfo) and (event.state is not None or event.live is not None):
            await self._catch_up()
        if isinstance(event, AgentOutput | AgentStatusChanged) and event.seq < self._seq:
            return  # from before the state that was taken in meanwhile
        if not event.durable or event.seq > self._seq:
            await self._handle(event)

    async def _handle(self, event: Event) -> None:
        """Send the updates of one event, and see to prompts and questions."""
        if event.durable:
            self._seq = event.seq
        for update in self.updates.take(event):
            await self._send(update)
        is_root = event.agent_id == self.session.state.root_agent_id
        match event:
            case MessageUser() if is_root:
                self._join_turn(event)
            case ToolOutput():
                self._print_later(event.call_id)
            case ToolCallEnd() if self._terminals is not None:
                self._terminals.end(event.call_id, partial(self._show_result, event))
            case PermissionRequested() | ClarificationQuestion():
                self._questions.ask(event)
            case PermissionResolved() | ClarificationResolved():
                if await self._questions.resolve(event.question_id) and event.by:
                    text = f"{printable(other_answer_text(event))}\n"
                    await self._send(update_agent_thought_text(text))
            case TurnCompleted() if is_root:
                await self._end_turn(event)
            case AgentStatusChanged(status="error", reason=str(reason)) if is_root:
                self._fail(request_error(JaatoError(reason)))

    async def _catch_up(self) -> None:
        """Handle what was missed: entries, and from the session's state plan, streamed text, running calls, questions."""
        while self._seq < (seq := self.session.state.seq):
            async for entry in self.session.entries(self._seq, seq):
                await self._handle(entry)
            self._seq = max(self._seq, seq)
        state = self.session.state  # which changes while updates are sent
        root, questions = state.agents.get(state.root_agent_id), dict(state.questions)
        calls = [*self.updates.running_calls(), *self.updates.close_calls()]
        if root is not None:
            plan, streaming = root.plans.get(root.plan_id or ""), dict(root.streaming)
            if plan is not None:
                await self._send(plan_update(plan))
            for source, text in streaming.items():
                await self._handle(self._streamed(source, text))
        for update in calls:
            await self._send(update)
        await self._questions.keep(questions)

    def _streamed(self, source: Any, text: str) -> AgentOutput:
        """The text that is being streamed, as one event."""
        state = self.session.state
        return AgentOutput(
            session_id=state.session_id,
            agent_id=state.root_agent_id,
            seq=state.seq,
            source=source,
            text=text,
            mode="write",
        )

    def _print_later(self, call_id: str) -> None:
        """Send the output of a running call with the next of others."""
        self._printing.add(call_id)
        if self._printer is None or self._printer.done():
            self._printer = asyncio.get_running_loop().create_task(self._print())

    async def _print(self) -> None:
        while self._printing:
            await asyncio.sleep(OUTPUT_INTERVAL_S)
            printing, self._printing = self._printing, set()
            for call_id in printing:
                call = self.session.state.calls.get(call_id)
                if self._terminals is not None and call is not None and call.tool in TOOLS:
                    self._terminals.open(call_id)
                for update in self.updates.output(call_id):
                    with suppress(ConnectionError):
                        await self._send(update)

    async def _show_result(self, event: ToolCallEnd) -> None:
        await self._send(self.updates.result_update(event))

    async def _show_terminal(self, call_id: str, terminal_id: str) -> None:
        for update in self.updates.show_terminal(call_id, terminal_id):
            await self._send(update)

    # --- prompts -----------------------------------------------------------------------------------------------------

    async def prompt(self, text: str, files: list[File]) -> schema.PromptResponse:
        """Send a message, or run a command, and wait for the end. Raises `JaatoError`s, `RequestError`."""
        prompt = Prompt(word(), asyncio.get_running_loop().create_future())
        self._unsent.append(prompt)
        if self._return is not None and self._return.done() and not self.session.watched:
            self.disconnect()  # the last return to the session has failed
        try:
            while self._return is not None and not self._return.done() and not prompt.done.done():
                # a new server must receive the options of the session before a message
                waits: list[asyncio.Future[Any]] = [self._return, prompt.done]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not prompt.done.done():
                await self._take_over()
            if not prompt.done.done():
                await self._begin(prompt, text, files)
        finally:
            if prompt in self._unsent:
                self._unsent.remove(prompt)
        return await prompt.done

    async def _begin(self, prompt: Prompt, text: str, files: list[File]) -> None:
        """Send the message of a prompt, or run its command. Raises `JaatoError`s."""
        words = text[1:].split(None, 1) if is_command(text) and not files else []
        name, rest = [*words, "", ""][:2]
        known = {one.name: one.is_prompt for one in self.session.state.commands}
        try:
            if name and not known.get(name, True):
                await self._say(prompt, await self.session.execute(name, rest.strip()))
            elif name == "continue":
                with self._expecting(prompt):
                    prompt.turn_id = self.session.state.open_turn or ""
                    await self.client.ask(TurnContinue(session_id=self.session.id))
            elif name == "help" and name not in known:
                await self._say(prompt, help_text(self.session))
            else:
                await self._send_message(prompt, text, files)
        except ConfigError as error:
            if not name:
                raise
            await self._say(prompt, str(error))  # most often, that no command has this name

    async def _send_message(self, prompt: Prompt, text: str, files: list[File]) -> None:
        state = self.session.state
        is_untitled = not (state.turns or state.name or state.description)
        self.updates.own_messages.add(prompt.once)
        message = MessageSend(
            session_id=self.session.id,
            text=text,
            files=files,
            once=prompt.once,
            check_prompt=is_command(text),
        )
        with self._expecting(prompt):
            await self.client.ask(message)
        if is_untitled:
            with suppress(ConnectionError):  # the editor has gone, and the turn continues
                await self._send(title_update(text, state.updated_at))

    async def _say(self, prompt: Prompt, text: str) -> None:
        """Answer a prompt without the model."""
        await self._send(update_agent_message_text(printable(text)))
        prompt.end("end_turn")

    @contextmanager
    def _expecting(self, prompt: Prompt) -> Iterator[None]:
        """Await the end of the turn that a prompt begins or joins, unless the request for that fails."""
        self._unsent.remove(prompt)
        self._stopping = False
        self._prompts.append(prompt)
        try:
            yield
        except JaatoError:
            if prompt in self._prompts:
                self._prompts.remove(prompt)
            raise

    def _join_turn(self, event: MessageUser) -> None:
        for prompt in self._prompts:
            if prompt.once and prompt.once == event.message.once:
                prompt.turn_id = event.turn_id

    async def _end_turn(self, turn: TurnCompleted) -> None:
        """Answer the prompts of a turn, after a stop also those whose message waited for it."""
        if turn.reason == "limit" and turn.error is not None:
            await self._send(update_agent_message_text(f"\n\n{printable(turn.error.message)}"))
        ended = [one for one in self._prompts if one.turn_id == turn.turn_id or self._stopping]
        self._prompts = [one for one in self._prompts if one not in ended]
        for prompt in ended:
            if turn.reason == "error" and not self._stopping:
                problem = turn.error
                error = (
                    JaatoError("The turn failed.")
                    if problem is None
                    else from_code(problem.code, problem.message)
                )
                prompt.fail(request_error(error))
            else:
                reason = "cancelled" if self._stopping else STOP_REASONS.get(turn.reason, "end_turn")
                prompt.end(reason, usage_of(turn.usage))

    def _fail(self, error: RequestError) -> None:
        for prompt in self._prompts:
            prompt.fail(error)
        self._prompts.clear()

    async def adopt(self, prompts: list[Prompt], seq: int) -> None:
        """Wait for the ends of prompts that were sent before the session was opened anew; `seq` is the last event that was
        handled then."""
        self._prompts += prompts
        if not prompts:
            return
        async for entry in self.session.entries(seq, self.session.state.seq):
            match entry:
                case MessageUser():
                    self._join_turn(entry)
                case TurnCompleted() if entry.agent_id == self.session.state.root_agent_id:
                    await self._end_turn(entry)

    async def cancel(self) -> None:
        """Stop the turn; its prompts end as cancelled, and its questions are settled. Prompts that wait are not sent."""
        self._cancel_unsent()
        if not self._stopping:
            self._stopping = bool(self._prompts)
            await self.session.stop()

    def _cancel_unsent(self) -> None:
        for prompt in self._unsent:
            prompt.end("cancelled")

    async def settle(self) -> None:
        """Cancel, and wait some time for the prompts to end."""
        await self.cancel()
        if self._prompts:
            await asyncio.wait([prompt.done for prompt in self._prompts], timeout=SETTLE_TIMEOUT_S)

    # --- the connection ----------------------------------------------------------------------------------------------

    async def _take_over(self) -> None:
        """Give the session the options of this editor when the client that had it open has left."""
        info = self.session.info
        if self._is_owner or info is None or len(info.clients) > 1:
            return
        self._is_owner = await self._reopen() is not None

    async def _reopen(self) -> Opened | None:
        """Open the session with the options of this editor; None where it is at work for another client."""
        switched = self.session.is_mode_switched
        again = resume_command(self._creation, self.session.id, is_mode_switched=switched)
        try:
            return (await open_session(self.client, again))[0]
        except SessionBusy:
            return None

    def disconnect(self) -> None:
        """The connection is lost: return to the session, whose options are the first that a new server receives."""
        self.session.watched = False
        if self._return is not None:
            self._return.cancel()
        self._return = asyncio.get_running_loop().create_task(self._reconnect())

    async def _reconnect(self) -> None:
        """Watch the session again, and resume the turn of a prompt that the end of a server has interrupted."""
        try:
            opened = await self._reopen() if self._is_owner else None
            if opened is not None and not opened.again:
                self.updates.reset()
            self.session.watched = True
            await self.client.ask(self.session.attachment())
            if self._prompts and not self._stopping and not self.session.state.questions:
                with suppress(ConfigError):  # it runs, or has ended
                    await self.client.ask(TurnContinue(session_id=self.session.id))
        except JaatoError as error:
            self._prompts += self._unsent  # which are not sent under other options
            self._fail(request_error(error))

    async def leave(self, *, withdraw: bool) -> tuple[list[Prompt], int]:
        """Leave the session, which continues at a server; with `withdraw` the editor's open questions are withdrawn. Returns
        the prompts that have not ended, and the last event that was handled."""
        for task in (self._listener, self._printer, self._return):
            if task is not None:
                task.cancel()
        self._cancel_unsent()
        await self._questions.stop(withdraw=withdraw)
        prompts, self._prompts = self._prompts, []
        if self._terminals is not None:
            self._terminals.close()
        self.session.watched = False
        self.client.sessions.pop(self.session.id, None)
        with suppress(SessionNotFound):  # another client has deleted it
            await self.client.ask(SessionDetach(session_id=self.session.id))
        return prompts, self._seq


def usage_of(usage: Usage) -> schema.Usage:
    """The tokens of a turn."""
    return schema.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        thought_tokens=usage.reasoning_tokens,
        cached_read_tokens=usage.cached_input_tokens,
        cached_write_tokens=usage.cache_write_tokens,
    )
