"""What every way to a server has."""

from __future__ import annotations

from typing import Any, Protocol


class Transport(Protocol):
    """A way to a server."""

    async def __aenter__(self) -> tuple[Any, Any]: ...

    async def __aexit__(self, *error: Any) -> None: ...

    async def until_over(self) -> None:
        """Until the server says no more."""
        ...

    @property
    def broke_at_once(self) -> bool:
        """Whether beginning in the older way makes sense, since the newer one failed."""
        ...

    async def how_it_ended(self, within_s: float = 1.0) -> str:
        """How the connection came to its end, as a sentence."""
        ...
