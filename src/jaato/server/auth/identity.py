"""Who a client is, how it was authenticated, and what it may do.

The peer on the Unix socket is admitted by its credentials: the same user (SO_PEERCRED), and no tool call's process."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from jaato.protocol.frames import Role

KEY = "jaato.admission"
"""The key in the `state` of a request's scope."""


class Identity(msgspec.Struct, frozen=True):
    """Who a token identifies: a role, the token's name, and the token's hash."""

    role: Role
    name: str = ""
    digest: str = ""


class TokenVerifier(Protocol):
    """Verifies tokens."""

    def verify(self, token: str) -> Identity | None:
        """Who a token identifies; None if it is unknown, expired or was removed."""
        ...

    def is_valid(self, identity: Identity) -> bool:
        """Whether the token of an earlier `verify` is still accepted."""
        ...


async def reject(_token: str) -> None:
    """Accept no token."""


class Admission(msgspec.Struct, eq=False):
    """How a client was admitted: with an `identity`, which is None until the client gives its token to `authenticate`; or
    with a `key` of one application. `local` means a process of the same user on the same machine."""

    identity: Identity | None
    verify: Callable[[str], Awaitable[Identity | None]] = reject
    local: bool = False
    key: Any = None

    async def authenticate(self, token: str) -> Identity | None:
        """The identity of the client, or None. Raises `Refused` after too many wrong tokens."""
        if self.identity is None:
            self.identity = await self.verify(token)
        return self.identity


SO_PEERPIDFD = 77
"""Linux (socket(7)); the module `socket` has no name for it."""


def is_same_user(connection: socket.socket) -> bool:
    """Whether the peer's process belongs to this user, or to root."""
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except (AttributeError, OSError):
        return True  # without SO_PEERCRED, the modes of socket and directory protect it
    return struct.unpack("3i", packed)[1] in (os.geteuid(), 0)


def find_objection(connection: socket.socket) -> str | None:
    """Why the peer's process is not admitted as the owner: a tool call has started it, or this cannot be determined."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None  # a system without it has no sandbox either: the user has approved every command
    from jaato.tools.processes.call_processes import REMEDY, find_call_above  # a client in memory has no peer

    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid = struct.unpack("3i", packed)[0]
    process = peer_pidfd(connection)
    try:
        found = find_call_above(pid)
        if process >= 0 and select.select([process], [], [], 0)[0]:
            raise ProcessLookupError("it has ended: its pid may be reused")
    except ProcessLookupError:
        return (
            f"The connecting process ({pid}) is not visible in /proc, so it cannot be checked that no tool call has started "
            "it. Use a token: `jaato serve --web-socket` and `jaato tokens`."
        )
    finally:
        if process >= 0:
            os.close(process)
    return None if found is None else f"A tool call has started this client: {found}. {REMEDY}"


def peer_pidfd(connection: socket.socket) -> int:
    """A pidfd of the peer's process, by which the reuse of its pid is noticed; -1 before Linux 6.5."""
    try:
        return connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return -1
