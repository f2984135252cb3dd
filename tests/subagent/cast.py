"""A scripted model for many agents: each has a script of its own, found by the name its prompt says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.kit import reopened, session

from jaato.abc.provider import Chunk, ModelRequest, TextDelta
from jaato.agent.session import Session
from jaato.agent.subagents.subagent import Subagent
from jaato.errors import ProviderError
from jaato.protocol.specs import ModelInfo
from jaato.providers.scripted import Step, pieces, reply_of
from jaato.tools.tool import Tool

NAME = re.compile(r"You are the subagent ([\w.-]+)\.")
Line = Step | Callable[[ModelRequest], Step] | Callable[[ModelRequest], Awaitable[Step]]


def who(request: ModelRequest) -> str:
    """The name of the agent that asks."""
    names = NAME.findall(request.system)
    return names[-1] if names else "main"


class Cast:
    """Plays to each agent its own lines, as many as it has had replies before; `anyone` is for those without a script."""

    name = "scripted"

    def __init__(self, scripts: Mapping[str, Any], info: ModelInfo | None = None) -> None:
        self.scripts = scripts
        self.heard: list[tuple[str, list[str]]] = []
        self.now = self.most = 0
        """How many requests are answered now, and were at most at once."""
        self._info = info

    def of(self, name: str) -> list[list[str]]:
        """The texts of the conversation at each request of one agent."""
        return [texts for asker, texts in self.heard if asker == name]

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Play the next line."""
        name = who(request)
        self.heard.append((name, [message.text for message in request.messages]))
        script = self.scripts.get(name, self.scripts.get("anyone", ()))
        at = sum(message.role == "assistant" for message in request.messages)
        if at >= len(script):
            raise ProviderError(f"{name} has no line {at}.", provider=self.name)
        line = script[at]
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            made: Any = line if isinstance(line, Step) else line(request)
            step: Step = made if isinstance(made, Step) else await made
        finally:
            self.now -= 1
        for piece in pieces(step.text, step.chunks):
            yield TextDelta(piece)
        yield reply_of(step)

    def model_info(self, model: str) -> ModelInfo:
        """What the test said of the model."""
        return self._info or ModelInfo(id=model, provider=self.name, context_limit=128_000)

    async def models(self) -> list[ModelInfo]:
        """The one model there is."""
        return [self.model_info("script")]

    async def aclose(self) -> None:
        """Nothing is open."""


PLUGINS = ("introspection", "subagent")


@asynccontextmanager
async def stage(
    path: Path,
    scripts: Mapping[str, Any],
    tools: Sequence[Callable[..., Any] | Tool] = (),
    plugins: Sequence[str] = PLUGINS,
    again: str = "",
    **more: Any,
) -> AsyncIterator[tuple[Session, Cast]]:
    """A session whose agents play these scripts, with every tool shown from the start; `again` is one that is stored."""
    cast = Cast(scripts, more.pop("info", None))
    more = {"provider": cast, "deferred": False, **more}
    opened = (
        reopened(path, again, [], tools, plugins, **more)
        if again
        else session(path, [], tools, plugins, **more)
    )
    async with opened as live:
        yield live, cast


def session_of(child: Subagent) -> Session:
    """The session of a subagent, as the runtime has made it."""
    assert isinstance(child.session, Session)
    return child.session
