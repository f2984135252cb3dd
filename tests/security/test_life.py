"""How the server begins and ends: its places, its signals, its log, what is passed to it, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.security.keep import Keep, awaited, status

from jaato.server import logs

SLEEPER = "echo $$ > pid.txt; sleep 1000 & echo $! > child.txt; wait"


@pytest.fixture
def home(tmp_path: Path) -> Desk:
    """A machine nothing runs on."""
    return Desk(tmp_path)


class Desk:
    """One user's machine; `jaato` runs a command of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "run" / "jaato.sock"
        self.state = root / ".local" / "state" / "jaato"
        self.env = {
            "HOME": str(root),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def jaato(self, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """A finished command."""
        return subprocess.run(
            [sys.executable, "-m", "jaato", *args],
            env={**self.env, **environ},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def serve(self, *args: str) -> subprocess.CompletedProcess[str]:
        """`jaato serve` at this machine's socket."""
        return self.jaato("serve", "--ipc-socket", str(self.path), *args)


def alive(pid: int) -> bool:
    """Whether a process lives."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- where it serves ---------------------------------------------------------------------------------------------


def test_a_server_is_begun_found_and_ended(home: Desk) -> None:
    """`--daemon` returns when it serves; a second one finds it; `--status` says where; `--stop` ends it, and leaves nothing."""
    assert home.serve("--status").returncode == 1
    try:
        begun = home.serve("--daemon", "--web-socket", ":0")
        assert (begun.returncode, begun.stdout) == (0, "")
        assert f"serving at {home.path} and ws://127.0.0.1:" in begun.stderr
        again = home.serve("--daemon")
        assert (again.returncode, "runs already" in again.stderr) == (0, True)
        there = home.serve("--status")
        assert (there.returncode, f"serving at {home.path}" in there.stdout) == (0, True)
        clash = home.serve()
        assert (clash.returncode, "A server runs already" in clash.stderr) == (2, True)
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
    command = [sys.executable, "-m", "jaato", "serve", "--ipc-socket", str(home.path)]
    pipe = subprocess.PIPE
    begun = [subprocess.Popen(command, env=home.env, stderr=pipe, text=True) for _ in range(5)]
    try:
        lost = awaited(lambda: (ended := [one for one in begun if one.poll() is not None])[3:] and ended, 60)
        assert len(lost) == 4
        winner = next(one for one in begun if one.poll() is None)
        assert f"process {winner.pid}" in home.serve("--status").stdout
        for one in lost:
            assert one.returncode == 2
            assert one.stderr is not None
            assert f"A server runs already (process {winner.pid})" in one.stderr.read()
    finally:
        for one in begun:
            one.terminate()
            one.communicate(timeout=40)


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
        ("--ipc-socket", str(shared / "s")): "Others can write in",
        ("--ipc-socket", str(link / "s")): "is no directory of yours",
        ("--ipc-socket", str(private / "file")): "is there and is no socket",
        ("--ipc-socket", str(private / ("x" * 120))): "at most 107 bytes",
        ("--ipc-socket", "/proc/nothing/s"): "cannot be made",
        ("--ipc-socket", str(home.path), "--web-socket", f":{port}"): "Take another port",
        ("--ipc-socket", str(home.path), "--web-socket", "127.0.0.1:99999"): "no address",
        ("--ipc-socket", str(home.path), "--web-socket", "256.1.1.1:0"): "Take another port",
        ("--ipc-socket", str(home.path), "--tls-cert", "x"): "takes both",
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
        ("--ipc-socket", str(home.path), "--mcp-workspace", "nowhere"): "is no directory",
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
        assert (refused.returncode, "answers at" in refused.stderr) == (2, True)
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


def log_of(keep: Keep, session_id: str) -> list[dict[str, Any]]:
    """What is recorded of a session."""
    done = subprocess.run(
        [sys.executable, "-m", "jaato", "sessions", "export", session_id],
        env=keep.env,
        cwd=keep.work,
        capture_output=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_in_mid_turn_is_recorded_and_takes_the_children_along(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The turn is interrupted, in the log, and what its calls have started is gone, with clients watching or without."""
    keep = Keep(tmp_path)
    session_id, pid, child = working(keep)
    with keep.client(unix=True) as watcher:
        assert "result" in watcher.command("session.attach", session_id=session_id)
        keep.process.send_signal(number)
        _, said = keep.process.communicate(timeout=40)
    assert keep.process.returncode == 0
    assert "ERROR" not in said
    assert not alive(pid)
    assert not alive(child)
    ended = [event for event in log_of(keep, session_id) if event["type"] == "turn.completed"]
    assert [event["reason"] for event in ended] in (["cancelled"], ["interrupted"])
    assert list(keep.path.parent.iterdir()) == []


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
        (keep.state / "server-token").chmod(0o644)
        (keep.home / ".config" / "jaato").mkdir(parents=True)
        (keep.home / ".config" / "jaato" / "config.toml").write_text("this is [ no TOML")
        keep.process.send_signal(signal.SIGHUP)
        assert keep.process.stderr is not None
        assert "Not everything could be read anew" in keep.process.stderr.readline()
        assert status(keep.ask(keep.head(token=new))) == 200
    finally:
        assert keep.stop()[0] == 0


def test_a_broken_file_of_tokens_lets_nobody_in_by_it(tmp_path: Path) -> None:
    """Readable by others, or no JSON: its tokens no longer count, the owner's does, and the log says why."""
    keep = Keep(tmp_path, "--web-socket", ":0")
    try:
        assert status(keep.ask(keep.head(token=keep.tokens["viewer"]))) == 200
        tokens = keep.state / "tokens.json"
        good = tokens.read_bytes()
        for content, mode in ((good, 0o644), (b"{", 0o600), (b"", 0o600), (b"x" * 2_000_000, 0o600)):
            tokens.write_bytes(content)
            tokens.chmod(mode)
            awaited(
                lambda: (
                    status(keep.ask(keep.head(token=keep.tokens["viewer"]), who=os.getpid() % 250))
                    in (401, 429)
                )
            )
            assert status(keep.ask(keep.head(token=keep.tokens["owner"]))) == 200
        tokens.write_bytes(good)
        tokens.chmod(0o600)
        awaited(lambda: status(keep.ask(keep.head(token=keep.tokens["viewer"]))) == 200)
    finally:
        code, said = keep.stop()
    assert code == 0
    assert "No token but the owner's lets anybody in" in said


# --- what a supervisor passes ------------------------------------------------------------------------------------


def activated(keep_env: dict[str, str], fds: list[int], *flags: str, **environ: str) -> subprocess.Popen[str]:
    """The server as systemd starts it: sockets from descriptor 3 on, and its own process id beside them."""
    moves = "; ".join(f"exec {10 + at}<&{fd}" for at, fd in enumerate(fds))
    places = "; ".join(f"exec {3 + at}<&{10 + at} {10 + at}<&-" for at in range(len(fds)))
    command = f'{moves}; {places}; export LISTEN_PID=$$ LISTEN_FDS={len(fds)}; exec "$@"'
    return subprocess.Popen(
        ["bash", "-c", command, "sh", sys.executable, "-m", "jaato", "serve", *flags],
        env={**keep_env, **environ},
        pass_fds=fds,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_sockets_that_systemd_opens_are_served(home: Desk) -> None:
    """The Unix socket and a port come as descriptors: both are served, and the socket's file stays with systemd."""
    home.path.parent.mkdir(mode=0o700)
    with (
        socket.socket(socket.AF_UNIX) as unix,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
    ):
        unix.bind(str(home.path))
        unix.listen()
        notify = home.root / "notify"
        notified.bind(str(notify))
        notified.settimeout(30)
        server = activated(home.env, [unix.fileno(), tcp.fileno()], NOTIFY_SOCKET=str(notify))
        try:
            assert server.stderr is not None
            said = server.stderr.readline()
            assert f"serving at {home.path} and ws://127.0.0.1:{tcp.getsockname()[1]}" in said
            assert notified.recv(100) == b"READY=1"
            assert f"process {server.pid}" in home.serve("--status").stdout
            token = (home.state / "server-token").read_text().strip()
            port = tcp.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), 20) as line:
                head = (
                    f"GET /health HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
                )
                line.sendall(head.encode())
                assert line.recv(12) == b"HTTP/1.1 200"
        finally:
            server.terminate()
            _, rest = server.communicate(timeout=40)
        assert (server.returncode, rest) == (0, "")
        assert notified.recv(100) == b"STOPPING=1"
        assert home.path.exists()


def test_descriptors_that_are_no_listening_sockets_are_refused(home: Desk) -> None:
    """A file, or a socket that does not listen, is said to be none; nothing is served."""
    with (home.root / "file").open("w") as file, socket.socket() as idle:
        for fd in (file.fileno(), idle.fileno()):
            server = activated(home.env, [fd], "--ipc-socket", str(home.path))
            _, said = server.communicate(timeout=40)
            assert server.returncode == 2
            assert "Descriptor 3, passed as a socket, is no" in said


def test_the_unit_files_are_right(home: Desk) -> None:
    """They name this interpreter and these arguments; systemd finds no fault where it can be asked."""
    service = home.jaato(
        "serve", "--print-unit", "--web-socket", ":8391", "--mcp-workspace", "a b$c%d"
    ).stdout
    unit = home.jaato("serve", "--print-unit", "socket").stdout
    assert f"ExecStart={sys.executable} -m jaato serve " in service
    assert f'--mcp-workspace "{home.root}/a b$$c%%d"' in service
    assert "Type=notify" in service
    assert "ListenStream=%t/jaato/jaato.sock\nSocketMode=0600\nDirectoryMode=0700\n" in unit
    (home.root / "jaato.service").write_text(service)
    (home.root / "jaato.socket").write_text(unit)
    if Path("/usr/bin/systemd-analyze").exists():
        done = subprocess.run(
            [
                "systemd-analyze",
                "verify",
                "--user",
                "--recursive-errors=no",
                "./jaato.service",
                "./jaato.socket",
            ],
            cwd=home.root,
            env={**home.env, "XDG_RUNTIME_DIR": str(home.root)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "jaato.s" not in done.stderr, done.stderr


# --- the log -----------------------------------------------------------------------------------------------------


def test_the_log_is_private_and_bounded(tmp_path: Path) -> None:
    """It goes on in a new file when the old is full, with what the interpreter says; one old file is kept, both 0600."""
    path = tmp_path / "server.log"
    path.write_text("before\n")
    path.chmod(0o644)
    code = (
        "import logging, sys; from pathlib import Path; from jaato.server.logs import Bounded;"
        "log = logging.getLogger('jaato'); log.addHandler(Bounded(Path(sys.argv[1]), 20_000)); log.setLevel('INFO');"
        "[log.info('line %d %s', n, 'x' * 100) for n in range(2_000)];"
        "log.info('y' * 100_000); print('printed', flush=True); raise SystemError('the end')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"", b"")
    old = logs.old(path)
    for one in (path, old):
        assert stat.S_IMODE(one.stat().st_mode) == 0o600
        assert one.stat().st_size < 35_000
    assert {one.name for one in tmp_path.iterdir()} == {path.name, old.name}
    last = path.read_text()
    assert "printed" in last
    assert "SystemError: the end" in last


def test_a_log_that_cannot_be_is_said(home: Desk) -> None:
    """A link, or a directory that is not there, is no place for a log."""
    (home.root / "link").symlink_to(home.root / "target")
    for place in ("link", "missing/log"):
        done = home.serve("--log", place)
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
    assert not (home.root / "target").exists()


# --- tokens ------------------------------------------------------------------------------------------------------


def test_tokens_are_given_listed_and_taken_away(home: Desk) -> None:
    """The token itself is printed once, alone; the file is private and holds no token; names are names."""
    made = home.jaato("tokens", "add", "phone", "--role", "approver", "--days", "30")
    token = made.stdout.strip()
    assert made.returncode == 0
    assert len(token) >= 40
    assert home.jaato("tokens", "add", "watch").returncode == 0
    assert home.jaato("tokens", "add", "phone").returncode == 2
    listed = json.loads(home.jaato("tokens", "list", "--json").stdout)
    assert [(one["name"], one["role"]) for one in listed] == [("phone", "approver"), ("watch", "viewer")]
    assert 29 * 86_400 < listed[0]["expires"] - listed[0]["created"] <= 30 * 86_400
    assert "phone" in home.jaato("tokens").stdout
    file = home.state / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in file.read_text()
    for name in ("", "../x", "a b", "-x", "x" * 65, "é", "a\nb"):
        assert home.jaato("tokens", "add", "--", name).returncode == 2, name
    for days in ("0", "-1", "x", "9999999999"):
        assert home.jaato("tokens", "add", "other", "--days", days).returncode == 2
    assert home.jaato("tokens", "add", "other", "--role", "root").returncode == 2
    assert home.jaato("tokens", "remove", "phone").returncode == 0
    gone = home.jaato("tokens", "remove", "phone")
    assert (gone.returncode, "There is no token" in gone.stderr) == (2, True)
