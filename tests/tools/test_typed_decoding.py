"""The first decoding into a type, in several threads at once: msgspec alone ends the process there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "jaato"
PREPARING = ("typed_decoding.py", "tools/tool.py", "runtime/embedding/structured_output.py")
"""The files that have a type looked into before they let msgspec decode into it."""
DECODING = ("convert", "decode", "Decoder")

FIRST_USES = """
import sys, threading
from typing import Literal
import msgspec
from jaato.tools.call import Call
from jaato.tools.tool import tool_from
from jaato.typed_decoding import convert, decode_json

sys.setswitchinterval(1e-6)

def new_type(number):
    parts = [
        msgspec.defstruct(f"Part{number}_{part}", [(f"f{at}", Literal[f"{number}-{part}-{at}", "b"] | None, None) for at in range(6)])
        for part in range(4)
    ]
    return msgspec.defstruct(f"Whole{number}", [(f"g{part}", list[parts[part]] | None, None) for part in range(4)])

def decode(kind):
    return [lambda: decode_json(b'{"g3": [{"f5": "b"}]}', kind)] * 2 + [lambda: convert({"g3": [{"f5": "b"}]}, kind)] * 2

def call(kind):
    def order(whole: kind) -> str:
        '''Take one.'''
        return whole.g3[0].f5
    order.__annotations__ = {"whole": kind, "return": str}
    made = tool_from(order, "shop")
    return [lambda: made.run({"whole": {"g3": [{"f5": "b"}]}}, Call("1", "order", {}))] * 4

for number in range(200):
    works = WAY(new_type(number))
    together, done = threading.Barrier(len(works)), []
    def run(work):
        together.wait()
        done.append(work())
    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(done) == len(works)
print("all", number + 1)
"""


@pytest.mark.parametrize("way", ["decode", "call"])
def test_threads_may_use_a_type_first_at_the_same_time(way: str) -> None:
    """Four threads, 200 new types each: without the lock msgspec 0.22 ends within a few of them."""
    made = subprocess.run(
        [sys.executable, "-c", FIRST_USES.replace("WAY(", f"{way}(")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    assert made.stdout == "all 200\n"


def test_msgspec_decodes_into_types_only_where_they_are_prepared() -> None:
    """Everything else uses `typed_decoding`, or a decoder made when its module is imported."""
    found = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if (
            "msgspec" in text
            and any(word in text for word in DECODING)
            and str(path.relative_to(SOURCE)) not in PREPARING
        ):
            found += [f"{path.relative_to(SOURCE)}:{line}" for line in unprepared(ast.parse(text))]
    assert found == []


def test_an_unprepared_decoding_is_found() -> None:
    """The rule sees each of the three ways."""
    code = (
        "A = msgspec.json.Decoder(int)\n"
        "def f(x):\n"
        "    msgspec.convert(x, int)\n"
        "    msgspec.json.decode(x)\n"
        "    msgspec.json.decode(x, type=int)\n"
        "    return msgspec.json.Decoder(int)\n"
    )
    assert unprepared(ast.parse(code)) == [3, 5, 6]


def unprepared(tree: ast.Module) -> list[int]:
    """The lines that decode into a type, or make a decoder when a function runs."""
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, options = ast.unparse(node.func), {keyword.arg for keyword in node.keywords}
            if (
                name == "msgspec.convert"
                or (name == "msgspec.json.decode" and "type" in options)
                or (name == "msgspec.json.Decoder" and id(node) in inside and (node.args or options))
            ):
                lines.add(node.lineno)
    return sorted(lines)
