"""Play commands through the `run` tool in the sandbox, as the user who starts this; print each result as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from tests.shell.running import OneHost

from jaato.plugins.shell.plugin import ShellPlugin
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call
from jaato.tools.control_names import control_names
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


def main() -> None:
    """Play the commands of the order on the command line."""
    order = json.loads(sys.argv[1])
    player = Player(Path(order["workspace"]), Path(order["state"]), tuple(order.get("more", ())))

    async def play() -> None:
        for step in order["steps"]:
            print(json.dumps(await player.play(step["command"], **step.get("access", {}))), flush=True)

    try:
        anyio.run(play)
    finally:
        player.close()


if __name__ == "__main__":
    main()
