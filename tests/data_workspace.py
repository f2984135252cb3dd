"""A workspace for the tests of the data tools: a plugin on a real directory, and calls of its tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaato.abc.plugin import Plugin
from jaato.tools.call import Call
from jaato.tools.cancel import CancelToken
from jaato.tools.tool import tools_of


class Desk:
    """One plugin at work in a directory; calls go through the tool's own schema, as in the pipeline."""

    def __init__(self, kind: type[Plugin], workspace: Path, config: Mapping[str, Any] | None = None) -> None:
        workspace.mkdir(parents=True, exist_ok=True)
        self.workspace = workspace
        self.config: Mapping[str, Any] = config or {}
        self.plugin = kind(self)
        self.tools = {tool.name: tool for tool in tools_of(self.plugin, kind.name)}

    def service(self, name: str) -> Any:
        """None is offered."""
        raise KeyError(name)

    def call(self, name: str, /, token: CancelToken | None = None, **arguments: Any) -> Any:
        """Call a tool: checked against its schema first."""
        tool = self.tools[name]
        issues = tool.issues(arguments)
        assert not issues, issues
        call = Call("c1", name, arguments, workspace=self.workspace, token=token or CancelToken())
        return tool.run(arguments, call)
