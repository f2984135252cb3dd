"""What is passed to the server, what it writes, and the tokens of its command line."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
from pathlib import Path

from tests.security.desk import Desk

from jaato.server import daemon

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
            _, rest = server.communicate(timeout=60)
        assert (server.returncode, rest) == (0, "")
        assert notified.recv(100) == b"STOPPING=1"
        assert home.path.exists()


def test_descriptors_that_are_no_listening_sockets_are_refused(home: Desk) -> None:
    """A file, or a socket that does not listen, is said to be none; nothing is served."""
    with (home.root / "file").open("w") as file, socket.socket() as idle:
        for fd in (file.fileno(), idle.fileno()):
            server = activated(home.env, [fd], "--ipc-socket", str(home.path))
            _, said = server.communicate(timeout=60)
            assert server.returncode == 2
            assert "Descriptor 3, inherited as a socket, is no" in said


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
        "import logging, sys; from pathlib import Path; from jaato.server.daemon import RotatingStderr;"
        "log = logging.getLogger('jaato'); log.addHandler(RotatingStderr(Path(sys.argv[1]), 20_000)); log.setLevel('INFO');"
        "[log.info('line %d %s', n, 'x' * 100) for n in range(2_000)];"
        "log.info('y' * 100_000); print('printed', flush=True); raise SystemError('the end')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"", b"")
    old = daemon.old_path(path)
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
