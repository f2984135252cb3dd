"""The documented home of `SessionManager`."""

from __future__ import annotations

from jaato.server.embedding import SessionManager

__all__ = ["SessionManager"]
