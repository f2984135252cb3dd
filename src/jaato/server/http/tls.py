"""TLS: certificates, and connections whose handshakes are limited in number and time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError

HANDSHAKE_S = 10.0


def create_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """The TLS context of a server with this certificate (its chain, PEM) and key. Raises `ConfigError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=refuse_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        raise ConfigError(
            f"{certificate} with {key} cannot be used for TLS: {reason}. Give a PEM certificate and its PEM key."
        ) from None
    return context


def refuse_password() -> str:
    """Fail instead of asking for the password of an encrypted key at a terminal."""
    raise ValueError("the key has a password")


class Certificate:
    """The certificate of a server; `context` is used for new handshakes."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self.context = create_context(certificate, key)

    def reload(self) -> None:
        """Load the files again. Raises `ConfigError` for invalid ones; the previous certificate stays in use."""
        self.context = create_context(*self._files)


class HandshakeProtocol(asyncio.Protocol):
    """A connection during its TLS handshake; then `create_protocol` makes the protocol that serves it. When there are
    `limit` handshakes in progress, the oldest is aborted."""

    def __init__(
        self,
        context: ssl.SSLContext,
        create_protocol: Callable[[], Any],
        handshakes: dict[HandshakeProtocol, None],
        limit: int,
    ) -> None:
        self._context = context
        self._create_protocol = create_protocol
        self._handshakes = handshakes
        self._limit = limit
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.pause_reading()  # the data belongs to the handshake
        if len(self._handshakes) >= self._limit:
            next(iter(self._handshakes)).abort()
        self._handshakes[self] = None
        self._task = asyncio.get_running_loop().create_task(self._handshake())

    def abort(self) -> None:
        """Abort the handshake."""
        self._handshakes.pop(self, None)
        self._transport.abort()
        self._task.cancel()

    async def _handshake(self) -> None:
        buffer = BufferProtocol()
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport, buffer, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
        except (OSError, asyncio.CancelledError):
            self._transport.abort()
            return
        finally:
            self._handshakes.pop(self, None)
        if secured is None or buffer.lost:
            self._transport.abort()
            return
        protocol = self._create_protocol()
        protocol.connection_made(secured)
        secured.set_protocol(protocol)
        if buffer.data:
            protocol.data_received(bytes(buffer.data))


class BufferProtocol(asyncio.Protocol):
    """Buffers data that arrives together with the end of the handshake, one read at most."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.lost = False

    def data_received(self, data: bytes) -> None:
        """Keep the data."""
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self.lost = True
