"""The documented home of `MultimodalPlugin`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import MultimodalPlugin

__all__ = ["MultimodalPlugin"]
