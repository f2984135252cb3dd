"""Has what strangers sent read in a process of its own, within bounds of memory and time: HTML, PDF, YAML."""

from __future__ import annotations

from typing import Any, Literal

from jaato.errors import ToolError
from jaato.tools.apart import Bounds, wait_apart

Kind = Literal["html", "pdf", "yaml"]
NEEDED: dict[Kind, tuple[str, ...]] = {
    "html": ("selectolax", "html_to_markdown"),
    "pdf": ("pypdf",),
    "yaml": ("yaml",),
}
ADVICE: dict[Kind, str] = {
    "html": "Give a selector or fewer max_bytes, or output=raw, which reads no HTML.",
    "pdf": "Ask for an earlier offset, or use run to take the PDF apart.",
    "yaml": "Give the document as JSON.",
}
WITHIN_S = 20.0
MEMORY_BYTES = 1_500_000_000


async def read_apart(kind: Kind, data: bytes, within_s: float = WITHIN_S, **options: Any) -> dict[str, Any]:
    """What `jaato.plugins.web.reader` finds. Raises `WorkFailed`, and `ToolError` that says what to install."""
    import importlib.util

    for name in NEEDED[kind]:
        if importlib.util.find_spec(name) is None:
            raise ToolError(f"Reading {kind.upper()} needs {name}: install jaato[web].")
    bounds = Bounds(within_s, MEMORY_BYTES, advice=ADVICE[kind])
    found: dict[str, Any] = await wait_apart(f"jaato.plugins.web.reader:read_{kind}", options, bounds, data)
    return found
