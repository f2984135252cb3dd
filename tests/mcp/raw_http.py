"""A server over HTTP, written by hand on a socket, that answers a method in any way a test has."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

TOOL = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


class Asked(NamedTuple):
    """One request; `message` is None where there is no body."""

    method: str
    path: str
    headers: dict[str, str]
    message: Any


Answer = Callable[[socket.socket, Asked], bool]
"""Answers a request; whether the connection can be used for another."""


def reply(
    connection: socket.socket, status: str, body: bytes = b"", *, kind: str = "", **headers: str
) -> bool:
    """An answer with a length."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named |= {"Content-Length": str(len(body))} | ({"Content-Type": kind} if kind else {})
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    connection.sendall(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)
    return True


def stream(connection: socket.socket, data: bytes = b"") -> None:
    """The beginning of a stream of events."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + data)


def document(connection: socket.socket, answer: Any, **headers: str) -> bool:
    """A JSON answer."""
    return reply(connection, "200 OK", json.dumps(answer).encode(), kind="application/json", **headers)


def result_of(message: Any) -> dict[str, Any]:
    """What an honest server of the older protocol answers."""
    match message["method"]:
        case "server/discover":
            return {"error": {"code": -32601, "message": "no such method"}}
        case "initialize":
            info = {"name": "hand", "version": "1"}
            told = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": info,
            }
            return {"result": told}
        case "tools/list":
            return {"result": {"tools": [TOOL]}}
        case "tools/call":
            said = str(message["params"]["arguments"].get("text"))
            return {"result": {"content": [{"type": "text", "text": said}]}}
    return {"result": {}}


def honest(connection: socket.socket, asked: Asked) -> bool:
    """As a server should answer."""
    message = asked.message
    if asked.method != "POST":
        return reply(connection, "405 Method Not Allowed")
    if message is None:
        return False  # the client has gone in the middle of its request
    if "id" not in message:
        return reply(connection, "202 Accepted")
    named = {"Mcp_Session_Id": "session-1"} if message["method"] == "initialize" else {}
    return document(connection, {"jsonrpc": "2.0", "id": message["id"], **result_of(message)}, **named)


class Hand:
    """A server on loopback; `seen` is what it was asked."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.seen: list[Asked] = []
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as data:
                while (asked := read(data)) is not None:
                    self.seen.append(asked)
                    posted = asked.method == "POST" and isinstance(asked.message, dict)
                    key = asked.message["method"] if posted else asked.method
                    if not self._answers.get(key, honest)(connection, asked):
                        connection.shutdown(socket.SHUT_RDWR)
                        return
        except OSError:
            return
        finally:
            self._open.discard(connection)

    def close(self) -> None:
        """End everything."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(60)


def read(data: Any) -> Asked | None:
    """The next request, None at the end."""
    line = data.readline().decode()
    if not line:
        return None
    method, path, _ = line.split(" ")
    headers: dict[str, str] = {}
    while found := data.readline().decode().strip():
        name, _, value = found.partition(":")
        headers[name.lower()] = value.strip()
    body = data.read(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, json.loads(body) if body else None)


@contextmanager
def hand(**answers: Answer) -> Iterator[Hand]:
    """A server that answers the methods named (`tools__call`, `GET`) so, all others honestly."""
    made = Hand({name.replace("__", "/"): answer for name, answer in answers.items()})
    try:
        yield made
    finally:
        made.close()
