"""What the tests of searching share: files to search, and a call of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaato.plugins.search.plugin import SearchPlugin
from jaato.tools.call import Call, Output
from jaato.tools.tool import tools_of


class Desk:
    """A workspace as a plugin's host."""

    def __init__(self, workspace: Path, granted: list[Path] | None = None) -> None:
        self.workspace = workspace
        self.config: Mapping[str, Any] = {"granted": granted or []}

    def service(self, name: str) -> Any:
        raise KeyError(name)


def call_tool(workspace: Path, name: str, call: Call | None = None, **arguments: Any) -> Output:
    """Call one tool of the plugin as the pipeline does."""
    plugin = SearchPlugin(Desk(workspace))
    [found] = [tool for tool in tools_of(plugin, "search") if tool.name == name]
    assert found.issues(arguments) == []
    output = found.run(arguments, call or Call("c1", name, arguments, workspace=workspace))
    assert isinstance(output, Output)
    return output


def plant(home: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the files."""
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
