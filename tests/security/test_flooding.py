"""What one client sends by the ten thousand, let in or not, costs the others nothing."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.security.auth_server import Keep, Line, descriptors, status

from jaato.client.websocket import CONTINUATION, PING, TEXT, Closed, frame

DESCRIPTORS = 256
STRANGERS = 1_000


def part(opcode: int, payload: bytes) -> bytes:
    """A frame that is not the last of its message."""
    whole = frame(opcode, payload)
    return bytes((whole[0] & 0x7F,)) + whole[1:]


def many(command: dict[str, Any], count: int) -> bytes:
    """So many commands in a row."""
    return b"".join(frame(TEXT, json.dumps({**command, "id": str(n)}).encode()) for n in range(count))


def is_ended(raw: socket.socket, data: bytes) -> bool:
    """Whether the server hangs up on who says this again and again."""
    try:
        for _ in range(200):
            raw.sendall(data)
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def replies(line: Line) -> int:
    """How many replies have come by now."""
    line.raw.setblocking(False)
    data = b""
    try:
        while piece := line.raw.recv(1 << 20):
            data += piece
    except BlockingIOError:
        pass
    line.raw.setblocking(True)
    return data.count(b'"type":"reply"')


def test_many_commands_at_once_leave_others_their_turn(keep: Keep) -> None:
    """A viewer who sends hundreds of commands in one go is answered beside the others, not before them."""
    with keep.client(unix=True) as owner, keep.client(keep.tokens["viewer"]) as viewer:
        made = owner.command("session.create", attach=False, **keep.scripted())
        command = {"type": "session.attach", "session_id": made["result"]["session_id"]}
        viewer.raw.sendall(many(command, 600))
        assert "result" in owner.command("session.list", limit=1)
        assert replies(viewer) < 600


@pytest.mark.parametrize("role", ["viewer", None], ids=["a viewer", "a stranger"])
def test_parts_that_bring_nothing_come_to_an_end(keep: Keep, role: str | None) -> None:
    """A message in parts without end, each empty, ends its connection: its parts are bounded in number, not only in bytes."""
    with keep.client(keep.tokens[role]) if role else keep.socket() as line:
        line.raw.settimeout(60)
        line.raw.sendall(part(TEXT, b'"'))
        assert is_ended(line.raw, part(CONTINUATION, b"") * 10_000)
    assert keep.serves()


def test_a_stranger_says_little(keep: Keep) -> None:
    """Before the greeting even frames that ask for nothing are bounded: the connection ends with them."""
    with keep.socket() as line:
        assert is_ended(line.raw, frame(PING, b"") * 10_000)
    assert keep.serves()


def test_a_viewer_s_frames_are_small(keep: Keep) -> None:
    """Only an owner sends images; a frame of megabytes from another ends its connection."""
    long = json.dumps({"type": "session.list", "id": "1", "query": "x" * 2_000_000}).encode()
    with keep.client(keep.tokens["viewer"]) as viewer, keep.client(keep.tokens["owner"]) as owner:
        try:
            viewer.send(long)
        except OSError:
            pass
        said = viewer.receive()
        assert isinstance(said, Closed)
        assert said.code in (1009, 1006)
        owner.send(long)
        assert not isinstance(owner.receive(), Closed)


@pytest.mark.parametrize("wrong", [0, 12], ids=["at once", "while the answer is held back"])
def test_the_body_of_a_stranger_is_not_read(keep: Keep, wrong: int) -> None:
    """A body in pieces of a byte, without end, ends with the refusal: nobody looks at the pieces."""
    who = 700 + wrong
    for _ in range(wrong):
        keep.ask(keep.head(token="x" * 43), who)
    with closing(keep.dial(who)) as line:
        line.sendall(keep.head("/mcp", "Transfer-Encoding: chunked", method="POST"))
        assert is_ended(line, b"1\r\nx\r\n" * 10_000)
    assert keep.serves()


def test_a_refusal_is_the_last_word(keep: Keep) -> None:
    """Requests that a stranger has sent behind the one that is refused are not looked at."""
    with closing(keep.dial(720)) as line:
        line.sendall(keep.head() * 20)
        said = b""
        try:
            while piece := line.recv(1 << 16):
                said += piece
        except ConnectionResetError:
            pass
    assert said.count(b"HTTP/1.1") == 1


class Narrow(Keep):
    """A server that may open few files."""

    is_forked = False

    def command(self, *flags: str) -> list[str]:
        """How `jaato serve` is started."""
        return ["prlimit", f"--nofile={DESCRIPTORS}", *super().command(*flags)]


@pytest.mark.skipif(
    subprocess.run(["sh", "-c", "command -v prlimit"], capture_output=True, check=False).returncode != 0,
    reason="needs prlimit",
)
def test_a_crowd_leaves_descriptors_enough(tmp_path: Path) -> None:
    """Where few files may be open, a thousand strangers at once leave enough of them: the owner begins a
    session through the Unix socket while they are there."""
    keep = Narrow(tmp_path, "--web-socket", ":0")
    try:
        with ExitStack() as stack:
            for _ in range(STRANGERS):
                one = stack.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", keep.port))
            for _ in range(3):
                with keep.client(unix=True) as owner:
                    made = owner.command("session.create", attach=False, **keep.scripted())
                    assert "result" in made, made
                assert descriptors(keep) < DESCRIPTORS - 50
            assert status(keep.ask(keep.head(token=keep.tokens["owner"]))) == 200
    finally:
        code, said = keep.stop()
    assert code == 0
    assert "system resource" not in said
