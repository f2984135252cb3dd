"""A loopback HTTP/1.1 server that plays prepared answers, faults included, whatever the dialect."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Step = bytes | float | asyncio.Event | Literal["hold", "cut", "close"]
"""Bytes to write, seconds or an event to wait for, `hold` until the client goes, `cut` (reset), or `close` (end of file)."""


@dataclass(frozen=True)
class Answer:
    """What one request is answered with, byte by byte; a step `close` or `cut` ends the connection."""

    steps: Sequence[Step]


@dataclass
class Received:
    """One request as it came; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Server:
    """What a running server has seen so far."""

    url: str
    port: int
    answers: list[Answer]
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    lists_models: bool = True
    """Whether `GET /models` is answered like any other request; else it is not there, and not recorded."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closed its connection while the server was holding it."""


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The status line and the headers."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode("latin-1")


def answer(body: bytes | str | Any, status: int = 200, **headers: str) -> Answer:
    """A whole answer with its length: bytes and text as they are, anything else as JSON."""
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
        headers.setdefault("content_type", "application/json")
    data = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer([head(status, {"content-length": str(len(data)), **named}) + data])


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def stream(*pieces: bytes | float, end: Step | None = None, **headers: str) -> Answer:
    """A chunked event stream, one chunk a piece; `end` replaces the final chunk by a fault."""
    named = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    steps: list[Step] = [head(200, named)]
    steps += [chunk(piece) if isinstance(piece, bytes) else piece for piece in pieces]
    steps.append(b"0\r\n\r\n" if end is None else end)
    return Answer(steps)


def events(*values: Any) -> list[bytes]:
    """Values as server-sent events: text as it is, anything else as JSON."""
    return [f"data: {v if isinstance(v, str) else json.dumps(v)}\n\n".encode() for v in values]


async def read_request(reader: asyncio.StreamReader, connection: int) -> Received | None:
    """The next request of a connection, or None when the client has closed it."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = text.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body, connection)


async def play(
    steps: Sequence[Step], server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Play one answer; whether the connection may carry another request."""
    for step in steps:
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
            case "cut":
                await asyncio.sleep(0.01)  # what was written leaves before the reset overtakes it
                writer.transport.abort()
                return False
            case "close":
                return False
            case "hold":
                await reader.read()
                server.gone.set()
                return False
            case float() | int():
                await asyncio.sleep(step)
            case asyncio.Event():
                await step.wait()
    return True


@asynccontextmanager
async def listen(
    attend: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Serve connections on a free loopback port, which is given; those that are open at the end are cancelled."""
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(attend(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls, limit=2**20)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()


@asynccontextmanager
async def serve(
    *answers: Answer, tls: ssl.SSLContext | None = None, lists_models: bool = True
) -> AsyncIterator[Server]:
    """A server on a free loopback port that gives the answers in order, to whoever asks."""

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        number = server.connections
        try:
            while (request := await read_request(reader, number)) is not None:
                if request.path.endswith("/models") and not server.lists_models:
                    await play(answer({"error": {"message": "not here"}}, 404).steps, server, reader, writer)
                    continue
                server.requests.append(request)
                played = server.answers.pop(0) if server.answers else answer("nothing is left to say", 500)
                if not await play(played.steps, server, reader, writer):
                    break
        except (ConnectionError, ssl.SSLError):
            server.gone.set()
        finally:
            writer.close()

    async with listen(attend, tls) as port:
        server = Server(f"{'https' if tls else 'http'}://127.0.0.1:{port}", port, list(answers))
        server.lists_models = lists_models
        yield server


@dataclass
class Proxy:
    """A running CONNECT proxy: where it listens, what it was asked for, and with which headers."""

    url: str
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@asynccontextmanager
async def tunnel(port: int, refuse: int | None = None) -> AsyncIterator[Proxy]:
    """A CONNECT proxy whose every tunnel ends at a loopback port, or which refuses with a status."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader, 0)
            if request is None:
                return
            proxy.asked.append(f"{request.method} {request.path}")
            proxy.headers.append(request.headers)
            if refuse is not None:
                writer.write(head(refuse, {"content-length": "0"}))
                await writer.drain()
                return
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))
        finally:
            writer.close()

    async with listen(attend) as own_port:
        proxy = Proxy(f"http://127.0.0.1:{own_port}")
        yield proxy
