"""Requests of front ends for titles, tags, follow-up questions and the like, which the model answers apart from any session."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from jaato.abc.provider import ModelRequest, Reply, TextDelta, ThinkingDelta
from jaato.errors import JaatoError
from jaato.protocol.messages import Usage
from jaato.protocol.specs import ModelSettings
from jaato.server.http.asgi import Scope, values
from jaato.server.openai.answer import FINISH, Piece
from jaato.server.openai.errors import refusal_of_error
from jaato.server.openai.models import TASK, Choice, Models
from jaato.server.openai.requests import ChatRequest, history_of
from jaato.server.openai.wire import Outcome

HEADER = b"x-openwebui-task"
PROMPTS: Sequence[re.Pattern[str]] = [
    re.compile(
        r"### Task:\s(?!Respond to the user query using the provided context).*<chat_history>", re.DOTALL
    ),
    re.compile(r"Your task is to reflect the speaker's likely facial expression through a fitting emoji\."),
    re.compile(
        r"You have been provided with a set of responses from various models to the latest user query"
    ),
    re.compile(r"(Provide|Please generate) a concise, 5-word-or-less title for the conversation"),
    re.compile(r"Please generate a concise title \(max 40 characters\) for a conversation"),
    re.compile(r"Analyze this conversation and provide:\s+1\. The detected language"),
]
"""How prompts begin that front ends send by themselves: Open WebUI's (title, tags, follow-ups, queries, autocompletion, images;
emoji; several models merged) and LibreChat's (title)."""
UNSET = ("", "none", "null", "undefined")


def header_value(scope: Scope, name: bytes) -> str:
    """The value of a header; empty if there is none, or a placeholder that a front end has not filled in."""
    given = values(scope, name)
    value = given[0].strip(" \t") if given else ""  # others may be bytes of UTF-8
    return "" if value.lower() in UNSET or value.startswith("{{") else value


def is_task(scope: Scope, request: ChatRequest) -> bool:
    """Whether a front end asks for itself: by the model, the header, a field of the body, or the prompt."""
    given = values(scope, HEADER)
    if request.model != TASK and given and not given[0].startswith("{{"):
        return bool(header_value(scope, HEADER))
    metadata = request.metadata if isinstance(request.metadata, dict) else {}
    marks = (metadata.get("task"), request.task)
    return (
        request.model == TASK
        or any(isinstance(mark, str) and mark for mark in marks)
        or any(prompt.match(request.newest.text.lstrip()) for prompt in PROMPTS)
    )


class TaskAnswer:
    """The answer of the model alone: without tools, instructions, and a session that records it."""

    def __init__(self, models: Models, choice: Choice, workspace: Path | None, request: ChatRequest) -> None:
        self._models = models
        self._choice = choice
        self._workspace = workspace
        self._request = request
        self.outcome = Outcome()

    async def pieces(self) -> AsyncGenerator[Piece]:
        """The pieces as they arrive. Raises `Refused`."""
        request = self._request
        settings = ModelSettings(
            temperature=request.temperature,
            max_output_tokens=request.output_limit,
            effort=request.effort,
            stop=request.stops,
            response_schema=request.response_schema,
        )
        messages = history_of(request.dialogue, "")
        try:
            async with self._models.open_provider(self._choice, self._workspace) as (provider, model):
                asked = ModelRequest(model, messages, request.system or "", settings=settings, purpose="task")
                async for chunk in provider.stream(asked):
                    match chunk:
                        case TextDelta(text=text):
                            yield Piece("content", text)
                        case ThinkingDelta(text=text):
                            yield Piece("reasoning", text)
                        case Reply():
                            reason = FINISH.get(chunk.finish_reason, "stop")
                            self.outcome = Outcome(reason, chunk.usage or Usage())
        except JaatoError as error:
            raise refusal_of_error(error) from None
