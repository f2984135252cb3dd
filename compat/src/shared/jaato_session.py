"""The documented home of `JaatoSession`."""

from __future__ import annotations

from jaato.runtime.embedding.client import JaatoSession
from jaato.runtime.embedding.hooks import AgentUIHooks

__all__ = ["AgentUIHooks", "JaatoSession"]
