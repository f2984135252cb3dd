"""Who makes a request over MCP: whoever has the token may do everything, a key of a registry's what it is for."""

from __future__ import annotations

from typing import Any, Protocol

import mcp_types as mcp
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from jaato.server.admission import KEY


class Sight(Protocol):
    """Which tools there are for somebody."""

    def has(self, name: str) -> bool:
        """Whether there is this one."""
        ...


class Who(Protocol):
    """Somebody with a key of their own."""

    @property
    def key(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def scopes(self) -> frozenset[Any]: ...

    @property
    def sight(self) -> Sight | None: ...


class Everywhere:
    """The keys of a registry's, at the paths of a server that has nothing else."""

    def __init__(self, keys: Any) -> None:
        self._keys = keys

    def enter_at(self, _path: str, key: str) -> Any:
        """What a key gives. Raises `Refused` for one that has asked too often."""
        return self._keys.enter(key)

    def holds(self, entrance: Any) -> bool:
        """Whether it still gives that."""
        held: bool = self._keys.holds(entrance)
        return held


def who_of(ctx: ServerRequestContext[Any, Any]) -> Who | None:
    """Who came in with a key; None for whoever may do everything."""
    if ctx.request is None:
        return None
    admission = ctx.request.scope.get("state", {}).get(KEY)
    entrance = None if admission is None else admission.entrance
    return None if entrance is None else entrance.who


def allowed(ctx: ServerRequestContext[Any, Any], scope: str) -> Who | None:
    """Who makes a request that needs this scope. Raises `MCPError` where the key does not have it."""
    who = who_of(ctx)
    if who is not None and scope not in who.scopes:
        raise MCPError(mcp.INVALID_REQUEST, f"This needs a key with the scope {scope}.")
    return who


def sees(who: Who | None, name: str) -> bool:
    """Whether there is such a tool for somebody."""
    return who is None or who.sight is None or who.sight.has(name)
