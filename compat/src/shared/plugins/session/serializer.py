"""The documented home of the serialization of histories."""

from __future__ import annotations

from jaato.runtime.embedding.types import deserialize_history, serialize_history

__all__ = ["deserialize_history", "serialize_history"]
