"""The documented home of `GitHubModelsProvider`."""

from __future__ import annotations

from jaato.runtime.embedding.providers import GitHubModelsProvider

__all__ = ["GitHubModelsProvider"]
