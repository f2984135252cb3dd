"""How the server begins and ends: its places, its signals, its log, what is passed to it, and what it leaves."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from tests.cli.warm import warm
from tests.processes import alive
from tests.security.auth_server import Keep, awaited, status
from tests.security.desk import Desk

SLEEPER = "echo $$ > pid.txt; sleep 1000 & echo $! > child.txt; wait"


def test_a_server_is_begun_found_and_ended(home: Desk) -> None:
    """`--daemon` returns when it serves; a second one finds it; `--status` says where; `--stop` ends it, and leaves nothing."""
    assert home.serve("--status").returncode == 1
    try:
        begun = home.serve("--daemon", "--web-socket", ":0")
        assert (begun.returncode, begun.stdout) == (0, "")
        assert f"serving at {home.path} and ws://127.0.0.1:" in begun.stderr
        again = home.serve("--daemon")
        assert (again.returncode, "is already running" in again.stderr) == (0, True)
        there = home.serve("--status")
        assert (there.returncode, f"serving at {home.path}" in there.stdout) == (0, True)
        clash = home.serve()
        assert (clash.returncode, "A server is already running" in clash.stderr) == (2, True)
    finally:
        ended = home.serve("--stop")
    assert (ended.returncode, ended.stderr) == (0, "jaato: the server has stopped\n")
    assert list(home.path.parent.iterdir()) == []
    assert home.serve("--stop").stderr == f"jaato: no server at {home.path}\n"
    log = home.state / "server.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "Stopped" in log.read_text()


def test_of_many_begun_at_once_one_serves(home: Desk) -> None:
    """A race for the socket has one winner, and the others say who it is."""
    args = ["serve", "--ipc-socket", str(home.path)]
    begun = [warm().start(args, cwd=home.root, env=home.env, stderr=subprocess.PIPE) for _ in range(5)]
    try:
        lost = awaited(lambda: (ended := [one for one in begun if one.poll() is not None])[3:] and ended, 60)
        assert len(lost) == 4
        winner = next(one for one in begun if one.poll() is None)
        assert f"process {winner.pid}" in home.serve("--status").stdout
        for one in lost:
            assert one.returncode == 2
            assert one.stderr is not None
            assert f"A server is already running (process {winner.pid})" in one.stderr.read().decode()
    finally:
        for one in begun:
            one.terminate()
            one.communicate(timeout=60)


def test_the_runtime_directory_is_made_where_there_is_none(home: Desk) -> None:
    """Without a runtime directory, or with one that is not there, the socket is in a private place of the user's own."""
    for environ in (
        {},
        {"XDG_RUNTIME_DIR": str(home.root / "missing" / "run")},
        {"XDG_RUNTIME_DIR": "relative"},
    ):
        try:
            begun = home.jaato("serve", "--daemon", **environ)
            assert begun.returncode == 0, begun.stderr
            path = Path(begun.stderr.split()[3])
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert str(path).startswith(str(home.root))
        finally:
            assert home.jaato("serve", "--stop", **environ).returncode == 0


@pytest.mark.slow
def test_places_that_will_not_do_are_refused(home: Desk) -> None:
    """A directory others can write in, a file in the way, a path too long, a link, a taken port: each is said, with what to do."""
    shared = home.root / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    link = home.root / "link"
    private = home.root / "private"
    private.mkdir(mode=0o700)
    link.symlink_to(private)
    (private / "file").write_text("mine")
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    cases = {
        ("--ipc-socket", str(shared / "s")): "Other users can write to",
        ("--ipc-socket", str(link / "s")): "is not a directory of yours",
        ("--ipc-socket", str(private / "file")): "exists and is not a socket",
        ("--ipc-socket", str(private / ("x" * 120))): "at most 107 bytes",
        ("--ipc-socket", "/proc/nothing/s"): "Cannot create",
        ("--ipc-socket", str(home.path), "--web-socket", f":{port}"): "Use another port",
        ("--ipc-socket", str(home.path), "--web-socket", "127.0.0.1:99999"): "is not an address",
        ("--ipc-socket", str(home.path), "--web-socket", "256.1.1.1:0"): "Use another port",
        ("--ipc-socket", str(home.path), "--tls-cert", "x"): "needs both",
        (
            "--ipc-socket",
            str(home.path),
            "--tls-cert",
            "x",
            "--tls-key",
            "y",
            "--web-socket",
            ":0",
        ): "cannot be used for TLS",
        ("--ipc-socket", str(home.path), "--mcp-workspace", "nowhere"): "is not a directory",
        ("--ipc-socket", str(home.path), "--openai-workspace", "nowhere"): "is not a directory",
    }
    for args, said in cases.items():
        done = home.jaato("serve", *args)
        assert done.returncode in (1, 2), args
        assert said in done.stderr, (args, done.stderr)
        assert "Traceback" not in done.stderr
        begun = home.jaato("serve", "--daemon", *args)
        assert begun.returncode in (1, 2), args
        assert said in begun.stderr, (args, begun.stderr)
    taken.close()
    assert (private / "file").read_text() == "mine"


def test_a_dead_socket_is_replaced_and_a_living_one_is_not(home: Desk) -> None:
    """What a killed server has left is in nobody's way; a socket that answers is somebody's."""
    home.path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(home.path))
        other.listen()
        refused = home.serve("--daemon")
        assert (refused.returncode, "already running at" in refused.stderr) == (2, True)
        assert home.path.exists()
    try:
        assert home.serve("--daemon").returncode == 0
    finally:
        assert home.serve("--stop").returncode == 0


def test_a_shared_place_is_used_with_care(home: Desk) -> None:
    """In a directory like /tmp, where each removes only his own, a socket can be when it is asked for: it is 0600, and
    what another user has put there, socket or lock, is not touched."""
    place = home.root / "tmp"
    place.mkdir()
    place.chmod(0o1777)
    path = place / "jaato.sock"
    try:
        begun = home.jaato("serve", "--daemon", "--ipc-socket", str(path))
        assert begun.returncode == 0, begun.stderr
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert home.jaato("serve", "--status").returncode == 0, "the last one that was begun is found"
    finally:
        assert home.jaato("serve", "--stop").stderr == "jaato: the server has stopped\n"
    assert list(place.iterdir()) == []
    if os.geteuid() == 0:
        lock = place / "jaato.sock.lock"
        lock.write_text("{}")
        os.chown(lock, 65_534, 65_534)
        refused = home.jaato("serve", "--ipc-socket", str(path))
        assert (refused.returncode, refused.stderr.strip() != "") == (2, True)
        lock.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
        os.chown(path, 65_534, 65_534)
        refused = home.jaato("serve", "--ipc-socket", str(path))
        assert (refused.returncode, "another user's socket" in refused.stderr) == (2, True)


# --- how it ends -------------------------------------------------------------------------------------------------


def working(keep: Keep) -> tuple[str, int, int]:
    """A session in the middle of a command: its id, and the command's processes."""
    call = {"calls": [{"name": "run", "arguments": {"command": SLEEPER}}]}
    with keep.client(unix=True) as line:
        made = line.command("session.create", **keep.scripted(call, {"text": "done"}), yes=True)
        session_id: str = made["result"]["session_id"]
        assert "result" in line.command("message.send", session_id=session_id, text="go")
        child = awaited(lambda: (keep.work / "child.txt").exists() and (keep.work / "child.txt").read_text())
    return session_id, int((keep.work / "pid.txt").read_text()), int(child)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_in_mid_turn_is_recorded_and_takes_the_children_along(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The turn is known as interrupted and can go on; what its calls have started is gone."""
    keep = Keep(tmp_path)
    session_id, pid, child = working(keep)
    with keep.client(unix=True) as watcher:
        assert "result" in watcher.command("session.attach", session_id=session_id)
        keep.process.send_signal(number)
        _, said = keep.process.communicate(timeout=60)
    assert keep.process.returncode == 0
    assert "ERROR" not in said
    assert not alive(pid)
    assert not alive(child)
    assert keep.log(session_id)[-1]["type"] == "tool.call_start", (
        "the turn stands where it was, to go on from"
    )
    assert list(keep.path.parent.iterdir()) == []
    keep.start()
    try:
        with keep.client(unix=True) as line:
            assert "result" in line.command("turn.continue", session_id=session_id)
        awaited(lambda: keep.log(session_id)[-1]["type"] == "turn.completed")
        (call,) = [event for event in keep.log(session_id) if event["type"] == "tool.call_end"]
        assert call["result"]["error"]["code"] == "interrupted", "it was not begun again"
    finally:
        assert keep.stop()[0] == 0


def test_a_killed_server_leaves_nobody_running_and_begins_again(tmp_path: Path) -> None:
    """After kill -9 its children are gone too; the next one starts at the same socket and knows the sessions."""
    keep = Keep(tmp_path)
    session_id, pid, child = working(keep)
    keep.process.kill()
    keep.process.communicate()
    awaited(lambda: not alive(pid) and not alive(child))
    assert keep.path.exists(), "nobody could clean up"
    keep.start()
    try:
        with keep.client(unix=True) as line:
            listed = line.command("session.list")["result"]["sessions"]
            assert [one["id"] for one in listed] == [session_id]
            assert "result" in line.command("session.attach", session_id=session_id)
    finally:
        assert keep.stop()[0] == 0


def test_a_hangup_reads_the_configuration_anew(tmp_path: Path) -> None:
    """SIGHUP: new tokens of the owner, and nothing that is wrong in a file ends the server."""
    keep = Keep(tmp_path, "--web-socket", ":0")
    try:
        old = keep.tokens["owner"]
        (keep.state / "server-token").unlink()
        keep.process.send_signal(signal.SIGHUP)
        awaited(lambda: (keep.state / "server-token").exists())
        new = (keep.state / "server-token").read_text().strip()
        awaited(lambda: status(keep.ask(keep.head(token=new), who=5)) == 200)
        assert status(keep.ask(keep.head(token=old), who=6)) == 401
        with keep.client(unix=True) as line:
            script = keep.scripted()
            assert "result" in line.command("session.create", **script)
            (keep.state / "server-token").chmod(0o644)
            (keep.home / ".config" / "jaato").mkdir(parents=True)
            (keep.home / ".config" / "jaato" / "config.toml").write_text("this is [ no TOML")
            keep.process.send_signal(signal.SIGHUP)
            assert keep.process.stderr is not None
            told = ""
            while "server-token" not in told:
                told += keep.process.stderr.readline()
            assert told.count("Reload failed in part") == 2, "each thing that is wrong is said"
            assert "no valid TOML" in told or "not valid TOML" in told
            assert "result" in line.command("session.create", **script), "what is open goes on as it was"
        assert status(keep.ask(keep.head(token=new))) == 200
    finally:
        assert keep.stop()[0] == 0
