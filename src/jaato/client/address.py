"""Where a server is: the socket of this user's own, another path, or a URL with a token."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from jaato.errors import ConfigError, ConnectionFault, ServerGone
from jaato.settings import environment, user_dir

if TYPE_CHECKING:
    import ssl

PATH = "/v1/connect"
SOCKET = "jaato.sock"
CONNECT_S = 5.0
"""How long to wait for a connection, for the reply to the handshake, and for the greeting."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
"""The pauses between attempts to reconnect; each is twice the one before."""
GIVE_UP_AFTER_S = 300.0
"""How long to try to reconnect before the waiting commands fail."""


class Disconnected(ServerGone):
    """Nothing is connected at an address, or what was has ended the connection without a reason, as a killed server does."""


class Address(msgspec.Struct, frozen=True):
    """A server's address: a Unix socket, or host and port. The token is never part of a URL."""

    path: Path | None = None
    host: str = ""
    port: int = 0
    secure: bool = False
    token: str | None = None
    token_from: str = ""
    """Where the token comes from, for the error message when the server refuses it."""
    ca_file: Path | None = None
    """Whom to trust besides the system's authorities; a self-made certificate is its own authority."""

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


def address_of(
    text: str | Path | None = None, token: str | None = None, ca_file: str | Path | None = None
) -> Address:
    """The address meant: None for this user's server, a path, or `ws://HOST:PORT` (`wss://` with TLS, whose certificate
    may be one of `ca_file`).

    Raises `ConfigError` for anything else, and for a token in a URL.
    """
    token = None if token is None else token.strip()
    if token and not (token.isascii() and token.isprintable()):
        raise ConfigError("That is no token: a token is one line of ASCII.")
    if text is None:
        return Address(path=socket_path(environment()), token=token)
    if isinstance(text, Path) or "://" not in text:
        return Address(path=Path(text).absolute(), token=token)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{text[:200]!r} is no address of a server: {error}.") from None
    if parts.scheme not in ("ws", "wss", "http", "https") or not parts.hostname:
        raise ConfigError(f"{text!r} is no address of a server: give a path, or ws://HOST:PORT.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError("A token never goes into a URL: others could read it there. Give it as the token.")
    secure = parts.scheme in ("wss", "https")
    return Address(
        host=parts.hostname,
        port=port or (443 if secure else 80),
        secure=secure,
        token=token,
        ca_file=None if ca_file is None else Path(ca_file),
    )


def tls_of(address: Address) -> ssl.SSLContext:
    """How a server's certificate is checked: always. Raises `ConfigError` for a file that holds none."""
    import ssl  # slow, and few need it

    try:
        context = ssl.create_default_context()
        if address.ca_file is not None:
            context.load_verify_locations(address.ca_file)
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or getattr(error, "reason", None) or error
        raise ConfigError(f"{address.ca_file} holds no certificates: {why}. Give a PEM file.") from None
    return context


def connect_socket(address: Address) -> socket.socket:
    """A connected socket. Raises `ServerGone` that says what to do."""
    try:
        if address.path is not None:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                made.settimeout(CONNECT_S)
                made.connect(os.fspath(address.path))
                check_owner(made, address)
            except BaseException:
                made.close()
                raise
            return made
        made = socket.create_connection((address.host, address.port), CONNECT_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.secure:
            try:
                return tls_of(address).wrap_socket(made, server_hostname=address.host)
            except BaseException:
                made.close()
                raise
        return made
    except OSError as error:
        raise no_server(address, error) from error


def check_owner(connection: socket.socket, address: Address) -> None:
    """Check that the socket is served by the same user (peer credentials). Raises `ConnectionFault` otherwise."""
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except (AttributeError, OSError):
        return  # where the kernel does not say, the mode of the directory has to do
    if struct.unpack("3i", packed)[1] not in (os.geteuid(), 0):
        raise ConnectionFault(f"What answers at {address} is another user's; nothing was sent to it.")


def no_server(address: Address, error: OSError) -> ConnectionFault:
    """Why no connection came about, and what to do."""
    if untrusted := getattr(error, "verify_message", None):
        return ConnectionFault(
            f"The certificate of {address} cannot be trusted: {untrusted}. Give its authority: ca_file."
        )
    network = "" if address.path is not None else f" --web-socket {address.name}"
    return Disconnected(
        f"No server answers at {address}: {error.strerror or error}. `jaato serve --daemon{network}` starts one."
    )


def no_answer(address: Address | None) -> ServerGone:
    """What is wrong where something accepts connections and is silent, and what to do; None: the server in this process."""
    if address is None:
        return ServerGone("The server does not answer.")
    return ServerGone(
        f"What listens at {address} does not answer: it is no jaato server, or one that hangs. Check the address; "
        "`jaato serve --stop` and `jaato serve --daemon` start the server again, `--no-daemon` works without it."
    )
