"""What the tests of waypoints share: the file tools and the waypoints of one session on a real directory."""

from __future__ import annotations

import os
from pathlib import Path

from tests.files.desk import Desk

from jaato.plugins.waypoint.restore import RestoreResult, WaypointManager, list_planned_changes


class Trip:
    """A workspace, the file tools and the waypoints."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.desk = Desk(workspace)
        self.manager = WaypointManager(workspace)

    def write(self, path: str, text: str) -> None:
        """A tool's change."""
        if os.path.lexists(self.workspace / path):
            self.desk.call("updateFile", path=path, new_content=text)
        else:
            self.desk.call("writeNewFile", path=path, content=text)

    def remove(self, path: str) -> None:
        """A tool's removal."""
        self.desk.call("removeFile", path=path)

    def move(self, source: str, destination: str, overwrite: bool = False) -> None:
        """A tool's move."""
        self.desk.call("moveFile", source_path=source, destination_path=destination, overwrite=overwrite)

    def state(self) -> dict[str, str]:
        """What every file and link holds."""
        return {
            str(path.relative_to(self.workspace)): f"-> {os.readlink(path)}"
            if path.is_symlink()
            else path.read_text(errors="surrogateescape")
            for path in sorted(self.workspace.rglob("*"))
            if (path.is_symlink() or path.is_file())
            and ".jaato" not in path.relative_to(self.workspace).parts
        }


def changed(done: RestoreResult) -> dict[str, str]:
    """What going back changed."""
    return dict(list_planned_changes(done.plan))


def kept(done: RestoreResult) -> dict[str, str]:
    """What it left alone, and why."""
    return dict(done.plan.kept)
