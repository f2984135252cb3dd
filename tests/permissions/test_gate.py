"""The gate: precedence, blacklist, whitelist and defaults over every spelling, stepping without a loop."""

# ruff: noqa: E501

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import C4, FETCH, FREE, NOOP, READ, WRITE, Script, call, step, tool

from jaato.protocol.specs import Grant
from jaato.tools.permissions.gate import Gate, Policy


@C4
def test_no_policy_means_ask_and_nobody_means_deny(tmp_path: Path) -> None:
    """Without a policy a tool that does more than read is asked about; with nobody to ask it is denied,
    and told how."""
    gate = Gate(Policy(), workspace=tmp_path)
    decision = step(gate, call(NOOP, tmp_path), NOOP)
    assert (decision.allowed, decision.permission.method) == (False, "no_channel")
    assert "--allow 'noop'" in decision.permission.reason
    assert (
        step(gate, call(FREE, tmp_path, command="make x"), FREE).permission.reason.count("run(make x)") == 1
    )


@C4
@pytest.mark.parametrize("default", ["ask", "deny"])
def test_reading_tools_are_allowed_by_default(tmp_path: Path, default: str) -> None:
    """Reading tools are allowed by default, and tools their plugin approves; others are not."""
    gate = Gate(Policy.of({"defaultPolicy": default}), workspace=tmp_path)
    assert step(gate, call(READ, tmp_path, path="x"), READ).allowed
    approved = tool("plan", auto_approved=True)
    assert step(gate, call(approved, tmp_path), approved).permission.method == "auto_approved"
    for other in (NOOP, WRITE, FETCH, FREE):
        assert not step(gate, call(other, tmp_path, command="make"), other).allowed


@C4
@pytest.mark.parametrize("rule", [{"tools": ["noop"]}, {"patterns": ["no*"]}, {"patterns": ["noop(*)"]}])
def test_blacklist_wins_over_everything(tmp_path: Path, rule: dict[str, Any]) -> None:
    """No whitelist, default, approval by the plugin, grant or answer outranks the blacklist."""
    policy = Policy.of({"defaultPolicy": "allow", "whitelist": {"tools": ["noop"]}, "blacklist": rule})
    grants = [
        Grant(id="g", effect="allow", tool="noop", scope=scope) for scope in ("turn", "idle", "session")
    ]
    loose = tool("noop", "read", auto_approved=True)
    script = Script("y")
    gate = Gate(policy, asker=script, workspace=tmp_path, grants=grants)
    decision = step(gate, call(loose, tmp_path), loose)
    assert (decision.allowed, decision.permission.method, script.questions) == (False, "blacklist", [])


@C4
def test_blacklisted_alias_is_the_tool(tmp_path: Path) -> None:
    """A rule under another name of a tool, with that name's arguments, is a rule for the tool."""
    deny = {"arguments": {"cli_based_tool": {"cmd": ["rm *"]}}}
    gate = Gate(Policy.of({"defaultPolicy": "allow", "blacklist": deny}), workspace=tmp_path)
    assert step(gate, call(FREE, tmp_path, command="make"), FREE).allowed
    assert not step(gate, call(FREE, tmp_path, command="rm x"), FREE).allowed


@C4
@pytest.mark.parametrize(
    "command",
    ["rm -rf x", "ls; rm x", "/bin/rm x", "sudo rm x", "r''m x", "'rm' x", "\\rm x", "ls | xargs rm x", "bash -c 'rm x'",
     "sh -c 'ls; rm x'", "if true; then rm x; fi", "echo $(rm x)", "find . -exec rm {} +", "eval rm x", "env A=1 rm x", "rm",
     "cat <<EOF\n$(rm x)\nEOF", "r\\\nm x", "ls; rm \\\n-rf x", "(rm x)", "f() { rm x; }; f", "nohup rm x &", "bash -c \"bash -c 'rm x'\"", "timeout 1 rm x"],
)  # fmt: skip
def test_blacklisted_command_is_found_in_any_disguise(tmp_path: Path, command: str) -> None:
    """A blacklisted command is denied in a chain, a wrapper, a substitution, a construct, quoted or with
    its path."""
    policy = Policy.of(
        {"defaultPolicy": "allow", "whitelist": {"tools": ["run"]}, "blacklist": {"patterns": ["rm *"]}}
    )
    assert (
        step(Gate(policy, workspace=tmp_path), call(FREE, tmp_path, command=command), FREE).permission.method
        == "blacklist"
    )


@C4
@pytest.mark.parametrize(
    "command",
    ["make \\\n all", "for i in a b; do echo $i; done", "[ -f x ] && rm x", "x=$(date); echo $x", "cat > f <<'E'\nhi\nE",
     "make 2>&1 | tee out", "if ls; then pwd; fi", "python3 - <<E\nprint(1)\nE", "! test -f x", "sleep 1 &"],
)  # fmt: skip
def test_a_grant_for_the_whole_tool_covers_what_the_parser_understands(tmp_path: Path, command: str) -> None:
    """Where everything is allowed, loops, substitutions, here-documents and redirections are too."""
    for document in ({"defaultPolicy": "allow"}, {"whitelist": {"tools": ["run"]}}):
        gate = Gate(Policy.of(document), workspace=tmp_path)
        assert gate.explain(call(FREE, tmp_path, command=command), FREE).effect == "allow"


@C4
@pytest.mark.parametrize("command", ["$x y", "$(echo rm) x", "r\x00m", "bad 'quote"])
def test_a_wide_grant_does_not_cover_what_could_hide_from_the_blacklist(tmp_path: Path, command: str) -> None:
    """With a blacklist in force, a program that the shell computes is asked about even when the whole tool
    is allowed."""
    policy = Policy.of({"whitelist": {"tools": ["run"]}, "blacklist": {"patterns": ["rm *"]}})
    assert (
        Gate(policy, workspace=tmp_path).explain(call(FREE, tmp_path, command=command), FREE).effect == "ask"
    )


@C4
def test_whitelist_arguments_hold_for_every_spelling_of_a_path(tmp_path: Path) -> None:
    """An argument rule covers a path only if it also does when normalised and with its links followed."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "out").symlink_to("/etc")
    rule = {"arguments": {"writeNewFile": {"path": ["docs/*"]}}}
    gate = Gate(Policy.of({"whitelist": rule}), workspace=tmp_path)

    def effect(path: str) -> str:
        return gate.explain(call(WRITE, tmp_path, path=path, content=""), WRITE).effect

    assert effect("docs/a.md") == "allow"
    for path in ("docs/../x", "docs/out/passwd", "/docs/a", "src/a", "docs/../.git/config", "docs/\0"):
        assert effect(path) == "ask", path


@C4
def test_patterns_over_arguments_are_read_argument_by_argument(tmp_path: Path) -> None:
    """`tool(name=glob)` is held against that argument, so that the text of another one cannot fake it."""
    gate = Gate(
        Policy.of({"whitelist": {"patterns": ["writeNewFile(path=docs/*)", "fetch_url(https://a/*)"]}}),
        workspace=tmp_path,
    )
    assert gate.explain(call(WRITE, tmp_path, path="docs/a", content="x"), WRITE).effect == "allow"
    assert gate.explain(call(WRITE, tmp_path, path="x", content=", path=docs/a"), WRITE).effect == "ask"
    assert gate.explain(call(FETCH, tmp_path, url="https://a/x"), FETCH).effect == "allow"
    assert gate.explain(call(FETCH, tmp_path, url="https://b/https://a/x"), FETCH).effect == "ask"


def test_the_gate_needs_no_loop_and_no_threads() -> None:
    """Importing the gate loads neither an event loop nor threads."""
    code = "import sys, jaato.tools.permissions.gate as p; print(sorted({'asyncio','anyio','threading','concurrent'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; sys.path[:] = " + repr(sys.path) + "; " + code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_arguments_of_run_are_part_of_the_command(tmp_path: Path) -> None:
    """`args` are judged with the command; a program with a blank in its name is asked about."""
    gate = Gate(Policy.of({"whitelist": {"patterns": ["git push *"]}}), workspace=tmp_path)

    def effect(command: str, args: Any) -> str:
        return gate.explain(call(FREE, tmp_path, command=command, args=args), FREE).effect

    assert effect("git", ["push", "a;b"]) == "allow"
    assert effect("git", ["pull"]) == "ask"
    assert effect("git push", ["x"]) == "ask"
    assert effect("git", "push") == "ask"
