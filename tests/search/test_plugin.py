"""The two search tools on real trees."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.users import as_another_user, ground
from tests.search.desk import Desk, call_tool, plant

from jaato.errors import CancelledException, InvalidArguments, ToolError
from jaato.plugins.search.plugin import SearchPlugin
from jaato.settings import environment
from jaato.tools.call import CURRENT, Call
from jaato.tools.processes.sandbox.backends import BackendChoice
from jaato.tools.processes.sandbox.sandbox import Sandbox
from jaato.tools.tool import tools_of


@pytest.mark.spec("S0", "Available Categories")
def test_declarations(tmp_path: Path) -> None:
    """The tools are discoverable, read-only, in the documented categories, and say what they do in forty words."""
    specs = {tool.name: tool.spec for tool in tools_of(SearchPlugin(Desk(tmp_path)), "search")}
    assert {name: spec.category for name, spec in specs.items()} == {
        "glob_files": "filesystem",
        "grep_content": "search",
        "ast_search": "search",
    }
    assert {"pattern", "root", "max_results", "include_hidden"} <= set(
        specs["glob_files"].parameters["properties"]
    )
    for spec in specs.values():
        assert (spec.discoverability, spec.access) == ("discoverable", "read")
        assert len(spec.description.split()) <= 40


def test_matching_lines_by_file(tree: Path) -> None:
    """Lines come by file in the order of paths; hidden, ignored, binary files, links and pipes are left out."""
    output = call_tool(tree, "grep_content", pattern=r"\bneedle\b", context=1)
    assert [(match["path"], match["line"]) for match in output.structured["matches"]] == [
        ("src/deep/three.txt", 1),
        ("src/deep/three.txt", 3),
        ("src/one.py", 3),
    ]
    assert "src/one.py\n2- \n3: def needle():\n4-     return 1" in output.text
    only = call_tool(tree, "grep_content", pattern="needle", path="logo.bin")
    assert (only.text, only.structured["total"]) == ("[logo.bin is binary and was not searched.]", 0)


@pytest.mark.parametrize(
    ("form", "found"),
    [
        ({"pattern": "NEEDLE", "ignore_case": True, "context": 2}, ["min.js:1", "src/deep/three.txt:1", "src/deep/three.txt:3",
                                                                    "src/one.py:3", "src/two.py:1"]),
        ({"pattern": "needle=|needle$", "include_hidden": True, "include_ignored": True},
         [".secret/env:1", "build/out.txt:1", "src/deep/three.txt:1", "src/deep/three.txt:3"]),
        ({"pattern": "x = '", "literal": True}, ["src/two.py:1"]),
        ({"pattern": "needle", "path": "src", "glob": "*.{py,txt}", "max_results": 2},
         ["src/deep/three.txt:1", "src/deep/three.txt:3"]),
        ({"pattern": "needle", "glob": "deep/*", "path": "src"}, ["src/deep/three.txt:1", "src/deep/three.txt:3"]),
        ({"pattern": "needle", "path": "src/deep/three.txt", "max_results": 1}, ["src/deep/three.txt:1"]),
        ({"pattern": "needle", "glob": ".secret/*"}, [".secret/env:1"]),
        ({"pattern": "needle", "glob": "**"}, ["min.js:1", "src/deep/three.txt:1", "src/deep/three.txt:3", "src/one.py:3"]),
    ],
)  # fmt: skip
def test_forms_of_a_search(tree: Path, form: dict[str, Any], found: list[str]) -> None:
    """Case, plain text, globs, hidden and ignored files, single files and bounds; a glob brings back nothing that is
    hidden or ignored."""
    matches = call_tool(tree, "grep_content", **form).structured["matches"]
    assert [f"{match['path']}:{match['line']}" for match in matches] == found


def test_results_are_bounded_and_counted(tmp_path: Path) -> None:
    """However much matches, only `max_results` lines are shown, with the true total and how to narrow."""
    plant(tmp_path, {f"f{at:03}.txt": "hit\n" * 20 for at in range(450)})
    output = call_tool(tmp_path, "grep_content", pattern="hit", max_results=30)
    assert output.structured["total"] == 9000
    assert output.structured["files"] == 450
    assert len(output.structured["matches"]) == 30
    assert output.structured["matches"][20]["path"] == "f001.txt"
    assert "9,000 matching lines in 450 files; the first 30 are shown. Narrow with path" in output.text


def test_long_lines_are_cut_around_the_match(tree: Path) -> None:
    """A line of ten thousand characters is shown as the part that matches."""
    output = call_tool(tree, "grep_content", pattern="needle", glob="min.js")
    [match] = output.structured["matches"]
    assert "needle" in match["text"]
    assert len(match["text"]) < 450
    assert match["text"].endswith("… (10006 characters)")


def test_huge_files_are_passed_over(tmp_path: Path) -> None:
    """A file of gigabytes is not read."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(5 << 30)
    assert call_tool(tmp_path, "grep_content", pattern="x").structured["total"] == 0


@pytest.mark.parametrize(
    "path", ["..", "/etc", "linkdir", "link.txt", "../outside.txt", "src/../../outside.txt", "", "a\0"]
)
def test_nothing_outside_is_searched(tree: Path, path: str) -> None:
    """A start outside the workspace, by climbing, absolute path or link, is refused by both tools."""
    with pytest.raises(ToolError):
        call_tool(tree, "grep_content", pattern="needle", path=path)
    with pytest.raises(ToolError):
        call_tool(tree, "glob_files", pattern="*", root=path)


def test_pipes_and_missing_files_are_refused(tree: Path) -> None:
    """A pipe is not opened, and a missing path is named."""
    with pytest.raises(ToolError, match="named pipe"):
        call_tool(tree, "grep_content", pattern="x", path="pipe")
    with pytest.raises(ToolError, match="does not exist"):
        call_tool(tree, "grep_content", pattern="x", path="nowhere")


def test_granted_directories_are_searched(tree: Path, tmp_path: Path) -> None:
    """A granted directory can be searched, and its paths are shown whole."""
    more = tmp_path / "more"
    plant(more, {"x.txt": "needle\n"})
    plugin = SearchPlugin(Desk(tree, [more]))
    output = plugin.grep_content("needle", str(more), call=Call("c1", "grep_content", {}))
    assert [match["path"] for match in output.structured["matches"]] == [str(tmp_path / "more" / "x.txt")]


@pytest.mark.parametrize("backend", ["auto", "none"])
def test_a_link_made_meanwhile_does_not_escape(tmp_path: Path, backend: BackendChoice) -> None:
    """While a file and a directory are swapped for links that lead out, no search ever shows what lies outside, whether
    ripgrep is confined or not."""
    home, outside = tmp_path / "work", tmp_path / "outside"
    sandbox = Sandbox(tmp_path, environ=environment(), backend=backend)
    plant(outside, {"f": "secret\n"})
    plant(home, {"d/f": "public\n", "g": "public\n"})
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(home / "d", home / ".d")
            os.symlink(outside, home / "d")
            os.symlink(outside / "f", home / ".g")
            os.replace(home / ".g", home / "g")
            os.unlink(home / "d")
            os.rename(home / ".d", home / "d")
            (home / ".h").write_text("public\n")
            os.replace(home / ".h", home / "g")

    swapper = threading.Thread(target=swap)
    swapper.start()
    within = CURRENT.set(Call("c1", "grep_content", {}, workspace=home, services={"sandbox": sandbox}))
    try:
        for _ in range(15):
            try:
                output = call_tool(home, "grep_content", pattern="secret|public")
            except ToolError:
                continue
            assert "secret" not in output.text
    finally:
        CURRENT.reset(within)
        over.set()
        swapper.join()


def test_cancel_ends_a_search(tmp_path: Path) -> None:
    """A cancelled call ends at once, its process with it."""
    with (tmp_path / "f").open("wb") as file:
        file.truncate(60 << 20)
    plant(tmp_path, {f"{at}": "a" * 1_000_000 for at in range(200)})
    call = Call("c1", "grep_content", {}, workspace=tmp_path)
    timer = threading.Timer(0.05, call.token.cancel)
    timer.start()
    with pytest.raises(CancelledException):
        call_tool(tmp_path, "grep_content", call, pattern=r"(\w+ ){40}[a-y]{200}z")
    timer.join()
    out = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in out.splitlines() if "/rg " in line and line.split()[0] == str(os.getpid())]


def test_no_descriptor_is_left_open(tree: Path) -> None:
    """Searches, also refused and failing ones, leave no file open."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        call_tool(tree, "grep_content", pattern="needle")
        call_tool(tree, "glob_files", pattern="**")
        with pytest.raises(InvalidArguments):
            call_tool(tree, "grep_content", pattern="(")
    assert len(os.listdir("/proc/self/fd")) <= before  # one of an earlier test may have been closed


@pytest.fixture
def open_tree() -> Iterator[Path]:
    """A tree that another user can reach, and a part of it that only this one can."""
    with ground("this user") as tree:
        plant(tree, {"src/one.py": "needle\n", "closed/f": "needle\n", "shut.txt": "needle\n"})
        (tree / "closed").chmod(0o700)
        (tree / "shut.txt").chmod(0o600)
        yield tree


def test_unreadable_directories_are_named(open_tree: Path) -> None:
    """What another user may not read is named, and the rest is found (run as nobody)."""
    code = (
        "import sys; from pathlib import Path; sys.path[:0] = eval(sys.argv[2]);"
        "from jaato.plugins.search.plugin import SearchPlugin; from jaato.tools.call import Call;"
        "from jaato.tools.filesystem.containment import Roots; from types import SimpleNamespace as Host;"
        "p = SearchPlugin(Host(service=lambda name: Roots(Path(sys.argv[1]))));"
        "print(p.grep_content('needle', call=Call('c', 'g', {})).text)"
    )
    ran = subprocess.run(
        [*as_another_user(), sys.executable, "-B", "-c", code, str(open_tree),
         repr([entry for entry in sys.path if entry])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "src/one.py" in ran.stdout
    assert "Could not be read: closed, shut.txt." in ran.stdout


def test_glob_finds_by_name(tree: Path) -> None:
    """Files come sorted, without hidden and ignored ones unless asked for, with the total and a hint."""
    assert call_tool(tree, "glob_files", pattern="**/*.{py,txt}").structured == {
        "files": ["src/deep/three.txt", "src/one.py", "src/two.py"],
        "total": 3,
        "truncated": False,
    }
    assert call_tool(tree, "glob_files", pattern="*.py", root="src").structured["files"] == [
        "src/one.py",
        "src/two.py",
    ]
    assert "Deeper ones: **/*.py" in call_tool(tree, "glob_files", pattern="*.py").text
    everything = call_tool(
        tree, "glob_files", pattern="**", include_hidden=True, include_ignored=True
    ).structured
    assert "build/out.txt" in everything["files"]
    assert ".secret/env" in everything["files"]
    assert not [name for name in everything["files"] if name.startswith((".git/", "link", "pipe"))]
    short = call_tool(tree, "glob_files", pattern="**", max_results=1)
    assert short.structured["truncated"]
    assert "files; the first 1 are shown. Narrow the pattern or root." in short.text


def test_odd_names(tmp_path: Path) -> None:
    """Names with newlines, spaces, dashes and bytes that are no UTF-8 are found and shown as text that can be sent."""
    raw = os.fsencode(tmp_path)
    for name in (b"new\nline", b"-flag", b"sp ace", b"\xff\xfe", b"a:b:1"):
        with open(raw + b"/" + name, "wb") as file:
            file.write(b"needle\n")
    output = call_tool(tmp_path, "grep_content", pattern="needle")
    assert output.structured["total"] == 5
    output.text.encode()
    assert call_tool(tmp_path, "glob_files", pattern="*").structured["total"] == 5
