"""The documented import path `server`: a server of sessions, and its doors."""

from __future__ import annotations

from jaato.server.embedding import JaatoIPCServer, JaatoServer, JaatoWSServer, SessionManager

__all__ = ["JaatoIPCServer", "JaatoServer", "JaatoWSServer", "SessionManager"]
