"""Reading only: a rule above every other that allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import enforced

from jaato.tools.call import Call
from jaato.tools.permissions.access import READ_ONLY
from jaato.tools.permissions.gate import Gate, Policy
from jaato.tools.tool import Tool, tool, tool_from


@tool(name="run", access="execute", confines=True)
def run(command: str, need: list[str] | None = None) -> str:
    """Run a command."""
    return command


@tool(access="read")
def look(path: str) -> str:
    """Read."""
    return path


@tool(access="write")
def write(path: str) -> str:
    """Write."""
    return path


OPEN = {
    "version": 1,
    "defaultPolicy": "allow",
    "whitelist": {"tools": ["write", "run", "look"], "patterns": ["run(touch *)"]},
}


@pytest.mark.parametrize(
    ("function", "arguments", "effect"),
    [
        (look, {"path": "a"}, "allow"),
        (write, {"path": "a"}, "deny"),
        (run, {"command": "cat a"}, "allow"),
        (run, {"command": "touch a"}, "allow"),
        (run, {"command": "if"}, "allow"),
        (run, {"command": "touch a", "need": ["write"]}, "deny"),
        (run, {"command": "cat a", "need": ["net:a.example"]}, "deny"),
        (run, {"command": "cat a", "need": ["full"]}, "deny"),
        (run, {"command": "cat a", "need": ["control"]}, "deny"),
    ],
)
@pytest.mark.parametrize("document", [OPEN, {"version": 1, "defaultPolicy": "deny"}, {"version": 1}])
def test_only_what_reads_runs(
    tmp_path: Path, function: Any, arguments: dict[str, Any], effect: str, document: dict[str, Any]
) -> None:
    """With `read_only` a call that may do more than read is denied, whatever the lists and the default allow; a command
    runs where it can only read, and nothing can be opened for it."""
    made: Tool = tool_from(function)
    policy = Policy.of(document).with_flags(read_only=True)
    call = Call(id="c", name=made.name, arguments=arguments, workspace=tmp_path)
    verdict = Gate(policy, workspace=tmp_path, profiles=enforced).explain(call, made)
    if made.name == "run" and document.get("defaultPolicy") == "deny":
        assert (verdict.effect, verdict.method) == ("deny", "default")
        return
    assert verdict.effect == effect, verdict
    if effect == "deny":
        assert verdict.method == "read_only"
    elif made.name == "run":
        assert verdict.access == READ_ONLY
        alone = Gate(policy, workspace=tmp_path).explain(call, made)
        assert (alone.effect, alone.method) == ("deny", "read_only"), "nothing holds it to reading"


def test_the_blacklist_still_denies_what_reads(tmp_path: Path) -> None:
    """Reading only never allows what the blacklist denies."""
    policy = Policy.of({"version": 1, "blacklist": {"tools": ["look"]}}).with_flags(read_only=True)
    made = tool_from(look)
    call = Call(id="c", name="look", arguments={"path": "a"}, workspace=tmp_path)
    assert Gate(policy, workspace=tmp_path).explain(call, made).method == "blacklist"
