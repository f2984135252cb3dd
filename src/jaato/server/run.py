"""A server from its store to its sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from jaato.abc.store import Store
from jaato.runtime.assemble import open_store, settings_for
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.secret_values import known_secrets
from jaato.server.application import application
from jaato.server.gate import Gate, Remote, local
from jaato.server.hub import IDLE_AFTER_S, Hub
from jaato.server.mcp.guard import names_of
from jaato.server.metrics import Metrics
from jaato.server.sockets import serving
from jaato.server.tokens import Tokens
from jaato.settings import environment


@dataclass(frozen=True)
class Doors:
    """The sockets to serve at, and the names a TCP door may be called by beside its address."""

    listeners: Sequence[socket.socket]
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    idle_after_s: float = IDLE_AFTER_S
    base: Blueprint = field(default_factory=Blueprint)


@asynccontextmanager
async def running(doors: Doors) -> AsyncIterator[Hub]:
    """Serve while the body runs. In the end every turn is interrupted and recorded, and nothing is left behind.

    Raises `JaatoError`s when it cannot begin.
    """
    base = doors.base
    base = replace(base, environ=environment() if base.environ is None else base.environ)
    workspace = Path.home()
    settings = settings_for(replace(base, workspace=workspace), workspace)
    state_dir = base.state_dir or settings.state_dir
    base = replace(base, state_dir=state_dir)
    store: Store = open_store(settings, state_dir)
    async with AsyncExitStack() as stack:
        stack.callback(store.close)
        hub = Hub(store, base, known_secrets(settings, base), idle_after_s=doors.idle_after_s)
        await stack.enter_async_context(hub.running())
        app = application(hub, Metrics())
        for listener in doors.listeners:
            if listener.family == socket.AF_UNIX:
                gate = Gate(app, local())
            else:
                host, port = listener.getsockname()[:2]
                gate = Gate(app, Remote(Tokens(state_dir), names_of(host, port, doors.hosts, doors.origins)))
            await stack.enter_async_context(serving(gate, listener))
        yield hub
