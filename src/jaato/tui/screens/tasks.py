"""The screen of the background tasks: state, call and output as it comes, stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaato.cli.output.wording import call_text
from jaato.protocol.commands import TaskStop
from jaato.tui.link import Link
from jaato.tui.screens.list_screen import Action, Line, LinkSubject, Row
from jaato.tui.transcript.blocks import CallBlock

CALL_WIDTH = 200


class TaskSubject(LinkSubject[str]):
    """The background tasks, the running ones first, with the newest of their output as it comes."""

    title = "Background tasks"
    empty = "There are no background tasks."
    refresh_s = 0.5

    def __init__(self, link: Link, first: str = "") -> None:
        super().__init__(link)
        self.first = first

    async def rows(self, _query: str) -> Sequence[Row[str]]:
        """State and call of each."""
        lines = (await self._link.session.execute("tasks")).splitlines()
        calls = self._find_calls()
        found: list[Row[str]] = []
        for line in lines:
            task_id, blank, facts = line.partition("  ")
            if blank:
                text = f"{facts.partition('  ')[0]}  {calls[task_id]}" if task_id in calls else facts
                found.append(Row(task_id, text, task_id, line))
        return sorted(found, key=lambda row: row.id != self.first)

    def _find_calls(self) -> dict[str, str]:
        """The calls that made the tasks, by the task's id, as far as the conversation has them."""
        blocks = [block for layout in self._link.conversation.layouts.values() for block in layout.blocks]
        return {
            block.task_id: call_text(block.tool, block.arguments, CALL_WIDTH)
            for block in blocks
            if isinstance(block, CallBlock) and block.task_id
        }

    async def preview(self, row: Row[str]) -> Sequence[Line]:
        """The call that made it, and the newest of its output."""
        call = self._find_calls().get(row.id)
        head = [(call, "bold")] if call is not None else []
        lines = (await self._link.session.execute("tasks", row.id)).splitlines()
        return [*head, *((line, "") for line in lines)]

    def actions(self) -> Mapping[str, Action[str]]:
        """Stop it."""
        return {"ctrl+d": Action("stop", self._stop)}

    async def _stop(self, row: Row[str]) -> None:
        await self._link.client.ask(TaskStop(session_id=self._link.session.id, task_id=row.id))
