"""What each mode lets run without a question, and who changes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import (
    C4,
    NOOP,
    READ,
    RUN,
    WRITE,
    Script,
    call,
    enforced,
    step,
    tool,
)

from jaato.errors import ConfigError
from jaato.protocol.specs import SandboxAccess
from jaato.tools.permissions.access import READ_ONLY, WORKSPACE_WRITE
from jaato.tools.permissions.context import none_enforced
from jaato.tools.permissions.gate import Decision, Gate, Policy

EDIT = tool("updateFile", "write", ["path"], category="filesystem")
SPAWN = tool("shell_spawn", "execute", ["command"], confines=True)
PLAN = tool("startPlan", "read")


def run(gate: Gate, workspace: Path, command: str, *need: str, of: Any = RUN, **more: Any) -> Decision:
    """What becomes of a command."""
    if need:
        more["need"] = list(need)
    return step(gate, call(of, workspace, command=command, **more), of)


def opened(decision: Decision) -> SandboxAccess | None:
    """What an allowed call may reach."""
    assert decision.allowed, decision
    return decision.permission.access


@C4
@pytest.mark.parametrize("profiles", [enforced, none_enforced])
@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto", "plan", "read-only"])
def test_what_each_mode_lets_run_unasked(tmp_path: Path, mode: Any, profiles: Callable[[], Any]) -> None:
    """Commands that read, commands that write, edits inside and outside, control files, and everything else, by mode."""
    here = profiles is enforced
    gate = Gate(Policy().with_flags(mode=mode), workspace=tmp_path, profiles=profiles)
    auto, edits = mode == "auto", mode in ("auto", "accept-edits")
    command = run(gate, tmp_path, "make x")
    assert command.allowed is here
    if here:
        assert opened(command) == (WORKSPACE_WRITE if auto else READ_ONLY)
    assert run(gate, tmp_path, "make x", "write").allowed is (auto and here)
    for need in ("net:pypi.org", "dir:/srv", "control", "full"):
        assert not run(gate, tmp_path, "make x", need).allowed
    assert step(gate, call(EDIT, tmp_path, path="src/a"), EDIT).allowed is edits
    for path in ("../x", "/etc/x", ".git/config", ".mcp.json", "~/x", "src/../../x", "a\0b"):
        assert not step(gate, call(EDIT, tmp_path, path=path), EDIT).allowed
    for other in (NOOP, WRITE):
        assert not step(gate, call(other, tmp_path, path="src/a"), other).allowed
    assert step(gate, call(READ, tmp_path, path="src/a"), READ).allowed


@C4
def test_edits_by_a_link_or_a_patch_that_leave_the_workspace_are_asked_about(tmp_path: Path) -> None:
    """The files of a patch count like paths, and a link counts as where it leads."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "out").symlink_to(tmp_path)
    gate = Gate(Policy().with_flags(mode="accept-edits"), workspace=tmp_path / "work")

    def allowed(**arguments: Any) -> bool:
        return step(gate, call(EDIT, tmp_path / "work", **arguments), EDIT).allowed

    assert allowed(patch="--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    assert allowed(patch="--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", path="src")
    assert allowed(edits=[{"path": "a"}, {"path": "src/b"}])
    assert not allowed(path="out/x")
    assert not allowed(edits=[{"path": "a"}, {"path": "../b"}])
    for name in ("b/../../x", "/etc/x", "b/out/x"):
        assert not allowed(patch=f"--- /dev/null\n+++ {name}\n@@ -0,0 +1 @@\n+b\n")
    denying = Policy.of({"defaultPolicy": "deny"}).with_flags(mode="accept-edits")
    gate = Gate(denying, workspace=tmp_path / "work")
    assert not allowed(path="a")


@C4
def test_nothing_is_done_before_the_user_approves_a_plan(tmp_path: Path) -> None:
    """In the mode `plan` commands can only read and files are not written; a yes to the question about `startPlan`, and
    nothing else, lets work begin."""
    script = Script("n", "all", "n")
    gate = Gate(Policy().with_flags(mode="plan"), asker=script, workspace=tmp_path, profiles=enforced)
    assert opened(run(gate, tmp_path, "make x")) == READ_ONLY
    written = step(gate, call(WRITE, tmp_path, path="a", content=""), WRITE)
    assert written.permission.method == "read_only"
    assert "startPlan" in written.permission.reason
    assert not run(gate, tmp_path, "make x", "write").allowed
    assert script.questions == []
    assert not step(gate, call(PLAN, tmp_path), PLAN).allowed
    modes = [gate.mode]
    assert step(gate, call(PLAN, tmp_path), PLAN).allowed
    assert [*modes, gate.mode] == ["plan", "ask"]
    assert not run(gate, tmp_path, "make x", "write").allowed
    assert [one.tool for one in script.questions] == ["startPlan", "startPlan", "run"]
    alone = Gate(Policy().with_flags(mode="plan"), workspace=tmp_path, profiles=enforced)
    assert not step(alone, call(PLAN, tmp_path), PLAN).allowed
    allowing = Policy.of({"defaultPolicy": "allow", "whitelist": {"tools": ["startPlan"]}})
    alone = Gate(allowing.with_flags(mode="plan"), workspace=tmp_path, profiles=enforced)
    assert not step(alone, call(PLAN, tmp_path), PLAN).allowed


@C4
def test_the_mode_of_a_session_is_the_users_to_change(tmp_path: Path) -> None:
    """What was allowed for good under the mode before is judged anew; a session that began as `read-only` stays so, and one
    that was switched can be switched back."""
    gate = Gate(Policy(), workspace=tmp_path, profiles=enforced)
    assert not step(gate, call(EDIT, tmp_path, path="a"), EDIT).allowed
    gate.set_mode("auto")
    assert step(gate, call(EDIT, tmp_path, path="a"), EDIT).allowed
    gate.set_mode("read-only")
    assert not step(gate, call(EDIT, tmp_path, path="a"), EDIT).allowed
    gate.set_mode("auto")
    assert step(gate, call(EDIT, tmp_path, path="a"), EDIT).allowed
    for began in (Policy().with_flags(read_only=True), Policy(mode="read-only").with_flags(mode="auto")):
        with pytest.raises(ConfigError, match="began in the mode read-only"):
            Gate(began, workspace=tmp_path, profiles=enforced).set_mode("auto")


@C4
def test_a_start_up_file_that_is_kept_in_the_workspace_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the home has a link to a file of the workspace, that is a control file under another name, for file tools too."""
    work, home = tmp_path / "w", tmp_path / "home"
    for place in (work, home):
        place.mkdir()
    (work / "bashrc").touch()
    (work / "other").touch()
    (home / ".bashrc").symlink_to(work / "bashrc")
    monkeypatch.setenv("HOME", str(home))
    gate = Gate(Policy().with_flags(mode="accept-edits"), workspace=work, profiles=enforced)
    assert gate.explain(call(EDIT, work, path="other"), EDIT).effect == "allow"
    verdict = gate.explain(call(EDIT, work, path="bashrc"), EDIT)
    assert (verdict.effect, verdict.method, verdict.lasting) == ("ask", "control_path", False)
