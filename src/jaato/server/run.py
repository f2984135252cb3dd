"""A server from its store to its sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from jaato.abc.store import Store
from jaato.errors import JaatoError
from jaato.runtime.secrets import session_secrets
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import open_store
from jaato.server.application import PATH, application, turned_away
from jaato.server.gate import Gate, Local, Remote
from jaato.server.hub import IDLE_AFTER_S, Hub
from jaato.server.mcp.mounted import Mounted
from jaato.server.metrics import Metrics
from jaato.server.names import names_of
from jaato.server.registry.keys import Keys, rate_in
from jaato.server.registry.mounted import Mounted as Registry
from jaato.server.sockets import serving
from jaato.server.tls import Certificate
from jaato.server.tokens import Tokens
from jaato.server.upkeep import maintained
from jaato.settings import environment


@dataclass(frozen=True)
class Doors:
    """The sockets to serve at, and the names a TCP door may be called by beside its address.

    `tls` are the files of a certificate and its key; `mcp` is the workspace that `/mcp` opens.
    """

    listeners: Sequence[socket.socket]
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    idle_after_s: float = IDLE_AFTER_S
    base: SessionOptions = field(default_factory=SessionOptions)
    tls: tuple[Path, Path] | None = None
    mcp: Path | None = None


class Running:
    """A server that serves: its sessions, and what of it can be renewed."""

    def __init__(self, hub: Hub, doors: Doors) -> None:
        self.hub = hub
        self.secure = None if doors.tls is None else Certificate(*doors.tls)
        self.tokens: Tokens | None = None

    async def renew(self) -> list[JaatoError | OSError]:
        """New sessions see the configuration, new connections the certificate and the tokens, as they are now: a signal can
        come from any program of the user, so open sessions stay as they are. What cannot be used stays as it was, and is
        given back; the rest is renewed all the same."""
        problems: list[JaatoError | OSError] = []
        try:
            await self.hub.reload(at_hand=False)
        except (JaatoError, OSError) as error:
            problems.append(error)
        for part in (self.tokens, self.secure):
            try:
                if part is not None:
                    part.renew()
            except (JaatoError, OSError) as error:
                problems.append(error)
        return problems


@asynccontextmanager
async def running(doors: Doors) -> AsyncIterator[Hub]:
    """Serve while the body runs, and give the sessions. In the end every turn is interrupted and recorded, and nothing
    is left behind. Raises `JaatoError`s when it cannot begin."""
    async with opened(doors) as served:
        yield served.hub


@asynccontextmanager
async def opened(doors: Doors) -> AsyncIterator[Running]:
    """The same, and give the server."""
    base = doors.base
    base = replace(base, environ=environment() if base.environ is None else base.environ)
    workspace = Path.home()
    settings = settings_for(replace(base, workspace=workspace), workspace)
    state_dir = base.state_dir or settings.state_dir
    base = replace(base, state_dir=state_dir)
    store: Store = open_store(settings, state_dir)
    async with AsyncExitStack() as stack:
        stack.callback(store.close)
        hub = Hub(store, base, session_secrets(settings, base), idle_after_s=doors.idle_after_s)
        served = Running(hub, doors)
        await stack.enter_async_context(hub.running())
        await stack.enter_async_context(maintained(hub))
        mounted = Mounted(doors.mcp, base)
        await stack.enter_async_context(mounted.running())
        registry = Registry(doors.mcp or workspace, base)
        await stack.enter_async_context(registry.running())
        app = application(hub, Metrics(), mounted, registry)
        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(group.cancel_scope.cancel)
        keys = Keys(state_dir, rate_in(settings))
        web = sum(one.family != socket.AF_UNIX for one in doors.listeners)
        for listener in doors.listeners:
            if listener.family == socket.AF_UNIX:
                await stack.enter_async_context(serving(Gate(app, Local()), listener))
                continue
            served.tokens = served.tokens or Tokens(state_dir)
            host, port = listener.getsockname()[:2]
            names = names_of(host, port, doors.hosts, doors.origins, secure=served.secure is not None)
            gate = Gate(app, Remote(served.tokens, names, frozenset({PATH}), keys), turned_away)
            group.start_soon(gate.look)
            await stack.enter_async_context(serving(gate, listener, served.secure, web))
        yield served
