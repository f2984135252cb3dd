"""What ends a program from outside: a closed terminal, a shell that ignores signals for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pexpect
import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import talking

NAP = "61.7"


def test_a_terminal_that_closes_stops_the_turn(desk: CliEnvironment) -> None:
    """SIGHUP is an interruption like any other: what ran ends, the log says so, the code is 130."""
    running = desk.start("run", "--yes", *desk.script(call("run", command=f"sleep {NAP}"), say("x")), "go")
    assert running.stderr is not None
    while b"> run" not in running.stderr.readline():
        pass
    running.send_signal(signal.SIGHUP)
    running.communicate(timeout=60)
    assert running.returncode == 130
    kinds = [event["type"] for event in desk.events(desk.sessions()[0]["id"])]
    assert kinds[-2:] == ["tool.call_end", "turn.completed"]
    assert subprocess.run(["pgrep", "-fx", f"sleep {NAP}"], check=False).returncode == 1


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_is_ignored_stays_ignored(desk: CliEnvironment, number: signal.Signals) -> None:
    """Under nohup, or in the background of a script, the run goes on."""
    ignoring = (
        f"import os, signal, sys; signal.signal({int(number)}, signal.SIG_IGN); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    script = desk.script(call("run", command="echo begun; sleep 0.5"), say("Done."))
    running = subprocess.Popen(
        [sys.executable, "-c", ignoring, "-m", "jaato", "run", "--yes", *script, "go"],
        cwd=desk.work, env=desk.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stderr is not None
    while b"> run" not in running.stderr.readline():
        pass
    running.send_signal(number)
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, b"Done.\n")


def test_a_hang_up_in_a_chat_keeps_what_was_done(desk: CliEnvironment) -> None:
    """A chat whose terminal goes away stops its turn and closes its log; one in a server leaves its turn at work."""
    begun, gate = desk.work / "begun", desk.work / "gate"
    os.mkfifo(gate)
    script = desk.script(call("run", command="touch begun; read x < gate"), say("x"))
    child = pexpect.spawn(
        sys.executable, ["-m", "jaato", "chat", "--yes", *script],
        cwd=str(desk.work), env={**desk.env, "NO_COLOR": "1"}, encoding="utf-8", timeout=60,
    )  # fmt: skip
    child.expect("> $")
    child.send("wait\n")
    child.expect("> run touch")
    while not begun.exists():
        time.sleep(0.01)
    child.kill(signal.SIGHUP)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    session_id = desk.sessions()[0]["id"]
    if desk.served:
        assert desk.events(session_id)[-1]["type"] == "tool.call_start"
        gate.write_text("on\n")
        with desk.start("events", session_id, "--follow") as following:
            assert following.stdout is not None
            while b"turn.completed" not in following.stdout.readline():
                pass
            following.kill()
    kinds = [event["type"] for event in desk.events(session_id)]
    assert kinds[-2:] == (
        ["message.model", "turn.completed"] if desk.served else ["tool.call_end", "turn.completed"]
    )


@pytest.mark.parametrize("toolkit", [True, False])
def test_a_hang_up_at_the_prompt(desk: CliEnvironment, toolkit: bool) -> None:
    """While the chat waits for a line, with either editor, SIGHUP ends it at once."""
    with talking(desk, *desk.script(say("Good day.")), term="xterm", toolkit=toolkit) as child:
        child.expect("Ctrl-D leaves")
        child.send("hi\r")
        child.expect("Good day.")
        child.expect("tokens in")
        child.expect(">")
        child.kill(signal.SIGHUP)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 130


def test_an_interrupted_run_is_still_json(desk: CliEnvironment) -> None:
    """With --output json an interruption before the session is one object too."""
    running = desk.start("run", *desk.script(say("x")), "--output", "json", "go", stdin=subprocess.PIPE)
    assert running.stderr is not None
    assert b"waiting for the end of stdin" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert json.loads(out)["exit_code"] == 130
