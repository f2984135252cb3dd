"""The screens that list what a command writes, as of usage and permissions, and the plans of all agents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jaato.cli.output.transcript import plan_lines
from jaato.protocol.specs import Plan
from jaato.tui.link import Link
from jaato.tui.plans import find_plans, summarize_plan
from jaato.tui.screens.list_screen import Line, LinkSubject, Row

USAGE = {
    "by agent": "usage agent",
    "by model": "usage model",
    "by tool": "usage tool",
    "by day": "usage day",
}
PERMISSIONS = {"lasting answers": "permissions", "mode": "mode"}
PINS = {"pinned texts": "pin"}


class TextSubject(LinkSubject[str]):
    """The texts of commands, one for each row."""

    def __init__(self, link: Link, title: str, commands: Mapping[str, str]) -> None:
        super().__init__(link)
        self.title = title
        self._commands = commands

    async def rows(self, _query: str) -> Sequence[Row[str]]:
        """The commands."""
        return [Row(command, label, command) for label, command in self._commands.items()]

    async def preview(self, row: Row[str]) -> Sequence[Line]:
        """What the command writes."""
        name, _, rest = row.id.partition(" ")
        lines = (await self._link.session.execute(name, rest)).splitlines()
        return [(line, "") for line in (drop_empty_columns(lines) if name == "usage" else lines)]


def drop_empty_columns(lines: Sequence[str]) -> list[str]:
    """A table without the columns that have nothing but zeros, so that it is narrower; lines below it stay."""
    starts = [found.start() for found in re.finditer(r"\S+", lines[0])] if lines else []
    rows = (
        [line for line in lines if len(line) > starts[-1] and line[starts[-1] - 1 : starts[-1]] == " "]
        if starts
        else []
    )
    ends = [*starts[1:], None]
    table = [[row[start:end].strip() for start, end in zip(starts, ends, strict=True)] for row in rows]
    kept = [at for at in range(len(starts)) if any(row[at] not in ("", "0") for row in table[1:])]
    if len(table) < 2 or rows != list(lines[: len(rows)]):
        return list(lines)
    widths = [max(len(row[at]) for row in table) for at in kept]
    made = ["  ".join(f"{row[at]:<{width}}" for at, width in zip(kept, widths, strict=True)) for row in table]
    return [line.rstrip() for line in made] + list(lines[len(rows) :])


class PlanSubject(LinkSubject[Plan]):
    """The plans of all agents, with their steps."""

    title = "Plans"
    empty = "There is no plan."

    async def rows(self, _query: str) -> Sequence[Row[Plan]]:
        """The current plan of each agent, the root agent's first."""
        names = self._link.conversation.names.name_of
        found = find_plans(self._link.session.state)
        return [
            Row(agent_id, f"{names(agent_id) or 'main'}: {summarize_plan(plan)}", plan)
            for agent_id, plan in found
        ]

    async def preview(self, row: Row[Plan]) -> Sequence[Line]:
        """The steps."""
        return [(line, "") for line in plan_lines(row.item)]
