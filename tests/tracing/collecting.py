"""What the tests of tracing share: agents that are traced, their spans, and a collector on a real socket."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
from google.protobuf.json_format import Parse
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from tests.runtime.agents import agent

from jaato.abc.store import Damaged
from jaato.errors import JaatoError
from jaato.runtime.embedding.agent import Agent
from jaato.runtime.tracing.fold import SpanFold
from jaato.storage.sqlite import SqliteStore


@dataclass
class Span:
    """A span as a collector reads it, its ids in hexadecimal."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    start_ns: int
    end_ns: int
    problem: str
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def operation(self) -> str:
        """What it is: `invoke_agent`, `chat`, `execute_tool`, `permission`, …"""
        return self.name.partition(" ")[0]


def spans_in(request: ExportTraceServiceRequest) -> list[Span]:
    """The spans of a request to a collector."""

    def value(one: Any) -> Any:
        kind = one.WhichOneof("value")
        found = getattr(one, kind)
        return [value(each) for each in found.values] if kind == "array_value" else found

    made: list[Span] = []
    for one in (one for each in request.resource_spans for scope in each.scope_spans for one in scope.spans):
        attributes = {pair.key: value(pair.value) for pair in one.attributes}
        assert (one.status.code == 2) == ("error.type" in attributes)
        made.append(
            Span(
                one.name,
                one.trace_id.hex(),
                one.span_id.hex(),
                one.parent_span_id.hex(),
                one.kind,
                one.start_time_unix_nano,
                one.end_time_unix_nano,
                attributes.get("error.type", ""),
                attributes,
            )
        )
    return made


def plain(spans: Sequence[ReadableSpan]) -> list[Span]:
    """Spans of the fold as a collector reads them."""
    return spans_in(encode_spans(spans))


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
        (one,) = spans_in(decoded(line))
        found.append(one)
    return found


def written(path: Path) -> list[Span]:
    """The spans that `traced` has written."""
    return spans_of(path / "work" / "spans.jsonl")


def stored(path: Path, session_id: str, *, content: bool = False) -> list[Span]:
    """The spans of the stored log."""
    store = SqliteStore(path / "state" / "jaato.db")
    try:
        fold = SpanFold(content=content)
        events = [event for event in store.read(session_id) if not isinstance(event, Damaged)]
        return plain([span for event in events for span in fold.apply(event)])
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
        self.answer = b""
        self.location = ""
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

    def decoded(self) -> list[ExportTraceServiceRequest]:
        """What was posted, unzipped and decoded."""
        bodies = [
            gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
            for _, headers, body in self.requests
        ]
        return [ExportTraceServiceRequest.FromString(body) for body in bodies]

    def spans(self) -> list[Span]:
        """Every span that came."""
        return [span for request in self.decoded() for span in spans_in(request)]


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
            if here.location:
                self.send_header("Location", here.location)
            self.end_headers()
            with suppress(OSError):
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
