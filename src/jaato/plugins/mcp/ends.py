"""What the SDK asks of both ends of a transport, beside reading and writing themselves."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import anyio


class End:
    """An end that is entered and left; leaving it closes it."""

    async def aclose(self) -> None:
        """The SDK needs it no more."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class ReadEnd(End):
    """An end that messages come from, one after the other until there are no more."""

    async def receive(self) -> Any:
        """The next message. Raises `anyio.EndOfStream`."""
        raise anyio.EndOfStream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
