"""Answers on their way to the server, and other work that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from jaato.abc.asker import Answer
from jaato.cli.asked import response_to
from jaato.cli.screen import Screen, one_line
from jaato.client.connection import Client
from jaato.errors import JaatoError
from jaato.protocol.commands import Command
from jaato.protocol.frames import Settled


class RemoteDesk:
    """Takes the answers of a terminal for one session."""

    def __init__(self, client: Client, screen: Screen) -> None:
        self.client = client
        self.session_id = ""
        self._screen = screen
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, question_id: str, answer: Answer | list[str | None], /) -> None:
        """Give the server an answer; another terminal may be faster."""
        self.later(self._answer(response_to(self.session_id, question_id, answer)))

    async def _answer(self, command: Command) -> None:
        settled = await self.client.ask(command)
        if isinstance(settled, Settled) and not settled.accepted and settled.answer:
            who = one_line(settled.by, 80) or "Somebody"
            self._screen.note(f"{who} has answered before: {one_line(settled.answer, 300)}", "yellow")

    def later(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something without waiting for it; what fails is said."""

        async def guarded() -> None:
            try:
                await work
            except JaatoError as error:
                self._screen.note(str(error), "red")

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
