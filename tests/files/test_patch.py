"""`apply_patch` beside git: whole patches, patches of models, patches made to do harm."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.desk import Desk, state

from jaato.errors import ToolError
from jaato.plugins.files.patch_parser import parse_patch

MOVED = "diff --git a/f.txt b/g\nsimilarity index 100%\nrename from f.txt\nrename to f.txt2\n"
TEXT = "".join(f"line {n}\n" for n in range(1, 21))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A workspace with one file of twenty lines."""
    made = Desk(tmp_path / "w")
    (made.workspace / "f.txt").write_text(TEXT)
    return made


def refused(desk: Desk, patch: str, **more: Any) -> str:
    """The message of a patch that must not be applied; nothing has changed then."""
    before = state(desk)
    with pytest.raises(ToolError) as caught:
        desk.call("apply_patch", patch=patch, **more)
    assert state(desk) == before
    return str(caught.value)


def hunk(old: str, new: str, head: str = "@@ -5,3 +5,3 @@", name: str = "f.txt") -> str:
    """A patch that changes line 6 between its neighbours."""
    return f"--- a/{name}\n+++ b/{name}\n{head}\n line 5\n-{old}\n+{new}\n line 7\n"


def test_a_patch_changes_a_file_and_can_be_taken_back(desk: Desk) -> None:
    """The hunk is where it should be, the result names the line and the backup, and undo restores."""
    said = desk.call("apply_patch", patch=hunk("line 6", "LINE 6"))
    [file] = said["files"]
    assert (file["path"], file["action"], file["hunks"]) == ("f.txt", "changed", [{"line": 5}])
    assert file["backup_id"]
    assert (desk.workspace / "f.txt").read_text() == TEXT.replace("line 6", "LINE 6")
    desk.call("undoFileChange", path="f.txt")
    assert (desk.workspace / "f.txt").read_text() == TEXT


def test_a_dry_run_changes_nothing(desk: Desk) -> None:
    """It says where the patch fits, for new files in new directories too, and makes none."""
    patch = hunk("line 6", "LINE 6") + "--- /dev/null\n+++ b/new/dir/x\n@@ -0,0 +1 @@\n+hi\n"
    before = state(desk)
    said = desk.call("apply_patch", patch=patch, dry_run=True)
    assert said["dry_run"] is True
    assert [file["path"] for file in said["files"]] == ["f.txt", "new/dir/x"]
    assert state(desk) == before
    assert not (desk.workspace / "new").exists()


def test_hunks_find_their_place(desk: Desk) -> None:
    """A wrong line number, wrong counts, context that has changed a little, blanks at line ends: found, and said."""
    moved = desk.call("apply_patch", patch=hunk("line 6", "A", "@@ -15,3 +15,3 @@"), dry_run=True)
    assert moved["files"][0]["hunks"] == [{"line": 5, "offset": -10}]
    for head in ("@@ -5,9 +5,1 @@", "@@ -5 +5 @@", "@@", "@@ ... @@"):
        assert (
            desk.call("apply_patch", patch=hunk("line 6", "A", head), dry_run=True)["files"][0]["hunks"][0][
                "line"
            ]
            == 5
        )
    fuzzy = hunk("line 6", "A").replace(" line 5", " line five")
    assert desk.call("apply_patch", patch=fuzzy, dry_run=True)["files"][0]["hunks"][0]["fuzz"] == 1
    loose = hunk("line 6", "A").replace(" line 7", " line 7   ")
    said = desk.call("apply_patch", patch=loose)
    assert "white space" in said["files"][0]["hunks"][0]["note"]
    assert (desk.workspace / "f.txt").read_text() == TEXT.replace("line 6", "A")


def test_a_fenced_or_trailing_patch_is_read(desk: Desk) -> None:
    """Words around the patch, a code fence, a mail's signature and lost blanks of empty lines are no part of it."""
    (desk.workspace / "f.txt").write_text("a\n\nb\n")
    patch = "Here it is:\n```diff\n--- f.txt\t2024-01-01\n+++ f.txt\t2024-01-02\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n```\nDone.\n"
    desk.call("apply_patch", patch=patch)
    assert (desk.workspace / "f.txt").read_text() == "a\n\nc\n"
    desk.call(
        "apply_patch",
        patch="From x\nSubject: y\n\n--- a/f.txt\n+++ b/f.txt\n@@ -3 +3 @@\n-c\n+d\n-- \n2.39.5\n\n",
    )
    assert (desk.workspace / "f.txt").read_text() == "a\n\nd\n"


def test_a_removed_line_that_looks_like_a_head_is_a_line(desk: Desk) -> None:
    """`--- x` inside a hunk is the removal of `-- x`, as the counts say."""
    (desk.workspace / "q.sql").write_text("a\n-- x\n++ y\nb\n")
    desk.call(
        "apply_patch", patch="--- a/q.sql\n+++ b/q.sql\n@@ -1,4 +1,4 @@\n a\n--- x\n-++ y\n+-- z\n+++ w\n b\n"
    )
    assert (desk.workspace / "q.sql").read_text() == "a\n-- z\n++ w\nb\n"


def test_the_envelope_form_is_read(desk: Desk) -> None:
    """Between Begin and End Patch: add, update by context and anchor, move, delete."""
    (desk.workspace / "old").write_text("x\n")
    (desk.workspace / "c.py").write_text(
        "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"
    )
    patch = (
        "*** Begin Patch\n*** Update File: c.py\n@@ class B:\n     def f(self):\n-        return 1\n+        return 2\n"
        "*** Add File: n/new.txt\n+one\n+two\n*** Delete File: old\n*** Update File: f.txt\n*** Move to: g.txt\n"
        "@@\n line 19\n-line 20\n+LAST\n*** End of File\n*** End Patch\n"
    )
    desk.call("apply_patch", patch=patch)
    assert (desk.workspace / "c.py").read_text().endswith("class B:\n    def f(self):\n        return 2\n")
    assert "return 1" in (desk.workspace / "c.py").read_text()
    assert (desk.workspace / "n/new.txt").read_text() == "one\ntwo\n"
    assert sorted(state(desk)) == ["c.py", "g.txt", "n/new.txt"]
    assert (desk.workspace / "g.txt").read_text().endswith("line 19\nLAST\n")


def test_a_hunk_that_does_not_fit_says_where_it_nearly_does(desk: Desk) -> None:
    """The message names file and hunk, what it looks for, the nearest lines, and whether it is applied already."""
    patch = "--- a/f.txt\n+++ b/f.txt\n@@ -9,4 +9,4 @@\n line 9\n line ten\n-line eleven\n+x\n line 12\n"
    message = refused(desk, patch)
    for part in ("'f.txt': hunk 1 of 1", "line eleven", "Nearest is line 9", "line 10 differs"):
        assert part in message
    assert "None of them" in refused(desk, hunk("absent", "x").replace("line", "zeile"))
    desk.call("apply_patch", patch=hunk("line 6", "LINE 6"))
    assert "applied already, at line 5" in refused(desk, hunk("line 6", "LINE 6"))
    (desk.workspace / "twice").write_text("a\nb\nc\n" * 3)
    assert "occur 3 times (at lines 1, 4, 7)" in refused(
        desk, "--- a/twice\n+++ b/twice\n@@\n a\n-b\n+B\n c\n"
    )


def test_all_or_nothing(desk: Desk) -> None:
    """If the last hunk of the last file does not fit, no file changes and no directory remains."""
    (desk.workspace / "g.txt").write_text("one\n")
    patch = (
        hunk("line 6", "LINE 6")
        + "--- /dev/null\n+++ b/made/x\n@@ -0,0 +1 @@\n+hi\n"
        + hunk("absent", "y", name="g.txt")
    )
    assert "g.txt" in refused(desk, patch)
    assert not (desk.workspace / "made").exists()


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ("", None),
        ("nothing here", "no change"),
        ("@@ -1 +1 @@\n-a\n+b\n", "before any file"),
        ("--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n-line 1\n*oops\n+x\n", "begins with neither"),
        ("--- a/f.txt\n+++ b/f.txt\n@@ -1,2 +1,2 @@\n line 1\n line 2\n", "changes nothing"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "both sides"),
        ("--- a/nope\n+++ b/nope\n@@ -1 +1 @@\n-a\n+b\n", "does not exist"),
        ("--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1 @@\n+hi\n", "exists already"),
        ("--- a/f.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n", "does not know of"),
        (MOVED + "--- a/f.txt\n+++ b/f.txt2\n@@ -1 +1 @@\n-no\n+b\n", "does not fit"),
        ("diff --git a/b b/b\nnew file mode 120000\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+/etc/passwd\n", "link"),
        ("diff --git a/b b/b\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZ\n", "binary"),
        ("diff --git a/b b/b\nBinary files a/b and b/b differ\n", "binary"),
        ("--- a/f.txt\n+++ b/f.txt\n@@ -99999999 +99999999 @@\n+x\n", None),
        ("*** Begin Patch\nfoo\n*** End Patch\n", "Add File"),
        ("*** Begin Patch\n*** Update File: f.txt\n@@\n-line 1\n?\n*** End Patch\n", "begins with neither"),
    ],
)  # fmt: skip
def test_what_is_no_patch_is_refused_with_a_reason(desk: Desk, patch: str, says: str | None) -> None:
    """Each kind of nonsense has its message."""
    if not patch:
        assert desk.tools["apply_patch"].issues({"patch": patch})
    elif says is None:
        with contextlib.suppress(ToolError):
            desk.call("apply_patch", patch=patch)
    else:
        assert says in refused(desk, patch)


@pytest.mark.parametrize(
    "name",
    ["../victim", "/etc/jaato-evil", "a/../../victim", "out/victim", ".git/hooks/pre-commit", ".jaato/permissions.json", ".mcp.json",
     "x/.vscode/tasks.json", ".bashrc", "nice/hooks/post-commit"],
)  # fmt: skip
@pytest.mark.parametrize(
    "form",
    [
        "--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+evil\n",
        "*** Begin Patch\n*** Add File: {}\n+evil\n*** End Patch\n",
    ],
)
def test_a_patch_reaches_neither_outside_nor_what_decides(
    desk: Desk, tmp_path: Path, name: str, form: str
) -> None:
    """Paths out, through links, and control paths are refused, though the patch is one long argument."""
    (tmp_path / "victim").write_text("precious")
    (desk.workspace / "out").symlink_to(tmp_path)
    (desk.workspace / ".git/hooks").mkdir(parents=True)
    (desk.workspace / "nice").symlink_to(".git")
    refused(desk, form.format(name))
    refused(desk, f"diff --git a/f.txt b/f.txt\nrename from f.txt\nrename to {name}\n")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not os.path.exists("/etc/jaato-evil")


def test_a_long_patch_ends_soon(desk: Desk) -> None:
    """Thousands of hunks in a file of a hundred thousand equal lines neither hang nor lose one."""
    (desk.workspace / "same").write_text("x\n" * 100_000)
    patch = "--- a/same\n+++ b/same\n" + "".join(
        f"@@ -{n * 40 + 1} +{n * 40 + 1} @@\n-x\n+y\n" for n in range(2_000)
    )
    desk.call("apply_patch", patch=patch)
    assert (desk.workspace / "same").read_text().count("y") == 2_000
    assert "200" in refused(
        desk, "".join(f"--- /dev/null\n+++ b/n{n}\n@@ -0,0 +1 @@\n+x\n" for n in range(300))
    )


LINES = st.sampled_from(
    [
        *("--- a/f", "+++ b/f", "@@ -1 +1 @@", "@@", "-a", "+b", " c", "\\ No newline at end of file", ""),
        *(
            "diff --git a/f b/f",
            "rename from f",
            "rename to g",
            "new file mode 100644",
            "--- /dev/null",
            "-- ",
            "```",
        ),
        *("*** Begin Patch", "*** Update File: f", "*** Add File: g", "*** End of File", "*** Move to: h"),
    ]
)


@given(st.lists(LINES, max_size=15))
def test_any_lines_are_a_patch_or_refused(parts: list[str]) -> None:
    """No order of a patch's lines makes anything but a patch or a `ToolError`."""
    try:
        files = parse_patch("\n".join(parts))
    except ToolError:
        return
    assert all(file.old is not None or file.new is not None for file in files)
