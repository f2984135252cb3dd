"""The screen of the waypoints: the tree, what restoring one would change, restore, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaato.tui.screens.list_screen import Action, Line, LinkSubject, Row


class WaypointSubject(LinkSubject[str]):
    """The waypoints as a tree; the preview says what restoring one would change."""

    title = "Waypoints"
    empty = "No waypoint yet: /waypoint create TEXT makes one."

    async def rows(self, _query: str) -> Sequence[Row[str]]:
        """The tree, as the session draws it."""
        lines = (await self._link.session.execute("waypoint", "list")).splitlines()
        return [Row(found, line, found) for line in lines if (found := find_waypoint_id(line))]

    async def preview(self, row: Row[str]) -> Sequence[Line]:
        """What it is, and what restoring it would change."""
        return [
            (line, "")
            for line in (await self._link.session.execute("waypoint", f"info {row.id}")).splitlines()
        ]

    def actions(self) -> Mapping[str, Action[str]]:
        """Restore or delete it."""
        return {
            "ctrl+r": Action("restore the files", self._restore),
            "ctrl+d": Action("delete", self._delete),
        }

    async def _restore(self, row: Row[str]) -> str:
        return await self._link.session.execute("waypoint", f"restore {row.id}")

    async def _delete(self, row: Row[str]) -> str:
        return await self._link.session.execute("waypoint", f"delete {row.id}")


def find_waypoint_id(line: str) -> str:
    """The id in a line of the tree; empty without one."""
    words = line.strip("│├└─ ").split(maxsplit=1)
    return words[0] if words else ""
