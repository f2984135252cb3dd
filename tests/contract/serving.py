"""What the tests of the registry share: one that serves in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from tests.server.serving import served

from jaato.protocol.events import Event
from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.gate import allow_hosts
from jaato.server.registry.application import bind_listener, open_registry, serving
from jaato.server.registry.keys import AllowAnyone
from jaato.server.registry.routes import ToolRegistry
from jaato.testing.arp.peer import Served


@dataclass
class Opened:
    """A registry in this process, and how it is reached."""

    registry: ToolRegistry
    at: Served

    def log(self) -> list[Event]:
        """What the session of its callers says."""
        caller = self.registry.callers.get("")
        assert caller is not None
        store = caller.session.journal.store
        return [one for one in store.read(caller.session.state.session_id) if isinstance(one, Event)]


@asynccontextmanager
async def opened(path: Path, **blueprint: object) -> AsyncIterator[Opened]:
    """A registry that serves."""
    described = SessionOptions(
        workspace=path,
        state_dir=path / "state",
        environ={"HOME": str(path)},
        **blueprint,  # type: ignore[arg-type]
    )
    registry = open_registry(described)
    listener = bind_listener("127.0.0.1", 0)
    port = listener.getsockname()[1]
    try:
        async with serving(registry, AllowAnyone(allow_hosts("127.0.0.1", port, any_port=True)), listener):
            yield Opened(registry, Served(f"http://127.0.0.1:{port}"))
    finally:
        await registry.callers.close()


def run(path: Path, body: object, **blueprint: object) -> None:
    """Run `body(opened)` in a thread while a registry serves."""

    async def main() -> None:
        async with opened(path, **blueprint) as one:
            await anyio.to_thread.run_sync(body, one)  # type: ignore[arg-type]

    anyio.run(main)


def run_both(path: Path, check: Callable[[Served], None]) -> None:
    """Run `check(at)` in a thread against a registry of its own, and against the registry of a server with other doors."""

    async def main() -> None:
        async with opened(path / "alone") as one, served(path / "door", []) as server:
            for at in (one.at, Served(f"http://127.0.0.1:{server.port}", token=server.token)):
                await anyio.to_thread.run_sync(check, at)

    anyio.run(main)
