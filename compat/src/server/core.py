"""The documented home of `JaatoServer`."""

from __future__ import annotations

from jaato.server.embedding import JaatoServer

__all__ = ["JaatoServer"]
