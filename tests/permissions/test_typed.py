"""Terminals: what starts one is a command like any other, what is typed into one is covered by nothing but a rule for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.permissions.ground import C4, Script, call, step, tool

from jaato.protocol.specs import Grant, SandboxAccess
from jaato.tools.permissions.access import READ_ONLY
from jaato.tools.permissions.gate import Gate, Policy
from jaato.tools.tool import Tool

SPAWN = tool("shell_spawn", "execute", ["command"])
INPUT = tool("shell_input", "execute", ["session_id"])
RUN = tool("run", "execute", ["command"])


def typing(
    gate: Gate, workspace: Path, text: str = "", session_id: str = "t-1", /, **more: Any
) -> tuple[bool, str]:
    """What becomes of typing this."""
    decision = step(gate, call(INPUT, workspace, session_id=session_id, text=text, **more), INPUT)
    return decision.allowed, decision.permission.method


@C4
@pytest.mark.parametrize(
    "rule", ["git *", "run(git *)", "run", "run(*)", "shell_input(git *)", "shell_spawn(git *)", "ls"]
)
@pytest.mark.parametrize("text", ["git status; rm y", "git x", "git status", "ls", "y", "git x\nrm y", ""])
def test_a_rule_for_commands_allows_no_typing(tmp_path: Path, rule: str, text: str) -> None:
    """A grant over commands says nothing of a program that may be anything: not even what only reads is typed freely."""
    gate = Gate(Policy.of({"whitelist": {"patterns": [rule]}}), workspace=tmp_path)
    assert typing(gate, tmp_path, text) == (False, "no_channel")


@C4
def test_a_terminal_is_started_by_the_rules_for_commands(tmp_path: Path) -> None:
    """A pattern covers the command structurally; one for `run` alone does not cover a terminal."""
    gate = Gate(Policy.of({"whitelist": {"patterns": ["shell_spawn(make *)"]}}), workspace=tmp_path)
    for command, allowed in [
        ("make x", True),
        ("make x; rm y", False),
        ("make $(rm y)", False),
        ("bash", False),
    ]:
        assert step(gate, call(SPAWN, tmp_path, command=command), SPAWN).allowed is allowed
    gate = Gate(Policy.of({"whitelist": {"patterns": ["run(make *)"]}}), workspace=tmp_path)
    assert step(gate, call(RUN, tmp_path, command="make x"), RUN).allowed
    assert not step(gate, call(SPAWN, tmp_path, command="make x"), SPAWN).allowed


@C4
@pytest.mark.parametrize("rule", ["rm *", "run(rm *)", "cli_based_tool(rm *)", "shell_input(rm *)"])
def test_what_is_forbidden_to_run_is_forbidden_to_type(tmp_path: Path, rule: str) -> None:
    """The blacklist for commands holds at terminals, over every grant; what hides from it is asked about."""
    grants = [Grant(id="g", effect="allow", tool="shell_input", scope="session")]
    document = {
        "defaultPolicy": "allow",
        "blacklist": {"patterns": [rule]},
        "whitelist": {"tools": ["shell_input"]},
    }
    gate = Gate(Policy.of(document), workspace=tmp_path, grants=grants)
    for text in ("rm x", "ls; rm x", "sudo rm x", "echo $(rm x)", "ls\nrm x\n"):
        assert typing(gate, tmp_path, text) == (False, "blacklist")
    assert typing(gate, tmp_path, "print('hello') if x else (") == (False, "no_channel")
    assert typing(gate, tmp_path, "echo fine") == (True, "whitelist")
    if "shell_input" not in rule:
        decision = step(gate, call(SPAWN, tmp_path, command="bash -c 'rm x'"), SPAWN)
        assert decision.permission.method == "blacklist"


@C4
@pytest.mark.parametrize(
    ("more", "method"),
    [
        ({"enter": False}, "no_channel"),
        ({"keys": ["tab"]}, "no_channel"),
        ({"keys": ["up", "enter"]}, "no_channel"),
        ({"enter": True, "keys": ["up", "enter"]}, "no_channel"),
        ({"keys": "enter"}, "no_channel"),
        ({"enter": True}, "session"),
        ({"keys": ["enter"]}, "session"),
        ({"keys": ["return", "ctrl-d"]}, "session"),
    ],
)
def test_a_forbidden_line_is_not_typed_in_pieces(tmp_path: Path, more: dict[str, Any], method: str) -> None:
    """Where commands are forbidden, a grant covers whole lines: a part that is harmless alone is asked about."""
    grants = [Grant(id="g", effect="allow", tool="shell_input", scope="session")]
    forbidding = Policy.of({"blacklist": {"patterns": ["rm *"]}})
    assert typing(Gate(forbidding, workspace=tmp_path, grants=grants), tmp_path, "r", **more)[1] == method
    assert typing(Gate(Policy(), workspace=tmp_path, grants=grants), tmp_path, "r", **more)[1] == "session"


@C4
@pytest.mark.parametrize("name", ["run", "cli_execute"])
def test_who_forbids_run_forbids_terminals(tmp_path: Path, name: str) -> None:
    """The blacklisted tool `run` is not to be had by another door."""
    gate = Gate(Policy.of({"defaultPolicy": "allow", "blacklist": {"tools": [name]}}), workspace=tmp_path)
    assert not step(gate, call(SPAWN, tmp_path, command="make"), SPAWN).allowed
    assert typing(gate, tmp_path, "make") == (False, "blacklist")


@C4
@pytest.mark.parametrize("word", ["t", "i", "a"])
def test_a_lasting_answer_covers_one_terminal(tmp_path: Path, word: str) -> None:
    """Turn, idle and always mean this terminal, in any language it speaks, and no other one; nothing is written."""
    script = Script(word)
    gate = Gate(Policy(), asker=script, workspace=tmp_path)
    assert typing(gate, tmp_path, "print(1)")[0]
    assert script.questions[0].shape == "session_id=t-1"
    assert typing(gate, tmp_path, "while True: (")[0]
    assert typing(gate, tmp_path, keys=["ctrl-c"])[0]
    assert not typing(gate, tmp_path, "print(1)", "t-2")[0]
    assert [one.scope for one in gate.grants()] == [{"t": "turn", "i": "idle", "a": "session"}[word]]
    gate.go_idle()
    assert typing(gate, tmp_path, "print(1)")[0] is (word == "a")


@C4
def test_one_answer_covers_one_input(tmp_path: Path) -> None:
    """`y` is for this input alone; `never` forbids exactly it."""
    gate = Gate(Policy(), asker=Script("y", "never"), workspace=tmp_path)
    assert typing(gate, tmp_path, "y")[0]
    assert not typing(gate, tmp_path, "make clean")[0]
    assert typing(gate, tmp_path, "make clean") == (False, "blacklist")
    assert typing(gate, tmp_path, "make")[1] == "no_channel"


@C4
def test_exact_texts_may_be_whitelisted(tmp_path: Path) -> None:
    """A text of the whitelist is allowed to the letter and with nothing beside it; a star in it is a star."""
    gate = Gate(
        Policy.of({"whitelist": {"arguments": {"shell_input": {"text": ["y", "git *"]}}}}), workspace=tmp_path
    )
    assert typing(gate, tmp_path, "y") == (True, "whitelist")
    refused: list[tuple[str, dict[str, Any]]] = [
        ("yes", {}),
        ("y", {"keys": ["up", "enter"]}),
        ("git x; rm y", {}),
        ("y", {"enter": False}),
    ]
    for text, more in refused:
        assert not typing(gate, tmp_path, text, **more)[0]
    assert not typing(gate, tmp_path, "y", secret_env="HOME")[0]


def reading(tool_: Tool, access: SandboxAccess | None) -> Tool:
    """The tool, as if every terminal reached this."""
    return msgspec.structs.replace(tool_, reaches=lambda _call: access)


@C4
@pytest.mark.parametrize("mode", ["ask", "read-only", "plan", "auto"])
def test_what_is_typed_where_only_reading_is_possible_needs_no_question(tmp_path: Path, mode: Any) -> None:
    """A program that the sandbox lets only read may be told anything, in every mode; others may not."""
    gate = Gate(Policy().with_flags(mode=mode), workspace=tmp_path)
    for text in ("echo x > .git/hooks/pre-commit", "rm -rf .", "cd .gi\thooks"):
        one = call(INPUT, tmp_path, session_id="t-1", text=text)
        decision = step(gate, one, reading(INPUT, READ_ONLY))
        assert (decision.allowed, decision.permission.method) == (True, "sandbox")
        for access in (SandboxAccess("workspace-write"), SandboxAccess("full"), None):
            assert not step(gate, one, reading(INPUT, access)).allowed


@C4
def test_rules_that_forbid_hold_for_what_is_typed_where_only_reading_is_possible(tmp_path: Path) -> None:
    """A forbidden line is denied there, too, and what cannot be seen of it is asked about; so is all where the default
    denies."""
    forbidding = Gate(Policy.of({"blacklist": {"patterns": ["rm *"]}}), workspace=tmp_path)
    only = reading(INPUT, READ_ONLY)

    def method(gate: Gate, text: str, **more: Any) -> str:
        return step(gate, call(INPUT, tmp_path, session_id="t-1", text=text, **more), only).permission.method

    assert method(forbidding, "rm x") == "blacklist"
    assert method(forbidding, "ls") == "sandbox"
    assert method(forbidding, "eval $x") == "no_channel"
    assert method(forbidding, "r", enter=False) == "no_channel"
    assert method(Gate(Policy.of({"defaultPolicy": "deny"}), workspace=tmp_path), "ls") == "default"


@C4
def test_reading_only_means_no_typing(tmp_path: Path) -> None:
    """A session that only reads types nothing, whatever is allowed."""
    policy = Policy.of({"whitelist": {"tools": ["shell_input", "shell_spawn"]}}).with_flags(read_only=True)
    gate = Gate(policy, workspace=tmp_path)
    assert typing(gate, tmp_path, "ls") == (False, "read_only")
    assert not step(gate, call(SPAWN, tmp_path, command="make"), SPAWN).allowed


@C4
@pytest.mark.parametrize("text", ["x" * 1_000_000, "(" * 20_000, "\x00", None, 5, ["rm"]])
def test_any_text_is_judged(tmp_path: Path, text: Any) -> None:
    """Nothing that can stand there raises or is allowed."""
    gate = Gate(Policy.of({"blacklist": {"patterns": ["rm *"]}}), workspace=tmp_path)
    assert not typing(gate, tmp_path, text)[0]
