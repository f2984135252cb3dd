"""A client bears a server that lies: it says so, in its own words, and neither hangs nor grows."""

from __future__ import annotations

import base64
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from jaato.client import blocking, connection, session
from jaato.client.connection import connect
from jaato.client.websocket import GUID
from jaato.errors import ConnectionFault, JaatoError, ServerGone
from jaato.protocol.codec import encode
from jaato.protocol.commands import CommandExecute, SessionAttach, SessionCreate, SessionList
from jaato.protocol.events import SessionInfo, SystemMessage
from jaato.protocol.events.state import State
from jaato.protocol.frames import Opened, Said, Sessions, Welcome
from jaato.server.sessions.subscription import encode_frame

WELCOME = encode_frame(encode(Welcome(1, "jaato", "k", "owner")))
Lie = Callable[[socket.socket], None]


def opened(line: socket.socket) -> None:
    """Answer the opening of a WebSocket, and take the greeting."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += line.recv(1 << 16)
    key = next(one for one in head.split(b"\r\n") if one.lower().startswith(b"sec-websocket-key"))
    accept = base64.b64encode(hashlib.sha1(key.split(b": ")[1] + GUID, usedforsecurity=False).digest())
    line.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-accept: " + accept + b"\r\n\r\n"
    )


@contextmanager
def lying(path: Path, lie: Lie) -> Iterator[Path]:
    """A server that does this to every client, on a thread of its own."""
    place = path / "lies.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen(16)

    def serve() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with line:
                line.settimeout(60)
                try:
                    lie(line)
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield place
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def after_hello(said: bytes, times: int = 1) -> Lie:
    """Greet, then say this, so often, until the client has gone."""

    def lie(line: socket.socket) -> None:
        opened(line)
        line.recv(1 << 16)
        line.sendall(WELCOME)
        line.recv(1 << 16)  # the command
        for _ in range(times):
            line.sendall(said)
        while line.recv(1 << 16):
            pass

    return lie


def told(session_id: str, seq: int = 0) -> SessionInfo:
    """What is told of a session to who attaches."""
    about: dict[str, Any] = {
        "session_id": session_id,
        "agent_id": "a",
        "seq": seq,
        "session_name": None,
        "workspace": "/",
        "model_provider": "",
        "model_name": "",
        "tools": [],
        "models": [],
        "sessions": [],
    }
    return SessionInfo(**about, state=State(session_id=session_id))


def replied(result: bytes) -> bytes:
    """The reply to the first command."""
    return encode_frame(b'{"type":"reply","id":"1","result":' + result + b"}")


LIES: dict[str, tuple[bytes, int]] = {
    "no JSON": (encode_frame(b"{"), 1),
    "half of it": (encode_frame(b'{"type":"reply","id":"1"'), 1),
    "no UTF-8": (encode_frame(b'{"type":"reply","id":"\xff"}'), 1),
    "deep": (encode_frame(b'{"type":"reply","id":"1","new":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), 1),
    "huge": (b"\x81\x7f" + (1 << 62).to_bytes(8, "big"), 1),
    "without end": (b"\x01\x7e\xff\xff" + b" " * 65_535 + (b"\x00\x7e\xff\xff" + b" " * 65_535) * 15, 100),
    "empty parts": (b"\x01\x00" + b"\x00\x00" * 20_000, 1),
    "masked": (b"\x81\x82" + bytes(6), 1),
    "compressed": (b"\xc1\x02{}", 1),
    "parts in disorder": (b"\x00\x02{}", 1),
    "an opcode there is not": (b"\x83\x00", 1),
}


@pytest.mark.parametrize("kind", LIES)
def test_both_clients_end_with_an_error_of_their_own(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no message, or none of a size, is a lost connection: to the blocking client at once, to the other when
    the server has been like that for too long."""
    monkeypatch.setattr(connection, "GIVE_UP_AFTER_S", 0.1)
    with lying(tmp_path, after_hello(*LIES[kind])) as place:
        with blocking.Client(place) as client, pytest.raises(ConnectionFault):
            client.ask(SessionList())

        async def main() -> None:
            with anyio.fail_after(60):
                async with connect(place) as remote:
                    with pytest.raises(JaatoError):
                        await remote.ask(SessionList())

        anyio.run(main)


def test_a_command_that_was_never_sent_is_sent_after_the_second_reconnect(tmp_path: Path) -> None:
    """Its session was opened again when that connection was lost too: it waits further, as no server can have run it."""
    lines: list[socket.socket] = []

    def lie(line: socket.socket) -> None:
        lines.append(line)
        opened(line)
        line.recv(1 << 16)
        line.sendall(WELCOME)
        if len(lines) == 1:
            return
        line.recv(1 << 16)  # the command that opens the session
        if len(lines) == 2:
            return
        line.sendall(replied(encode(Opened("s1", 0))))
        line.recv(1 << 16)  # the command that has waited
        line.sendall(encode_frame(b'{"type":"reply","id":"2","result":' + encode(Said("done")) + b"}"))
        while line.recv(1 << 16):
            pass

    async def main(place: Path) -> None:
        said: list[Any] = []
        with anyio.fail_after(60):
            async with connect(place) as remote:
                gone = anyio.Event()
                remote.on_connection = lambda there: None if there else gone.set()
                await gone.wait()

                async def ask(command: SessionCreate | CommandExecute) -> None:
                    said.append(await remote.ask(command))

                async with anyio.create_task_group() as asking:
                    asking.start_soon(ask, SessionCreate(workspace="/", session_id="s1"))
                    asking.start_soon(ask, CommandExecute(session_id="s1", name="plan"))
        assert said == [Opened("s1", 0), Said("done")]
        assert len(lines) == 3

    with lying(tmp_path, lie) as place:
        anyio.run(main, place)


@pytest.mark.parametrize(
    "first", [b"{", b"[]", encode_frame(b"1"), encode_frame(b"{}"), encode_frame(b"{"), b"\x89\x00"]
)
def test_a_server_that_does_not_greet(tmp_path: Path, first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who never says welcome, whatever else it says and however often, is no server."""
    monkeypatch.setattr(blocking, "CONNECT_S", 0.3)

    def lie(line: socket.socket) -> None:
        opened(line)
        over = threading.Event()
        while not over.wait(0.02):
            line.sendall(first)

    with lying(tmp_path, lie) as place, pytest.raises(ConnectionFault):
        blocking.Client(place).open()


def test_a_server_that_only_greets_counts_as_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is lost again before anything was said is no return: in the end commands fail, and until then
    the client comes less and less often."""
    monkeypatch.setattr(connection, "GIVE_UP_AFTER_S", 1.0)
    visits = []

    def lie(line: socket.socket) -> None:
        opened(line)
        line.recv(1 << 16)
        visits.append(1)
        line.sendall(WELCOME)

    async def main(place: Path) -> None:
        with anyio.fail_after(60):
            async with connect(place) as client:
                with pytest.raises(ServerGone):
                    await client.ask(SessionList())

    with lying(tmp_path, lie) as place:
        anyio.run(main, place)
    assert len(visits) < 10


def test_events_nobody_has_asked_for_are_passed_over(tmp_path: Path) -> None:
    """Sessions that were not attached to are not kept, however many a server tells of; doubles change nothing."""
    infos = [told(f"s{n}", n) for n in range(500)]
    reply = b'{"type":"reply","id":"1","result":{"type":"session.list","sessions":[]}}'
    said = b"".join(encode_frame(encode(info)) for info in infos) + encode_frame(reply) * 3

    async def main(place: Path) -> None:
        with anyio.fail_after(60):
            async with connect(place) as client:
                assert isinstance(await client.ask(SessionList()), Sessions)
                assert client.sessions == {}

    with lying(tmp_path, after_hello(said)) as place:
        anyio.run(main, place)


@pytest.mark.parametrize("result", [b'{"type":"done"}', b"null", b'{"type":"taken","seq":1}'])
def test_an_answer_to_something_else(tmp_path: Path, result: bytes) -> None:
    """A reply of another kind than the command has is the server's fault, and is said to be; nothing else breaks."""

    async def main(place: Path) -> None:
        with anyio.fail_after(60):
            async with connect(place) as client:
                with pytest.raises(ConnectionFault, match="same version"):
                    await client.list()

    with lying(tmp_path, after_hello(replied(result))) as place:
        with blocking.Client(place) as client, pytest.raises(ConnectionFault, match="same version"):
            client.ask(SessionList())
        anyio.run(main, place)


def test_a_server_that_drips(tmp_path: Path) -> None:
    """However often something comes, a command is given up when its time is over."""

    def lie(line: socket.socket) -> None:
        opened(line)
        line.recv(1 << 16)
        line.sendall(WELCOME)
        over = threading.Event()
        while not over.wait(0.02):
            line.sendall(b"\x89\x00")

    with (
        lying(tmp_path, lie) as place,
        blocking.Client(place) as client,
        pytest.raises(ServerGone, match="does not answer"),
    ):
        client.ask(SessionList(), timeout_s=0.2)


def test_readers_who_are_too_far_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that nobody takes do not grow without end: the state takes their place, and what comes after it follows."""
    monkeypatch.setattr(blocking, "BACKLOG", 20)
    monkeypatch.setattr(session, "BACKLOG", 20)
    notices = [SystemMessage(session_id="s1", agent_id="a", seq=0, text=str(n)) for n in range(50)]
    said = encode_frame(encode(told("s1"))) + b"".join(encode_frame(encode(one)) for one in notices)
    listed = replied(b'{"type":"session.list","sessions":[]}').replace(b'"id":"1"', b'"id":"2"')

    def lie(line: socket.socket) -> None:
        opened(line)
        line.recv(1 << 16)
        line.sendall(WELCOME)
        line.recv(1 << 16)
        line.sendall(replied(b'{"type":"opened","session_id":"s1","seq":0}') + said[: len(said) // 2])
        line.recv(1 << 16)
        line.sendall(said[len(said) // 2 :] + listed)
        while line.recv(1 << 16):
            pass

    def fits(events: list[Any]) -> None:
        assert isinstance(events[0], SessionInfo)
        assert events[0].state is not None
        assert len(events) <= 20
        assert [int(one.text) for one in events[1:]] == list(range(51 - len(events), 50))

    async def main(place: Path) -> None:
        with anyio.fail_after(60):
            async with connect(place) as client:
                client._session("s1")
                reader = client.sessions["s1"].events()
                await client.attach("s1")
                assert isinstance(await client.ask(SessionList()), Sessions)
                assert reader.lost > 20
                fits(list(reader._held))

    with lying(tmp_path, lie) as place:
        with blocking.Client(place) as client:
            client.ask(SessionAttach(session_id="s1"))
            client.ask(SessionList())
            fits(client.arrived())
        anyio.run(main, place)
