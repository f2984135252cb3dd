"""Questions at a bad moment: the first, one right after a change, one during a change, one that is never answered."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lsp.test_misbehaving_servers import Odd
from tests.plugin_workspace import Bench

from jaato import settings
from jaato.errors import ToolError
from jaato.plugins.lsp import client, requests
from jaato.plugins.lsp.plugin import LspPlugin
from jaato.plugins.lsp.workspace_edits import EditRefused


def project(path: Path) -> None:
    """Three files that share a function."""
    (path / "sub").mkdir(parents=True, exist_ok=True)
    (path / "a.py").write_text("def old(n: int) -> int:\n    return n\n")
    (path / "b.py").write_text("from a import old\nold(1)\n")
    (path / "sub" / "c.py").write_text("from a import old\nold(2)\n")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One server for tests that ask it about a project it knows: its start is the slow part."""
    bench = Bench(LspPlugin, tmp_path_factory.mktemp("project") / "work")
    yield bench
    bench.close()


@pytest.fixture
def bench(served: Bench) -> Bench:
    """The files as they are at first."""
    for path in served.workspace.rglob("*.py"):
        path.unlink()
    project(served.workspace)
    time.sleep(0.6)  # longer than the plugin goes without looking at the disk
    return served


@pytest.mark.slow
@pytest.mark.parametrize("first", ["lsp_rename_symbol", "lsp_workspace_symbols"])
def test_the_first_question_is_about_the_whole_project(tmp_path: Path, first: str) -> None:
    """A server answers before it has looked at the project; a renaming of one file of three would break two."""
    project(tmp_path / "work")
    bench = Bench(LspPlugin, tmp_path / "work")
    place = {"path": "a.py", "symbol": "old", "line": 1}
    try:
        if first == "lsp_rename_symbol":
            bench.ask(first, **place, new_name="young")
            assert "old" not in (tmp_path / "work" / "sub" / "c.py").read_text()
        else:
            (found,) = bench.ask(first, query="old", language="python")["symbols"]
            assert found["path"] == "a.py"
    finally:
        bench.close()


def test_what_others_have_just_changed_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is judged, and edited, by the others as they are now, not as they were half a second ago."""
    monkeypatch.setattr(
        requests, "OTHERS_S", 30.0
    )  # a busy machine takes longer, and what is published ends the wait
    work = bench.workspace
    assert bench.ask("lsp_get_diagnostics", path="b.py", severity="error")["total"] == 0
    (work / "a.py").write_text("def old(n: str) -> str:\n    return n\n")
    (found,) = bench.ask("lsp_get_diagnostics", path="b.py", severity="error")["diagnostics"]
    assert found["line"] == 2
    moved = "# one line more\nfrom a import old\nold('3')\n"
    (work / "sub" / "c.py").write_text(moved)
    bench.ask("lsp_rename_symbol", path="a.py", symbol="old", line=1, new_name="young")
    assert (work / "sub" / "c.py").read_text() == moved.replace("old", "young")


@pytest.mark.slow
def test_a_busy_server_is_waited_for_after_a_change_elsewhere(tmp_path: Path) -> None:
    """One that comes to a change later than it usually needs to judge it: the file is judged with the change."""
    with Odd(tmp_path, "busy") as odd:
        (odd.bench.workspace / "b.odd").write_text("word here\n")
        assert odd.bench.ask("lsp_get_diagnostics", path="a.odd")["total"] == 0
        (odd.bench.workspace / "b.odd").write_text("another word here\n")
        (found,) = odd.bench.ask("lsp_get_diagnostics", path="a.odd")["diagnostics"]
        assert found["message"] == "of a change elsewhere"


def test_a_server_that_cannot_list_symbols_still_gives_diagnostics(tmp_path: Path) -> None:
    """The question that waits for a busy server may be answered with an error."""
    with Odd(tmp_path, "fails") as odd:
        (odd.bench.workspace / "b.odd").write_text("word here\n")
        assert odd.bench.ask("lsp_get_diagnostics", path="a.odd")["total"] == 0
        (odd.bench.workspace / "b.odd").write_text("another word here\n")
        assert odd.bench.ask("lsp_get_diagnostics", path="a.odd")["total"] == 0


def test_a_file_that_changes_during_the_question_is_not_edited(tmp_path: Path) -> None:
    """The places a server names are those of the text it was shown."""
    with Odd(tmp_path, "meanwhile") as odd:
        with pytest.raises(EditRefused, match="changed meanwhile"):
            odd.ask("lsp_rename_symbol", new_name="x")
        assert (odd.bench.workspace / "a.odd").read_text() == "# a line more\nword here\n"


def test_a_server_that_answers_nothing_more_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After two questions without an answer it is ended, and the next question starts another."""
    monkeypatch.setattr(client, "ANSWER_S", 0.3)
    monkeypatch.setattr(client.LanguageServer.request, "__defaults__", (0.3,))
    with Odd(tmp_path, "hangs") as odd:
        for _ in range(3):
            with pytest.raises(ToolError, match=r"within 0\.3 s"):
                odd.ask()
        assert [one["method"] for one in odd.heard()].count("initialize") == 2


def test_half_a_character_ends_no_server(tmp_path: Path) -> None:
    """JSON may have half a surrogate pair: it is shown as a question mark, the rest as it is."""
    with Odd(tmp_path, "half") as odd:
        assert odd.ask("lsp_hover")["hover"] == "half ? a pair, and a whole one 😀"


def test_a_virtual_environment_of_the_workspace_is_not_run(tmp_path: Path) -> None:
    """Also when it is the one that is active where jaato was started: pylsp would run the Python in it."""
    project(tmp_path / "work")
    venv = tmp_path / "work" / ".venv"
    (venv / "bin").mkdir(parents=True)
    trap = venv / "bin" / "python"
    trap.write_text(f'#!/bin/sh\ntouch {tmp_path}/TRAPPED\nexec {sys.executable} "$@"\n')
    trap.chmod(0o755)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    environ = {
        "PATH": f"{Path(sys.executable).parent}:{settings.environment()['PATH']}",
        "VIRTUAL_ENV": str(venv),
        "CONDA_PREFIX": str(venv),
        "HOME": str(tmp_path),
    }
    bench = Bench(
        LspPlugin, tmp_path / "work", {"language_servers": ["python=pylsp"], "sandbox": "full"}, environ
    )
    try:
        assert bench.ask("lsp_goto_definition", path="b.py", symbol="old", line=2)["total"] == 1
    finally:
        bench.close()
    assert not (tmp_path / "TRAPPED").exists()


def test_files_that_keep_the_old_name_are_told(bench: Bench) -> None:
    """What a renaming leaves, in a text or because the server does not see it, is named in its result."""
    (bench.workspace / "d.py").write_text("name = 'old'\n")
    done = bench.ask("lsp_rename_symbol", path="a.py", symbol="old", line=1, new_name="young")
    assert done["files"] == 3
    assert done["same_name_unchanged_in"] == ["d.py"]
    again = bench.ask("lsp_rename_symbol", path="a.py", symbol="young", line=1, new_name="new")
    assert "same_name_unchanged_in" not in again


def test_a_server_that_knows_what_it_was_shown_is_shown_the_others(tmp_path: Path) -> None:
    """clangd without an index renames in the open files alone, so those with the name are opened."""
    if shutil.which("clangd", path=settings.environment()["PATH"]) is None:
        pytest.skip("there is no clangd here")
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.cpp").write_text('#include "a.hpp"\nint old(int n) { return n; }\n')
    (work / "a.hpp").write_text("int old(int n);\n")
    (work / "b.cpp").write_text('#include "a.hpp"\nint f() { return old(3); }\n')
    bench = Bench(LspPlugin, work)
    try:
        assert (
            bench.ask("lsp_rename_symbol", path="a.cpp", symbol="old", line=2, new_name="young")["files"] == 3
        )
    finally:
        bench.close()


def test_a_server_leaves_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it made, it made in a directory of its own, which is removed with it."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with Odd(tmp_path, "wrong ids") as odd:
        odd.ask()
        assert len(list(temporary.iterdir())) == 1
    assert list(temporary.iterdir()) == []


def test_a_server_that_is_waited_for_is_not_idle(tmp_path: Path) -> None:
    """Waiting for what it has to say is use of it, too."""
    with Odd(tmp_path, "late news", idle_s=0.4) as odd:
        assert odd.bench.ask("lsp_get_diagnostics", path="a.odd")["total"] == 1
