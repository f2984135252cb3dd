"""The documented home of `JaatoClient`."""

from __future__ import annotations

from jaato.runtime.embedding.client import JaatoClient

__all__ = ["JaatoClient"]
