"""The documented home of `SourceType`."""

from __future__ import annotations

from jaato.runtime.types import SourceType

__all__ = ["SourceType"]
