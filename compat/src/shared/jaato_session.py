"""The documented home of `JaatoSession`."""

from __future__ import annotations

from jaato.runtime.embed import JaatoSession
from jaato.runtime.hooks import AgentUIHooks

__all__ = ["AgentUIHooks", "JaatoSession"]
