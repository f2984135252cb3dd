"""What tests of registered tools share: a registry whose owner may put tools there, and handlers for them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.gate import allow_hosts
from jaato.server.auth.tokens import SingleToken
from jaato.server.registry.application import bind_listener, open_registry, serving
from jaato.server.registry.keys import AllowAnyone, Keys, RequireKey
from jaato.server.registry.routes import ToolRegistry
from jaato.testing.arp.peer import Reply, Served

TOKEN = "t" * 40
TARGETS = "tests.registry.targets:"
TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def put_body(handler: dict[str, Any] | None, version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    """A tool as it is put."""
    given = {} if handler is None else {"handler": handler}
    return {"description": "Say a text.", "version": version, "parameters": TEXT, **given, **more}


@dataclass
class Registry:
    """A registry that serves: for its owner, and on another address for anyone."""

    registry: ToolRegistry
    at: Served
    open: Served

    def put(self, name: str, body: Any, query: str = "", **headers: str) -> Reply:
        """Put a tool."""
        return self.at.send("PUT", f"/v1/tools/{name}{query}", body, **headers)

    def get(self, name: str, query: str = "", **headers: str) -> Reply:
        """Look at a tool."""
        return self.at.send("GET", f"/v1/tools/{name}{query}", **headers)

    def delete(self, name: str, query: str = "", **headers: str) -> Reply:
        """Take a tool away."""
        return self.at.send("DELETE", f"/v1/tools/{name}{query}", **headers)

    def names(self) -> list[str]:
        """The tools that are listed."""
        return [one["name"] for one in self.at.send("GET", "/v1/tools").json]


@asynccontextmanager
async def serve(
    path: Path, *, allow: str = "127.0.0.1", entry_points: tuple[str, ...] = (), **blueprint: Any
) -> AsyncIterator[Registry]:
    """A registry that serves; its state is below `path`."""
    environ = {"HOME": str(path), "JAATO_ALLOW_HOSTS": allow}
    work = path / "work"
    work.mkdir(exist_ok=True)
    described = SessionOptions(workspace=work, state_dir=path / "state", environ=environ, **blueprint)
    registry = open_registry(described, None, entry_points)
    keyed, free = bind_listener("127.0.0.1", 0), bind_listener("127.0.0.1", 0)
    ports = [one.getsockname()[1] for one in (keyed, free)]
    names = [allow_hosts("127.0.0.1", port) for port in ports]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    try:
        async with (
            serving(
                registry, RequireKey(names[0], SingleToken(TOKEN), Keys(registry.callers.state_dir)), keyed
            ),
            serving(registry, AllowAnyone(names[1]), free),
        ):
            yield Registry(registry, Served(urls[0], TOKEN), Served(urls[1]))
    finally:
        await registry.callers.close()


def during(path: Path, body: Callable[[Registry], None], **more: Any) -> None:
    """Run `body(registry)` in a thread while it serves."""

    async def main() -> None:
        async with serve(path, **more) as one:
            await anyio.to_thread.run_sync(body, one)

    anyio.run(main)


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is soon so."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "it did not come to be"


@dataclass
class Hook:
    """A webhook at work; `seen` are the calls it got: their headers and their bodies."""

    url: str
    seen: list[tuple[dict[str, str], bytes]]
    answer: Callable[[dict[str, Any]], tuple[int, Any]]
    hold: threading.Event


def fine(value: Any) -> tuple[int, Any]:
    """A call that went well."""
    return 200, {"schema_version": "0.1.0", "ok": True, "result": value, "metrics": {"latency_ms": 1}}


def failed(status: int, code: str, message: str, *, retryable: bool = False) -> tuple[int, Any]:
    """A call that failed."""
    error = {"schema_version": "0.1.0", "code": code, "message": message, "retryable": retryable}
    return status, {"schema_version": "0.1.0", "ok": False, "error": error, "metrics": {"latency_ms": 1}}


@contextmanager
def webhook() -> Iterator[Hook]:
    """A webhook of the standard library's, on loopback, in threads of its own."""
    hook = Hook("", [], lambda body: fine({"said": body["args"]["text"]}), threading.Event())

    class Handler(BaseHTTPRequestHandler):
        timeout = 20

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            hook.seen.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status, value = hook.answer(json.loads(body))
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if status in (302, 307):
                    self.send_header("Location", hook.url)
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    hook.url = f"http://127.0.0.1:{server.server_port}/hook?key=in-the-url"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hook
    finally:
        hook.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
