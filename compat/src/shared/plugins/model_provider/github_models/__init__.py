"""The documented home of the GitHub Models provider."""

from __future__ import annotations

from jaato.runtime.embedding.providers import GitHubModelsProvider

__all__ = ["GitHubModelsProvider"]
