"""What `jaato serve` and `jaato doctor` say about a server that already runs."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from subprocess import PIPE

import pexpect
import pytest
from tests.cli.environment import TIMEOUT_S, CliEnvironment, say
from tests.cli.terminal import talking
from tests.processes import alive

from jaato.errors import ConfigError
from jaato.server import lock_file
from jaato.server.lock_file import find_server, read_holder
from jaato.version import __version__


def test_options_that_come_too_late(desk: CliEnvironment) -> None:
    """`jaato serve --daemon` beside a running server: fine without options, an error for those that it cannot add."""
    with desk.serving():
        again = desk.run("serve", "--daemon")
        assert (again.returncode, "already running" in again.stderr) == (0, True)
        for option, value in (("--web-socket", ":0"), ("--openai-workspace", ".")):
            late = desk.run(
                "serve", "--daemon", option, value, *(() if value == ":0" else ("--web-socket", ":0"))
            )
            assert late.returncode == 2
            assert option in late.stderr
            assert "jaato serve --stop" in late.stderr


@pytest.mark.parametrize("command", ["chat", "run"])
def test_a_download_is_offered_before_the_session(desk: CliEnvironment, command: str) -> None:
    """Where the embedded model would answer and is not here, a terminal is asked although the session is the server's, which
    cannot ask; without a terminal the error says how to be asked."""
    with desk.serving():
        with talking(desk, "hello", command=command) as child:
            child.expect("has to be downloaded once: 1.1 GB .* Do it\\? \\[y/N\\]")
            child.sendline("n")
            child.expect("was not downloaded")
            child.expect("OPENAI_BASE_URL")
            child.expect(pexpect.EOF)
            child.close()
            assert child.exitstatus == 2
        with talking(desk, "hello", command=command) as child:
            child.expect("Do it")
            child.sendintr()
            child.expect(pexpect.EOF)
            child.close()
            assert child.exitstatus == 130
        refused = desk.run("run", "hello")
        assert (refused.returncode, "`jaato chat` at a terminal" in refused.stderr) == (2, True)
        assert desk.run("sessions", "list", "--all", "--names").stdout == ""


def test_a_server_of_another_version(desk: CliEnvironment) -> None:
    """After an update the server of before still runs: its status and `jaato doctor` name both versions and what to do."""
    with desk.serving():
        [lock] = Path(desk.env["XDG_RUNTIME_DIR"]).rglob("*.lock")
        same = desk.run("serve", "--status")
        assert "this is" not in same.stdout
        lock.write_bytes(lock.read_bytes().replace(f'"{__version__}"'.encode(), b'"0.0.9"'))
        status = desk.run("serve", "--status")
        assert f"it is jaato 0.0.9, and this is {__version__}: `jaato serve --stop` ends it" in status.stdout
        checks = {row["name"]: row for row in json.loads(desk.run("doctor", "--json").stdout)["checks"]}
        assert checks["server"]["grade"] == "warn"
        assert "0.0.9" in checks["server"]["text"]


def test_a_user_without_variables(desk: CliEnvironment) -> None:
    """In a container no variable names the user: other clients then see the name of the account."""
    with desk.serving():
        made = desk.run("run", *desk.script(say("Hi.")), "hello", environ={"USER": "", "LOGNAME": ""})
        assert made.returncode == 0, made.stderr
    [sent] = [one for one in desk.events(desk.sessions()[0]["id"]) if one["type"] == "message.user"]
    assert sent["message"]["by"].startswith(f"{pwd.getpwuid(os.getuid()).pw_name}, process ")


ENDING = """
import ctypes, os, sys, threading, time
from pathlib import Path
from jaato.server.lock_file import ServerRecord, acquire_lock, write_record
path = Path(sys.argv[1])
write_record(acquire_lock(path), ServerRecord(os.getpid(), "1", 0.0, str(path), []))
print("held", flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), time.sleep(0.2), os._exit(0))).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)  # exit(2): of this thread alone
"""


def test_a_server_that_has_not_quite_ended_does_not_run(tmp_path: Path) -> None:
    """A killed server is a zombie whose lock is held as long as one of its threads is left: a server that starts then does
    not take it for one that runs."""
    path = tmp_path / "private" / "jaato.sock"
    command = [sys.executable, "-c", ENDING, str(path)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        until = time.monotonic() + TIMEOUT_S
        while alive(process.pid):
            assert time.monotonic() < until
            time.sleep(0.01)
        assert read_holder(path) is not None
        process.stdin.close()
        assert find_server(path) is None


def test_a_server_that_never_records_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping it fails, and the error names no process to kill: 0 would be the user's own shell."""
    monkeypatch.setattr(lock_file, "STOP_S", 0.1)
    monkeypatch.setattr(lock_file, "LOCK_S", 0.1)
    holder = lock_file.acquire_lock(tmp_path / "jaato.sock")
    try:
        with pytest.raises(ConfigError, match="has been starting") as refused:
            lock_file.stop_server(tmp_path / "jaato.sock")
        assert "kill" not in str(refused.value)
    finally:
        os.close(holder)


def test_a_server_that_dies_while_it_is_asked(desk: CliEnvironment) -> None:
    """The connection waits for a server that hangs, and is killed: another is started, and the run is done there."""
    with desk.serving():
        desk.env["JAATO_SERVER"] = "always"
        pid, path = desk.server_pid(), f"{desk.env['XDG_RUNTIME_DIR']}/jaato/jaato.sock"
        os.kill(pid, signal.SIGSTOP)
        sockets = Path("/proc/net/unix")
        before = sockets.read_text().count(path)
        running = desk.start("run", *desk.script(say("Here.")), "hello")
        until = time.monotonic() + TIMEOUT_S
        while sockets.read_text().count(path) == before:
            assert time.monotonic() < until
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        out, err = running.communicate(timeout=TIMEOUT_S)
        assert (running.returncode, out) == (0, b"Here.\n"), err


def test_two_that_start_the_server_at_the_same_time(desk: CliEnvironment) -> None:
    """One starts it, the other waits until it serves."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as runtime:
        desk.env |= {"XDG_RUNTIME_DIR": runtime, "JAATO_SERVER": "always"}
        try:
            script = desk.script(say("Here."))
            for running in [desk.start("run", *script, "hello") for _ in range(3)]:
                out, err = running.communicate(timeout=TIMEOUT_S)
                assert (running.returncode, out) == (0, b"Here.\n"), err
        finally:
            desk.run("serve", "--stop")
