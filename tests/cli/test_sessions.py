"""Searching, forking, carrying away and clearing up what is stored, on the command line."""

from __future__ import annotations

import json
import os
import sqlite3
import zipfile

import pexpect
import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import talking


def recorded(desk: CliEnvironment) -> str:
    """A session in which a file was read."""
    (desk.work / "a.txt").write_text("the xylophone is out of tune\n")
    script = desk.script(call("readFile", path="a.txt"), say("It is about music."))
    assert desk.run("run", *script, "--name", "music", "read it").returncode == 0
    return str(desk.sessions()[0]["id"])


def test_search_finds_by_what_a_tool_read(desk: CliEnvironment) -> None:
    """`sessions search` gives the session, its name and the line; also as JSON, and says so when there is nothing."""
    session_id = recorded(desk)
    made = desk.run("sessions", "search", "xylophone", "music")
    assert session_id in made.stdout
    assert "xylophone is out of tune" in made.stdout or "about music" in made.stdout
    (row,) = json.loads(desk.run("sessions", "search", "out of tune", "--json").stdout)
    assert (row["id"], "xylophone" in row["found"]) == (session_id, True)
    assert json.loads(desk.run("sessions", "search", "tune of out", "--json").stdout) == []
    nothing = desk.run("sessions", "search", "trombone")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "--all" in nothing.stderr
    assert desk.run("sessions", "search", "xylophone", "--workspace", str(desk.root)).stdout == ""
    assert (
        session_id
        in desk.run("sessions", "search", "xylophone", "--all", "--workspace", str(desk.root)).stdout
    )
    assert desk.run("sessions", "search", "!!!").returncode == 1


def test_a_fork_goes_on_by_itself(desk: CliEnvironment) -> None:
    """`sessions fork` prints the new id; the fork has what came up to the event, and goes on; the first is as it was."""
    session_id = recorded(desk)
    before = desk.events(session_id)
    asked = next(event["seq"] for event in before if event["type"] == "message.user")
    made = desk.run("sessions", "fork", "music", "--at", str(asked), "--name", "another way")
    fork = made.stdout.strip()
    assert len(desk.events(fork)) == asked + 1
    script = desk.script(say("It was about something else."), name="other.json")
    gone_on = desk.run("run", *script, "--session", "another way", "and now?")
    assert (gone_on.returncode, gone_on.stdout) == (0, "It was about something else.\n"), gone_on.stderr
    assert desk.events(session_id) == before
    assert desk.run("sessions", "fork", "music", "--at", "4000").returncode == 1
    assert desk.run("sessions", "fork", "nothing").returncode == 2


@pytest.mark.spec("C8", "Server and events")
def test_a_bundle_plays_again_without_the_model(desk: CliEnvironment) -> None:
    """A session leaves as a bundle without the secrets of its machine, comes in under another id, is shown there, and
    replays offline, from the bundle itself or from what was imported."""
    desk.env["SOME_API_KEY"] = "wonderland-7461-rabbit-hole"
    session_id = recorded(desk)
    del desk.env["SOME_API_KEY"]
    with sqlite3.connect(
        desk.state / "jaato.db"
    ) as connection:  # from a time when it was not known to be one
        connection.execute(
            "UPDATE event SET data = CAST(replace(CAST(data AS TEXT), 'xylophone', "
            "'wonderland-7461-rabbit-hole') AS BLOB)"
        )
    connection.close()
    desk.env["SOME_API_KEY"] = "wonderland-7461-rabbit-hole"
    bundle = desk.root / "music.jaato"
    made = desk.run("sessions", "export", "music", "--bundle", "--to", str(bundle))
    assert made.returncode == 0, made.stderr
    with zipfile.ZipFile(bundle) as archive:
        assert all(b"wonderland" not in archive.read(name) for name in archive.namelist())
    assert desk.run("sessions", "delete", session_id, "--yes").returncode == 0
    played = desk.run(
        "run", "--provider", "scripted", "--model", str(bundle), "--name", "played", "once more"
    )
    assert (played.returncode, played.stdout) == (0, "It is about music.\n"), played.stderr
    taken = desk.run("sessions", "import", str(bundle), "--name", "taken")
    assert taken.returncode == 0, taken.stderr
    assert taken.stdout.strip() != session_id
    assert "read it" in desk.run("sessions", "show", "taken").stdout
    again = desk.run("run", "--provider", "scripted", "--model", "taken", "--name", "again", "once more")
    assert (again.returncode, again.stdout) == (0, "It is about music.\n"), again.stderr
    refused = desk.run("sessions", "export", "music", "--bundle")
    assert refused.returncode == 2


def test_a_first_bundle_needs_no_store(desk: CliEnvironment) -> None:
    """Where nothing is stored yet a bundle is taken in all the same; what is no bundle is refused by name."""
    recorded(desk)
    bundle = desk.root / "music.jaato"
    desk.run("sessions", "export", "music", "--bundle", "--to", str(bundle))
    for path in sorted(desk.state.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert desk.run("sessions", "import", str(bundle)).returncode == 0
    assert [row["name"] for row in desk.sessions()] == ["music"]
    for path, words in ((desk.work / "a.txt", "is not a bundle"), (desk.root / "gone", "cannot be used")):
        made = desk.run("sessions", "import", str(path))
        assert (made.returncode, words in made.stderr) == (1, True), made.stderr
    assert len(desk.sessions()) == 1


def test_vacuum_keeps_what_the_settings_say(desk: CliEnvironment) -> None:
    """Nothing goes unless a flag or a setting says so; --dry-run names what would go and changes nothing; a number that
    would keep nothing is refused."""
    ids = [recorded(desk), recorded(desk), recorded(desk)]
    assert desk.run("sessions", "vacuum").returncode == 0
    assert len(desk.sessions()) == 3
    planned = desk.run("sessions", "vacuum", "--keep-sessions", "1", "--dry-run")
    assert [ids[0] in planned.stdout, ids[1] in planned.stdout, ids[2] in planned.stdout] == [
        True,
        True,
        False,
    ]
    assert "would remove" in planned.stdout
    assert len(desk.sessions()) == 3
    desk.env["JAATO_KEEP_SESSIONS"] = "2"
    done = desk.run("sessions", "vacuum", "--json")
    assert [row["id"] for row in json.loads(done.stdout)["removed"]] == [ids[0]]
    assert [row["id"] for row in desk.sessions()] == [ids[2], ids[1]]
    for flags in (
        ["--keep-days", "0"],
        ["--keep-sessions", "-1"],
        ["--keep-mb", "nan"],
        ["--keep-days", "x"],
    ):
        assert desk.run("sessions", "vacuum", *flags).returncode == 2
    assert len(desk.sessions()) == 2
    assert not [name for name in os.listdir(desk.state) if name.endswith(("-wal", "-shm"))]


def test_the_list_says_what_each_session_is(desk: CliEnvironment) -> None:
    """A session without a name is listed by its first words, columns stand below each other, and a name that nobody could
    find again is refused wherever one is given."""
    for number, words in enumerate(("where is the key?", "and the door?")):
        script = desk.script(say("Here. " * number), name=f"{number}.json")
        assert desk.run("run", *script, words).returncode == 0
    first, second = desk.run("sessions", "list").stdout.splitlines()
    assert (first.endswith("and the door?"), second.endswith("where is the key?")) == (True, True)
    assert first.index(" events") == second.index(" events")
    session_id = desk.sessions()[0]["id"]
    for name in ("x" * 201, "two\nlines", "\x1b[31m"):
        for args in (("rename", session_id, name), ("fork", session_id, "--name", name)):
            made = desk.run("sessions", *args)
            assert (made.returncode, "at most 200" in made.stderr) == (2, True), made
        made = desk.run("run", *desk.script(say("x")), "--name", name, "hi")
        assert (made.returncode, "at most 200" in made.stderr) == (2, True), made
    assert len(desk.sessions()) == 2


def test_deleting_asks_at_a_terminal(desk: CliEnvironment) -> None:
    """At a terminal `sessions delete` asks first; anything but yes, the end of input too, deletes nothing."""
    session_id = recorded(desk)
    for answer, left in (("", 1), ("y\n", 0)):
        with talking(desk, "delete", session_id, command="sessions") as child:
            child.expect_exact(f"Delete {session_id} for good? [y/N] ")
            child.send(answer) if answer else child.sendeof()
            child.expect_exact("deleted" if answer else "Nothing was deleted.")
            child.expect(pexpect.EOF)
        assert len(desk.sessions()) == left
