"""The Unix socket is its owner's: by its mode, by that of its directory, and by what the kernel says of who calls."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.security.auth_server import Keep, awaited, status

from jaato.client.blocking import Client
from jaato.client.connection import connect
from jaato.errors import ConnectionFault

NOBODY = 65_534


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory others can enter."""
    place = Path(tempfile.mkdtemp(dir="/tmp", prefix="jaato-keep-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def called_by(uid: int, path: Path) -> str:
    """What another user gets to hear at a socket. A fork without a new program: who runs the tests may be the only one
    who can read the interpreter."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(writing, call(path).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as said:
        return said.read()


def call(path: Path) -> str:
    """What the server says, or why it could not be asked."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        try:
            line.connect(str(path))
            line.sendall(b"GET /health HTTP/1.1\r\nHost: jaato\r\n\r\n")
            return line.recv(12).decode() or "nothing"
        except OSError as error:
            return type(error).__name__


def test_the_socket_is_private_from_its_first_moment(tmp_path: Path) -> None:
    """0600 in a directory of 0700, whatever the process masks; the same user comes in as the owner without a token."""
    before = os.umask(0)
    try:
        keep = Keep(tmp_path)
    finally:
        os.umask(before)
    try:
        assert stat.S_IMODE(keep.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(keep.path.parent.stat().st_mode) == 0o700
        lock = keep.path.with_name("jaato.sock.lock")
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        with keep.socket(unix=True) as line:
            assert line.hello(role="viewer")["role"] == "owner"
    finally:
        assert keep.stop() == (0, "")
    assert not keep.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_kept_out(open_place: Path) -> None:
    """By the directory; and where somebody opens that and the socket, by the kernel's word, before a byte is read."""
    keep = Keep(open_place)
    try:
        assert called_by(NOBODY, keep.path) == "PermissionError"
        keep.path.parent.chmod(0o755)
        assert called_by(NOBODY, keep.path) == "PermissionError"
        keep.path.chmod(0o666)
        assert called_by(NOBODY, keep.path) in ("nothing", "ConnectionResetError", "BrokenPipeError")
        assert called_by(0, keep.path) == "HTTP/1.1 200"
        with keep.client(unix=True) as line:
            assert "result" in line.command("session.list")
    finally:
        assert keep.stop() == (0, "")


def test_the_socket_takes_the_same_routes(tmp_path: Path) -> None:
    """Health, figures and the protocol are there too; what is not there is not."""
    keep = Keep(tmp_path, "--web-socket", ":0")
    try:
        for path, expected in (("/health", 200), ("/metrics", 200), ("/mcp", 404), ("/nothing", 404)):
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(keep.path))
                line.sendall(f"GET {path} HTTP/1.1\r\nHost: jaato\r\nConnection: close\r\n\r\n".encode())
                assert status(line.recv(10_000)) == expected
    finally:
        assert keep.stop() == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_client_says_nothing_to_another_user_s_server(open_place: Path) -> None:
    """Who has put a socket where the server's should be hears no token and no prompt."""
    open_place.chmod(0o777)
    path = open_place / "jaato.sock"
    child = os.fork()
    if not child:
        signal.alarm(60)  # a client that fails before it connects leaves nobody waiting
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        with socket.socket(socket.AF_UNIX) as false:
            false.bind(str(path))
            path.chmod(0o777)
            false.listen()
            for _ in range(2):
                line, _ = false.accept()
                if line.recv(100):
                    os._exit(1)
            os._exit(0)
    awaited(path.exists)
    with pytest.raises(ConnectionFault, match="another user's"), Client(path, token="t" * 40):
        pass

    async def main() -> None:
        async with connect(path, token="t" * 40):
            pass

    with pytest.raises(ConnectionFault, match="another user's"):
        anyio.run(main)
    assert os.waitpid(child, 0)[1] == 0
