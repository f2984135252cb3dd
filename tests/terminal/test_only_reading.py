"""A terminal whose program can only read: what is typed there needs no question, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.terminal.desk import Desk

from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Gate, Policy
from jaato.tools.tool import tool_from

C4 = pytest.mark.spec("C4", "Permissions")


@C4
@pytest.mark.parametrize("profile", ["read-only", "workspace-write"])
def test_a_terminal_reaches_what_its_start_was_allowed(tmp_path: Path, profile: str) -> None:
    """A shell at a read-only terminal is typed into unasked and writes nothing; another one asks, and writes here only."""
    desk = Desk(tmp_path / "work")
    (tmp_path / "work").mkdir()
    spawn, typing = tool_from(desk.plugin.shell_spawn), tool_from(desk.plugin.shell_input)
    document = {"whitelist": {"patterns": ["shell_spawn(bash *)"]}} if profile == "workspace-write" else {}
    gate = Gate(
        Policy.of(document), workspace=tmp_path / "work", profiles=lambda: desk.plugin.sandbox.profiles
    )

    def call(name: str, **arguments: str) -> Call:
        return Call("c", name, arguments, workspace=tmp_path / "work", session_id="s1")

    async def main() -> None:
        started = call("shell_spawn", command="bash --norc")
        decision = await gate.check(started, spawn)
        assert decision.permission.access == SandboxAccess(profile)  # type: ignore[arg-type]
        started.access = decision.permission.access
        made, _ = await desk.plugin.shell_spawn("bash --norc", call=started)
        text = "touch made /usr/outside; echo done-$?"
        entered = call("shell_input", session_id=made["session_id"], text=text)
        permission = (await gate.check(entered, typing)).permission
        assert permission.method == ("sandbox" if profile == "read-only" else "no_channel")
        other = call("shell_input", session_id="t-other", text=text)
        assert not (await gate.check(other, typing)).allowed
        other = Call("c", "shell_input", dict(entered.arguments), workspace=tmp_path, session_id="s2")
        assert not (await gate.check(other, typing)).allowed
        await desk.plugin.shell_input(made["session_id"], text, call=entered)
        await desk.until(made["session_id"], lambda seen: "done-1" in str(seen.get("screen", seen)))
        await desk.close(made["session_id"])

    try:
        anyio.run(main)
    finally:
        desk.plugin.shutdown()
    assert (tmp_path / "work" / "made").exists() is (profile == "workspace-write")
    assert not Path("/usr/outside").exists()
