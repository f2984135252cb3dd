"""A server-first runtime for agents that use tools."""

from __future__ import annotations

__version__ = "0.1.0"
