"""The documented home of session plugins: their protocol, their settings, and the one that writes files."""

from __future__ import annotations

from jaato.abc.session_plugin import SavedSession, SessionConfig, SessionPlugin, SessionState
from jaato.abc.session_plugin import SavedSession as SessionInfo
from jaato.plugins.session import FileSessionPlugin, create_plugin, load_session_config
from jaato.runtime.session_saving import discover_session_plugins, load_session_plugin

__all__ = [
    "FileSessionPlugin",
    "SavedSession",
    "SessionConfig",
    "SessionInfo",
    "SessionPlugin",
    "SessionState",
    "create_plugin",
    "discover_session_plugins",
    "load_session_config",
    "load_session_plugin",
]
