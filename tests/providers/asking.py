"""Asking a scripted server once or several times, and what comes of it."""

from __future__ import annotations

from typing import Any

import anyio
from tests.providers.server import Answer, Server, events, serve

from jaato.abc.provider import Chunk, ModelRequest, Provider
from jaato.errors import (
    ProviderError,
)
from jaato.protocol.messages import Message, Text
from jaato.providers.http import HttpProvider, Timeouts
from jaato.providers.profiles import make_provider

KEY = "sk-canary-0123456789"
PATIENT = Timeouts()
QUICK = Timeouts(connect_s=5.0, first_byte_s=0.2, idle_s=0.2)


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chat chunk."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(arguments: str, **fields: Any) -> dict[str, Any]:
    """One chat chunk with a piece of a call."""
    return delta(tool_calls=[{"index": 0, "function": {"arguments": arguments, **fields}}])


HELLO = events(delta(content="Hel"), delta(content="lo"), delta("stop"), "[DONE]")
REQUEST = ModelRequest("m", [Message("user", [Text("hi")])])


def provider_at(server: Server, timeouts: Timeouts = PATIENT, interface: Any = "chat") -> HttpProvider:
    """A provider that speaks to the scripted server."""
    return make_provider(
        "openai", environ={}, base_url=f"{server.url}/v1", api_key=KEY, timeouts=timeouts, interface=interface
    )


async def ask(provider: Provider) -> list[Chunk]:
    """Every chunk of one answer."""
    return [chunk async for chunk in provider.stream(REQUEST)]


def play(
    *answers: Answer, count: int = 1, interface: Any = "chat", timeouts: Timeouts = PATIENT
) -> tuple[list[Any], Server]:
    """What asking some times brings, chunks or the error, and what the server saw."""
    outcomes: list[Any] = []

    async def main() -> Server:
        async with serve(*answers) as server:
            provider = provider_at(server, timeouts, interface)
            for _ in range(count):
                chunks: list[Chunk] = []
                try:
                    async for one in provider.stream(REQUEST):
                        chunks.append(one)
                    outcomes.append(chunks)
                except ProviderError as error:
                    error.__notes__ = [repr(chunks)]
                    outcomes.append(error)
            await provider.aclose()
        return server

    server = anyio.run(main)
    return outcomes, server


def failure(*answers: Answer, interface: Any = "chat", timeouts: Timeouts = PATIENT) -> ProviderError:
    """The error of one answer; it names the provider and holds no key."""
    (error,), server = play(*answers, interface=interface, timeouts=timeouts)
    assert isinstance(error, ProviderError), error
    assert error.provider == "openai"
    assert KEY not in str(error) + repr(error)
    assert [request.method for request in server.requests].count("POST") == 1
    return error


def said(error: int | str | None, message: str = "", **fields: Any) -> dict[str, Any]:
    """An error body in the vendor's form."""
    return {"error": {"message": message, "code": error, **fields}}
