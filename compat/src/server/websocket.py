"""The documented home of `JaatoWSServer`."""

from __future__ import annotations

from jaato.server.embedding import JaatoWSServer

__all__ = ["JaatoWSServer"]
