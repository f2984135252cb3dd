"""The tools on a real language server for Python."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.plugin_workspace import Bench

from jaato.errors import ToolError
from jaato.plugins.lsp import plugin
from jaato.plugins.lsp.plugin import LspPlugin
from jaato.tools.call import Call

BIRDS = '''class Bird:
    """A bird."""

    def sing(self) -> str:
        return "😀"


def make(n: int) -> Bird:
    x = "😀😀"; b = Bird(); return b
'''
USE = """import os
from birds import make, Bird

make("3").sing()
print(undefined_name)
b: Bird = make(1)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One server for all tests here: its start is the slow part."""
    bench = Bench(LspPlugin, tmp_path_factory.mktemp("birds") / "work")
    venv = bench.workspace / ".venv" / "bin"
    venv.mkdir(parents=True)
    trap = venv / "python"
    trap.write_text(f'#!/bin/sh\ntouch {bench.workspace}/TRAPPED\nexec {sys.executable} "$@"\n')
    trap.chmod(0o755)
    (venv / "python3").symlink_to("python")
    (venv.parent / "pyvenv.cfg").write_text("home = /usr/bin\n")
    yield bench
    bench.close()
    assert not (bench.workspace / "TRAPPED").exists(), "the interpreter of the workspace was run"


@pytest.fixture
def bench(served: Bench) -> Bench:
    """The files as they are at first."""
    for path in served.workspace.glob("*.py"):
        path.unlink()
    (served.workspace / "birds.py").write_text(BIRDS)
    (served.workspace / "use.py").write_text(USE)
    time.sleep(0.6)  # longer than the plugin goes without looking at the disk
    return served


@pytest.mark.spec("C1", "Tool names", "C1.names.8")
def test_definitions_are_found_by_name_and_line(bench: Bench) -> None:
    """In another file, in a library (whose text is not read), and by the other name of the tool."""
    (found,) = bench.ask("lsp_goto_definition", path="use.py", symbol="make", line=4)["locations"]
    assert found == {"path": "birds.py", "line": 8, "column": 5, "text": "def make(n: int) -> Bird:"}
    library = bench.ask("lsp_goto_definition", path="use.py", symbol="print")["locations"][0]
    assert library["outside"] is True
    assert "text" not in library
    assert bench.ask("lsp_goto_definition", path="use.py", symbol="b", kind="type_definition")["total"] == 1


def test_references_know_columns_beyond_emoji(bench: Bench) -> None:
    """Every use with its source line, columns counted in characters; a new file on disk is part of it."""
    shown = bench.ask("lsp_find_references", path="birds.py", symbol="Bird")
    assert (shown["total"], shown["files"]) == (5, 2)
    assert {"path": "birds.py", "line": 9, "column": 19, "text": 'x = "😀😀"; b = Bird(); return b'} in shown[
        "locations"
    ]
    (bench.workspace / "more.py").write_text("from birds import Bird\n\nBird()\n")
    time.sleep(0.6)
    assert bench.ask("lsp_find_references", path="birds.py", symbol="Bird")["total"] == 7
    page = bench.ask("lsp_find_references", path="birds.py", symbol="Bird", limit=2)
    assert (len(page["locations"]), page["next_offset"]) == (2, 2)


def test_hover_tells_the_type(bench: Bench) -> None:
    """Of a variable behind emoji, named by its line."""
    assert "b: Bird" in bench.ask("lsp_hover", path="birds.py", symbol="b", line=9)["hover"]
    with pytest.raises(ToolError, match="not on line 9; it is on line 4"):
        bench.ask("lsp_hover", path="birds.py", symbol="sing", line=9)
    with pytest.raises(ToolError, match="on no line"):
        bench.ask("lsp_hover", path="birds.py", symbol="nowhere")
    with pytest.raises(ToolError, match="There is no line 99"):
        bench.ask("lsp_hover", path="birds.py", symbol="Bird", line=99)


def test_diagnostics_follow_the_file(bench: Bench) -> None:
    """Errors with their lines; gone when the file was mended on disk; offered after a write."""
    rows = bench.ask("lsp_get_diagnostics", path="use.py", severity="error")["diagnostics"]
    assert [row["line"] for row in rows] == [4, 5]
    assert rows[1]["text"] == "print(undefined_name)"
    mended = USE.replace('"3"', "3").replace("undefined_name", "1")
    (bench.workspace / "use.py").write_text(mended)
    assert bench.ask("lsp_get_diagnostics", path="use.py", severity="error")["total"] == 0
    import anyio

    (bench.workspace / "use.py").write_text(mended + "1 + 'a'\n")
    found = anyio.run(bench.plugin.diagnostics_after, ["use.py", "nothing.py", "a.txt"])
    assert [row["line"] for row in found["use.py"] if row["severity"] == "error"] == [7]


def test_symbols_of_a_file_and_of_the_project(bench: Bench) -> None:
    """An outline with depths, and a search by part of a name."""
    rows = bench.ask("lsp_document_symbols", path="birds.py")["symbols"]
    assert [(r["name"], r["kind"], r["line"]) for r in rows[:3]] == [
        ("Bird", "class", 1),
        ("sing", "method", 4),
        ("make", "function", 8),
    ]
    assert rows[1]["depth"] == 1
    found = bench.ask("lsp_workspace_symbols", query="Bir", language="python")["symbols"]
    assert {"name": "Bird", "kind": "class", "path": "birds.py", "line": 1} in found
    with pytest.raises(ToolError, match="There is no language"):
        bench.ask("lsp_workspace_symbols", query="x", language="klingon")


def test_a_renaming_changes_every_file_and_can_be_undone(bench: Bench) -> None:
    """The preview changes nothing; then all files change, emoji and line ends intact; each can be undone."""
    crlf = "from birds import Bird\r\n\r\nx = '😀'; Bird()\r\n"
    (bench.workspace / "more.py").write_bytes(crlf.encode())
    time.sleep(0.6)
    shown = bench.ask("lsp_rename_symbol", path="birds.py", symbol="Bird", new_name="Vogel", preview=True)
    assert shown["files"] == 3
    assert (bench.workspace / "use.py").read_text() == USE
    done = bench.ask("lsp_rename_symbol", path="birds.py", symbol="Bird", new_name="Vogel")
    assert set(done["backups"]) == {"birds.py", "more.py", "use.py"}
    assert (bench.workspace / "birds.py").read_text() == BIRDS.replace("Bird", "Vogel")
    assert (bench.workspace / "more.py").read_bytes() == crlf.replace("Bird", "Vogel").encode()
    bench.ask("undoFileChange", path="birds.py")
    assert (bench.workspace / "birds.py").read_text() == BIRDS
    with pytest.raises(ToolError, match="Nothing can be renamed"):
        bench.ask("lsp_rename_symbol", path="use.py", symbol="print", new_name="x")


def test_code_actions_are_listed_and_made_as_edits(bench: Bench) -> None:
    """The titles for a line; one of them applied changes the file; a wrong title says which there are."""
    listed = bench.ask("lsp_get_code_actions", path="use.py", line=5)
    title = next(row["title"] for row in listed["actions"] if "ignore" in row["title"])
    shown = bench.ask("lsp_get_code_actions", path="use.py", line=5, apply=title, preview=True)
    assert "note" in shown
    assert (bench.workspace / "use.py").read_text() == USE
    bench.ask("lsp_get_code_actions", path="use.py", line=5, apply=title)
    assert "ignore" in (bench.workspace / "use.py").read_text().splitlines()[4]
    with pytest.raises(ToolError, match="There is no action"):
        bench.ask("lsp_get_code_actions", path="use.py", line=4, apply="dance")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"x" * (5 << 20)])
def test_what_is_no_source_is_refused(served: Bench, data: bytes) -> None:
    """Text in another encoding and huge files are not sent anywhere."""
    (served.workspace / "odd.py").write_bytes(data)
    with pytest.raises(ToolError, match=r"UTF-8|too much"):
        served.ask("lsp_document_symbols", path="odd.py")
    (served.workspace / "odd.py").unlink()


def test_a_path_that_leads_nowhere_is_an_error(served: Bench) -> None:
    """Outside the workspace, missing, a directory."""
    for path in ("../x.py", "/etc/x.py", "nope.py", "."):
        with pytest.raises(ToolError):
            served.ask("lsp_hover", path=path, symbol="x")


def test_what_was_written_is_checked_if_a_server_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of a write has the errors of its files, a clean one nothing; nothing is started for it."""
    monkeypatch.setattr(
        plugin, "AFTER_WRITE_S", 30.0
    )  # a busy machine takes longer, and what is published ends the wait
    import anyio

    def after(name: str, value: dict[str, Any], plugin: LspPlugin) -> Any:
        return anyio.run(plugin.enrich_result, Call("c1", name, {}), value)

    bench.ask("lsp_hover", path="birds.py", symbol="make")
    value = bench.ask("updateFile", path="birds.py", old="return b", new="return 5 + b")
    checked = after("updateFile", value, bench.plugin)
    assert checked["diagnostics"]["birds.py"][0]["line"] == 9
    assert "diagnostics" not in value
    dry = {"dry_run": True, "files": [{"path": "birds.py"}]}
    assert after("findAndReplace", dry, bench.plugin) == dry
    clean = bench.ask("updateFile", path="birds.py", old="return 5 + b", new="return b")
    assert after("updateFile", clean, bench.plugin) == clean
    idle = LspPlugin(bench)
    try:
        assert after("updateFile", value, idle) == value
        assert idle._launcher.warden_pid == 0
    finally:
        idle.shutdown()
