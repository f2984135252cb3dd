"""The documented home of `SessionManager`."""

from __future__ import annotations

from jaato.server.facades import SessionManager

__all__ = ["SessionManager"]
