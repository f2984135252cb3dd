"""What is to be done again and again while a registry serves, and what is said where that breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from jaato.log import logger

LOG = logger("server.registry")


@asynccontextmanager
async def looked_after(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do these while the body runs; in the end they are cancelled, and nobody waits for them. One that breaks off ends
    nothing else: the doors beside serve on, and the log says so at once."""
    tasks = [asyncio.create_task(work) for work in works]
    for task in tasks:
        task.add_done_callback(note_end)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def note_end(task: asyncio.Task[None]) -> None:
    """Log why a work has broken off."""
    if not task.cancelled() and (error := task.exception()) is not None:
        LOG.critical(
            "Time limits and old calls are not looked after any more; restart the registry", exc_info=error
        )
