"""Clients that do not read their answer: what they leave unread is not kept in memory."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.chat_api.api import Api, serving

from jaato.abc.provider import Chunk, ModelRequest
from jaato.protocol.events import MessageModel, TurnCompleted
from jaato.providers.scripted import ScriptedProvider, Step
from jaato.server.openai import wire

ANSWER = "".join(f"{number:015} " for number in range(250_000))
"""4 MB in which each place is told from all others."""


class PacedProvider(ScriptedProvider):
    """A model whose text comes in pieces with pauses, in which clients can read."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        async for chunk in super().stream(request):
            yield chunk
            await anyio.sleep(0.001)


def ask(api: Api) -> socket.socket:
    """A connection on which the answer is requested, with a small receive buffer, which nothing empties."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    connection.connect(("127.0.0.1", api.port))
    body = json.dumps({"model": "jaato", "stream": True, "messages": [{"role": "user", "content": "Hi"}]})
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{api.port}\r\nConnection: close\r\n"
        f"Authorization: Bearer {api.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall((head + body).encode())
    return connection


def read_rest(connection: socket.socket, pause_s: float = 0) -> str:
    """What is received to the end, with a pause after each part."""
    with connection, connection.makefile("rb", buffering=0) as file:
        found = b""
        while part := file.read(65_536):
            found += part
            time.sleep(pause_s)
        return found.decode()


def test_clients_that_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn of a client that reads nothing is stopped, and leaves memory; its session has the text so far. A client that reads
    at last gets the error, and the next message continues."""
    monkeypatch.setattr(wire, "UNREAD_S", 0.3)

    async def main() -> None:
        provider = PacedProvider([Step(ANSWER, chunks=4_000)] * 9)
        async with serving(tmp_path, provider) as api:
            connections = [ask(api) for _ in range(4)]
            with anyio.fail_after(60):
                while len(api.sessions()) < 4 or api.hub.pool.loaded:
                    await anyio.sleep(0.05)
            for session in api.sessions():
                events = list(api.hub.store.read(session, 0))
                (text,) = [one.message.text for one in events if isinstance(one, MessageModel)]
                assert 0 < len(text) < len(ANSWER)
                assert ANSWER.startswith(text)
                assert [one.reason for one in events if isinstance(one, TurnCompleted)] == ["cancelled"]
            received = await anyio.to_thread.run_sync(read_rest, connections[0])
            assert '"answer_unread"' in received
            assert "data: [DONE]" in received
            for connection in connections:
                connection.close()

    anyio.run(main)


def test_a_client_that_reads_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads slower than the model writes, but reads, gets the whole answer, also one in a single piece."""
    monkeypatch.setattr(wire, "UNREAD_S", 1.0)

    async def main() -> None:
        async with serving(tmp_path, [Step(ANSWER[:1_000_000])]) as api:
            received = await anyio.to_thread.run_sync(read_rest, ask(api), 0.01)
            lines = [line for line in received.splitlines() if line.startswith("data: {")]
            deltas = [json.loads(line[6:])["choices"][0]["delta"].get("content", "") for line in lines]
            assert "".join(deltas) == ANSWER[:1_000_000]
            assert max(map(len, deltas)) == wire.PIECE_CHARS

    anyio.run(main)


def test_a_server_that_is_held_up_does_not_blame_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that comes to nothing for longer than an answer may stay unread: once server and client run again, all of
    it arrives."""
    monkeypatch.setattr(wire, "UNREAD_S", 0.1)

    async def hold_up() -> None:
        while True:
            time.sleep(0.2)
            await anyio.sleep(0)

    async def main() -> None:
        async with serving(tmp_path, [Step(ANSWER[:200_000])]) as api, anyio.create_task_group() as group:
            connection = ask(api)
            connection.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=connection, limit=8_192)
            await reader.readuntil(b"data: {")
            group.start_soon(hold_up)
            received = (await reader.read()).decode()
            group.cancel_scope.cancel()
            writer.close()
            assert "data: [DONE]" in received
            assert '"answer_unread"' not in received

    anyio.run(main)
