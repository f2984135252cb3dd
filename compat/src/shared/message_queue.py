"""The documented home of `SourceType`."""

from __future__ import annotations

from jaato.runtime.embedding.types import SourceType

__all__ = ["SourceType"]
