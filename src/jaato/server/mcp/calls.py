"""One call of a client on its way through the pipeline: its output, its questions, its result."""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING

import anyio

from jaato.abc.asker import Answer, Asker, Clarification, Question
from jaato.errors import JaatoError
from jaato.protocol.ids import new_id
from jaato.protocol.messages import ToolCall, ToolResult
from jaato.server.mcp.elicitation import (
    Form,
    clarification_answers,
    clarification_form,
    permission_answer,
    permission_form,
)
from jaato.tools.pipeline import run

if TYPE_CHECKING:
    from jaato.agent.session import Session

ANSWER_S = 300.0
"""How long a question waits for the client's user; then it counts as not answered."""
ENDING_S = 10.0
SHOWN_CHARS = 16_000
"""Characters of output kept for a client that reads slowly."""


class Held:
    """A call that runs in its visit's session, apart from the request that waits for it: a client of the newer
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
        self._news = anyio.Event()
        self._ended = anyio.Event()
        self._scope = anyio.CancelScope()
        self._asking = anyio.Lock()

    async def run(self) -> None:
        """The whole call; what ends it early is kept in `fault`."""
        HELD.set(self)
        steps = self.session.tools
        try:
            with self._scope:
                await run(steps.new_call(self.asked, "", "mcp"), steps)
        except JaatoError as error:
            self.fault = error
        finally:
            self.answerable, self.over = False, True
            self._ended.set()
            self._tell()

    def said(self, text: str) -> None:
        """Take output of the tool in; the oldest is dropped when nobody reads it."""
        self._output.append(text)
        self._chars += len(text)
        while self._chars > SHOWN_CHARS and len(self._output) > 1:
            self._chars -= len(self._output.popleft())
        self._tell()

    def output(self) -> str:
        """What was said since the last time."""
        text = "".join(self._output)
        self._output.clear()
        self._chars = 0
        return text[-SHOWN_CHARS:]

    async def news(self) -> None:
        """Wait until there is output, a question or the end."""
        open_form = self.form is not None and not self.form.answered.is_set()
        if not (self.over or self._output or open_form):
            await self._news.wait()
        self._news = anyio.Event()

    def _tell(self) -> None:
        self._news.set()

    async def put(self, form: Form) -> None:
        """Have the client's user fill in a form; it is left unfilled when nobody does in time."""
        async with self._asking:
            self.form = form
            self._tell()
            try:
                with anyio.move_on_after(ANSWER_S):
                    await form.answered.wait()
            finally:
                self.form = None

    async def stop(self) -> None:
        """Cancel the call and wait until what it started has ended."""
        self._scope.cancel()
        with anyio.move_on_after(ENDING_S, shield=True):
            await self._ended.wait()


HELD: ContextVar[Held | None] = ContextVar("jaato_mcp_call", default=None)
"""The client's call that runs in this context, as far as its client can still be asked."""


class ClientAsker(Asker):
    """Asks the user of the client that made the call, if that client can; the question and its answer are durable."""

    async def ask(self, question: Question) -> Answer | None:
        """The user's answer; None when there is nobody to ask."""
        import asyncio

        held = HELD.get()
        if held is None or not held.answerable:
            return None
        questions, form = held.session.questions, permission_form(question)

        async def put() -> None:
            await held.put(form)
            questions.respond(question.id, permission_answer(form.filled, held.client))

        leave = questions.add_responder()
        putting = asyncio.create_task(put())
        try:
            return await questions.ask(question)
        finally:
            putting.cancel()
            leave()


async def clarify(asked: Clarification) -> list[str | None] | None:
    """The answers of the client's user to a tool's questions; None when there is nobody to ask."""
    import asyncio

    held = HELD.get()
    if held is None or not held.answerable:
        return None
    questions, form = held.session.questions, clarification_form(asked)

    async def put() -> None:
        await held.put(form)
        questions.respond(asked.id, clarification_answers(form.filled, asked))

    leave = questions.add_responder()
    putting = asyncio.create_task(put())
    try:
        return await questions.clarify(asked)
    finally:
        putting.cancel()
        leave()
