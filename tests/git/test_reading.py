"""The git tools answer what git knows, as data."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.git.desk import Desk, started

from jaato.errors import ToolError


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    """An unborn branch has a name, no commit, and its staged files are shown as added."""
    desk = started(tmp_path)
    assert desk.ask("git_log") == {"commits": [], "note": "The branch has no commit yet."}
    (desk.work / "a").write_text("1\n")
    desk.git("add", "a")
    found = desk.ask("git_status")
    assert (found["branch"], found["commit"], found["clean"]) == ("trunk", None, False)
    assert found["staged"] == [{"path": "a", "status": "added"}]
    assert desk.ask("git_diff", staged=True)["files"] == [
        {"path": "a", "status": "added", "added": 1, "deleted": 0}
    ]


def test_status_tells_staged_unstaged_untracked_and_conflicts_apart(tmp_path: Path) -> None:
    """Each changed file stands in the list that says what git would do with it."""
    desk = started(tmp_path)
    desk.commit("first", a_txt="one\n" * 20, b_txt="b\n", c_txt="c\n")
    desk.git("mv", "a.txt", "moved.txt")
    (desk.work / "b.txt").write_text("changed\n")
    (desk.work / "c.txt").unlink()
    (desk.work / "folder").mkdir()
    (desk.work / "folder" / "new").write_text("")
    found = desk.ask("git_status")
    assert found["staged"] == [{"path": "moved.txt", "status": "renamed", "old_path": "a.txt"}]
    assert found["unstaged"] == [
        {"path": "b.txt", "status": "modified"},
        {"path": "c.txt", "status": "deleted"},
    ]
    assert found["untracked"] == ["folder/"]
    assert desk.ask("git_status", untracked="files")["untracked"] == ["folder/new"]
    assert "untracked" not in desk.ask("git_status", untracked="none")


def test_a_merge_in_progress_and_an_upstream(tmp_path: Path) -> None:
    """A conflict names its files and the merge; a tracked branch says how far it is ahead and behind."""
    desk = started(tmp_path)
    desk.commit("base", a_txt="base\n")
    desk.git("branch", "other")
    desk.commit("mine", a_txt="mine\n")
    desk.git("checkout", "-q", "other")
    desk.commit("theirs", a_txt="theirs\n")
    desk.git("branch", "-q", "-u", "trunk")
    with pytest.raises(Exception, match="merge"):
        desk.git("merge", "trunk")
    found = desk.ask("git_status")
    assert found["conflicted"] == [{"path": "a.txt"}]
    assert found["in_progress"] == ["merge"]
    assert (found["upstream"], found["ahead"], found["behind"]) == ("trunk", 1, 1)
    assert desk.ask("git_diff")["files"][0]["path"] == "a.txt"


def test_log_pages_over_the_history_it_began_with(tmp_path: Path) -> None:
    """A cursor goes on in the same history, whatever is committed meanwhile."""
    desk = started(tmp_path)
    for number in range(5):
        desk.commit(f"commit {number}")
    first = desk.ask("git_log", limit=2)
    desk.commit("meanwhile")
    second = desk.ask("git_log", limit=2, cursor=first["next_cursor"])
    third = desk.ask("git_log", limit=2, cursor=second["next_cursor"])
    subjects = [one["subject"] for page in (first, second, third) for one in page["commits"]]
    assert subjects == [f"commit {number}" for number in (4, 3, 2, 1, 0)]
    assert "next_cursor" not in third
    with pytest.raises(ToolError, match="next_cursor"):
        desk.ask("git_log", cursor="0@--output=x")


def test_log_filters(tmp_path: Path) -> None:
    """Paths, words of the message, author, dates and ranges narrow the history; a body is told."""
    desk = started(tmp_path)
    first = desk.commit("Add a [thing]\n\nWhy it was needed.", a_txt="1\n")
    desk.commit("Add b", b_txt="1\n")
    desk.git("mv", "a.txt", "c.txt")
    desk.commit("Rename a")
    assert [one["subject"] for one in desk.ask("git_log", paths=["b.txt"])["commits"]] == ["Add b"]
    found = desk.ask("git_log", message="[THING]")["commits"]
    assert (found[0]["commit"], found[0]["body"]) == (first, "Why it was needed.")
    assert found[0]["author"] == "Ada <ada@example.org>"
    assert len(desk.ask("git_log", author="ada@")["commits"]) == 3
    assert desk.ask("git_log", author="nobody")["commits"] == []
    assert desk.ask("git_log", since="2027-01-01")["commits"] == []
    assert len(desk.ask("git_log", revision=f"{first}..HEAD")["commits"]) == 2
    assert len(desk.ask("git_log", paths=["c.txt"], follow=True)["commits"]) == 2
    with pytest.raises(ToolError, match="one path"):
        desk.ask("git_log", follow=True)


def test_diff_between_revisions_and_of_paths(tmp_path: Path) -> None:
    """Two revisions, a staged change and single files are compared; the stat counts lines."""
    desk = started(tmp_path)
    first = desk.commit("first", a_txt="1\n2\n", b_txt="1\n")
    desk.commit("second", a_txt="1\n3\n4\n", b_txt="2\n")
    found = desk.ask("git_diff", from_revision=first, to_revision="trunk", output="stat", paths=["a.txt"])
    assert found == {
        "files": [{"path": "a.txt", "status": "modified", "added": 2, "deleted": 1}],
        "files_total": 1,
    }
    assert "+3\n+4" in desk.ask("git_diff", from_revision=first, paths=["a.txt"])["patch"]
    (desk.work / "b.bin").write_bytes(b"\0\1")
    desk.git("add", "b.bin")
    assert desk.ask("git_diff", staged=True, output="stat")["files"][0]["binary"] is True
    with pytest.raises(ToolError, match="from_revision"):
        desk.ask("git_diff", to_revision="HEAD")


def test_blame_names_the_commit_behind_each_line(tmp_path: Path) -> None:
    """Lines are answered in runs of one commit, within the range asked for, uncommitted ones marked."""
    desk = started(tmp_path)
    first = desk.commit("first", a_txt="1\n2\n3\n")
    second = desk.commit("second", a_txt="1\nchanged\n3\n")
    (desk.work / "a.txt").write_text("1\nchanged\n3\nnew\n")
    runs = desk.ask("git_blame", path="a.txt")["runs"]
    assert [(run["commit"], run["first"], run["last"], run["text"]) for run in runs] == [
        (first[:12], 1, 1, "1"),
        (second[:12], 2, 2, "changed"),
        (first[:12], 3, 3, "3"),
        ("0" * 12, 4, 4, "new"),
    ]
    assert (runs[0]["author"], runs[0]["date"], runs[0]["subject"]) == ("Ada", "2026-01-02", "first")
    (run,) = desk.ask("git_blame", path="a.txt", first_line=2, last_line=2, revision="HEAD")["runs"]
    assert run["subject"] == "second"
    with pytest.raises(ToolError, match="no such path"):
        desk.ask("git_blame", path="missing", revision="HEAD")


def test_show_gives_commits_files_directories_and_links(tmp_path: Path) -> None:
    """A commit with its patch, a file's lines as they were, a directory's entries, a link's target."""
    desk = started(tmp_path)
    (desk.work / "folder").mkdir()
    (desk.work / "folder" / "x").write_text("x\n")
    (desk.work / "link").symlink_to("folder/x")
    first = desk.commit("first", a_txt="1\n2\n3\n")
    desk.commit("second", a_txt="0\n")
    found = desk.ask("git_show")
    assert (found["subject"], found["files"][0]["path"]) == ("second", "a.txt")
    assert "-1\n-2\n-3\n+0\n" in found["patch"]
    shown = desk.ask("git_show", revision=first, path="a.txt", offset=2, limit=1)
    assert (shown["text"], shown["lines_total"]) == ("2", 3)
    assert "truncated" in shown
    assert desk.ask("git_show", path=".")["entries"] == ["a.txt", "folder/", "link"]
    assert desk.ask("git_show", path="folder/")["entries"] == ["x"]
    assert desk.ask("git_show", path="link")["link_to"] == "folder/x"
    with pytest.raises(ToolError, match="lists what there is"):
        desk.ask("git_show", path="gone")


def test_a_merge_commit_is_shown_against_its_first_parent(tmp_path: Path) -> None:
    """A merge has its parents, and the changes it brought to the branch."""
    desk = started(tmp_path)
    desk.commit("base", a_txt="a\n")
    desk.git("checkout", "-q", "-b", "topic")
    desk.commit("topic", b_txt="b\n")
    desk.git("checkout", "-q", "trunk")
    desk.commit("trunk", c_txt="c\n")
    desk.git("merge", "-q", "--no-edit", "topic")
    found = desk.ask("git_show")
    assert len(found["parents"]) == 2
    assert [one["path"] for one in found["files"]] == ["b.txt"]


def test_names_that_are_no_utf8_and_names_with_spaces_tabs_and_newlines(tmp_path: Path) -> None:
    """Every name arrives whole; bytes that are no UTF-8 are written out."""
    desk = started(tmp_path)
    desk.commit("first")
    names = [b"with space", b"tab\there", b"line\nbreak", b"-dash", "grün".encode(), b"\xff\xfe"]
    for name in names:
        (desk.work / os.fsdecode(name)).write_text("x\n")
    expected = sorted(["with space", "tab\there", "line\nbreak", "-dash", "grün", "\\xff\\xfe"])
    assert sorted(desk.ask("git_status")["untracked"]) == expected
    desk.git("add", "-A")
    assert sorted(one["path"] for one in desk.ask("git_diff", staged=True)["files"]) == expected
    desk.git("commit", "-qm", "all")
    assert sorted(desk.ask("git_show", path=".")["entries"]) == expected
    assert desk.ask("git_show", path="-dash")["text"] == "x"
    assert desk.ask("git_blame", path="-dash")["runs"][0]["text"] == "x"


def test_a_bare_repository_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """Without files there are commits and revisions; status says which tools to use."""
    desk = started(tmp_path)
    desk.commit("first", a_txt="1\n")
    desk.git("clone", "-q", "--bare", ".", "bare")
    assert desk.ask("git_log", repo="bare")["commits"][0]["subject"] == "first"
    assert desk.ask("git_show", repo="bare", path="a.txt")["text"] == "1"
    with pytest.raises(ToolError, match="bare"):
        desk.ask("git_status", repo="bare")


def test_submodules_are_named_and_not_entered(tmp_path: Path) -> None:
    """A submodule is one changed entry; its own repository can be asked by its directory."""
    desk = started(tmp_path)
    desk.commit("first", a_txt="1\n")
    other = Desk(tmp_path, "work/other")
    other.git("init", "-q", "-b", "trunk")
    other.commit("inner", b_txt="b\n")
    desk.git("submodule", "--quiet", "add", "./other", "sub")
    (desk.work / ".gitignore").write_text("other\n")
    desk.commit("with submodule")
    assert desk.ask("git_status")["clean"] is True
    assert desk.ask("git_show", path="sub")["submodule"] == other.git("rev-parse", "HEAD")
    assert desk.ask("git_log", repo="sub")["commits"][0]["subject"] == "inner"
    desk.git("commit", "-q", "--allow-empty", "-m", "further", cwd=desk.work / "sub")
    assert desk.ask("git_status")["unstaged"] == [{"path": "sub", "status": "modified"}]


def test_what_is_no_repository_and_what_is_broken(tmp_path: Path) -> None:
    """No repository, a damaged one and an unknown revision are told apart, with what to do."""
    desk = Desk(tmp_path)
    with pytest.raises(ToolError, match="No git repository"):
        desk.ask("git_status")
    desk.git("init", "-q", "-b", "trunk")
    desk.commit("first", a_txt="1\n")
    with pytest.raises(ToolError, match="git_log shows commits"):
        desk.ask("git_show", revision="nowhere")
    with pytest.raises(ToolError, match="no directory"):
        desk.ask("git_status", repo="a.txt")
    shutil.rmtree(desk.work / ".git" / "objects")
    (desk.work / ".git" / "objects").mkdir()
    with pytest.raises(ToolError, match="git"):
        desk.ask("git_show", revision="HEAD")
    (desk.work / ".git" / "config").write_text("[core\n")
    with pytest.raises(ToolError, match="bad config"):
        desk.ask("git_status")


def test_a_huge_patch_is_cut_and_a_huge_file_is_not_compared(tmp_path: Path) -> None:
    """The patch ends at its bound and says so, the counts stay whole; a file over 16 MB counts as binary."""
    desk = started(tmp_path)
    desk.commit("first", a_txt="")
    desk.commit("big", a_txt="line of text\n" * 300_000, b_txt="x" * 17_000_000)
    found = desk.ask("git_show")
    assert found["files"][0]["added"] == 300_000
    assert len(found["patch"]) <= 60_000
    assert "paths" in found["truncated"]
    assert found["files"][1]["binary"] is True
    shown = desk.ask("git_show", path="a.txt", limit=5000)
    assert len(shown["text"]) <= 60_000
    assert "truncated" in shown


def test_many_files_are_counted_and_listed_in_part(tmp_path: Path) -> None:
    """A long list is cut at its limit, with the number of all."""
    desk = started(tmp_path)
    for number in range(130):
        (desk.work / f"{number:03d}").touch()
    found = desk.ask("git_status")
    assert (len(found["untracked"]), found["untracked_total"]) == (100, 130)
    desk.git("add", "-A")
    assert desk.ask("git_status", limit=10)["staged_total"] == 130
