"""Control files that are elsewhere than their names say, and places that are exchanged for links: played to the end."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from pathlib import Path

import anyio
import pytest
from tests.control.conftest import Ground
from tests.control.player import Player
from tests.sandbox.users import FIRST_USER

pytestmark = pytest.mark.spec("C4", "Permissions")
WHOSE = pytest.mark.parametrize("ground", FIRST_USER, indirect=True)
EVIL = "for one in {files}; do echo evil >>$one; done; {more}; true"

KEPT: dict[str, tuple[str, str, str]] = {
    # what is there, what a command tries to change, and what it does beside
    "included on the line of the section": ("printf '[include] path = ../inc\\n' >>.git/config", "inc", ""),
    "included, with a comment": ("printf '[include]\\n\\tpath = ../inc # ours\\n' >>.git/config", "inc", ""),
    "included, in pieces": ("printf '[include]\\n\\tpath = \"../\"in\\\\\\nc ; ours\\n' >>.git/config", "inc", ""),
    "included by an included one": (
        "printf '[include]\\npath=../inc\\n' >>.git/config; printf '[include]\\npath=other\\n' >inc", "other", ""),
    "included for this worktree": (
        "git config extensions.worktreeConfig true; printf '[include]\\npath=../inc\\n' >.git/config.worktree", "inc", ""),
    "included by the user": ("printf '[include]\\npath=%s/inc\\n' $PWD >../home/.gitconfig", "inc", ""),
    "addresses of a remote": ("mkdir -p .git/remotes; echo URL: x >.git/remotes/up", ".git/remotes/up", "rm .git/remotes/up"),
    "a hook that is a link": ("mkdir scripts; ln -s ../../scripts/x .git/hooks/pre-commit; touch scripts/x", "scripts/x", "mv scripts y"),
    "settings that are a link": ("mkdir .claude; touch inc; ln -s ../inc .claude/settings.json", "inc", "mv inc y"),
    "the user's start-up file": ("touch inc; ln -s ../w/inc ../home/.bashrc", "inc", "rm inc"),
    "the user's settings of an agent": (
        "mkdir c ../home/.claude; touch c/s; ln -s ../../w/c/s ../home/.claude/settings.json", "c/s", "mv c y"),
    "the user's home in the workspace": (
        "rmdir ../home; mkdir home; ln -s w/home ../home; touch home/.bashrc", "home/.bashrc home/.profile", "mv home/.bashrc y"),
}  # fmt: skip


@WHOSE
@pytest.mark.parametrize("name", KEPT)
def test_what_is_obeyed_from_elsewhere_stays_as_it_is(ground: Ground, name: str) -> None:
    """Whatever leads git, an agent or a shell to a file of the workspace, a command does not change it; one without a
    sandbox does."""
    setup, files, more = KEPT[name]
    ground.prepare(f"touch inc other; {setup}")
    shown = f"for one in {files}; do echo $one; cat $one; done 2>&1"
    attack = EVIL.format(files=files, more=more or "true")
    free = {"profile": "full"}
    before, _, held, _, changed = ground.play(
        (shown, free), attack, (shown, free), (attack, free), (shown, free)
    )
    assert held["output"] == before["output"]
    assert changed["output"] != before["output"]


def test_remotes_that_appear_are_moved_away(ground: Ground) -> None:
    """Nobody is led to another repository by a file that git reads where the configuration knows no such remote."""
    made = "mkdir -p .git/remotes .git/branches; echo 'URL: /evil' >.git/remotes/origin; echo /evil >.git/branches/up"
    (result,) = ground.play(f"{made}; rm -rf .git/x; mkdir .git/x")
    assert sorted(result["removed"]) == [".git/branches/up", ".git/remotes/origin"]
    (linked,) = ground.play(
        "rm -rf .git/remotes; mkdir x; echo 'URL: /evil' >x/origin; ln -s ../x .git/remotes"
    )
    assert linked["removed"] == [".git/remotes"]


@WHOSE
@pytest.mark.parametrize("flood", ["mkdir {}", "git init -q {}"])
def test_a_crowd_of_directories_hides_no_repository(ground: Ground, flood: str) -> None:
    """However much a command makes beside it, a repository below the workspace is protected from the next command, and from
    those of the next session."""
    ground.prepare("mkdir z && git init -q z/sub && sleep 0.2")
    if "mkdir" in flood:  # as many as are looked at, and more, by one program
        count, crowd = 2_100, flood.format("$(seq 2100)")
    else:
        count, crowd = 45, f"for i in $(seq 45); do {flood.format('$i')}; done"
    make = f"mkdir a && cd a && {crowd}; sleep 0.5"
    attack = "touch z/sub/.git/hooks/evil; echo evil >>z/sub/.git/config; true"
    ground.play("true", make, attack, f"sleep 2; {attack}", attack)
    ground.play(attack, attack)
    done = ground.play(("ls z/sub/.git/hooks; cat z/sub/.git/config; ls a | wc -l", {"profile": "full"}))
    assert "evil" not in done[0]["output"]
    assert str(count) in done[0]["output"]


@pytest.mark.parametrize("below", ["out", "deep/out"])
def test_a_directory_that_was_opened_and_became_a_link_opens_nothing(ground: Ground, below: str) -> None:
    """What somebody was asked about was a directory of the workspace: what a command puts in its place is not written to,
    and nothing that is hidden comes into sight."""
    ground.prepare("mkdir -p out deep/out ../home/.ssh; echo secret >../home/.ssh/id")
    access = {"paths": [str(ground.workspace / below)]}
    for target, reads in ((ground.place / "home", "."), (ground.place / "home" / ".ssh", "id")):
        done = ground.play(
            (f"touch {below}/mine", access),
            f"rm -rf {below}; ln -s {target} {below}",
            (f"touch {below}/planted; cat {below}/{reads}", access),
            f"rm {below}; mkdir {below}",
        )
        assert done[0]["exit_code"] == done[1]["exit_code"] == 0
        assert "secret" not in done[2]["output"]
        assert not (target / "planted").exists()


def test_a_directory_that_is_exchanged_all_the_time_opens_nothing(player: Player, tmp_path: Path) -> None:
    """A command that goes on exchanging a directory for a link while others are started in which it is opened gains
    nothing by it."""
    (player.workspace / "out").mkdir()
    (tmp_path / "home").mkdir()
    swap = "import os\nfor _ in iter(int, 1):\n os.rename('out', 'o'); os.symlink('../home', 'out'); "
    swap += "os.unlink('out'); os.rename('o', 'out')"
    opened = (str(player.workspace / "out"),)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(player.play, f'exec python3 -c "{swap}"')
            for _ in range(20):
                await player.play("touch ../home/planted out/planted", paths=opened)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert not list((tmp_path / "home").iterdir())


def test_what_is_hidden_stays_hidden_when_the_home_is_the_workspace(ground: Ground) -> None:
    """Nothing above a hidden place can be renamed, for the next command would find it under another name; jaato's own state
    is not exchanged for another."""
    ground.prepare(
        "rmdir ../home; ln -s w ../home; mkdir -p .config/gcloud .local/share/keyrings .cargo .local/state; "
        "echo secret | tee .config/gcloud/x .local/share/keyrings/x .cargo/credentials >/dev/null; "
        "mv ../state .local/state/jaato; ln -s w/.local/state/jaato ../state; echo good >../state/trust.json"
    )
    made = "mkdir -p .local/state/jaato; echo evil >.local/state/jaato/trust.json; mkdir -p .local/share; echo x >.local/y"
    done = ground.play(
        f"mv .config a; mv .local b; mv .cargo c; mv .local/state d; {made}", "grep -r secret .; true"
    )
    assert "secret" not in done[1]["output"]
    assert (ground.place / "state" / "trust.json").read_text() == "good\n"
    assert (ground.workspace / ".local" / "y").exists()
    ground.play((f"mv .local b; {made}; true", {"profile": "full"}))
    assert (ground.workspace / ".local" / "state" / "jaato" / "trust.json").read_text() == "evil\n"


@pytest.mark.parametrize("named", ["absolutely", "relatively"])
def test_a_socket_of_the_workspace_is_not_reached_by_another_name(named: str) -> None:
    """A server outside that listens in the workspace is out of reach, whatever name it was given, also when a directory above
    has been renamed."""
    reach = "python3 -c \"import socket, glob; s = socket.socket(socket.AF_UNIX); s.connect(glob.glob('*/*/s')[0])\""

    async def main(player: Player) -> list[int]:
        results = [
            await player.play(line) for line in (reach, f"mv run r || mv run/deep run/d; {reach}", reach)
        ]
        free = await player.play(f"mv run r; {reach}", profile="full")
        assert free["exit_code"] == 0
        return [result["exit_code"] for result in results]

    with tempfile.TemporaryDirectory(dir="/var/tmp") as root, socket.socket(socket.AF_UNIX) as server:
        place = Path(root, "w", "run", "deep")
        place.mkdir(parents=True)
        with contextlib.chdir(place):
            server.bind(str(place / "s") if named == "absolutely" else "s")
            server.listen()
            player = Player(Path(root, "w"), Path(root, "state"))
            try:
                assert 0 not in anyio.run(main, player)
            finally:
                player.close()


def test_a_cache_that_became_a_link_is_none(ground: Ground) -> None:
    """Where the cache of commands lies in the workspace, a link in its place leads nowhere."""
    ground.prepare("mkdir -p c/jaato ../target; mv ../state c/jaato/state; ln -s w/c/jaato/state ../state")
    ground.prepare("ln -s w/.cache ../cache; mkdir .cache")
    ground.play(
        "true",
        "rm -rf .cache; ln -s ../target .cache; touch $XDG_CACHE_HOME/mine",
        "touch $XDG_CACHE_HOME/x; true",
    )
    assert not list((ground.place / "target").iterdir())
