"""An MCP client's session: its calls through the pipeline, their output, questions and results, and what it can read again."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import anyio

from jaato.abc.asker import Answer, Asker, Clarification, Question
from jaato.agent.session import Session
from jaato.errors import ConfigError, JaatoError, StoreError
from jaato.protocol.events import Event, ToolActivated, ToolCallEnd, ToolOutput
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Media, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.server.mcp.elicitation import (
    Form,
    clarification_answers,
    clarification_form,
    permission_answer,
    permission_form,
)
from jaato.tools.pipeline import run

ANSWER_S = 300.0
"""How long a question waits for the client's user; then it counts as not answered."""
STOP_WITHIN_S = 10.0
MAX_OUTPUT_CHARS = 16_000
"""Output buffered for a client that reads slowly."""
MAX_CALLS = 64
MAX_HANDLES = 200
SCHEME = "jaato://results/"
READ = re.compile(r'\breadFile\(path="(result:[0-9a-f]{64})"\)')
"""How the text of a result refers to what was left out of it."""

R = TypeVar("R")


def uri_of(handle: str) -> str:
    """The URI of the resource behind a handle."""
    return SCHEME + handle.removeprefix("result:")


class ClientCall:
    """A call in its client's session. It runs apart from the request that waits for it, since a client of the newer
    protocol answers a question with another request."""

    def __init__(
        self, session: Session, client: str, name: str, arguments: dict[str, object], *, answerable: bool
    ) -> None:
        self.session = session
        self.client = client
        self.asked = ToolCall(new_id("c"), name, arguments)
        self.answerable = answerable
        self.result: ToolResult | None = None
        self.fault: JaatoError | None = None
        self.form: Form | None = None
        self.over = False
        self._output: deque[str] = deque()
        self._chars = 0
        self._changed = anyio.Event()
        self._ended = anyio.Event()
        self._scope = anyio.CancelScope()
        self._asking = anyio.Lock()

    async def run(self) -> None:
        """Run the call; an error that ends it early is kept in `fault`."""
        CURRENT_CALL.set(self)
        steps = self.session.tools
        try:
            with self._scope:
                await run(steps.new_call(self.asked, "", "mcp"), steps)
        except JaatoError as error:
            self.fault = error
        finally:
            self.answerable, self.over = False, True
            self._ended.set()
            self._changed.set()

    def add_output(self, text: str) -> None:
        """Buffer output of the tool; the oldest is dropped while it is not read."""
        self._output.append(text)
        self._chars += len(text)
        while self._chars > MAX_OUTPUT_CHARS and len(self._output) > 1:
            self._chars -= len(self._output.popleft())
        self._changed.set()

    def take_output(self) -> str:
        """The output since the last time."""
        text = "".join(self._output)
        self._output.clear()
        self._chars = 0
        return text[-MAX_OUTPUT_CHARS:]

    async def wait_for_change(self) -> None:
        """Wait until there is output, a question or the end."""
        open_form = self.form is not None and not self.form.answered.is_set()
        if not (self.over or self._output or open_form):
            await self._changed.wait()
        self._changed = anyio.Event()

    async def ask(self, form: Form) -> None:
        """Have the client's user fill in a form; it stays unfilled after the timeout."""
        async with self._asking:
            self.form = form
            self._changed.set()
            try:
                with anyio.move_on_after(ANSWER_S):
                    await form.answered.wait()
            finally:
                self.form = None

    async def stop(self) -> None:
        """Cancel the call and wait until what it started has ended."""
        self._scope.cancel()
        with anyio.move_on_after(STOP_WITHIN_S, shield=True):
            await self._ended.wait()


CURRENT_CALL: ContextVar[ClientCall | None] = ContextVar("jaato_mcp_call", default=None)
"""The client's call that runs in this context."""


class ClientAsker(Asker):
    """Asks the user of the client that made the call, if the client supports it; question and answer are persisted."""

    async def ask(self, question: Question) -> Answer | None:
        """The user's answer; None when the client cannot ask."""
        call = CURRENT_CALL.get()
        if call is None or not call.answerable:
            return None
        form, questions, client = permission_form(question), call.session.questions, call.client
        return await ask_client(
            call,
            form,
            lambda: questions.respond(question.id, permission_answer(form.response, client)),
            questions.ask(question),
        )


async def clarify(asked: Clarification) -> list[str | None] | None:
    """The answers of the client's user to a tool's questions; None when the client cannot ask."""
    call = CURRENT_CALL.get()
    if call is None or not call.answerable:
        return None
    form, questions = clarification_form(asked), call.session.questions
    return await ask_client(
        call,
        form,
        lambda: questions.respond(asked.id, clarification_answers(form.response, asked)),
        questions.clarify(asked),
    )


async def ask_client(call: ClientCall, form: Form, respond: Callable[[], object], answer: Awaitable[R]) -> R:
    """Put a form to the client's user beside the session's other responders; `answer` waits for the first of them."""

    async def put() -> None:
        await call.ask(form)
        respond()

    leave = call.session.questions.add_responder()
    putting = asyncio.create_task(put())
    try:
        return await answer
    finally:
        putting.cancel()
        leave()


class ToolSession:
    """A session that a client's calls run in. `activated` counts activations of tools, which change the client's list."""

    def __init__(self, session: Session, client: str) -> None:
        self.session = session
        self.client = client
        self.activated = 0
        self.handles: dict[str, str] = {}
        """The handles of results and media, newest last, and the tool each came from."""
        self.last_used = anyio.current_time()
        self._calls: dict[str, ClientCall] = {}
        self._parked: dict[str, ClientCall] = {}
        session.services["clarify"] = clarify
        session.journal.bus.listen(self.on_event)

    @property
    def busy(self) -> bool:
        """Whether a call is running."""
        return bool(self._calls)

    def declared(self) -> list[ToolSpec]:
        """The tools the client is shown now."""
        return list(self.session.model.request().tools)

    async def begin(self, name: str, arguments: dict[str, Any], *, answerable: bool) -> ClientCall:
        """Start a call. Raises `ConfigError` when too many are running."""
        self.last_used = anyio.current_time()
        if len(self._calls) >= MAX_CALLS:
            raise ConfigError(f"{MAX_CALLS} calls of this client are under way; wait for one of them to end.")
        call = ClientCall(self.session, self.client, name, arguments, answerable=answerable)
        self._calls[call.asked.call_id] = call

        async def body() -> None:
            try:
                await call.run()
            finally:
                self._calls.pop(call.asked.call_id, None)

        try:
            await self.session.background(body)
        except BaseException:
            self._calls.pop(call.asked.call_id, None)
            raise
        return call

    def park(self, call: ClientCall) -> str:
        """Keep a call that waits for an answer; returns the secret token that the answer brings back."""
        token = secrets.token_urlsafe(24)
        self._parked = {key: one for key, one in self._parked.items() if not one.over}
        self._parked[token] = call
        return token

    def unpark(self, token: str, name: str, arguments: dict[str, Any]) -> ClientCall | None:
        """The call that waits for this answer, if name and arguments are the same; once."""
        call = self._parked.pop(token, None)
        if call is None:
            return None
        if (call.asked.name, call.asked.arguments) != (name, arguments):
            if call.form is not None:
                call.form.respond(None)
            return None
        self.last_used = anyio.current_time()
        return call

    def read(self, digest: str, offset: int, limit: int) -> bytes:
        """Bytes of a result or media of this session. Raises `StoreError` for another's."""
        if f"result:{digest}" not in self.handles:
            raise StoreError(f"There is no result {digest[:80]!r} of this session.")
        return self.session.tools.results.read(f"result:{digest}", offset, limit)

    def localize(self, text: str) -> str:
        """A text of a result for this client: without a `readFile` tool, references become resource URIs."""
        if READ.search(text) is None or any(spec.name == "readFile" for spec in self.declared()):
            return text
        return READ.sub(
            lambda one: f"the resource {uri_of(one[1])}" if one[1] in self.handles else one[0], text
        )

    def on_event(self, event: Event) -> None:
        """Handle an event of the session: output, results and activated tools."""
        match event:
            case ToolOutput():
                call = self._calls.get(event.call_id)
                if call is not None:
                    call.add_output(event.text)
            case ToolCallEnd():
                call = self._calls.get(event.call_id)
                if call is not None:
                    call.result = event.result
                    self._keep_handles(event)
            case ToolActivated():
                self.activated += 1

    def _keep_handles(self, event: ToolCallEnd) -> None:
        result = event.result
        blobs = [f"result:{part.blob}" for part in result.content if isinstance(part, Media)]
        blobs += READ.findall(result.error.message) if result.error is not None else []
        for handle in ([result.handle] if result.handle else []) + blobs:
            self.handles.pop(handle, None)
            self.handles[handle] = event.tool
        while len(self.handles) > MAX_HANDLES:
            del self.handles[next(iter(self.handles))]
