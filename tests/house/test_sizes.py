"""The house's own rules about sizes and words, held by a test."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("src", "compat", "tests", "bench", "docs", "examples")
PRINTED = ROOT / "tests" / "compat" / "snippets"  # blocks of the documents, as they are printed there
SOURCES = sorted(
    path for place in PLACES for path in ROOT.glob(f"{place}/**/*.py") if not path.is_relative_to(PRINTED)
)
MOST_LINES, MOST_FUNCTION_LINES, MOST_METHODS = 500, 60, 16


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_and_what_is_in_it_stay_small(path: Path) -> None:
    """A file has at most 500 lines, a function 60, a class sixteen public methods; each module says what it is."""
    text = path.read_text()
    tree = ast.parse(text)
    assert text.count("\n") <= MOST_LINES
    assert ast.get_docstring(tree), "a module begins with one sentence about itself"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MOST_FUNCTION_LINES, f"{node.name} has {lines} lines"
        if isinstance(node, ast.ClassDef):
            names = [
                member.name
                for member in node.body
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
                and not member.name.startswith("_")
                and not member.decorator_list
            ]
            assert len(names) <= MOST_METHODS + 8 * node.name.endswith(("Registry", "Client")), (
                f"{node.name}: {names}"
            )


def test_nothing_is_unfinished_and_nothing_names_a_machine() -> None:
    """No placeholder, no silenced type error without its reason, no path of a machine, no mock of our own code."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    words = re.compile(
        r"\bTO" + r"DO\b|FIX" + r"ME|pragma: no " + r"cover|type: ignore$|raise NotImplementedError\(?\)?$",
        re.MULTILINE,
    )
    machine = re.compile(r"(^|[^A-Za-z0-9_./-])/(wo" + r"rk|fa" + r"rm|ro" + r"ot)/")
    mocks = re.compile(r"mock\.pa" + r"tch|Magic" + r"Mock")
    found: list[str] = []
    for name in listed:
        path = ROOT / name
        if path.suffix not in {".py", ".md", ".toml", ".json", ".jsonl", ""} or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if name.startswith(("src/", "compat/")) and words.search(text):
            found.append(f"{name}: unfinished")
        if machine.search(text):
            found.append(f"{name}: names a machine's path")
        if name.startswith("tests/") and mocks.search(text):
            found.append(f"{name}: mocks")
    assert not found
