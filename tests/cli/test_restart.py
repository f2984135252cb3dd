"""`jaato run` at a server that is killed and started again; paths that a client gives to a server elsewhere."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import anyio
import pexpect
import pytest
from tests.cli.environment import TIMEOUT_S, CliEnvironment, call, say
from tests.cli.terminal import leave, talking
from tests.cli.test_http import chunk
from tests.providers.server import Server, events, serve, stream

BEGIN = "echo x >> begun; sleep 60"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[CliEnvironment]:
    """An isolated command line with a server."""
    with CliEnvironment(tmp_path).serving() as desk:
        yield desk


def ended(running: Popen[bytes]) -> tuple[int, str, str]:
    """The exit code and the output of a command that ends by itself."""
    out, err = running.communicate(timeout=TIMEOUT_S)
    return running.returncode, (out or b"").decode(), err.decode()


def test_a_run_comes_back_to_a_restarted_server(served: CliEnvironment) -> None:
    """kill -9 of the server during a call: the run waits for the next server and resumes its turn; the call is shown as
    interrupted and not repeated, the answer is on stdout and the exit code is 0."""
    script = served.script(call("run", command=BEGIN), say("Half."), say("More."))
    running = served.start("run", *script, "--yes", "--name", "k", "work")
    served.wait_for("begun")
    served.kill_server()
    served.start_server()
    code, out, err = ended(running)
    assert (code, out) == (0, "Half.\n"), err
    assert "Lost the connection to the server" in err
    assert "Reconnected." in err
    assert "x run: Interrupted" in err
    assert (served.work / "begun").read_text() == "x\n"
    again = served.run("run", "--session", "k", *script, "more")
    assert (again.returncode, again.stdout) == (0, "More.\n"), again.stderr


def test_a_run_follows_its_own_turn(served: CliEnvironment) -> None:
    """A session whose turn a crash interrupted: a later run closes that turn, and prints the answer of its own, after all of
    its calls; then the session is at rest."""
    calls = [call("run", command=f"sleep 0.2; echo {number} >> done") for number in range(3)]
    script = served.script(
        call("run", command=BEGIN), *calls, say("Answer."), call("run", command="true"), say("Last.")
    )
    running = served.start("run", *script, "--yes", "--name", "k", "work")
    served.wait_for("begun")
    running.kill()
    running.communicate()
    served.kill_server()
    served.start_server()
    for answer in ("Answer.", "Last."):
        made = served.run("run", "--session", "k", *script, "--yes", "more")
        assert (made.returncode, made.stdout) == (0, f"{answer}\n"), made.stderr
        assert "Interrupted; completed work is kept" not in made.stderr
    assert (served.work / "done").read_text() == "0\n1\n2\n"
    assert (served.work / "begun").read_text() == "x\n"


def test_a_run_whose_server_stays_away_can_be_interrupted(served: CliEnvironment) -> None:
    """Without a server, Ctrl-C ends the run with 130, and it names the session."""
    running = served.start("run", *served.script(call("run", command=BEGIN)), "--yes", "work")
    served.wait_for("begun")
    served.kill_server()
    assert running.stderr is not None
    while b"reconnecting" not in running.stderr.readline():
        pass
    running.send_signal(signal.SIGINT)
    code, out, err = ended(running)
    assert (code, out) == (130, "")
    assert f"`jaato attach {served.sessions()[0]['id']}` resumes it" in err
    served.start_server()


def test_a_question_survives_the_server(served: CliEnvironment) -> None:
    """A permission request that waits on the terminal when the server dies is answered at the next one, and the call runs
    once."""
    script = served.script(call("run", command="echo y >> made", need=["write"]), say("Done."))
    with talking(served, *script, "work", command="run") as child:
        child.expect("allow. $")
        served.kill_server()
        child.expect("reconnecting")
        served.start_server()
        child.expect("Reconnected")
        child.sendline("y")
        child.expect("Done.")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    assert (served.work / "made").read_text() == "y\n"


def test_the_outcome_of_an_interrupted_call_is_asked_for(served: CliEnvironment) -> None:
    """At a terminal the user is asked what came of the call that the crash interrupted; the answer resumes the turn."""
    script = served.script(call("run", command=BEGIN), say("I see."))
    with talking(served, *script, "--yes", "work", command="run") as child:
        served.wait_for("begun")
        served.kill_server()
        served.start_server()
        child.expect("What came of run")
        child.expect(r"answer \(.*empty: .*\): $")
        child.sendline("1")
        child.expect("I see.")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0


@pytest.mark.parametrize("then", ["/continue", "and now?"])
def test_an_interruption_is_printed_once(served: CliEnvironment, then: str) -> None:
    """A chat whose server dies while the model writes says once that the turn was interrupted; resumed or given up for another
    message, the old turn is not summed up again, and the answer begins on a line of its own."""
    answers = [stream(*events(chunk({"content": text}), chunk({}, "stop"), "[DONE]")) for text in "ABC"]
    broken = stream(*events(chunk({"content": "I begin"})), end="hold")

    def talk(server: Server) -> None:
        served.env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.url}/v1"}
        served.kill_server()
        served.start_server()
        with talking(served, "--provider", "openai", "--model", "m", "hello") as child:
            child.expect("A\r\n.* tokens in")
            child.expect("> $")
            child.sendline("work")
            child.expect("I begin")
            served.kill_server()
            served.start_server()
            child.expect("Reconnected")
            child.expect("The turn was interrupted")
            child.expect("> $")
            child.sendline(then)
            child.expect(r"B\r\n.* tokens in")
            shown = re.sub(r"\x1b\[[0-9;?]*[a-z]", "", child.before, flags=re.IGNORECASE)
            assert shown.splitlines()[-1] == then
            assert leave(child) == 0

    async def main() -> None:
        async with serve(answers[0], broken, *answers[1:], lists_models=False) as server:
            await anyio.to_thread.run_sync(talk, server)

    anyio.run(main)


def test_the_rules_of_a_chat_outlive_the_server(served: CliEnvironment) -> None:
    """The flags of a chat hold in the session that it comes back to: a command that they deny is not even asked about."""
    forbidden = call("run", command="touch made", need=["write"])
    script = served.script(call("run", command=BEGIN), forbidden, say("I see."))
    flags = ("--yes", "--deny", "run(touch *)")
    with talking(served, *script, *flags, "work") as child:
        served.wait_for("begun")
        served.kill_server()
        served.start_server()
        child.expect("What came of run")
        child.expect(r"answer \(.*empty: .*\): $")
        child.sendline("1")
        child.expect(r"denied: touch made matches 'touch \*' in the blacklist")
        assert "is at work in the server" not in child.before
        child.expect("I see.")
    assert not (served.work / "made").exists()


def test_a_mode_that_was_switched_outlives_the_server(served: CliEnvironment) -> None:
    """A chat and a run that began with `--mode auto`, in which the user switched to `read-only`: both come back to a restarted
    server in that mode, and what writes is denied."""
    written = call("run", command="touch made", need=["write"])
    script = served.script(say("Hello."), written, say("I see."))
    with talking(served, *script, "--mode", "auto", "hello") as child:
        child.expect("> $")
        child.sendline("/mode read-only")
        child.expect("The mode is read-only")
        served.kill_server()
        child.expect("reconnecting")
        served.start_server()
        child.expect("Reconnected")
        child.sendline("write")
        child.expect("I see.")
        assert "denied" in child.before
        assert leave(child) == 0
    script = served.script(call("run", command=BEGIN), written, say("I see."))
    running = served.start("run", *script, "--mode", "auto", "--name", "k", "work")
    served.wait_for("begun")
    with talking(served, "k", command="attach") as child:
        child.sendline("/mode read-only")
        child.expect("The mode is read-only")
        served.kill_server()
    served.start_server()
    code, out, err = ended(running)
    assert (code, out) == (4, "I see.\n"), err
    assert "denied: run may do more than read" in err
    assert not (served.work / "made").exists()


def sleep_through_turn(served: CliEnvironment, running: Popen[bytes]) -> None:
    """Stop a process from the beginning of its turn's call until the server has ended the turn."""
    served.wait_for("begun")
    os.kill(running.pid, signal.SIGSTOP)
    until = time.monotonic() + TIMEOUT_S
    while not (rows := served.sessions()) or rows[0]["standing"] == "at work":
        assert time.monotonic() < until
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGCONT)


def test_a_run_that_was_too_slow_still_ends(served: CliEnvironment) -> None:
    """A run that is stopped while more happens than the server keeps for it takes the rest from a snapshot: it has the whole
    answer, and ends."""
    text = "".join(f"{number:06} {'.' * 90}\n" for number in range(60_000))
    script = served.script(
        say("Hello. ") | {"calls": [{"name": "run", "arguments": {"command": "touch begun; sleep 1"}}]},
        say(text, chunks=6_000),
    )
    out = served.root / "out"
    with out.open("wb") as file:
        running = served.start("run", *script, "--yes", "--verbose", "go", stdout=file, stderr=PIPE)
        sleep_through_turn(served, running)
        code, _, err = ended(running)
    assert code == 0, err
    assert out.read_text() == f"Hello. \n{text}"


def test_a_run_that_missed_a_thousand_entries_has_every_text(served: CliEnvironment) -> None:
    """A run that is stopped while more entries are made than a state keeps reads them from the log: the text of each reply
    is there once, in order."""
    command = {"name": "run", "arguments": {"command": "touch begun; sleep 1"}}
    replies = [
        say(f"{number:03} {'.' * 30_000}\n")
        | {"calls": [{"name": "list_tools", "arguments": {"limit": 6 * number + one}} for one in range(6)]}
        for number in range(150)
    ]
    script = served.script(say("Hello.\n") | {"calls": [command]}, *replies, say("The end."))
    out = served.root / "out"
    with out.open("wb") as file:
        running = served.start("run", *script, "--yes", "go", stdout=file, stderr=PIPE)
        sleep_through_turn(served, running)
        code, _, err = ended(running)
    assert code == 0, err
    heads = [line[:3] for line in out.read_text().splitlines() if line]
    assert heads == ["Hel", *(f"{number:03}" for number in range(150)), "The"]


@pytest.mark.parametrize("how", ["flag", "variable", "configuration"])
def test_a_relative_script_is_the_clients(served: CliEnvironment, how: str) -> None:
    """`--model script.json` names a file of the directory the command was typed in, and so does JAATO_MODEL; one in the
    workspace's configuration is a file of the workspace. The server runs elsewhere."""
    served.script(say("Found."))
    (served.root / "script.json").rename(served.work / "script.json")
    flags, environ = ["--provider", "scripted", "--model", "script.json"], {}
    if how == "variable":
        flags, environ = [], {"JAATO_PROVIDER": "scripted", "JAATO_MODEL": "script.json"}
    elif how == "configuration":
        flags = []
        served.config.mkdir(parents=True)
        (served.config / "config.toml").write_text('provider = "scripted"\nmodel = "script.json"\n')
        served.run("serve", "--reload")
    made = served.run("run", *flags, "--name", "k", "go", environ=environ)
    assert (made.returncode, made.stdout) == (0, "Found.\n"), made.stderr
    (served.root / "other").mkdir()
    again = served.run("run", "--session", "k", "--output", "json", "more", cwd=served.root / "other")
    assert "The script is over" in again.stdout, again.stderr
