"""The documented home of the registry's domain modules; one that is added here is found by its name."""

from __future__ import annotations

from jaato.runtime.domains import load_domains

__all__ = ["load_domains"]
