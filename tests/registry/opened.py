"""A registry in this process, on a real socket, for tests of what it answers."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.gate import allow_hosts
from jaato.server.registry.application import bind_listener, open_registry, serving
from jaato.server.registry.keys import AllowAnyone
from jaato.server.registry.routes import ToolRegistry
from jaato.testing.arp.peer import Served
from jaato.tools.tool import Tool, tool_from


@dataclass
class Opened:
    """A registry that serves, and how it is reached."""

    registry: ToolRegistry
    at: Served

    def put(self, *tools: Tool) -> None:
        """Put tools on its shelf."""
        self.registry.registered.served.tools = self.registry.registered.served.tools.with_tools(tools)

    def take(self, *names: str) -> None:
        """Take tools off its shelf."""
        for name in names:
            self.registry.registered.served.tools = self.registry.registered.served.tools.without(name)


@asynccontextmanager
async def opened(
    path: Path, domains: Iterable[str] | None = None, **blueprint: object
) -> AsyncIterator[Opened]:
    """A registry that serves."""
    described = SessionOptions(
        workspace=path,
        state_dir=path / "state",
        environ={"HOME": str(path)},
        **blueprint,  # type: ignore[arg-type]
    )
    registry = open_registry(described, domains)
    listener = bind_listener("127.0.0.1", 0)
    port = listener.getsockname()[1]
    try:
        async with serving(registry, AllowAnyone(allow_hosts("127.0.0.1", port)), listener):
            yield Opened(registry, Served(f"http://127.0.0.1:{port}"))
    finally:
        await registry.callers.close()


def during(
    path: Path, body: Callable[[Opened], None], domains: Iterable[str] | None = None, **blueprint: object
) -> None:
    """Run `body(opened)` in a thread while a registry serves."""

    async def main() -> None:
        async with opened(path, domains, **blueprint) as one:
            await anyio.to_thread.run_sync(body, one)

    anyio.run(main)


def made(name: str, version: str = "0.1.0", *tags: str, says: str = "", text: str = "Do something.") -> Tool:
    """A tool that says something."""

    def run() -> str:
        return says or f"{name} {version}"

    run.__name__ = name
    run.__doc__ = text
    tool = tool_from(run)
    tool.version, tool.tags = version, tags
    return tool


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(10_000):
        if holds():
            return
        threading.Event().wait(0.002)
    raise AssertionError("it never holds")
