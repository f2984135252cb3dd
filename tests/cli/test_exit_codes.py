"""How commands end: signals, broken pipes, full disks, a session that another has; never with a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.environment import JAATO, CliEnvironment, call, say

NAP = "61.25"


def wait_for(path: Path) -> None:
    """Wait until a running command has made a file."""
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never appeared")


def sleeper(desk: CliEnvironment, *more: str) -> subprocess.Popen[bytes]:
    """A run whose agent is in the middle of a command."""
    script = desk.script(call("run", command=f"touch begun; sleep {NAP}"), say("never said"))
    return desk.start("run", *script, "--yes", *more, "go")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_the_turn(desk: CliEnvironment, number: signal.Signals) -> None:
    """Ctrl-C or SIGTERM ends the turn with exit 130; history is kept and the command is gone."""
    running = sleeper(desk)
    wait_for(desk.work / "begun")
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, b""), err
    assert b"Interrupted; completed work is kept." in err
    assert b"Traceback" not in err
    kinds = [event["type"] for event in desk.events(desk.sessions()[0]["id"])]
    assert kinds[-2:] == ["tool.call_end", "turn.completed"]
    assert subprocess.run(["pgrep", "-fx", f"sleep {NAP}"], check=False).returncode == 1


def test_a_signal_before_the_session_is_there(desk: CliEnvironment) -> None:
    """Interrupted while it still waits for stdin, the program ends with 130 and one line."""
    running = desk.start("run", *desk.script(say("x")), "go", stdin=subprocess.PIPE)
    assert running.stderr is not None
    assert b"waiting for the end of stdin" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, b"jaato: Interrupted.\n")


@pytest.mark.one_way  # a tool that never ends stays in the server; its client ends all the same
def test_a_second_signal_ends_at_once(desk: CliEnvironment) -> None:
    """When the first Ctrl-C does not help, the second ends the program."""
    plugin = desk.config / "plugins"
    plugin.mkdir(parents=True)
    (plugin / "stubborn.py").write_text(STUBBORN)
    running = desk.start(
        "run", *desk.script(call("get_tool_schemas", names=["cling"]), call("cling")), "--yes", "go"
    )
    wait_for(desk.work / "begun")
    running.send_signal(signal.SIGINT)
    wait_for(desk.work / "held")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert b"Traceback" not in err


STUBBORN = '''
import asyncio, pathlib
from jaato import Plugin, tool
PLUGIN_KIND = "tool"

class Stubborn(Plugin):
    name = "stubborn"

    @tool
    async def cling(self) -> str:
        """Never let go."""
        pathlib.Path("begun").touch()
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pathlib.Path("held").touch()
'''


@pytest.mark.one_way  # as above
def test_a_blocked_thread_does_not_keep_the_program(desk: CliEnvironment) -> None:
    """A tool that blocks its thread for good is left behind when the turn is stopped."""
    plugin = desk.config / "plugins"
    plugin.mkdir(parents=True)
    (plugin / "block.py").write_text(BLOCK)
    running = desk.start(
        "run", *desk.script(call("get_tool_schemas", names=["block"]), call("block")), "--yes", "go"
    )
    wait_for(desk.work / "begun")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err


BLOCK = '''
import pathlib, time
from jaato import Plugin, tool
PLUGIN_KIND = "tool"

class Block(Plugin):
    name = "block"

    @tool
    def block(self) -> str:
        """Wait for good."""
        pathlib.Path("begun").touch()
        time.sleep(600)
        return ""
'''


def test_a_reader_that_leaves_stops_the_run(desk: CliEnvironment) -> None:
    """When nobody reads stdout any more the turn is stopped and kept; there is no traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    script = desk.script({"text": "words", **call("run", command="sleep 60")}, say("more"))
    running = desk.start("run", *script, "--yes", "go", stdout=writer)
    os.close(writer)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1, err
    assert b"The reader of the output exited" in err
    assert b"Traceback" not in err


def test_a_reader_that_leaves_a_list_is_no_error(desk: CliEnvironment) -> None:
    """`jaato tools list | head -1` is quiet."""
    made = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | head -c 1 >/dev/null', "-", *desk.command, "tools", "list"],
        capture_output=True,
        env=desk.env,
        cwd=desk.work,
        check=False,
    )
    assert (made.returncode, made.stderr) == (0, b"")


def test_a_full_disk_under_stdout(desk: CliEnvironment) -> None:
    """Output that cannot be written is an error."""
    with open("/dev/full", "wb") as full:
        running = desk.start("tools", "list", stdout=full)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert b"cannot be written" in err
    assert b"Traceback" not in err


@pytest.mark.one_way  # a server has one writer for all
def test_two_runs_in_one_session(desk: CliEnvironment) -> None:
    """A session has one writer: a second process is told who has it, and can read it; the first is not disturbed."""
    desk.run("run", *desk.script(say("one")), "--name", "shared", "a")
    script = desk.script(say("one"), call("run", command="touch begun; cat gate"), say("first"))
    os.mkfifo(desk.work / "gate")
    first = desk.start("run", *script, "--yes", "--session", "shared", "b")
    wait_for(desk.work / "begun")
    other = desk.script(say("one"), say("-"), say("two"), say("three"), name="other.json")
    second = desk.run("run", *other, "--session", "shared", "c")
    assert second.returncode == 1
    assert f"another process: jaato run ({first.pid} on " in second.stderr
    (desk.work / "gate").write_text("")
    out, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    assert b"first" in out
    assert desk.run("sessions", "show", "shared").returncode == 0


@pytest.mark.one_way  # the store is the server's, and its limits
def test_a_disk_that_takes_nothing(desk: CliEnvironment) -> None:
    """When the store may not grow, the run ends with a message that names the file, and no traceback."""
    script = desk.script(*[call("readFile", path="a.txt")] * 40, say("x"))
    (desk.work / "a.txt").write_text("y" * 20_000)
    made = subprocess.run(
        ["bash", "-c", 'trap "" XFSZ; ulimit -f 200; exec "$@"', "-", *desk.command, "run", *script, "x"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=desk.work,
        env=desk.env,
        timeout=60,
        check=False,
    )
    assert made.returncode == 1, made.stderr
    assert b"jaato.db" in made.stderr
    assert b"Traceback" not in made.stderr


def test_the_end_of_the_process_runs_what_was_registered_for_it(desk: CliEnvironment) -> None:
    """Functions of `atexit` run, and what they print comes after the output, with the exit code of the command."""
    (desk.root / "sitecustomize.py").write_text(
        "import atexit, sys\natexit.register(lambda: print('registered'))\n"
    )
    env = {**desk.env, "PYTHONPATH": f"{desk.root}:{desk.env['PYTHONPATH']}"}
    for args, code in ((["--version"], 0), (["sessions", "--bogus"], 2), (["config"], 0)):
        done = subprocess.run(
            [*JAATO, *args], env=env, cwd=desk.work, capture_output=True, text=True, check=False
        )
        assert done.returncode == code
        assert done.stdout.endswith("registered\n")


def test_what_is_printed_at_the_end_and_lost_is_an_error(desk: CliEnvironment) -> None:
    """A function of `atexit` prints to a disk that is full: the exit code tells."""
    (desk.root / "sitecustomize.py").write_text(
        "import atexit, os\n@atexit.register\ndef end():\n"
        "    os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n    print('registered')\n"
    )
    env = {**desk.env, "PYTHONPATH": f"{desk.root}:{desk.env['PYTHONPATH']}"}
    done = subprocess.run(
        [*JAATO, "--version"], env=env, cwd=desk.work, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "cannot be written" in done.stderr


@pytest.mark.one_way  # a server has an end of its own
def test_a_file_that_a_plugin_leaves_open_is_written(desk: CliEnvironment) -> None:
    """What is in its buffer when the program ends is in the file, as at the end of each other program; a weak reference
    that it keeps of what has ended is no error, nor is a file of its own class that cannot be flushed."""
    (desk.config / "plugins").mkdir(parents=True)
    (desk.config / "plugins" / "notes.py").write_text(NOTES)
    script = desk.script(call("get_tool_schemas", names=["note"]), call("note"), say("noted"))
    done = subprocess.run(
        [*JAATO, "run", *script, "--yes", "go"],
        env=desk.env,
        cwd=desk.work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (desk.work / "notes.txt").read_text() == "a line\n"
    assert (desk.work / "notes.bin").read_bytes() == b"bytes"


NOTES = '''
import io, weakref
from threading import Event
from jaato import Plugin, tool
PLUGIN_KIND = "tool"

class Unconnected(io.TextIOWrapper):
    def fileno(self):
        raise AttributeError("it is not connected yet")

class Notes(Plugin):
    name = "notes"

    @tool
    def note(self) -> str:
        """Note something."""
        self.log = Unconnected(io.BytesIO())
        self.text, self.data = open("notes.txt", "w"), open("notes.bin", "wb")
        self.text.write("a line\\n")
        self.data.write(b"bytes")
        self.ended = weakref.proxy(Event())
        return "done"
'''


@pytest.mark.one_way  # no command of it speaks to a server
@pytest.mark.parametrize("given", ["['config']", ""])
def test_a_program_that_calls_the_command_line_keeps_its_threads(desk: CliEnvironment, given: str) -> None:
    """A thread of its own that still runs does not end it when a command has ended."""
    code = f"""
import sys, threading
go = threading.Event()
own = threading.Thread(target=go.wait)
own.start()
from jaato.cli import main
sys.argv = ["jaato", "config"]
assert main({given}) == 0
go.set()
own.join()
print("went on")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=desk.env, cwd=desk.work, capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("went on\n"), done.stderr


@pytest.mark.one_way  # the tool would be the server's
def test_a_program_that_is_the_command_line_does_not_wait_for_a_blocked_tool(desk: CliEnvironment) -> None:
    """A script of another name, as an installer may write it."""
    (desk.config / "plugins").mkdir(parents=True)
    (desk.config / "plugins" / "block.py").write_text(BLOCK)
    script = desk.script(call("get_tool_schemas", names=["block"]), call("block"))
    program = "import sys; from jaato.cli import main; sys.exit(main())"
    running = subprocess.Popen(
        [sys.executable, "-c", program, "run", *script, "--yes", "go"],
        env=desk.env,
        cwd=desk.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    wait_for(desk.work / "begun")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
