"""Functions of the embedding program that answer a session's questions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from jaato.abc.asker import Answer, PermissionAnswer, to_answer
from jaato.errors import InvalidArguments
from jaato.log import logger
from jaato.protocol.events import ClarificationQuestion, Event, PermissionRequested

if TYPE_CHECKING:
    from jaato.agent.session import Session

LOG = logger("answers")

PermissionHandler = Callable[[PermissionRequested], "PermissionAnswer | Awaitable[PermissionAnswer]"]
"""Gets the question and gives `Allow()`, `Deny(reason)`, …, one of its options (`y`, `n`, `a`, …) or a whole `Answer`."""
ClarificationHandler = Callable[
    [ClarificationQuestion], "str | list[str | None] | Awaitable[str | list[str | None]]"
]


def answer_questions(
    session: Session,
    on_permission: PermissionHandler | None = None,
    on_clarification: ClarificationHandler | None = None,
) -> Callable[[], None]:
    """Answer the session's questions with these functions from now on; returns the function that stops it.

    A question without a function, or whose function fails, is answered no (permission) or left open (clarification).
    """
    tasks: set[asyncio.Task[None]] = set()

    async def answer(event: PermissionRequested | ClarificationQuestion) -> None:
        given: Answer | list[str | None] = []
        match event:
            case PermissionRequested():
                given = Answer(answer="n", comment="on_permission was cancelled", by="program")
        try:
            match event:
                case PermissionRequested():
                    given = await ask_permission(event, on_permission)
                case ClarificationQuestion():
                    given = await ask_clarification(event, on_clarification)
        finally:
            # also when the function was cancelled: there is no other responder
            respond(session, event.question_id, given)

    def listen(event: Event) -> None:
        match event:
            case PermissionRequested() | ClarificationQuestion():
                task = asyncio.ensure_future(answer(event))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    leave = session.questions.add_responder()
    silence = session.journal.bus.listen(listen)

    def stop() -> None:
        silence()
        leave()
        for task in tasks:
            task.cancel()

    return stop


def respond(session: Session, question_id: str, given: Answer | list[str | None]) -> None:
    """Answer a question for the program; arguments that the tool cannot be called with deny the call."""
    try:
        session.questions.respond(question_id, given)
    except InvalidArguments as error:
        LOG.warning("on_permission edited the arguments of a call to what is not valid: %s", error)
        denial = Answer(answer="c", comment=f"on_permission edited the arguments: {error}", by="program")
        session.questions.respond(question_id, denial)


async def ask_permission(event: PermissionRequested, handler: PermissionHandler | None) -> Answer:
    """Call the function with a permission question; gives its answer."""
    if handler is None:
        return Answer(answer="n", comment="the program has no on_permission function", by="program")
    try:
        answer = handler(event)
        return to_answer(await answer if inspect.isawaitable(answer) else answer, "program")
    except Exception as error:
        LOG.exception("on_permission failed")
        return Answer(answer="n", comment=f"on_permission failed: {error}", by="program")


async def ask_clarification(
    event: ClarificationQuestion, handler: ClarificationHandler | None
) -> list[str | None]:
    """Call the function with a clarification question; gives its answer."""
    nothing: list[str | None] = [None] * len(event.questions)
    if handler is None:
        return nothing
    try:
        answer = handler(event)
        given = await answer if inspect.isawaitable(answer) else answer
        return [given] if isinstance(given, str) else list(given)
    except Exception:
        LOG.exception("on_clarification failed")
        return nothing
