"""The documented home of the session plugins' protocol and records."""

from __future__ import annotations

from jaato.abc.session_plugin import SavedSession as SessionInfo
from jaato.abc.session_plugin import SessionConfig, SessionPlugin, SessionState

__all__ = ["SessionConfig", "SessionInfo", "SessionPlugin", "SessionState"]
