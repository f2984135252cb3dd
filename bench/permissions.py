"""What a permission costs: the fast path of the gate, and taking a shell command apart."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.row import Row

from jaato.protocol.specs import Access, ToolSpec
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Gate, Policy
from jaato.tools.shell.parser import parse_command
from jaato.tools.tool import Tool


def best_us(function: Callable[[], object], times: int, rounds: int = 7) -> float:
    """The CPU time of one call in microseconds, best of several rounds."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        for _ in range(times):
            function()
        found.append((time.process_time() - begun) / times * 1e6)
    return min(found)


def tool(name: str, access: Access) -> Tool:
    """A tool that does nothing."""

    def nothing(_arguments: dict[str, Any], _call: Call) -> None:
        """Run nothing."""

    return Tool(ToolSpec(name, "", {"type": "object"}, access=access), nothing)


def stepped(gate: Gate, call: Call, of: Tool) -> Callable[[], None]:
    """One check, stepped by hand."""

    def check() -> None:
        try:
            gate.check(call, of).send(None)
        except StopIteration:
            return
        raise AssertionError("the fast path suspended")

    return check


def rows() -> list[Row]:
    """The figures of this area."""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        rules = {"whitelist": {"tools": ["noop"], "patterns": ["git *"]}, "blacklist": {"tools": ["gone"]}}
        gate = Gate(Policy.of(rules), workspace=work)
        found = []
        cases: list[tuple[str, Access, dict[str, Any], float | None]] = [
            ("readFile", "read", {"path": "a.txt"}, 4.0),
            ("gone", "execute", {"x": 1}, 4.0),
            ("noop", "execute", {"input": "hello"}, 4.0),
            ("run", "execute", {"command": "git add . && git commit -m x"}, None),
        ]
        for name, access, arguments, bound in cases:
            call, of = Call("c", name, arguments, workspace=work), tool(name, access)
            value = best_us(stepped(gate, call, of), 20_000 if bound else 1_000)
            found.append(
                Row(f"gate.check {name}", value, "µs", bound, "allowed or denied by a rule, no loop")
            )
        command = "cd src && git log --oneline -n 20 | grep -v merge | head -n 5"
        value = best_us(lambda: parse_command.__wrapped__(command), 300)
        found.append(Row("analyse a typical command", value, "µs", None, repr(command)))
        return found


if __name__ == "__main__":
    for row in rows():
        print(row)
