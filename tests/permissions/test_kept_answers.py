"""Lasting answers: kept in file and book, over a restart, between processes, and never more than was said."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from tests.permissions.ground import C4, FREE, NOOP, Script, call, step
from tests.permissions.policies import LOOSE, allowed, file_of, load

from jaato.protocol.specs import Grant
from jaato.tools.permissions.gate import Gate, Policy


@C4
def test_always_and_never_survive_a_restart(tmp_path: Path) -> None:
    """Both are written to the file, private and whole, and hold in the next process."""
    script = Script("a", "never")
    gate = Gate(load(tmp_path), asker=script, workspace=tmp_path)
    assert step(gate, call(FREE, tmp_path, command="git commit -m x"), FREE).allowed
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed
    path = tmp_path / ".jaato" / "permissions.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = json.loads(path.read_bytes())
    assert document["whitelist"]["patterns"] == ["run(git commit *)"]
    assert document["blacklist"]["tools"] == ["noop"]
    again = load(tmp_path)
    assert allowed(again, tmp_path, "git commit -m y")
    assert not allowed(again, tmp_path, "git push")
    assert Gate(again, workspace=tmp_path).explain(call(NOOP, tmp_path), NOOP).method == "blacklist"
    assert [(one.tool, one.effect) for one in again.grants()] == [("run", "allow"), ("noop", "deny")]


@C4
def test_always_trusts_exactly_its_own_write(tmp_path: Path) -> None:
    """Answering `always` in a workspace with a loose file believes the new line, never the lines that came
    with it."""
    file_of(tmp_path, {**LOOSE, "whitelist": {"patterns": ["run(rm *)"]}, "comment": "kept"})
    gate = Gate(load(tmp_path), asker=Script("a"), workspace=tmp_path)
    assert step(gate, call(FREE, tmp_path, command="make x"), FREE).allowed
    again = load(tmp_path)
    assert allowed(again, tmp_path, "make x")
    assert not allowed(again, tmp_path, "rm x")
    assert not allowed(again, tmp_path)
    document = json.loads((tmp_path / ".jaato" / "permissions.json").read_bytes())
    assert document["comment"] == "kept"
    assert document["whitelist"]["patterns"] == ["run(rm *)", "run(make x)"]


@C4
def test_a_file_swapped_after_always_is_not_trusted(tmp_path: Path) -> None:
    """A later change of the file ends the trust, but not the answer that is kept beside it."""
    gate = Gate(load(tmp_path), asker=Script("a"), workspace=tmp_path)
    step(gate, call(FREE, tmp_path, command="make x"), FREE)
    path = tmp_path / ".jaato" / "permissions.json"
    document = json.loads(path.read_bytes())
    document["whitelist"]["tools"] = ["run"]
    path.write_text(json.dumps(document))
    assert allowed(load(tmp_path), tmp_path, "make x")
    assert not allowed(load(tmp_path), tmp_path, "make y")


@C4
def test_never_for_a_command_that_has_no_shape(tmp_path: Path) -> None:
    """A refused command is refused by its exact text when nothing more general can be said of it."""
    command = "for f in *; do rm [$f]; done"
    gate = Gate(load(tmp_path), asker=Script("never"), workspace=tmp_path)
    assert not step(gate, call(FREE, tmp_path, command=command), FREE).allowed
    again = Gate(load(tmp_path), workspace=tmp_path)
    assert again.explain(call(FREE, tmp_path, command=command), FREE).method == "blacklist"
    assert again.explain(call(FREE, tmp_path, command="for f in a; do rm $f; done"), FREE).method == "default"


@C4
def test_a_running_session_hears_of_another_process(tmp_path: Path) -> None:
    """`never` given elsewhere holds here from the next turn on."""
    here = Gate(load(tmp_path), asker=Script("t"), workspace=tmp_path)
    there = Gate(load(tmp_path), asker=Script("never"), workspace=tmp_path)
    assert step(here, call(NOOP, tmp_path), NOOP).allowed
    step(there, call(NOOP, tmp_path), NOOP)
    here.end_turn()
    assert step(here, call(NOOP, tmp_path), NOOP).permission.method == "blacklist"


@C4
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """Four processes keep ten answers each: all forty are in the file, in the book and in force."""
    code = """
import os, sys
from pathlib import Path
from tests.permissions.ground import FREE, Script, call, step
from tests.permissions.policies import load
from jaato.tools.permissions.gate import Gate
root = Path(sys.argv[1])
def keep(name):
    gate = Gate(load(root), asker=Script(*["a"] * 10), workspace=root)
    for n in range(10):
        assert step(gate, call(FREE, root, command=f"make {name}{n}"), FREE).allowed
for name in sys.argv[2:]:
    if os.fork() == 0:
        keep(name)
        break
else:
    print([os.wait()[1] for _ in sys.argv[2:]])
"""
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *"abcd"], env=environ, capture_output=True, check=False
    )
    assert done.stdout == b"[0, 0, 0, 0]\n", done.stderr
    policy = load(tmp_path)
    assert len(policy.grants()) == 40
    assert all(allowed(policy, tmp_path, f"make {name}{n}") for name in "abcd" for n in range(10))


@C4
def test_an_answer_that_cannot_be_kept_counts_once(tmp_path: Path) -> None:
    """On a directory that cannot be written `always` allows this call, says so, and grants nothing."""
    (tmp_path / ".jaato").write_text("in the way")
    gate = Gate(
        Policy.load(tmp_path / "nowhere" / "p.json", workspace=tmp_path, state_dir=tmp_path / "s"),
        asker=Script("a", "never"),
        workspace=tmp_path,
    )
    (tmp_path / "nowhere").write_text("in the way")
    decision = step(gate, call(NOOP, tmp_path), NOOP)
    assert (decision.allowed, decision.permission.method) == (True, "user_approved")
    assert "could not be kept" in decision.permission.reason
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert gate.explain(call(NOOP, tmp_path), NOOP).effect == "deny"


def test_grants_of_another_workspace_do_not_hold(tmp_path: Path) -> None:
    """A session's grant is for its workspace."""
    grant = Grant(id="g", effect="allow", tool="noop", scope="session", workspace="/elsewhere")
    gate = Gate(Policy(), workspace=tmp_path, grants=[grant])
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed


@C4
def test_a_lasting_answer_keeps_a_file_with_lone_surrogates(tmp_path: Path) -> None:
    """What JSON can say and UTF-8 cannot is written back as it was said."""
    path = tmp_path / "policy.json"
    path.write_text('{"note": "\\ud800", "version": 1}')
    policy = Policy.load(path, workspace=tmp_path, state_dir=tmp_path / "state", trusted=True)
    gate = Gate(policy, asker=Script("a"), workspace=tmp_path)
    assert step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert json.loads(path.read_bytes())["note"] == "\ud800"
    assert json.loads(path.read_bytes())["whitelist"]["tools"] == ["noop"]
