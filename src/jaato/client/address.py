"""Where a server is: the socket of this user's own, another path, or a URL with a token."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from jaato.errors import ConfigError, ServerGone
from jaato.settings import environment, user_dir

PATH = "/v1/connect"
SOCKET = "jaato.sock"
CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address: a Unix socket, or host and port. The token is never part of a URL."""

    path: Path | None = None
    host: str = ""
    port: int = 0
    secure: bool = False
    token: str | None = None

    @property
    def name(self) -> str:
        """What goes into `Host`."""
        if self.path is not None:
            return "jaato"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """What goes beside it."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def __str__(self) -> str:
        return str(self.path) if self.path is not None else f"ws{'s' * self.secure}://{self.name}"


def socket_path(environ: Mapping[str, str]) -> Path:
    """The socket of this user's server: in the runtime directory, else in a private place of the state directory."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime) / "jaato" / SOCKET
    return user_dir(dict(environ), "XDG_STATE_HOME", ".local/state") / "run" / SOCKET


def address_of(text: str | Path | None = None, token: str | None = None) -> Address:
    """The address meant: None for this user's server, a path, or `ws://HOST:PORT` (`wss://` with TLS).

    Raises `ConfigError` for anything else, and for a token in a URL.
    """
    if text is None:
        return Address(path=socket_path(environment()), token=token)
    if isinstance(text, Path) or "://" not in text:
        return Address(path=Path(text).absolute(), token=token)
    parts = urlsplit(text)
    if parts.scheme not in ("ws", "wss", "http", "https") or not parts.hostname:
        raise ConfigError(f"{text!r} is no address of a server: give a path, or ws://HOST:PORT.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError("A token never goes into a URL: others could read it there. Give it as the token.")
    secure = parts.scheme in ("wss", "https")
    return Address(
        host=parts.hostname, port=parts.port or (443 if secure else 80), secure=secure, token=token
    )


def dial(address: Address) -> socket.socket:
    """A connected socket. Raises `ServerGone` that says what to do."""
    try:
        if address.path is not None:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                made.settimeout(CONNECT_S)
                made.connect(os.fspath(address.path))
            except BaseException:
                made.close()
                raise
            return made
        made = socket.create_connection((address.host, address.port), CONNECT_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.secure:
            import ssl  # slow, and few need it

            return ssl.create_default_context().wrap_socket(made, server_hostname=address.host)
        return made
    except OSError as error:
        raise ServerGone(
            f"No server answers at {address}: {error.strerror or error}. `jaato serve --daemon` starts one."
        ) from error
