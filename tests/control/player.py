"""Play commands through the `run` tool in the sandbox, as the user who starts this.

As a program it reads an order as JSON from each line that comes in, and answers with a line of JSON.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import anyio
from tests.shell.running import OneHost

from jaato.plugins.shell import ShellPlugin
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call
from jaato.tools.filesystem.control_files import control_names
from jaato.tools.processes.sandbox.sandbox import Sandbox


class Host(OneHost):
    """A host that lends a sandbox for its workspace."""

    def __init__(self, workspace: Path, state: Path, more: tuple[str, ...] = ()) -> None:
        environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(workspace.parent / "home")}
        super().__init__(workspace, environ=environ)
        self.sandbox = Sandbox(
            workspace,
            environ=environ,
            private=(state,),
            cache=state / "cache",
            names=control_names(more),
            quarantine=state / "removed",
        )

    def service(self, name: str) -> Any:
        return self.sandbox if name == "sandbox" else super().service(name)


class Player:
    """The `run` tool in a workspace, in the sandbox that lets it write there."""

    def __init__(self, workspace: Path, state: Path, more: tuple[str, ...] = ()) -> None:
        self.host = Host(workspace, state, more)
        self.plugin = ShellPlugin(self.host)
        self.workspace = workspace

    async def play(self, command: str, **access: Any) -> dict[str, Any]:
        """Run one command to its end."""
        given = SandboxAccess(access.pop("profile", "workspace-write"), **access)
        call = Call("call-1", "run", {}, workspace=self.workspace, access=given)
        return await self.plugin.run(command, call=call)

    def close(self) -> None:
        """End the warden."""
        self.plugin.shutdown()
        self.host.sandbox.close()


def played(order: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of the commands of an order, in a session of their own."""
    player = Player(Path(order["workspace"]), Path(order["state"]), tuple(order.get("more", ())))

    async def play() -> list[dict[str, Any]]:
        return [await player.play(step["command"], **step.get("access", {})) for step in order["steps"]]

    try:
        return anyio.run(play)
    finally:
        player.close()


def main() -> None:
    """Play the order on each line that comes in, until there is no more."""
    for line in sys.stdin:
        try:
            print(json.dumps({"results": played(json.loads(line))}), flush=True)
        except Exception:
            print(json.dumps({"failure": traceback.format_exc()}), flush=True)


if __name__ == "__main__":
    main()
