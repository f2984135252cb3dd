"""git in the sandbox: what a repository has it start does no harm, also where no setting of ours keeps it from that."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest
from tests.git.desk import Desk, started
from tests.hostile import ALL, Lair

from jaato.tools.processes.git import git_environment, git_program, run_git
from jaato.tools.processes.sandbox.sandbox import ReadOnlyRunner, Sandbox

ASKED = [
    ["status", "--porcelain"],
    ["diff"],
    ["log", "-p", "--show-signature", "-1"],
    ["show", "HEAD"],
]


def hostile(lair: Lair) -> Desk:
    """A repository whose monitor, filter, text conversion and signature check do harm."""
    desk = started(lair.work.parent)
    desk.environ |= lair.environ
    desk.open()
    program = f"{lair.line} </dev/null #"
    desk.commit("first", a_txt="1\n", _gitattributes="* filter=trap diff=trap\n")
    desk.commit("second", a_txt="2\n")
    for key in ("core.fsmonitor", "filter.trap.clean", "diff.trap.textconv", "gpg.program"):
        desk.git("config", "--local", key, program)
    (desk.work / "a.txt").write_text("3\n")
    lair.repair()
    return desk


def ask(desk: Desk, reader: ReadOnlyRunner) -> None:
    """Run git with the repository's own settings: none of ours is among them."""
    program = git_program(desk.environ)
    assert program is not None

    async def each() -> None:
        for arguments in ASKED:
            await run_git(
                program,
                arguments,
                reader,
                cwd=desk.work,
                environ=git_environment(desk.environ, {}),
                most_bytes=1 << 20,
            )

    anyio.run(each)


def test_what_a_repository_starts_does_no_harm(tmp_path: Path) -> None:
    """With the sandbox alone its programs write nothing, read no key, and reach neither network nor socket; the same
    repository does all of that without the sandbox."""
    with Lair(tmp_path) as lair:
        desk = hostile(lair)
        reader = Sandbox(desk.work, environ=desk.environ).read_only_runner()
        assert reader.backend, "bubblewrap must work here"
        ask(desk, reader)
        assert lair.harm == set()
        ask(desk, ReadOnlyRunner())
        assert lair.harm == ALL


@pytest.mark.parametrize("name", ["git_status", "git_diff", "git_log", "git_show"])
def test_the_tools_do_no_harm(tmp_path: Path, name: str) -> None:
    """The tools neither start the repository's programs nor leave anything."""
    with Lair(tmp_path) as lair:
        desk = hostile(lair)
        desk.ask(name)
        assert lair.harm == set()


def test_the_answer_is_the_same_in_the_sandbox_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a worktree whose repository is elsewhere, and with the user's own configuration."""
    found = []
    desk = started(tmp_path)
    desk.git("config", "--global", "core.quotePath", "false")
    desk.commit("first", a_txt="1\n")
    subprocess.run(
        ["git", "worktree", "add", "-q", "../tree", "-b", "other"],
        cwd=desk.work,
        env=desk.environ,
        check=True,
    )
    (desk.work / "ä.txt").write_text("new\n")
    for backend in ("none", "auto"):
        monkeypatch.setattr(Desk, "backend", backend)
        desk.open()
        other = Desk(tmp_path, "tree")
        found.append([desk.ask("git_status"), desk.ask("git_log"), other.ask("git_log")])
    assert found[0] == found[1]
    assert "ä.txt" in str(found[0])
