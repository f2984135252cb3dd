"""The full-screen client in a real terminal, whose server hangs, is killed, or comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pexpect
from tests.cli.environment import CliEnvironment, call, say
from tests.tui.terminal import desk_with_runtime, expect_all, leave, terminal

from jaato.tui.questions.dialogs import GUARD_S


def test_it_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    """kill -9 in mid-turn: the client reconnects, says what was interrupted, and goes on."""
    with CliEnvironment(tmp_path).serving() as desk:
        script = desk.script(call("run", command="touch begun; sleep 100"), say("Gone on."), say("Second."))
        with terminal(desk, "tui", *script, "--yes") as child:
            child.expect("ready")
            child.send("work\r")
            desk.wait_for("begun")
            child.send("draft")
            child.expect("draft")
            desk.kill_server()
            child.expect("reconnecting")
            desk.start_server()
            expect_all(child, "The turn was interrupted", "ready")
            child.send("\x15/continue\r")
            expect_all(child, "Gone on.", "ready")
            leave(child)


def test_a_message_starts_the_server_again(tmp_path: Path) -> None:
    """The server was killed and nothing starts it: the status says what does, and the message is answered."""
    desk = desk_with_runtime(tmp_path)
    try:
        with terminal(desk, "tui", *desk.script(say("First."), say("Second."))) as child:
            child.expect("ready")
            child.send("hi\r")
            child.expect("First.")
            child.expect("ready")
            pid = desk.server_pid()
            os.kill(pid, signal.SIGKILL)
            child.expect("a message starts the server")
            child.send("again\r")
            child.expect("Second.")
            child.expect("ready")
            leave(child)
    finally:
        desk.run("serve", "--stop")


def test_a_command_starts_the_server_again(tmp_path: Path) -> None:
    """A command waits visibly like a message, and is run; what needs no server runs without, and leaving does not wait for one."""
    desk = desk_with_runtime(tmp_path)
    try:
        with terminal(desk, "tui", *desk.script(say("First."))) as child:
            child.expect("ready")
            os.kill(desk.server_pid(), signal.SIGKILL)
            child.expect("a message starts the server")
            child.send("/help\r")
            child.expect("/delete-session")
            assert "waits for" not in child.before
            child.send("/waypoint list\r")
            expect_all(child, "waits for the connection", "session start", "ready")
            os.kill(desk.server_pid(), signal.SIGKILL)
            child.expect("a message starts the server")
            leave(child)
    finally:
        desk.run("serve", "--stop")


def test_an_answer_that_no_server_has_taken_starts_one(tmp_path: Path) -> None:
    """The server hangs when the question is answered, and is killed: the call runs once, without another key."""
    desk = desk_with_runtime(tmp_path)
    script = desk.script(call("run", command="echo once >> log.txt", need=["write"]), say("It is done."))
    try:
        with terminal(desk, "tui", *script) as child:
            child.expect("ready")
            child.send("go\r")
            child.expect("May run run")
            pid = desk.server_pid()
            os.kill(pid, signal.SIGSTOP)
            child.send("\t")
            expect_all(child, "whole")
            time.sleep(GUARD_S + 0.05)
            child.send("y")
            time.sleep(0.2)
            os.kill(pid, signal.SIGKILL)
            expect_all(child, "It is done.", "ready")
            leave(child)
        assert (desk.work / "log.txt").read_text() == "once\n"
    finally:
        desk.run("serve", "--stop")


HANGS = """
import os, socket, sys, time
from pathlib import Path
from jaato.server.lock_file import ServerRecord, acquire_lock, write_record

path = Path(sys.argv[1])
path.unlink(missing_ok=True)
write_record(acquire_lock(path), ServerRecord(os.getpid(), "1", 0.0, str(path), []))
listener = socket.socket(socket.AF_UNIX)
listener.bind(str(path))
listener.listen(50)
print("listens", flush=True)
time.sleep(600)
"""


def test_a_server_that_hangs_is_replaced_once_it_was_killed(tmp_path: Path) -> None:
    """A message wants the server, which does not answer: that is shown; after it was killed another one is started."""
    desk = desk_with_runtime(tmp_path)
    socket = tmp_path / "run" / "jaato" / "jaato.sock"
    try:
        with terminal(desk, "tui", *desk.script(say("Second."))) as child:
            child.expect("ready")
            pid = desk.server_pid()
            os.kill(pid, signal.SIGKILL)
            child.expect("a message starts the server")
            with subprocess.Popen(
                [sys.executable, "-c", HANGS, str(socket)], stdout=subprocess.PIPE
            ) as hanging:
                assert hanging.stdout is not None
                hanging.stdout.readline()
                child.send("again\r")
                expect_all(child, "does not answer")
                hanging.kill()
            expect_all(child, "Second.", "ready")
            leave(child)
    finally:
        desk.run("serve", "--stop")


def test_a_message_that_waits_for_the_connection_is_no_lost_one(tmp_path: Path) -> None:
    """The server is gone and that of another place: who leaves finds the message in the prompt again."""
    with CliEnvironment(tmp_path).serving() as desk:
        socket = str(Path(desk.env["XDG_RUNTIME_DIR"]) / "jaato" / "jaato.sock")
        words = ["tui", "--connect", socket, *desk.script(say("First."))]
        with terminal(desk, *words) as child:
            child.expect("ready")
            desk.kill_server()
            child.expect("reconnecting")
            child.send("take this\r")
            child.expect("waits for the connection")
            child.kill(signal.SIGTERM)
            child.expect(pexpect.EOF)
        desk.start_server()
        with terminal(desk, *words) as child:
            expect_all(child, "take this", "ready")
            leave(child)


def test_a_message_that_the_server_does_not_take_is_shown(tmp_path: Path) -> None:
    """The server is silent: the message is shown as waiting, and is a draft again for one who leaves then."""
    with CliEnvironment(tmp_path).serving() as desk:
        words = ["tui", *desk.script(say("First."))]
        pid = desk.server_pid()
        with terminal(desk, *words) as child:
            child.expect("ready")
            os.kill(pid, signal.SIGSTOP)
            try:
                child.send("are you there\r")
                child.expect("waits for the server")
                leave(child)
            finally:
                os.kill(pid, signal.SIGCONT)
        with terminal(desk, *words) as child:
            expect_all(child, "are you there", "ready")
            leave(child)


def test_it_ends_while_a_list_waits_for_the_server(tmp_path: Path) -> None:
    """The server does not answer: the list of sessions takes keys, and Ctrl+C twice ends the program."""
    with (
        CliEnvironment(tmp_path).serving() as desk,
        terminal(desk, "tui", *desk.script(say("x"))) as child,
    ):
        child.expect("ready")
        pid = desk.server_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            child.send("\x1bOR")
            child.expect("type to search")
            child.send("some words")
            child.expect("words")
            leave(child)
        finally:
            os.kill(pid, signal.SIGCONT)
