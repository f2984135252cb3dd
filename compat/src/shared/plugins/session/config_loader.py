"""The documented home of the settings file `.jaato/.sessions.json`."""

from __future__ import annotations

from jaato.abc.session_plugin import SessionConfig
from jaato.plugins.session import load_session_config

__all__ = ["SessionConfig", "load_session_config"]
