"""The provider of a session that has no model of its own: the client's model calls the tools."""

from __future__ import annotations

from collections.abc import AsyncIterator

from jaato.abc.provider import Chunk, ModelRequest
from jaato.errors import ConfigError
from jaato.protocol.specs import ModelInfo


class NoModel:
    """Answers no request; its empty name lets whoever goes on with the session choose a provider anew."""

    name = ""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Raises `ConfigError`."""
        raise ConfigError(
            "This session serves an MCP client and has no model of its own; let the client's model do it."
        )
        yield  # makes this the asynchronous iterator it says it is

    def model_info(self, model: str) -> ModelInfo:
        """Nothing is known of the client's model."""
        return ModelInfo(id=model, provider=self.name)

    async def models(self) -> list[ModelInfo]:
        """There are none."""
        return []

    async def aclose(self) -> None:
        """Nothing is open."""
