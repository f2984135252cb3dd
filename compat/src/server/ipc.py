"""The documented home of `JaatoIPCServer`."""

from __future__ import annotations

from jaato.server.facades import JaatoIPCServer

__all__ = ["JaatoIPCServer"]
