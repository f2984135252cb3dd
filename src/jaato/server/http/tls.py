"""TLS for a door: each connection is counted before its handshake, which has some seconds, and then served as any other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError

HANDSHAKE_S = 10.0


def context_of(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a server with this certificate (its chain, PEM) and key speaks. Raises `ConfigError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        said = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        raise ConfigError(
            f"{certificate} with {key} cannot be used for TLS: {said}. Give PEM files that belong together."
        ) from None
    return context


class Certificate:
    """What a door shows of itself: `context`, for each handshake as it is then."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self.context = context_of(certificate, key)

    def renew(self) -> None:
        """Take what the files hold now. Raises `ConfigError` for what cannot be used, and goes on with what was there."""
        self.context = context_of(*self._files)  # made apart: half a new one in the old is none


def no_password() -> str:
    """A key that is encrypted is not asked about at a terminal nobody may be at."""
    raise ValueError("the key has a password")


class Secured(asyncio.Protocol):
    """A connection until its handshake is done, then the one that `make` gives."""

    def __init__(
        self, context: ssl.SSLContext, make: Callable[[], Any], handshakes: dict[Secured, None], most: int
    ) -> None:
        self._context = context
        self._make = make
        self._handshakes = handshakes
        self._most = most
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.pause_reading()  # what it says is the handshake's
        if len(self._handshakes) >= self._most:
            next(iter(self._handshakes)).give_up()
        self._handshakes[self] = None
        self._task = asyncio.get_running_loop().create_task(self._shake())

    def give_up(self) -> None:
        """End it."""
        self._handshakes.pop(self, None)
        self._transport.abort()
        self._task.cancel()

    async def _shake(self) -> None:
        waiting = Waiting()
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport, waiting, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
        except (OSError, asyncio.CancelledError):
            self._transport.abort()
            return
        finally:
            self._handshakes.pop(self, None)
        if secured is None or waiting.lost:
            self._transport.abort()
            return
        inner = self._make()
        inner.connection_made(secured)
        secured.set_protocol(inner)
        if waiting.held:
            inner.data_received(bytes(waiting.held))


class Waiting(asyncio.Protocol):
    """Holds what comes in the very step the handshake ends in, one read at most."""

    def __init__(self) -> None:
        self.held = bytearray()
        self.lost = False

    def data_received(self, data: bytes) -> None:
        """The client did not wait."""
        self.held += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Nor stay."""
        self.lost = True
