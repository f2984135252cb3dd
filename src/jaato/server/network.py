"""The server on the network: its TCP listeners, its tokens, and the links that pair browsers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from jaato.client.address import PATH
from jaato.errors import ConfigError
from jaato.protocol.frames import Pairing, Role
from jaato.server.auth.gate import ErrorFormat, Gate, TokenAuthenticator, allow_hosts
from jaato.server.auth.pairing import CODE_S, PAIR, Pairings
from jaato.server.auth.tokens import Tokens
from jaato.server.http.asgi import App
from jaato.server.http.listeners import bind_tcp, serve_gate
from jaato.server.http.tls import Certificate
from jaato.server.registry.keys import Keys
from jaato.server.web.static_files import load_assets

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

LOOPBACK = "127.0.0.1"
PAGE_PORT = 8391
"""Where the page is without a network address of the user's choice, so that it stays there; another if it is in use."""
ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 compared, not bound


class Network:
    """Serves an application at TCP sockets. Listeners end with `stack`, rechecks of their clients with `group`."""

    def __init__(
        self,
        state_dir: Path,
        keys: Keys,
        certificate: Certificate | None,
        names: tuple[list[str], list[str]],
        stack: AsyncExitStack,
        group: TaskGroup,
    ) -> None:
        self._state_dir = state_dir
        self._keys = keys
        self._certificate = certificate
        self._hosts, self._origins = names
        self._stack = stack
        self._group = group
        self._opening = anyio.Lock()
        self.pairings = Pairings()
        self.listeners: list[socket.socket] = []
        self.on_listen: Callable[[], object] = lambda: None
        """Called when a listener was added after the start."""
        self.app: App

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens of its clients. Raises `ConfigError`."""
        return Tokens(self._state_dir)

    def add_browser(self, role: Role, expires: float) -> str:
        """Create the token of a paired browser. Raises `ConfigError`, OSError."""
        return self.tokens.add_browser(role, expires)

    async def listen(self, listener: socket.socket, format_error: ErrorFormat, sharing: int = 1) -> None:
        """Serve at a socket; `sharing` listeners share the connection limit."""
        host, port = listener.getsockname()[:2]
        secure = self._certificate is not None
        hosts = allow_hosts(host, port, self._hosts, self._origins, secure=secure)
        gate = Gate(
            self.app,
            TokenAuthenticator(self.tokens, hosts, frozenset({PATH}), self._keys, is_public),
            format_error,
        )
        self._group.start_soon(gate.recheck)
        await self._stack.enter_async_context(serve_gate(gate, listener, self._certificate, sharing))
        self.listeners.append(listener)

    async def pair(self, role: Role, format_error: ErrorFormat) -> Pairing:
        """A link that pairs a browser. Raises `ConfigError` when there is no page, or no port for it."""
        if not load_assets():
            raise ConfigError("This installation has no page: run `npm ci && npm run build` in clients/web.")
        async with self._opening:
            if not self.listeners:
                listener = bind_page()
                self._stack.callback(listener.close)
                await self.listen(listener, format_error)
                self.on_listen()
        return Pairing(f"{self.page_url}#pair={self.pairings.create(role)}", CODE_S)

    @property
    def page_url(self) -> str:
        """Where the page is, for a browser on this machine or, with `--allow-host`, under the first of those names."""
        host, port = self.listeners[0].getsockname()[:2]
        local = host in ANYWHERE or host.startswith("127.") or host == "::1"
        if host in ANYWHERE:
            host = LOOPBACK if host == ANYWHERE[0] else "::1"
        name = f"[{host}]" if ":" in host else host
        if self._hosts and not (local and self._certificate is None):
            name = self._hosts[0].partition(":")[0]
        return f"http{'s' * (self._certificate is not None)}://{name}:{port}/"


def is_public(method: str, path: str) -> bool:
    """Whether a request needs no token: the files of the page, and the exchange of a code."""
    return path in load_assets() if method in ("GET", "HEAD") else method == "POST" and path == PAIR


def bind_page() -> socket.socket:
    """A loopback socket for the page, at the usual port if that is free. Raises `ConfigError`."""
    try:
        return bind_tcp(LOOPBACK, PAGE_PORT)
    except ConfigError:
        return bind_tcp(LOOPBACK, 0)
