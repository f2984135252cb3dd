"""How a client was let in, and what it may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from jaato.protocol.frames import Role

KEY = "jaato.admission"
"""Where a request's scope has it, in `state`."""


class Pass(msgspec.Struct, frozen=True):
    """What a token gives: a role, the token's name, and what tells it from others, which is not the token."""

    role: Role
    name: str = ""
    digest: str = ""


class Judge(Protocol):
    """Whoever knows the tokens."""

    def judge(self, token: str) -> Pass | None:
        """What a token gives; None for one that is unknown, expired or was taken away."""
        ...

    def holds(self, held: Pass) -> bool:
        """Whether it still gives that."""
        ...


async def nobody(_token: str) -> None:
    """Lets none in."""


class Admission(msgspec.Struct, eq=False):
    """How a client was let in: by what, None when it still has to say its token to `ask`, which is kept here. `local` says
    that it is a process of the same user on the same machine."""

    held: Pass | None
    judge: Callable[[str], Awaitable[Pass | None]] = nobody
    local: bool = False
    entrance: Any = None
    """What a door's own key gives, where it was not a token that let the client in."""

    async def ask(self, token: str) -> Pass | None:
        """What lets the client in, or None. Raises `Refused` when it has tried too often."""
        if self.held is None:
            self.held = await self.judge(token)
        return self.held
