"""A permission file that is not trusted says so in the denial and in `explain`, and the command it names trusts it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment, call, say

from jaato.plugins.permission import PermissionPlugin

ALLOW = json.dumps({"whitelist": {"patterns": ["touch *"]}})
MAKE = ("run", {"command": "touch made", "need": ["write"]})


def test_the_denial_and_explain_name_file_and_command(tmp_path: Path) -> None:
    """In a run nobody can be asked: the denial and `explain` name the file that came with the workspace and the command,
    which makes the same call run; a change of the file brings both back. Without allow rules nothing is said."""
    desk = CliEnvironment(tmp_path)
    file = desk.work / ".jaato" / "permissions.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"blacklist": {"patterns": ["rm *"]}}))
    script = desk.script(call("run", **MAKE[1]), say("Over."))
    assert "not trusted" not in desk.run("run", *script, "go").stderr
    file.write_text(ALLOW)
    denied = desk.run("run", *script, "go")
    command = f"jaato permissions trust {file}"
    assert denied.returncode == 4
    for text in (denied.stderr, desk.run("permissions", "explain", "touch made").stdout):
        assert f"{file} is not trusted" in text
        assert command in text
    assert (
        command in json.loads(desk.run("permissions", "explain", "--json", "touch made").stdout)["distrust"]
    )
    trusted = desk.run(*shlex.split(command)[1:], cwd=tmp_path)
    assert trusted.returncode == 0, trusted.stderr
    assert "not trusted" not in desk.run("permissions", "explain", "touch made").stdout
    assert desk.run("run", *script, "go").returncode == 0
    assert (desk.work / "made").exists()
    file.write_text(ALLOW + "\n")
    assert f"{file} is not trusted" in desk.run("run", *script, "go").stderr


@pytest.mark.parametrize("name", ["rules.json", ".jaato/permissions.json"])
def test_a_path_that_a_program_passes(tmp_path: Path, name: str) -> None:
    """Absolute and outside of the workspace, or with `trusted=True`, it holds as it was read at construction: what it allows
    later does not, what it denies later does. One of the workspace, or a link to one, needs trust."""
    work, state = tmp_path / "work", tmp_path / "state"
    for place in (work, tmp_path / "own"):
        (place / name).parent.mkdir(parents=True)
        (place / name).write_text(ALLOW)

    def plugin(path: Path | str, trusted: bool | None = None) -> PermissionPlugin:
        return PermissionPlugin(
            path, "queue", workspace=work, state_dir=state, trusted=trusted, channel=nobody
        )

    outside = tmp_path / "own" / name
    for made, file in ((plugin(outside), outside), (plugin(name, True), work / name)):
        assert made.check_permission(*MAKE)[0], file
        file.write_text(json.dumps({"whitelist": {"patterns": ["touch *", "cp *"]}}))
        assert not made.check_permission("run", {"command": "cp a b", "need": ["write"]})[0]
        file.write_text(json.dumps({"blacklist": {"patterns": ["touch *"]}}))
        made.gate.policy.reload()
        assert not made.check_permission(*MAKE)[0]
        file.write_text(ALLOW)
    link = tmp_path / "link.json"
    link.symlink_to(work / name)
    for path in (name, str(work / name), str(link)):
        allowed, answer = plugin(path).check_permission(*MAKE)
        assert not allowed
        assert "is not trusted" in answer["reason"]
        assert "`jaato permissions trust " in answer["reason"]
    assert not plugin(outside, False).check_permission(*MAKE)[0]


class Nobody:
    """Nobody can answer."""

    def ask(self, question: object) -> None:
        """There is no answer."""


nobody = Nobody()
