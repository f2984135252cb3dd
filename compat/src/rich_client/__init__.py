"""The documented import path `rich_client`: a terminal at a session of the server."""

from __future__ import annotations

from jaato.cli import attach as main

__all__ = ["main"]
