"""Questions and answers as JSON documents, for channels that lead out of the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from jaato.abc.asker import Answer, Question
from jaato.errors import ConfigError
from jaato.tools.access import access_lines
from jaato.tools.background import start_thread

MAX_COMMENT_CHARS = 10_000


class Written(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer as it comes: `question_id` and `digest` are those of the question."""

    question_id: str
    digest: str
    answer: str
    nonce: str | None = None
    arguments: dict[str, Any] | None = None
    comment: str | None = None
    by: str = ""


DECODER: msgspec.json.Decoder[Written] = msgspec.json.Decoder(Written)


def written(question: Question, **more: str) -> bytes:
    """A question as a document; `opens` says in words what a yes opens."""
    document = {name: value for name, value in msgspec.to_builtins(question).items() if name != "id"}
    opens = access_lines(question.access) if question.access is not None else []
    return msgspec.json.encode({"version": 1, "question_id": question.id, **document, "opens": opens, **more})


def read_answer(data: bytes, question: Question, *, by: str, nonce: str | None = None) -> Answer:
    """The answer a document gives to this question. Raises `ConfigError` for what is none, or is to another one."""
    try:
        given = DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ConfigError(f"it is no answer: {error}") from None
    if (given.question_id, given.digest, given.nonce) != (question.id, question.digest, nonce):
        raise ConfigError("it is the answer to another question")
    comment = given.comment[:MAX_COMMENT_CHARS] if given.comment else None
    who = " ".join("".join(c if c.isprintable() else " " for c in given.by[:200]).split())
    return Answer(
        answer=given.answer[:100],
        arguments=given.arguments,
        comment=comment,
        by=f"{by} ({who})" if who else by,
    )


def in_a_thread(work: Callable[[], Awaitable[Answer | None]]) -> Answer | None:
    """What a coroutine gives, waited for by a caller who may be on a loop of its own, or have none."""

    async def run() -> Answer | None:
        return await work()

    answer: Answer | None = start_thread(lambda: anyio.run(run)).result()
    return answer
