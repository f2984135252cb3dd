"""No circle of modules, with every import counted: at the top, inside functions, under TYPE_CHECKING."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.test_sizes import statements

SOURCE = Path(__file__).parents[2] / "src"
# Circles of earlier days, each the set of its modules; the list may only shrink.
KNOWN: list[set[str]] = []


def test_no_circle_of_modules() -> None:
    """Whoever imports a module can be read without it."""
    assert circles(imports(SOURCE)) == sorted(KNOWN, key=min)


def test_a_circle_is_found_wherever_its_imports_stand(tmp_path: Path) -> None:
    """In a function, under TYPE_CHECKING, relative, of a name; a package is no edge of what lies in it."""
    package = tmp_path / "p"
    package.mkdir()
    texts = {
        "__init__": "from p.a import x\n",
        "a": "def f():\n    import p.b\n",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import c\n",
        "c": "try:\n    from p.a import x\nexcept ImportError:\n    pass\n",
        "d": "from p import a\n",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    assert circles(imports(tmp_path)) == [{"p.a", "p.b", "p.c"}]
    (package / "b.py").write_text("import p\n")
    assert circles(imports(tmp_path)) == [{"p", "p.a", "p.b"}]


def imports(source: Path) -> dict[str, set[str]]:
    """Which modules of a source tree each of its modules imports, wherever the statement stands."""
    files = {module_of(path, source): path for path in source.rglob("*.py")}
    return {name: set(imported(name, path, files)) & files.keys() for name, path in files.items()}


def module_of(path: Path, source: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(name: str, path: Path, files: dict[str, Path]) -> Iterator[str]:
    """The modules that the statements of one file name."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                below = f"{module}.{alias.name}"
                yield below if below in files else module


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected sets of more than one module, by their first names (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            at = stack.index(node)
            if len(stack) > at + 1 or node in graph[node]:
                found.append(set(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(found, key=min)
