"""A repository made by somebody else runs nothing, changes nothing and leads nowhere."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from tests.git.desk import Desk, started
from tests.git.traps import CALLS, trapped

from jaato.errors import ToolError


@pytest.fixture(params=["none", "auto"], autouse=True)
def _backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds without a sandbox, by git's settings alone, holds in it, too."""
    monkeypatch.setattr(Desk, "backend", request.param)


@pytest.fixture(scope="module")
def readers() -> dict[str, Desk]:
    """The desks of `reader`, by their back end."""
    return {}


@pytest.fixture
def reader(readers: dict[str, Desk], tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with one commit, which no case changes: one for all of a back end."""
    if Desk.backend not in readers:
        desk = readers[Desk.backend] = started(tmp_path_factory.mktemp("reader"))
        desk.commit("first", a_txt="1\n")
    return readers[Desk.backend]


def test_nothing_a_repository_configures_is_run(tmp_path: Path) -> None:
    """No hook, filter, text conversion, external diff, pager, alias, monitor or signature check is started."""
    desk = started(tmp_path)
    sprung = trapped(desk)
    for name, arguments in CALLS:
        desk.ask(name, **arguments)
        assert not sprung.exists(), (name, arguments, sprung.read_text())
    assert "3" in desk.ask("git_diff", paths=["a.txt"])["patch"]
    subprocess.run(["git", "status"], cwd=desk.work, env=desk.environ, capture_output=True, check=False)
    assert sprung.exists()  # an unguarded git does spring the trap


def test_a_submodule_s_configuration_runs_nothing(tmp_path: Path) -> None:
    """Looking at a repository does not start git in its submodules, where other settings hold."""
    desk = started(tmp_path)
    desk.commit("first")
    inner = Desk(tmp_path, "work/sub")
    inner.git("init", "-q", "-b", "trunk")
    sprung = trapped(inner)
    desk.git("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "add", "sub")
    desk.git("commit", "-qm", "sub")
    sprung.unlink(missing_ok=True)
    (inner.work / "a.txt").write_text("changed\n")
    for name in ("git_status", "git_diff", "git_show"):
        desk.ask(name)
    assert not sprung.exists()


def test_nothing_in_the_repository_is_changed(tmp_path: Path) -> None:
    """Not even the index is refreshed: after every call each file of the repository is what it was."""
    desk = started(tmp_path)
    desk.commit("first", a_txt="1\n")
    desk.commit("second", a_txt="2\n")
    os.utime(desk.work / "a.txt", (0, 0))

    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in desk.work.rglob("*")
            if stat.S_ISREG(path.lstat().st_mode)
        }

    before = state()
    for name, arguments in CALLS:
        desk.ask(name, **arguments)
    assert state() == before
    desk.git("checkout", "-q", "a.txt")
    os.utime(desk.work / "a.txt", (0, 0))
    assert desk.ask("git_diff") == {"files": [], "files_total": 0}


@pytest.mark.parametrize(
    "revision", ["--output=x", "-p", "--exec=touch x", "--", "HEAD --output=x", "-", "\0", "a\nb"]
)
def test_a_revision_is_never_an_option(reader: Desk, revision: str) -> None:
    """A revision that begins with a dash is an unknown revision."""
    for name, arguments in (
        ("git_log", {"revision": revision}),
        ("git_log", {"revision": f"HEAD..{revision}"}),
        ("git_diff", {"from_revision": revision}),
        ("git_diff", {"from_revision": "HEAD", "to_revision": revision}),
        ("git_show", {"revision": revision}),
        ("git_show", {"revision": revision, "path": "a.txt"}),
        ("git_blame", {"path": "a.txt", "revision": revision}),
    ):
        with pytest.raises(ToolError, match=r"No (commit|revision)|no revision"):
            reader.ask(name, **arguments)
    assert sorted(os.listdir(reader.work)) == [".git", "a.txt"]


@pytest.mark.parametrize("path", ["--output=x", ":(top)a.txt", ":!a.txt", "*.txt"])
def test_a_path_is_never_an_option_nor_a_pattern(reader: Desk, path: str) -> None:
    """Paths mean themselves."""
    assert reader.ask("git_log", paths=[path])["commits"] == []
    assert reader.ask("git_diff", from_revision="HEAD", paths=[path])["files"] == []
    for word in ("author", "message", "since"):
        reader.ask("git_log", **{word: path})
    assert sorted(os.listdir(reader.work)) == [".git", "a.txt"]


def test_a_repository_cannot_lend_another_s_files(tmp_path: Path) -> None:
    """A work tree or repository elsewhere, named by what a workspace brings, is refused."""
    desk = started(tmp_path)
    desk.commit("first", a_txt="1\n")
    secret = Desk(tmp_path, "secret")
    secret.git("init", "-q")
    secret.commit("secret", key_txt="canary\n")
    desk.git("config", "core.worktree", str(secret.work))
    with pytest.raises(ToolError, match="outside the directories"):
        desk.ask("git_status")
    desk.git("config", "core.worktree", str(tmp_path))
    with pytest.raises(ToolError, match="outside the directories"):
        desk.ask("git_diff", from_revision="HEAD")
    (desk.work / "sub").mkdir()
    (desk.work / "sub" / ".git").write_text(f"gitdir: {secret.work}/.git\n")
    with pytest.raises(ToolError, match="outside the directories"):
        desk.ask("git_show", repo="sub", path="key.txt")
    (desk.work / "bent" / ".git").mkdir(parents=True)
    for name in ("HEAD",):
        (desk.work / "bent" / ".git" / name).write_bytes((secret.work / ".git" / name).read_bytes())
    (desk.work / "bent" / ".git" / "commondir").write_text(f"{secret.work}/.git\n")
    with pytest.raises(ToolError, match=r"outside the directories|No git repository"):
        desk.ask("git_log", repo="bent")
    with pytest.raises(ToolError, match="outside"):
        desk.ask("git_status", repo=str(secret.work))


def test_a_linked_work_tree_and_a_repository_above_are_read(tmp_path: Path) -> None:
    """A work tree its repository knows is read; of a repository above, only the part below the workspace."""
    main = Desk(tmp_path, "main")
    main.git("init", "-q", "-b", "trunk")
    (main.work / "part").mkdir()
    (main.work / "part" / "in").write_text("1\n")
    main.commit("first", out_txt="secret\n")
    main.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "topic")
    linked = Desk(tmp_path, "tree")
    assert linked.ask("git_status")["branch"] == "topic"
    part = Desk(tmp_path, "main/part")
    (main.work / "out.txt").write_text("changed\n")
    (part.work / "in").write_text("2\n")
    assert [one["path"] for one in part.ask("git_diff")["files"]] == ["part/in"]
    assert [one["path"] for one in part.ask("git_status")["unstaged"]] == ["part/in"]
    assert [one["path"] for one in part.ask("git_show")["files"]] == ["part/in"]
    for path in ("out.txt", "part/../out.txt", "."):
        with pytest.raises(ToolError, match=r"outside|\.\."):
            part.ask("git_show", path=path)
    with pytest.raises(ToolError, match="outside"):
        part.ask("git_blame", path="out.txt")


def test_a_partial_clone_fetches_nothing(tmp_path: Path) -> None:
    """A missing object is said to be missing; the transport the repository names is not started."""
    desk = started(tmp_path)
    name = desk.commit("first", a_txt="1\n")
    blob = desk.git("rev-parse", "HEAD:a.txt")
    sprung = tmp_path / "sprung"
    desk.git("config", "core.repositoryFormatVersion", "1")
    desk.git("config", "extensions.partialClone", "origin")
    desk.git("config", "remote.origin.promisor", "true")
    desk.git("config", "remote.origin.url", f"ext::sh -c touch% {sprung}")
    desk.git("config", "protocol.ext.allow", "always")
    (desk.work / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(ToolError):
        desk.ask("git_show", revision=name, path="a.txt")
    assert not sprung.exists()


def borrowed(desk: Desk, secret: Desk, how: str) -> None:
    """Let a repository take the objects and names of another one."""
    git, other = desk.work / ".git", secret.work / ".git"
    match how:
        case "alternates":
            (git / "objects/info").mkdir(exist_ok=True)
            (git / "objects/info/alternates").write_text(f"{other}/objects\n")
        case "far alternates":
            middle = desk.work / "middle"
            (middle / "info").mkdir(parents=True)
            (git / "objects/info").mkdir(exist_ok=True)
            (git / "objects/info/alternates").write_text("../../middle\n")
            (middle / "info/alternates").write_text(f'"{other}/objects"\n')
        case _:
            place = git / how
            if place.is_dir():
                place.rename(desk.work / "aside")
            place.unlink(missing_ok=True)
            place.symlink_to(other / how)


@pytest.mark.parametrize(
    "how", ["alternates", "far alternates", "objects", "objects/pack", "refs", "refs/heads", "packed-refs"]
)
def test_a_repository_cannot_borrow_from_outside(tmp_path: Path, how: str) -> None:
    """Objects and names that lie outside the session's directories are not read through links or alternates."""
    desk = started(tmp_path)
    desk.commit("first", a_txt="1\n")
    secret = Desk(tmp_path, "secret")
    secret.git("init", "-q", "-b", "trunk")
    name = secret.commit("secret", key_txt="canary\n")
    secret.git("tag", "t")
    secret.git("pack-refs", "--all")
    secret.git("repack", "-adq")
    assert desk.ask("git_log")["commits"]
    borrowed(desk, secret, how)
    for tool, arguments in (("git_show", {"revision": name}), ("git_log", {}), ("git_status", {})):
        with pytest.raises(ToolError, match="outside the directories"):
            desk.ask(tool, **arguments)


def test_a_repository_may_borrow_inside(tmp_path: Path) -> None:
    """A clone that shares the objects of one beside it, and links within the workspace, are read."""
    outer = Desk(tmp_path)
    inner = Desk(tmp_path, "work/one")
    inner.git("init", "-q", "-b", "trunk")
    inner.commit("first", a_txt="1\n")
    outer.git("clone", "-q", "--shared", "one", "two")
    (outer.work / "two/.git/refs").rename(outer.work / "refs")
    (outer.work / "two/.git/refs").symlink_to("../../refs")
    assert len(outer.ask("git_log", repo="two")["commits"]) == 1


@pytest.mark.parametrize(
    "key", ["lfs.extension.x.clean", "lfs.customtransfer.x.path", "LFS.Extension.x.clean"]
)
def test_the_user_s_filter_is_not_told_to_start_programs(tmp_path: Path, key: str) -> None:
    """A filter of the user's own, which reads the repository's settings, is off where those name programs."""
    desk = started(tmp_path)
    desk.commit("first", a_txt="1\n", _gitattributes="* filter=lfs\n")
    ran = tmp_path / "ran"
    desk.git("config", "--global", "filter.lfs.clean", f"touch {ran}; cat")
    (desk.work / "a.txt").write_text("2\n")
    desk.ask("git_diff")
    assert ran.exists() is (
        desk.backend == "none"
    )  # the user's own filter is run; in the sandbox it cannot write
    ran.unlink(missing_ok=True)
    desk.git("config", "--local", key, "anything")
    for name in ("git_diff", "git_status"):
        desk.ask(name)
        assert not ran.exists()
