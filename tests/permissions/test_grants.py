"""What an answer grants: how long, for which calls, for which exact ones only, until it is revoked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import (
    C4,
    FREE,
    NOOP,
    READ,
    RUN,
    S4,
    WRITE,
    Script,
    call,
    enforced,
    gate_of,
    step,
)

from jaato.errors import ConfigError
from jaato.protocol.specs import Grant
from jaato.tools.permissions.gate import Gate, Policy, digest_of


@S4
@pytest.mark.parametrize(
    ("answer", "same", "after_turn", "after_idle"),
    [("y", 1, 1, 1), ("once", 1, 1, 1), ("all", 1, 1, 1), ("n", 1, 1, 1), ("t", 0, 1, 1), ("i", 0, 0, 1), ("a", 0, 0, 0),
     ("never", 0, 0, 0)],
)  # fmt: skip
def test_how_long_an_answer_holds(
    tmp_path: Path, answer: str, same: int, after_turn: int, after_idle: int
) -> None:
    """`turn` ends with the response, `idle` with the session's rest, `always` and `never` do not end."""
    gate, script = gate_of(tmp_path, answer, "n", "n", "n")
    step(gate, call(NOOP, tmp_path), NOOP)

    def asked() -> int:
        before = len(script.questions)
        step(gate, call(NOOP, tmp_path, "c2", other=1), NOOP)
        return len(script.questions) - before

    assert asked() == same
    gate.end_turn()
    assert asked() == after_turn
    gate.go_idle()
    assert asked() == after_idle


@C4
def test_a_grant_on_a_command_covers_its_structure(tmp_path: Path) -> None:
    """What the question shows is exactly what a lasting answer allows."""
    gate, script = gate_of(tmp_path, "t", "n", "n", "n", "n")
    assert step(gate, call(FREE, tmp_path, command="git commit -m x && pytest -q | tail -n 3"), FREE).allowed
    assert script.questions[0].shape == "git commit *\npytest *\ntail *"

    def allowed(command: str) -> bool:
        return step(gate, call(FREE, tmp_path, command=command), FREE).allowed

    assert allowed("pytest tests; git commit -m 'y'")
    for command in ("git commit -m x; rm y", "git commit -m $(x)", "git push", "pytest > x"):
        assert not allowed(command)
    assert allowed("tail -n 1 x; pytest")


@C4
@pytest.mark.parametrize("answer", ["a", "t", "i"])
@pytest.mark.parametrize(
    ("tool_", "arguments"),
    [(WRITE, {"path": ".git/hooks/pre-commit", "content": ""}), (WRITE, {"path": "x/../.jaato/permissions.json", "content": ""}),
     (WRITE, {"path": ".MCP.json", "content": ""}), (WRITE, {"path": "link/config", "content": ""}),
     (WRITE, {"path": "hard", "content": ""}), (WRITE, {"path": "~/.bashrc", "content": ""}),
     (WRITE, {"edits": [{"path": ".git/config"}]}), (WRITE, {"pattern_root": "**/*"}),
     (RUN, {"command": "cp x .git/hooks/pre-commit", "need": ["control"]}), (RUN, {"command": "ls", "need": ["write", "full"]}),
     (RUN, {"command": "git config core.hooksPath x", "need": ["net:a.example", "control"]})],
    ids=lambda value: getattr(value, "name", str(value)),
)  # fmt: skip
def test_control_paths_are_written_for_one_call_only(
    tmp_path: Path, answer: str, tool_: Any, arguments: dict[str, Any]
) -> None:
    """No whitelist, default or lasting answer covers writing a control path, or doing without a sandbox: each call of it
    is asked about."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("")
    (tmp_path / "link").symlink_to(".git")
    (tmp_path / "hard").hardlink_to(tmp_path / ".git" / "config")
    script = Script(answer, "n")
    policy = Policy.of(
        {"defaultPolicy": "allow", "whitelist": {"tools": ["run", "writeNewFile"], "patterns": ["*"]}}
    )
    session = [Grant(id=name, effect="allow", tool=name, scope="session") for name in ("run", "writeNewFile")]
    gate = Gate(policy, asker=script, workspace=tmp_path, grants=session, profiles=enforced)
    one = call(tool_, tmp_path)
    one.arguments = arguments
    assert gate.explain(one, tool_).method == "control_path"
    assert step(gate, one, tool_).allowed
    assert script.questions[0].shape is None
    assert gate.grants() == session
    assert not step(gate, one, tool_).allowed


@C4
def test_digest_binds_tool_arguments_and_directory(tmp_path: Path) -> None:
    """Two calls have one digest only if tool, arguments and directory are the same."""
    base = digest_of(call(NOOP, tmp_path, a=1, b=[1, {"x": "\ud800"}]))
    assert base == digest_of(call(NOOP, tmp_path, "other", b=[1, {"x": "\ud800"}], a=1))
    others = [
        call(READ, tmp_path, a=1, b=[1, {"x": "\ud800"}]),
        call(NOOP, tmp_path / "x", a=1, b=[1, {"x": "\ud800"}]),
        call(NOOP, tmp_path, a=2),
    ]
    assert base not in {digest_of(one) for one in others}
    assert len(base) == 64


@C4
def test_a_once_grant_is_for_one_exact_call(tmp_path: Path) -> None:
    """An approval kept over a restart lets exactly that call through, once."""
    one = call(NOOP, tmp_path, a=1)
    grant = Grant(id="g", effect="allow", tool="noop", scope="once", shape=digest_of(one))
    gate = Gate(Policy(), workspace=tmp_path, grants=[grant])
    assert not step(gate, call(NOOP, tmp_path, a=2), NOOP).allowed
    assert step(gate, one, NOOP).permission.method == "once"
    assert not step(gate, one, NOOP).allowed


@C4
def test_grants_can_be_listed_and_revoked(tmp_path: Path) -> None:
    """Grants are objects with an origin; a revoked one no longer holds, here or in the file."""
    began: list[Grant] = []
    ended: list[Grant] = []
    policy = Policy.load(
        tmp_path / ".jaato" / "permissions.json", workspace=tmp_path, state_dir=tmp_path / "state"
    )
    gate = Gate(
        policy, asker=Script("a", "t"), workspace=tmp_path, on_grant=began.append, on_revoke=ended.append
    )
    step(gate, call(FREE, tmp_path, command="make x"), FREE)
    step(gate, call(NOOP, tmp_path), NOOP)
    assert [(one.tool, one.scope, one.shape, one.created_by) for one in gate.grants()] == [
        ("run", "always", "make x", "tester"), ("noop", "turn", None, "tester")
    ]  # fmt: skip
    assert all(one.evidence and one.created_at and one.workspace == str(tmp_path) for one in began)
    for one in gate.grants():
        gate.revoke(one.id)
    assert gate.grants() == []
    assert ended == began
    assert not step(gate, call(FREE, tmp_path, command="make x"), FREE).allowed
    with pytest.raises(ConfigError, match="no grant 'g'"):
        gate.revoke("g")
