"""What the tests of tracing share: agents that are traced, their spans, and a collector on a real socket."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.runtime.agents import agent

from jaato.abc.store import Damaged
from jaato.errors import JaatoError
from jaato.runtime.agent import Agent
from jaato.runtime.tracing.fold import Fold
from jaato.runtime.tracing.otlp import spans_in
from jaato.runtime.tracing.spans import Span
from jaato.storage.sqlite import SqliteStore


def traced(path: Path, script: Any, environ: dict[str, str] | None = None, **more: Any) -> Agent:
    """An agent whose spans go to `spans.jsonl` in its workspace, unless `environ` says otherwise."""
    named = {"JAATO_TRACE_FILE": "spans.jsonl"} if environ is None else environ
    given = script if isinstance(script, list) else []
    if not isinstance(script, list):
        more["provider"] = script
    return agent(path, given, environ={"HOME": str(path), "PATH": "/usr/bin:/bin", **named}, **more)


def once(path: Path, script: Any, prompt: str = "go", **more: Any) -> tuple[str, list[Span]]:
    """One turn of a traced agent: its session, and the spans that were written."""
    found: list[str] = []

    async def main() -> None:
        async with traced(path, script, **more) as live:
            found.append(live.session_id)
            try:
                await live.run(prompt)
            except JaatoError:
                pass

    anyio.run(main)
    return found[0], written(path)


def spans_of(path: Path) -> list[Span]:
    """The spans of a file, each line of which is one."""
    found: list[Span] = []
    for line in path.read_bytes().splitlines():
        one = list(spans_in(line))
        assert len(one) == 1
        found += one
    return found


def written(path: Path) -> list[Span]:
    """The spans that `traced` has written."""
    return spans_of(path / "work" / "spans.jsonl")


def stored(path: Path, session_id: str, *, content: bool = False) -> list[Span]:
    """The spans of the stored log."""
    store = SqliteStore(path / "state" / "jaato.db")
    try:
        fold = Fold(content=content)
        events = [event for event in store.read(session_id) if not isinstance(event, Damaged)]
        return [span for event in events for span in fold.take(event)]
    finally:
        store.close()


def tree(spans: Sequence[Span]) -> dict[str, list[str]]:
    """The names of the children of each span, by its name, in the order they began."""
    names = {span.span_id: span.name for span in spans}
    found: dict[str, list[str]] = {}
    for span in sorted(spans, key=lambda span: (span.start_ns, span.end_ns or 0)):
        found.setdefault(names.get(span.parent_id, ""), []).append(span.name)
    return found


class Collector:
    """What came to a collector. `answers` are the statuses of the next requests, then 200; `held` lets none be answered."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.answer = b"{}"
        self.held = threading.Event()
        self.held.set()
        self.came = threading.Condition()
        self.url = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """One request; gives the status of its answer."""
        with self.came:
            self.requests.append((path, headers, body))
            self.came.notify_all()
        self.held.wait()
        return self.answers.pop(0) if self.answers else 200

    def wait_for(self, count: int) -> None:
        """Wait until so many requests have come."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.requests) >= count, 20)

    def bodies(self) -> list[bytes]:
        """What was posted, unzipped."""
        return [
            gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
            for _, headers, body in self.requests
        ]

    def spans(self) -> list[Span]:
        """Every span that came."""
        return [span for body in self.bodies() for span in spans_in(body)]


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector at a port of this machine."""
    here = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Take what is posted."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = here.take(self.path, {key.lower(): value for key, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(here.answer)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(here.answer)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    here.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield here
    finally:
        here.held.set()
        server.shutdown()
        thread.join()
        server.server_close()


def decoded(body: bytes) -> ExportTraceServiceRequest:
    """A body as OpenTelemetry's own definitions read it; an unknown field or a wrong type is an error. (OTLP writes ids in
    hex where protocol buffers write base64.)"""

    def with_bytes(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: base64.b64encode(bytes.fromhex(one)).decode()
                if key in ("traceId", "spanId", "parentSpanId")
                else with_bytes(one)
                for key, one in value.items()
            }
        return [with_bytes(one) for one in value] if isinstance(value, list) else value

    made: ExportTraceServiceRequest = Parse(
        json.dumps(with_bytes(json.loads(body))), ExportTraceServiceRequest()
    )
    return made
