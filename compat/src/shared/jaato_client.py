"""The documented home of `JaatoClient`."""

from __future__ import annotations

from jaato.runtime.embed import JaatoClient

__all__ = ["JaatoClient"]
