"""What the file tools cost, in CPU time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.row import Row

from jaato.plugins.files.plugin import FilesPlugin
from jaato.tools.call import Call


class Place:
    """A host for the plugin: a workspace and no services."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.config: Mapping[str, Any] = {}

    def service(self, name: str) -> Any:
        """None is offered."""
        raise KeyError(name)


def best(work: Callable[[int], object], times: int = 20) -> float:
    """The least CPU milliseconds of one run."""
    costs = []
    for number in range(times):
        start = time.process_time()
        work(number)
        costs.append(time.process_time() - start)
    return min(costs) * 1000


def rows() -> list[Row]:
    """The figures of the file tools."""
    with tempfile.TemporaryDirectory() as name:
        workspace = Path(name)
        plugin = FilesPlugin(Place(workspace))
        call = Call(id="c", name="bench", arguments={})
        text = "".join(
            f"line {number:06} of a file of one megabyte, more or less\n" for number in range(19_000)
        )
        (workspace / "big").write_text(text)
        (workspace / "small").write_text("".join(f"line {number:06}\n" for number in range(100)))
        small, big = "100 lines", f"{len(text)} bytes"

        def update(path: str, number: int) -> None:
            old, new = ("line 000050", "LINE 000050") if number % 2 == 0 else ("LINE 000050", "line 000050")
            plugin.updateFile(path, old=old, new=new, call=call)

        return [
            Row("readFile", best(lambda _: plugin.readFile("small", call=call)), "ms", 1.0, small),
            Row("readFile, first window", best(lambda _: plugin.readFile("big", call=call)), "ms", 5.0, big),
            Row(
                "readFile, last lines",
                best(lambda _: plugin.readFile("big", -20, call=call)),
                "ms",
                10.0,
                big,
            ),
            Row("updateFile", best(lambda number: update("small", number)), "ms", 3.0, small),
            Row("updateFile", best(lambda number: update("big", number)), "ms", 25.0, big),
            Row(
                "path resolved and opened",
                best(lambda _: [plugin.roots.open_file("small").close() for _ in range(1000)], 5),
                "µs",
                40.0,
                "one name in the workspace",
            ),
        ]
