"""A tool registry on loopback, by the standard library, that keeps to the contract wherever a test does not have it lie."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote

TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Seen(NamedTuple):
    """A request as the registry got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    peer: int = 0


class Refused(Exception):
    """A tool's way to fail."""


Lie = Callable[[Any], None]
"""Writes an answer to the handler's socket in place of the registry."""


def definition(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    """A definition as the contract has it."""
    return {
        "schema_version": "0.1.0",
        "name": name,
        "description": description or f"The tool {name}.",
        "version": "1.0.0",
        "parameters": TEXT,
        **more,
    }


class Shop:
    """A registry. `lies` has for a method and path what is answered there instead; `seen` is what it was asked, `lines` the
    connections that are open."""

    def __init__(self, tools: list[dict[str, Any]], run: Callable[[str, Any], Any]) -> None:
        self.tools = {tool["name"]: tool for tool in tools}
        self.run = run
        self.lies: dict[str, Lie] = {}
        self.seen: list[Seen] = []
        self.lines: dict[int, socket.socket] = {}
        self.over = threading.Event()
        shop = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 20

            def setup(self) -> None:
                super().setup()
                shop.lines[self.client_address[1]] = self.connection

            def finish(self) -> None:
                shop.lines.pop(self.client_address[1], None)
                super().finish()

            def do_GET(self) -> None:
                shop.answer(self)

            def do_POST(self) -> None:
                shop.answer(self)

            def log_message(self, *_: Any) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = False

            def handle_error(self, request: Any, client_address: Any) -> None:
                return

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler: Any) -> None:
        """One request."""
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.seen.append(Seen(handler.command, handler.path, headers, body, handler.client_address[1]))
        lie = self.lies.get(f"{handler.command} {handler.path}") or self.lies.get(handler.command)
        try:
            if lie is not None:
                handler.close_connection = True
                lie(handler)
                return
            status, value = self.honest(handler.command, handler.path, body)
            say(handler, status, value, headers)
        except OSError:
            handler.close_connection = True

    def honest(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """What the contract wants."""
        if path == "/v1/tools":
            return 200, [{key: tool[key] for key in ("name", "description")} for tool in self.tools.values()]
        name = unquote(path.removeprefix("/v1/tools/"))
        invoked = method == "POST" and name.endswith(":invoke")
        tool = self.tools.get(name.removesuffix(":invoke") if invoked else name)
        if tool is None:
            return 404, failure("tool.not_found", "No such tool.", result=invoked)
        if not invoked:
            return 200, tool
        missing = [key for key in tool["parameters"].get("required", []) if key not in body["args"]]
        if missing:
            issues = [{"path": f"/{key}", "message": "is missing"} for key in missing]
            return 400, failure(
                "tool.invalid_args", "Invalid arguments.", result=True, details={"issues": issues}
            )
        try:
            return 200, done(self.run(tool["name"], body["args"]))
        except Refused as error:
            return 500, failure("tool.execution_error", str(error), result=True)

    def asked(self, method: str = "", ends: str = "") -> list[Seen]:
        """What it was asked, of a kind."""
        return [one for one in self.seen if one.method.startswith(method) and one.path.endswith(ends)]


def done(value: Any) -> dict[str, Any]:
    """A ToolResult that is ok."""
    return {"schema_version": "0.1.0", "ok": True, "result": value, "metrics": {"latency_ms": 1.0}}


def failure(code: str, message: str, *, result: bool, retryable: bool = False, **more: Any) -> dict[str, Any]:
    """An error of the contract, in a ToolResult where a call was made."""
    error = {"schema_version": "0.1.0", "code": code, "message": message, "retryable": retryable, **more}
    told = {"schema_version": "0.1.0", "ok": False, "error": error, "metrics": {"latency_ms": 1.0}}
    return told if result else error


def say(handler: Any, status: int, value: Any, asked: Mapping[str, str]) -> None:
    """An answer with its ETag; 304 where the client has it."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    etag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    if status == 200 and asked.get("if-none-match") == etag:
        handler.send_response(304)
        handler.send_header("ETag", etag)
        handler.end_headers()
        return
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    handler.send_header("ETag", etag)
    handler.end_headers()
    handler.wfile.write(data)


def raw(data: bytes) -> Lie:
    """These very bytes, and the end of the connection."""

    def lie(handler: Any) -> None:
        handler.wfile.write(data)

    return lie


def body(data: Any, status: str = "200 OK", **headers: str) -> Lie:
    """This body, whatever it is."""
    content = data if isinstance(data, bytes) else json.dumps(data).encode()
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    length = f"Content-Length: {len(content)}\r\nConnection: close"
    return raw(f"HTTP/1.1 {status}\r\n{named}{length}\r\n\r\n".encode() + content)


def streamed(kind: str, *pieces: bytes, wait: threading.Event | None = None) -> Lie:
    """An answer in pieces; the last one comes when it is waited for no longer."""

    def lie(handler: Any) -> None:
        handler.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode())
        for at, piece in enumerate(pieces):
            if wait is not None and at == len(pieces) - 1:
                wait.wait(60)
            handler.wfile.write(piece)
            handler.wfile.flush()

    return lie


def endless(head: bytes, piece: bytes) -> Lie:
    """Something that does not end before the client has enough of it."""

    def lie(handler: Any) -> None:
        handler.wfile.write(head)
        while True:
            handler.wfile.write(piece)

    return lie


def stalling(head: bytes) -> Lie:
    """Something that begins, and goes on after the test only."""

    def lie(handler: Any) -> None:
        handler.wfile.write(head)
        handler.wfile.flush()
        handler.connection.settimeout(60)
        handler.rfile.read(1)  # until the client has closed the connection

    return lie


@contextmanager
def shop(
    *tools: dict[str, Any], run: Callable[[str, Any], Any] = lambda name, args: {"tool": name, **args}
) -> Iterator[Shop]:
    """A registry at work; nothing of it is left."""
    made = Shop(list(tools), run)
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        made.server.shutdown()
        thread.join()
        for line in list(made.lines.values()):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        made.server.server_close()
