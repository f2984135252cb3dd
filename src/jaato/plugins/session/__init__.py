"""Sessions as files of the workspace, their description, and what a session may do."""

from __future__ import annotations

from jaato.abc.saved import SavedSession, SessionConfig, SessionPlugin, SessionState
from jaato.plugins.session.config import load_session_config
from jaato.plugins.session.files import PLUGIN_KIND, FileSessionPlugin, create_plugin

__all__ = [
    "PLUGIN_KIND",
    "FileSessionPlugin",
    "SavedSession",
    "SessionConfig",
    "SessionPlugin",
    "SessionState",
    "create_plugin",
    "load_session_config",
]
