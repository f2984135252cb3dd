"""The documented home of `JaatoRuntime`."""

from __future__ import annotations

from jaato.runtime.embedding.client import JaatoRuntime

__all__ = ["JaatoRuntime"]
