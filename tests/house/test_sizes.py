"""The house's own rules about sizes and words, held by a test."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("src", "compat", "tests", "bench", "docs", "examples")
PRINTED = ROOT / "tests" / "compat" / "snippets"  # blocks of the documents, as they are printed there
SOURCES = sorted(
    path for place in PLACES for path in ROOT.glob(f"{place}/**/*.py") if not path.is_relative_to(PRINTED)
)
MOST_LINES, MOST_FUNCTION_LINES, MOST_METHODS = 500, 60, 16
FACES = {"Registry": 24, "Client": 24, "Store": 26}
"""What a whole is used through may have more public methods than its parts: it is not cut in two for their number."""


def test_a_file_and_what_is_in_it_stay_small() -> None:
    """A file has at most 500 lines, a function 60, a class sixteen public methods; each module says what it is."""
    assert len(SOURCES) > 1_000
    found = [f"{path.relative_to(ROOT)}: {why}" for path in SOURCES for why in complaints(path.read_text())]
    assert not found, "\n".join(found)


def test_a_package_has_at_most_twenty_modules() -> None:
    """Side by side, without packages in it and `__init__`."""
    sizes = Counter(path.parent for path in (ROOT / "src").rglob("*.py") if path.name != "__init__.py")
    assert [str(package) for package, size in sizes.items() if size > 20] == []


def test_what_is_too_large_is_found() -> None:
    """Wherever it stands, and up to its last line."""
    long = "def f():\n" + "    pass\n" * MOST_FUNCTION_LINES
    methods = "class C:\n" + "".join(f"    def m{number}(self): ...\n" for number in range(MOST_METHODS + 1))
    within = "try:\n    pass\nexcept A:\n    if a:\n        pass\n    else:\n        match b:\n            case c:\n"
    for code, why in ((long, "f has 61 lines"), (methods, "C: ['m0', ")):
        nested = within + "".join(f"                {line}\n" for line in code.splitlines())
        for text in (code, f"async {code}" if code == long else code, nested):
            (said,) = complaints(f'"""It says what it is."""\n{text}')
            assert said.startswith(why)
    assert complaints("import a\n") == ["a module begins with one sentence about itself"]
    assert complaints('"""It."""\n' + "a\n" * MOST_LINES) == ["it has 501 lines"]


def complaints(text: str) -> list[str]:
    """What is too large in a file, or missing."""
    tree = ast.parse(text)
    found: list[str] = []
    if text.count("\n") > MOST_LINES:
        found.append(f"it has {text.count(chr(10))} lines")
    if not ast.get_docstring(tree):
        found.append("a module begins with one sentence about itself")
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                found.append(f"{node.name} has {lines} lines")
        if isinstance(node, ast.ClassDef):
            names = [
                member.name
                for member in node.body
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
                and not member.name.startswith("_")
                and not member.decorator_list
            ]
            most = max(
                [bound for end, bound in FACES.items() if node.name.endswith(end)], default=MOST_METHODS
            )
            if len(names) > most:
                found.append(f"{node.name}: {names}")
    return found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node; functions and classes stand in no expression."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, name, ()):
            yield inner
            yield from statements(inner)


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
