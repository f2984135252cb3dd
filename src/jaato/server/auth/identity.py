"""Who a client is, how it was authenticated, and what it may do."""

from __future__ import annotations

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
