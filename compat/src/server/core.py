"""The documented home of `JaatoServer`."""

from __future__ import annotations

from jaato.server.facades import JaatoServer

__all__ = ["JaatoServer"]
