"""Commands that may write in the workspace cannot change control files, and what they make of them is moved away."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess

import pytest
from tests.control.conftest import Ground

from jaato.tools.processes.environment import find_program
from jaato.tools.processes.git import git_program

pytestmark = pytest.mark.spec("C4", "Permissions")
CANARY = "#!/bin/sh\\ntouch canary\\n"

APPEARING = {
    "settings of an agent": ("mkdir .claude; echo {} >.claude/settings.json", ".claude"),
    "a server list": ("echo '{}' >.mcp.json", ".mcp.json"),
    "an editor's tasks": ("mkdir .vscode && echo {} >.vscode/tasks.json", ".vscode"),
    "a directory renamed into place": ("mkdir x; echo {} >x/settings.json; mv x .cursor", ".cursor"),
    "a link": ("mkdir x; ln -s x .codex", ".codex"),
    "a link that leads nowhere": ("ln -s /nowhere .gemini", ".gemini"),
    "a link out": ("ln -s /etc .idea", ".idea"),
    "another case": ("mkdir .Claude", ".Claude"),
    "a trailing dot": ("echo x >.envrc.", ".envrc."),
    "a pipe": ("mkfifo .npmrc", ".npmrc"),
    "one that nobody may enter": ("mkdir -m 000 .zed", ".zed"),
    "by a pattern": ("echo x >.yarnrc.yml", ".yarnrc.yml"),
    "below .config": ("mkdir -p .config/git; echo x >.config/git/config", ".config/git"),
    ".config by a link": ("rm -rf .config; mkdir -p cc/git; ln -s cc .config", ".config"),
    "a shared repository": ("echo ../../x >.git/commondir", ".git/commondir"),
    "a configuration of the worktree": ("printf '[core]\\nfsmonitor=./x' >.git/config.worktree", ".git/config.worktree"),
    "attributes": ("mkdir -p .git/info; echo '* filter=x' >.git/info/attributes", ".git/info/attributes"),
    "objects of another": ("mkdir -p .git/objects/info; echo /x >.git/objects/info/alternates", ".git/objects/info/alternates"),
    "a submodule": ("git init -q x; mkdir -p .git/modules; mv x/.git .git/modules/x", ".git/modules/x"),
    "a worktree": ("mkdir -p .git/worktrees/x; echo /x >.git/worktrees/x/commondir", ".git/worktrees/x"),
    "a bare repository": ("git init -q --bare x; mv x/* .", "HEAD"),
    "from a process that is killed": ("(setsid sh -c 'sleep 0.2; mkdir .claude; sleep 60' &) ; sleep 0.6", ".claude"),
    "in a workspace that nobody may write": ("mkdir .zed; chmod 555 .", ".zed"),
}  # fmt: skip


def test_what_appears_is_moved_away_before_the_result(ground: Ground) -> None:
    """Whatever way a control file appears, it is gone when the result is there, is named in it, and is kept."""
    names = list(APPEARING)
    results = ground.play(*(APPEARING[name][0] for name in names))
    for name, result in zip(names, results, strict=True):
        path = APPEARING[name][1]
        assert result.get("removed", ["none"])[0] == path, (name, result)
        assert "permission" in result["note"]
        assert not os.path.lexists(ground.workspace / path), name
        assert ground.kept(path.rpartition("/")[2]), name
    assert stat.S_IMODE((ground.place / "state" / "removed").stat().st_mode) == 0o700
    assert any((path / "settings.json").is_file() for path in ground.kept(".claude"))


PRESENT = {
    "hooks": f"printf '{CANARY}' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "configuration": "git config core.fsmonitor ./x || printf '[core]\\nfsmonitor = ./x\\n' >>.git/config",
    "the repository renamed": f"mv .git x; mkdir -p .git/hooks; printf '{CANARY}' >.git/hooks/pre-commit; chmod +x .git/hooks/*",
    "the repository exchanged": "python3 -c \"import os; os.rename('.git', 'y')\"; rm -rf .git",
    "hooks renamed": f"mv .git/hooks .git/h; mkdir .git/hooks; printf '{CANARY}' >.git/hooks/pre-commit",
    "a settings file": "echo evil >.claude/settings.json; rm -rf .claude; mv .claude y; ln -sf x .claude/settings.json",
    "by another descriptor": "exec 3<>.mcp.json; echo evil >&3; truncate -s 0 .mcp.json; echo evil >/proc/self/fd/3",
    "its mode and times": "chmod 777 .mcp.json; touch -d 2000-01-01 .mcp.json; setfattr -n user.x -v y .mcp.json",
    "by a hard link made there": "ln .mcp.json y && echo evil >y; ln .git/config z && echo evil >z",
    "by a hard link there before": "echo evil >linked; echo evil >>hook",
    "by a link there before": "echo evil >real/settings.json; rm -rf real; mv real y",
    "an included configuration": "echo evil >shared.gitconfig",
    "a nested repository": f"echo evil >sub/.git/config; printf '{CANARY}' >sub/.git/hooks/pre-commit; echo evil >sub/.mcp.json",
    "a nested repository renamed": "mv sub y; mkdir sub; mv deep y; mv sub/.git sub/g",
    "a nested bare repository": f"printf '{CANARY}' >deep/bare/hooks/post-update; echo evil >deep/bare/config",
    "a mount undone": "umount .mcp.json; umount -l .git/config; mount -o remount,rw .mcp.json",
    "a namespace of its own": "unshare -Urm sh -c 'umount .mcp.json; echo evil >.mcp.json'",
}  # fmt: skip
SETUP = """
mkdir .claude real deep && echo good | tee .claude/settings.json .mcp.json real/settings.json shared.gitconfig >/dev/null
printf '[include]\\n\\tpath = ../shared.gitconfig\\n' >>.git/config; echo good >.git/hooks/update
ln .mcp.json linked; ln .git/hooks/update hook; ln -s real .cursor
git init -q sub; git init -q --bare deep/bare; echo good >sub/.mcp.json
echo x >f; git -c include.path= add f; git commit -qm first 2>/dev/null; true
"""


def snapshot(ground: Ground) -> dict[str, str]:
    """What tells whether a control file was changed."""
    watched = [
        ".claude",
        ".mcp.json",
        ".cursor",
        ".git/config",
        ".git/hooks",
        "shared.gitconfig",
        "real",
        "sub",
        "deep/bare",
    ]
    names = " ".join(watched)
    shown = f"ls -laR --time-style=full-iso {names.replace(' ', '/ ')}/ {names}; "
    shown += f"find {names} -type f -not -path '*objects*' -exec sha256sum {{}} +"
    found = subprocess.run(
        ["/bin/bash", "-c", f"{{ {shown}; }} | grep -v '^total'"],
        cwd=ground.workspace, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {
        "lines": "\n".join(line for line in found.stdout.splitlines() if not line.endswith((" .", " ..")))
    }


def test_what_is_there_stays_as_it_is(ground: Ground) -> None:
    """No command that may write in the workspace changes a control file, and each of these would outside the sandbox."""
    ground.prepare(SETUP)
    before = snapshot(ground)
    names = list(PRESENT)
    for name, result in zip(names, ground.play(*PRESENT.values()), strict=True):
        assert "removed" not in result, (name, result)
    assert snapshot(ground) == before
    assert not (ground.workspace / "canary").exists()


@pytest.mark.parametrize(
    "name", [name for name in PRESENT if "mount" not in name and "namespace" not in name]
)
def test_outside_the_sandbox_they_change(ground: Ground, name: str) -> None:
    """The attacks are real: played without a sandbox each changes something."""
    if ground.nobody:
        pytest.skip("one user shows it")
    ground.prepare(SETUP)
    before = snapshot(ground)
    ground.play((PRESENT[name], {"profile": "full"}))
    assert snapshot(ground) != before


def test_work_with_git_goes_on(ground: Ground) -> None:
    """Commit, stash, branches, a clone and its removal work; a new repository and settings of it need a question."""
    done = ground.play(
        "echo 1 >f && git add f && git commit -qm one && echo 2 >f && git stash -q && git stash pop -q && git commit -qam two",
        "git switch -qc other && git merge -q main && git gc -q && git tag t && git log --oneline | wc -l",
        "git clone -q . copy && git init -q fresh && git -C copy config a.b c && git -C fresh config a.b c",
        "rm -rf copy fresh && ls",
        "python3 -m venv --without-pip .venv && mkdir -p .husky .github/workflows && echo x | tee .gitattributes .husky/x",
        "git config a.b c",
        ("git config a.b c", {"control": True}),
    )
    codes = [result["exit_code"] for result in done]
    assert codes[:5] == [0, 0, 0, 0, 0], done
    assert done[1]["output"].strip() == "2"
    assert codes[5] != 0
    assert codes[6] == 0
    assert all("removed" not in result for result in done)
    assert "a.b=c" in subprocess.run(
        ["git", "-c", "safe.directory=*", "config", "-lf", ".git/config"],
        cwd=ground.workspace, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_a_new_repository_needs_permission(ground: Ground) -> None:
    """`git init` in a workspace without one is undone without permission to change control files, and works with it."""
    shutil.rmtree(ground.workspace / ".git")
    done = ground.play(
        "git init -q", ("git init -q", {"control": True}), "echo x >f; git add f; git status --short"
    )
    assert done[0]["removed"] == [".git"]
    assert "removed" not in done[1]
    assert done[2]["output"] == "A  f\n"


def test_nothing_is_left_on_the_host(ground: Ground) -> None:
    """Protection leaves no mount point, placeholder or temporary name in the workspace."""
    before = sorted(os.listdir(ground.workspace))
    ground.play("true", "mkdir .claude", "ls")
    assert sorted(os.listdir(ground.workspace)) == before


def test_names_can_be_added(ground: Ground) -> None:
    """The setting `control_files` protects more names, patterns and paths; those of the second tier stay writable."""
    ground.prepare("mkdir ops; echo good | tee deploy.sh ops/run.sh >/dev/null")
    more = ("deploy.sh", "*.tf", "ops/*.sh", "tier2:second.sh")
    done = ground.play(
        "echo evil >deploy.sh; echo evil >ops/run.sh; mv ops x",
        "echo x | tee main.tf ops/new.sh second.sh",
        more=more,
    )
    assert (ground.workspace / "deploy.sh").read_text() == "good\n"
    assert (ground.workspace / "ops" / "run.sh").read_text() == "good\n"
    assert sorted(done[1]["removed"]) == ["main.tf", "ops/new.sh"]
    assert (ground.workspace / "second.sh").exists()


def test_an_ordinary_workspace_needs_few_mounts(ground: Ground) -> None:
    """With a repository, an editor's settings and two agents', a command gets at most seven mounts for them."""
    ground.prepare("mkdir .vscode .claude .jaato; echo {} >.mcp.json; touch .npmrc")
    (result,) = ground.play(
        "grep -c ' /var/tmp/.*/w/' /proc/self/mountinfo || grep -c '/w/' /proc/self/mountinfo"
    )
    assert int(result["output"]) <= 8


def test_protection_shows_nothing_that_is_hidden(ground: Ground) -> None:
    """Where the home is the workspace, its secrets stay out of sight, though they lie at or below control files."""
    shutil.rmtree(ground.place / "home")
    (ground.place / "home").symlink_to("w")
    ground.prepare(
        "mkdir -p .ssh .config/gh .config/git; echo secret | tee .ssh/id .config/gh/hosts.yml .npmrc >/dev/null; "
        "echo '[user]' >.config/git/config"
    )
    (result,) = ground.play(
        "cat .ssh/id .config/gh/hosts.yml .npmrc; cat .config/git/config; echo evil >.ssh/config; mv .ssh x"
    )
    assert "secret" not in result["output"]
    assert "[user]" in result["output"]
    assert (ground.workspace / ".ssh" / "id").exists()
    assert not (ground.workspace / ".ssh" / "config").exists()


def test_a_program_of_the_workspace_is_none_of_ours(ground: Ground) -> None:
    """What jaato starts itself is never taken from the workspace, also not where the name there is a link to another."""
    program = shutil.which("git")
    assert program is not None
    ground.prepare(f"mkdir -p .venv/bin; ln -s {program} .venv/bin/git; cp /bin/true .venv/bin/head")
    path = [str(ground.workspace / ".venv" / "bin"), os.path.dirname(program)]
    assert find_program("git", path, [ground.workspace]) == program
    assert find_program("head", path[:1], [ground.workspace]) is None
    assert git_program({"PATH": os.pathsep.join(path)}, [ground.workspace]) == program
