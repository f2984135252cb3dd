"""What the tests of the file tools share: a plugin on a real directory, and calls of its tools."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaato.plugins.files.plugin import FilesPlugin
from jaato.tools.call import Call, Output
from jaato.tools.tool import tools_of


class Desk:
    """A workspace, the file tools on it, and the blobs they keep."""

    def __init__(self, workspace: Path, config: Mapping[str, Any] | None = None) -> None:
        workspace.mkdir(parents=True, exist_ok=True)
        self.workspace = workspace
        self.config = config or {}
        self.blobs: dict[str, bytes] = {}
        self.plugin = FilesPlugin(self)
        self.tools = {tool.name: tool for tool in tools_of(self.plugin, "file_edit")}

    def service(self, name: str) -> Any:
        """None is offered."""
        raise KeyError(name)

    def keep(self, data: bytes | Path) -> str:
        """Store bytes; returns their handle."""
        content = data.read_bytes() if isinstance(data, Path) else data
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return f"result:{digest}"

    def read_handle(self, handle: str, offset: int, limit: int) -> bytes:
        """Bytes of a blob."""
        return self.blobs[handle.removeprefix("result:")][offset : offset + limit]

    def call(self, name: str, **arguments: Any) -> Any:
        """Call a tool as the pipeline does: checked against its schema first."""
        tool = self.tools[name]
        issues = tool.issues(arguments)
        assert not issues, issues
        call = Call(
            id="c1",
            name=name,
            arguments=arguments,
            keep=self.keep,
            read_handle=self.read_handle,
        )
        return tool.run(arguments, call)

    def read(self, path: str, **more: Any) -> str:
        """What readFile says."""
        said = self.call("readFile", path=path, **more)
        return said.text if isinstance(said, Output) else said


def state(desk: Desk) -> dict[str, bytes]:
    """Every file of the workspace."""
    return {
        str(path.relative_to(desk.workspace)): path.read_bytes()
        for path in desk.workspace.rglob("*")
        if path.is_file() and ".jaato" not in path.parts
    }
