"""Run the tool as the runtime does, on a real shell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

import jaato
from jaato.plugins.shell import ShellPlugin
from jaato.tools.call import Call, no_blobs, no_output

SOURCES = str(Path(jaato.__file__).parent.parent)


class OneHost:
    """A host with this workspace, configuration and environment."""

    def __init__(
        self,
        workspace: Path,
        config: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.workspace = workspace
        self.config = config or {}
        self.environ = environ

    def service(self, name: str) -> Any:
        if name == "environ" and self.environ is not None:
            return self.environ
        raise KeyError(name)


class Shell:
    """A plugin in a directory; `run` makes one call and returns what the model would read."""

    def __init__(
        self,
        workspace: Path,
        config: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.workspace = workspace
        self.plugin = ShellPlugin(OneHost(workspace, config, environ))

    def call(
        self,
        output: Callable[[str], None] = no_output,
        keep: Callable[[bytes | Path], str] = no_blobs,
    ) -> Call:
        """A call in the workspace."""
        return Call("call-1", "run", {}, workspace=self.workspace, output=output, keep=keep)

    def run(self, command: str, *args: Any, call: Call | None = None, **options: Any) -> dict[str, Any]:
        """Run it to its end."""

        async def main() -> dict[str, Any]:
            return await self.plugin.run(command, *args, **options, call=call or self.call())

        return anyio.run(main)
