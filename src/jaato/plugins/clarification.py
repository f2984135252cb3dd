"""The plugin `clarification`: the model asks the user questions, and its call waits for the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import anyio.to_thread
from msgspec import Struct

from jaato.abc.asker import Clarification, ClarificationChannel
from jaato.abc.plugin import Host, Plugin
from jaato.errors import ConfigError, InvalidArguments
from jaato.protocol.ids import new_id
from jaato.tools.call import Call
from jaato.tools.tool import tool

MAX_QUESTIONS = 20

Clarify = Callable[[Clarification], Awaitable[list[str | None] | None]]
"""Sends questions to the client: an answer each (None: left open), or None when no client can answer."""

NO_RESPONDER = (
    "Nobody is there to answer. Go on with your best assumption, the default where there is one, "
    "and state each assumption in your reply."
)
LEFT_OPEN = "The user left these open. Go on with your best assumption and state it in your reply."


class Ask(Struct, frozen=True):
    """One question, its choices, and the default used without an answer."""

    question: str
    choices: list[str] = []
    default: str | None = None


PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "context": {"type": "string", "description": "Why you ask, in a sentence or two."},
        "questions": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_QUESTIONS,
            "items": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {
                            "question": {"type": "string"},
                            "choices": {"type": "array", "items": {"type": "string"}},
                            "default": {"type": "string"},
                        },
                        "required": ["question"],
                    },
                ]
            },
        },
    },
    "required": ["context", "questions"],
}


class ClarificationPlugin(Plugin):
    """Questions to the user, through whatever front end the session has, or through the `ClarificationChannel` that the
    configuration has as `channel`."""

    name: ClassVar[str] = "clarification"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._channel: ClarificationChannel | None = host.config.get("channel")
        if self._channel is not None and not isinstance(self._channel, ClarificationChannel):
            raise ConfigError("The channel of the plugin clarification needs a method ask(clarification).")

    @tool(category="communication", access="read", parameters=PARAMETERS, resumes=True)
    async def request_clarification(
        self, context: str, questions: list[str | Ask], *, call: Call
    ) -> dict[str, Any]:
        """Ask the user when the task is ambiguous and a wrong guess would cost much; ask everything at once. Returns
        qa_pairs, each a question with its answer, or null where it was left open."""
        asks = [normalize_question(number, question) for number, question in enumerate(questions)]
        clarify: Clarify | None = call.services.get("clarify") if self._channel is None else self._ask_channel
        answers = None
        if clarify is not None:
            answers = await clarify(
                Clarification(
                    id=new_id("q"),
                    call_id=call.id,
                    context=context.strip(),
                    questions=list(map(to_wire, asks)),
                )
            )
        if answers is None:
            return {
                "answered": False,
                "qa_pairs": [[ask.question, ask.default] for ask in asks],
                "note": NO_RESPONDER,
            }
        padded = [*answers[: len(asks)], *[None] * (len(asks) - len(answers))]
        pairs = [
            [ask.question, ask.default if is_open(answer) else answer]
            for ask, answer in zip(asks, padded, strict=True)
        ]
        result: dict[str, Any] = {"answered": True, "qa_pairs": pairs}
        assumed = [ask.question for ask, answer in zip(asks, padded, strict=True) if is_open(answer)]
        return result | ({"left_open": assumed, "note": LEFT_OPEN} if assumed else {})

    async def _ask_channel(self, clarification: Clarification) -> list[str | None] | None:
        """The answers of the configured channel, which may block."""
        assert self._channel is not None
        answers = await anyio.to_thread.run_sync(self._channel.ask, clarification)
        return None if answers is None else list(answers)


def normalize_question(number: int, question: str | Ask) -> Ask:
    """The question in its full form; raises `InvalidArguments` for an empty one."""
    ask = Ask(question) if isinstance(question, str) else question
    if not ask.question.strip():
        path = f"/questions/{number}"
        raise InvalidArguments(
            f"Question {number + 1} is empty. Say what you need to know.", [(path, "is empty")]
        )
    return Ask(ask.question.strip(), [choice for choice in ask.choices if choice.strip()], ask.default)


def to_wire(ask: Ask) -> dict[str, Any]:
    """The question as a client gets it."""
    shown: dict[str, Any] = {"question": ask.question}
    if ask.choices:
        shown["choices"] = ask.choices
    return shown | ({"default": ask.default} if ask.default is not None else {})


def is_open(answer: str | None) -> bool:
    """Whether this is no answer."""
    return answer is None or not answer.strip()
