"""A cell that does not end, and waiting until it runs: no machine is too slow for it."""

from __future__ import annotations

import anyio
from tests.plugin_workspace import Bench


def endless(bench: Bench) -> str:
    """The code of a cell that says when it has begun, and sleeps."""
    return f"open({str(bench.workspace / 'begun')!r}, 'w').close()\nimport time\ntime.sleep(1000)"


async def begun(bench: Bench) -> None:
    """Return once such a cell runs."""
    sign = bench.workspace / "begun"
    with anyio.fail_after(60):
        while not sign.exists():
            await anyio.sleep(0.01)
    sign.unlink()
