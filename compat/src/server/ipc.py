"""The documented home of `JaatoIPCServer`."""

from __future__ import annotations

from jaato.server.embedding import JaatoIPCServer

__all__ = ["JaatoIPCServer"]
