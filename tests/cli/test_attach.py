"""Two terminals at one session of a server, and a server that dies under them."""

from __future__ import annotations

import json
import re
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import leave, talking

ANCESTORS = "P=$PPID; while [ $P -gt 1 ]; do tr '\\0' ' ' </proc/$P/cmdline; P=$(awk '{print $4}' /proc/$P/stat); done"
"""The programs a command was started by, one after the other."""
LONG = " ".join(f"word{number}" for number in range(120))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[CliEnvironment]:
    """An isolated command line with a server."""
    with CliEnvironment(tmp_path).serving() as desk:
        yield desk


@contextmanager
def attached(desk: CliEnvironment, *args: str, user: str = "bea") -> Iterator[Any]:
    """A terminal that has joined the session."""
    desk.env["USER"] = user
    with talking(desk, *args, command="attach") as child:
        yield child


def test_two_terminals_see_the_same(served: CliEnvironment) -> None:
    """What one terminal says and the agent answers, the other one shows too, whole and once; who comes and leaves is told,
    which files tools have changed, and which commands the plugins have."""
    edits = [{"path": "a.txt", "new_content": "1\n"}, {"path": "b.txt", "new_content": "2\n"}]
    script = served.script(
        say("First."),
        say(LONG, chunks=40),
        call("get_tool_schemas", names=["multiFileEdit"]),
        call("multiFileEdit", edits=edits),
        say("Third."),
    )
    served.env["USER"] = "ana"
    with talking(served, *script, "--yes", "--name", "shared", "hello") as one:
        one.expect("First.")
        one.expect("> $")
        with attached(served, "shared") as two:
            two.expect("user: hello")
            two.expect("agent: First.")
            two.expect("> $")
            one.expect("bea at .* joined")
            one.sendline("go on")
            two.expect("ana at [^:]*: go on")
            for child in (one, two):
                child.expect(LONG.replace(" ", r"\s+"))
                child.expect("tokens in")
            two.expect("> $")
            two.sendline("and I?")
            one.expect("bea at [^:]*: and I")
            for child in (one, two):
                child.expect("2 files changed")
                child.expect("Third.")
                child.expect("tokens in")
            two.expect("> $")
            two.sendline("/files")
            two.expect(r"created +a.txt \+1")
            two.expect(r"created +b.txt \+1")
            two.sendline("/help")
            two.expect(r"/waypoint +create TEXT")
            assert leave(two) == 0
        one.expect("bea at .* left")
        one.sendline("/exit")
        one.expect(pexpect.EOF)


def test_the_first_answer_wins(served: CliEnvironment) -> None:
    """A question stands at every terminal; who answers first decides, and the other learns who and what."""
    script = served.script(call("run", command="touch made", need=["write"]), say("Over."))
    served.env["USER"] = "ana"
    with talking(served, *script, "--name", "shared", "go") as one:
        one.expect(r"allow\? ")
        with attached(served, "shared") as two:
            two.expect("May run run")
            two.expect(r"allow\? ")
            two.sendline("y")
            one.expect("bea at .* answered: y")
            for child in (one, two):
                child.expect("Over.")
                child.expect("tokens in")
            assert leave(two) == 0
        one.expect("> $")
        one.sendeof()
        one.expect(pexpect.EOF)
    assert (served.work / "made").exists()


def test_leaving_lets_the_work_go_on(served: CliEnvironment) -> None:
    """Ctrl-D leaves a session that works; Ctrl-C of another terminal stops its turn."""
    script = served.script(call("run", command="touch begun; sleep 60"), say("never"))
    running = served.start("run", *script, "--yes", "--name", "long", "go")
    assert running.stderr is not None
    while b"> run" not in running.stderr.readline():
        pass
    with attached(served) as one:
        one.expect("> run touch begun; sleep 60 .running.")
        one.sendeof()
        one.expect("Detached; the turn continues")
        one.expect(pexpect.EOF)
    assert running.poll() is None
    with attached(served, "long") as two:
        two.expect("running")
        two.expect("Ctrl-D leaves")
        two.sendintr()
        two.expect("Interrupted; completed work is kept")
        assert leave(two) == 0
    running.communicate(timeout=60)
    assert running.returncode == 130


def test_a_client_that_dies_leaves_its_turn(served: CliEnvironment) -> None:
    """`jaato run` killed with -9: the server ends the turn without it."""
    script = served.script(call("run", command="touch begun; sleep 1; touch done"), say("All done."))
    running = served.start("run", *script, "--yes", "--name", "orphan", "go")
    assert running.stderr is not None
    while b"> run" not in running.stderr.readline():
        pass
    running.kill()
    running.communicate()
    with attached(served, "orphan") as one:
        one.expect("All done.")
        one.expect("tokens in")
        assert leave(one) == 0
    assert (served.work / "done").exists()


def test_a_message_without_a_connection_is_dropped_by_ctrl_c(served: CliEnvironment) -> None:
    """The server is gone: a message waits for it and says so; Ctrl-C drops it, after which lines are read again."""
    with talking(served, *served.script(say("First."), say("Second.")), "hello") as one:
        one.expect("First.")
        one.expect("> $")
        served.kill_server()
        one.expect("Lost the connection to the server")
        one.sendline("never")
        one.expect("once there is a connection again")
        one.sendintr()
        one.expect("dropped")
        served.start_server()
        one.expect("Reconnected")
        one.sendline("again")
        one.expect("Second.")
        one.expect("tokens in")
        assert leave(one) == 0
    events = served.events(served.sessions()[0]["id"])
    assert "never" not in json.dumps([one for one in events if one["type"] == "message.user"])


def test_a_server_that_dies_in_mid_turn(served: CliEnvironment) -> None:
    """kill -9 of the server: terminals say so and come back by themselves; nothing that was recorded is lost, the call
    that ran is shown as interrupted, and is not begun again."""
    script = served.script(say("First."), call("run", command="echo x >> begun; sleep 60"), say("Going on."))
    with talking(served, *script, "--yes", "--name", "shared", "hello") as one:
        one.expect("First.")
        one.expect("> $")
        one.sendline("work")
        one.expect("> run echo x")
        while not (served.work / "begun").exists():
            time.sleep(0.01)
        served.kill_server()
        one.expect("Lost the connection to the server")
        assert "(cut off) shared" in served.run("sessions", "list").stdout
        assert '"standing":"cut off"' in served.run("sessions", "list", "--json").stdout.replace(": ", ":")
        served.start_server()
        one.expect("Reconnected")
        one.expect("was cut off|interrupted")
        with attached(served, "shared") as two:
            two.expect("agent: First.")
            two.expect("user: work")
            two.expect("run echo x.*[Ii]nterrupted")
            two.expect(r"(> |answer \(.*empty: unknown\): )$")  # the question may come first
            two.sendline("/continue")
            two.expect("Going on.")
            two.expect("tokens in")
            assert leave(two) == 0
        one.expect("Going on.")
    assert (served.work / "begun").read_text() == "x\n"


def test_what_is_said_where_there_is_nothing(served: CliEnvironment) -> None:
    """No server, a wrong token, a session nobody knows, one that several have: one line that says what to do."""
    token = str(served.root / "token")
    Path(token).write_text("letmein")
    for args, code, words in (
        (["attach", "nope"], 2, "No session has the id or name 'nope'"),
        (["attach"], 2, "has no sessions"),
        (["attach", "x", "--connect", str(served.root / "none.sock")], 1, "jaato serve --daemon"),
        (["attach", "x", "--connect", "ws://127.0.0.1:9"], 2, "--token-file"),
        (
            ["attach", "x", "--connect", "ws://127.0.0.1:9", "--token-file", token],
            1,
            "--web-socket 127.0.0.1:9`",
        ),
        (["attach", "x", "--connect", "ws://a:b@127.0.0.1:9", "--token-file", "none"], 2, "cannot be used"),
        (["run", "--connect", str(served.root / "none.sock"), "hi"], 1, "No server answers"),
        (["run", "--connect", "x", "--no-daemon", "hi"], 2, "contradict each other"),
        (["events", "nope", "--follow"], 2, "No session"),
    ):
        made = served.run(*args)
        assert (made.returncode, words in made.stderr) == (code, True), (args, made.returncode, made.stderr)
        assert "Traceback" not in made.stderr


def test_over_the_network(served: CliEnvironment) -> None:
    """A server at a TCP address is joined with the token of a file; a wrong one is refused."""
    served.run("serve", "--stop")
    assert served.run("serve", "--daemon", "--web-socket", ":0").returncode == 0
    found = re.search(r"ws://[\d.:]+", served.run("serve", "--status").stdout)
    assert found is not None
    served.run("run", *served.script(say("Good day.")), "--name", "far", "hi")
    token = served.root / "token"
    token.write_bytes((served.state / "server-token").read_bytes())
    with attached(served, "far", "--connect", found[0], "--token-file", str(token)) as one:
        one.expect("agent: Good day.")
        assert leave(one) == 0
    for held, code, words in (
        (b"letmein", 4, "wrong, expired or another server's"),
        (b"", 2, "it is empty"),
        (b"\xff\x00", 2, "one line of ASCII"),
        (b"two\nlines", 2, "one line of ASCII"),
        (None, 2, "No such file"),
    ):
        token.unlink() if held is None else token.write_bytes(held)
        for command in (["attach", "far"], ["events", "far"]):
            made = served.run(*command, "--connect", found[0], "--token-file", str(token))
            assert (made.returncode, words in made.stderr) == (code, True), made.stderr
            assert ("--token-file" in made.stderr, str(token) in made.stderr) == (True, True), made.stderr
            assert "letmein" not in made.stderr


def test_events(served: CliEnvironment) -> None:
    """The stored events, those after a number, and what happens from now on, with a server and without, until Ctrl-C
    or until nobody reads any more."""
    script = served.script(say("one"), say("two two two", chunks=3), say("three"))
    served.run("run", *script, "--name", "told", "hi")
    stored = served.run("events", "told").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in stored] == list(range(1, len(stored) + 1))
    assert served.run("events", "told", "--after", "3").stdout.splitlines() == stored[3:]
    for flags in ([], ["--no-deltas"], ["--no-daemon"]):
        following = served.start("events", "told", "--follow", *flags)
        assert following.stdout is not None
        lines = [following.stdout.readline() for _ in stored]
        assert [line.decode().rstrip("\n") for line in lines] == stored
        served.run("run", "--session", "told", "more")
        kinds: list[str] = []
        while "turn.completed" not in kinds:
            event = json.loads(following.stdout.readline())
            kinds.append(event["type"])
        if flags == ["--no-deltas"]:
            following.send_signal(signal.SIGINT)
        else:
            following.stdout.close()  # its reader has gone, and nothing happens that it could find that by
        assert following.wait(timeout=30) == 0
        following.stdout.close()
        assert following.stderr is not None
        following.stderr.close()
        assert ("agent.output" in kinds) == (not flags)
        stored = served.run("events", "told").stdout.splitlines()


@pytest.mark.parametrize("wanted", ["auto", "always", "never"])
def test_the_setting_server(served: CliEnvironment, wanted: str) -> None:
    """auto uses a server that is there, always starts one, never leaves it alone; a server of other sessions is none."""
    served.env["JAATO_SERVER"] = wanted
    script = served.script(call("run", command=ANCESTORS), say("Done."))
    served.env["JAATO_SANDBOX"] = "full"
    served.run("serve", "--stop")
    made = served.run("run", *script, "--yes", "--output", "events", "go")
    assert made.returncode == 0, made.stderr
    assert ("jaato serve" in made.stdout) == (wanted == "always")
    assert (served.run("serve", "--status").returncode == 0) == (wanted == "always")
    served.run("serve", "--daemon")
    made = served.run("run", *script, "--yes", "--output", "events", "go")
    assert ("jaato serve" in made.stdout) == (wanted != "never")
    elsewhere = served.run(
        "run",
        *script,
        "--yes",
        "--output",
        "events",
        "go",
        environ={"XDG_STATE_HOME": str(served.root / "s")},
    )
    assert ("jaato serve" in elsewhere.stdout) == (wanted == "always")


def test_something_that_listens_and_is_silent(desk: CliEnvironment) -> None:
    """Within seconds every client gives up and says where it has tried, and what to do; a run that needs no server goes on
    without this one."""
    script = desk.script(say("Without it."))
    with tempfile.TemporaryDirectory(prefix="jaato-") as place, socket.socket(socket.AF_UNIX) as silent:
        path = Path(place) / "jaato" / "jaato.sock"
        path.parent.mkdir(mode=0o700)
        silent.bind(str(path))
        silent.listen()
        there = ["--connect", str(path)]
        started = [
            desk.start(*command, *there)
            for command in (["run", "hi"], ["chat"], ["attach"], ["attach", "--new"])
        ]
        desk.env["XDG_RUNTIME_DIR"] = place
        beside = desk.run("run", *script, "hi")
        ended = [(process.communicate()[1].decode(), process.returncode) for process in started]
    assert [code for _, code in ended] == [1] * len(started)
    for text, _ in ended:
        assert f"What listens at {path} does not answer" in text
        assert "`jaato serve --daemon`" in text
        assert "Traceback" not in text
    assert (beside.stdout, beside.returncode) == ("Without it.\n", 0)
    assert f"not using the server: What listens at {path}" in beside.stderr
