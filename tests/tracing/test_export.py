"""Spans to a collector and into a file: valid OTLP, by the settings' network rules, and never in anybody's way."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, TraceFlags
from tests.kit import call, say
from tests.ports import unused_port
from tests.tracing.collecting import collector, decoded, spans_of, traced, tree

from jaato.protocol.events import SystemMessage
from jaato.runtime.tracing import export
from jaato.runtime.tracing.config import Endpoint, SpanCounters, read_config
from jaato.runtime.tracing.export import BATCH, CAPACITY, CollectorExporter, FileExporter, SpanSink
from jaato.runtime.tracing.fold import NO_RESOURCE, SCOPE
from jaato.runtime.tracing.tracer import check
from jaato.settings import load


def one_turn(path: Path, environ: dict[str, str]) -> None:
    """A turn with a call, traced as this environment says."""

    async def main() -> None:
        async with traced(path, [call("readFile", path="none"), say("Done.")], environ=environ) as live:
            await live.run("go")

    anyio.run(main)


def span(number: int) -> ReadableSpan:
    """A span with a number."""
    context = SpanContext(1, number + 1, False, TraceFlags(1))
    return ReadableSpan(
        f"span {number}",
        context,
        None,
        NO_RESOURCE,
        {},
        start_time=1,
        end_time=2,
        instrumentation_scope=SCOPE,
    )


def exporter(url: str, **more: float) -> CollectorExporter:
    """An exporter to a collector."""
    return CollectorExporter(Endpoint(url=f"{url}/v1/traces", **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "named",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "{url}"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{url}/v1/traces", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
        {"JAATO_TRACE_ENDPOINT": "{url}/", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"JAATO_TRACE_ENDPOINT": "{url}/v1/traces", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_what_arrives_is_valid_otlp(
    tmp_path: Path, named: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector named by a setting or by OpenTelemetry's variables gets, at /v1/traces, requests that its own
    definitions decode, with the headers and resource attributes of the session's environment and of no other."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-other=of-the-process")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with collector() as here:
        environ = {name: value.format(url=here.url) for name, value in named.items()}
        environ |= {
            "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=ours,authorization=Bearer%20abcdefgh12345678",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.name=other",
        }
        one_turn(tmp_path, environ)
        for path, headers, _ in here.requests:
            assert path == "/v1/traces"
            assert headers["content-type"] == "application/x-protobuf"
            assert headers["x-tenant"] == "ours"
            assert headers["authorization"] == "Bearer abcdefgh12345678"
            assert "x-other" not in headers
        assert tree(here.spans()) == {
            "": ["invoke_agent main"],
            "invoke_agent main": ["chat script", "execute_tool readFile", "chat script"],
        }
        attributes = here.decoded()[0].resource_spans[0].resource.attributes
        known = {one.key: one.value.string_value for one in attributes}
        assert known["service.name"] == "other"
        assert known["deployment.environment.name"] == "test"
    assert not (tmp_path / "work/spans.jsonl").exists()


def test_what_may_pass_is_tried_again_and_the_rest_is_not() -> None:
    """After 503 the same request is sent again, after 400 it is not; a redirect is not followed, and is a fault."""
    with collector() as here:
        here.answers = [503]
        exporter(here.url).export([span(1)])
        assert len(here.requests) == 2
        assert len({body for _, _, body in here.requests}) == 1
        here.answers = [400, 200]
        with pytest.raises(OSError, match="400"):
            exporter(here.url).export([span(1)])
        here.answers, here.location = [307, 200], here.url
        with pytest.raises(OSError, match="307"):
            exporter(here.url).export([span(1)])
        assert len(here.requests) == 4


def test_an_answer_that_never_ends_is_left() -> None:
    """A collector that answers with too much is cut off; one that is no HTTP server is a fault."""
    with collector() as here:
        here.answer = b" " * 30_000_000
        exporter(here.url).export([span(1)])
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: speak(server))
        thread.start()
        with pytest.raises(OSError, match=r"\w"):
            exporter(f"http://127.0.0.1:{server.getsockname()[1]}", timeout_s=2).export([span(1)])
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def speak(server: socket.socket) -> None:
    """Say something that is no HTTP to everybody, until the server is shut down."""
    while True:
        try:
            with server.accept()[0] as connection:
                connection.recv(100)
                connection.sendall(b"SSH-2.0-nothing here\r\n")
        except ConnectionError:  # it has given up
            continue
        except OSError:
            return


def test_a_dead_collector_costs_a_turn_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nobody at the port, or somebody who keeps the answer back, the turn ends as ever, and the program waits no
    longer than it says."""
    monkeypatch.setattr(export.SpanSink.close, "__defaults__", (0.05,))
    port = unused_port()
    one_turn(tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"})
    (tmp_path / "held").mkdir()
    with collector() as here:
        here.held.clear()
        one_turn(tmp_path / "held", {"JAATO_TRACE_ENDPOINT": here.url})


class Gate(SpanExporter):
    """An exporter that lets nothing through until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.taken: list[str] = []
        self.fault = ""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait, then take them."""
        self.entered.set()
        assert self.opened.wait(60)
        if self.fault:
            raise OSError(self.fault)
        self.taken += [one.name for one in spans]
        return SpanExportResult.SUCCESS


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    """While an exporter hangs, no more than the capacity waits, newer spans are dropped and counted, in microseconds; what
    waited goes out in order when it is back."""
    gate, counters = Gate(), SpanCounters()
    sink = SpanSink("the gate", gate, counters)
    sink.put([span(number) for number in range(BATCH)])
    assert gate.entered.wait(60)
    begun = time.thread_time()
    for _ in range(100):
        sink.put([span(number) for number in range(BATCH, BATCH + 100)])
    assert time.thread_time() - begun < 5
    assert counters.dropped == 10_000 + BATCH - CAPACITY
    gate.opened.set()
    sink.close(20)
    assert gate.taken[: BATCH + 1] == [f"span {number}" for number in range(BATCH + 1)]
    assert counters.exported == len(gate.taken) == CAPACITY
    sink.put([span(1)])
    assert counters.dropped == 10_001 + BATCH - CAPACITY


def test_the_end_waits_no_longer_than_it_says() -> None:
    """An exporter that hangs at the end is left behind: what it has not taken is counted as dropped, once. Without a span
    there is no thread."""
    gate, counters = Gate(), SpanCounters()
    before = set(threading.enumerate())
    SpanSink("the gate", gate, counters).close()
    assert set(threading.enumerate()) <= before
    sink = SpanSink("the gate", gate, counters)
    sink.put([span(number) for number in range(BATCH + 5)])
    assert gate.entered.wait(60)
    sink.close(0.01)
    assert (counters.dropped, counters.exported) == (BATCH + 5, 0)
    gate.opened.set()
    sink.close(20)
    assert (counters.dropped, counters.exported) == (BATCH + 5, 0)


def test_a_fault_is_reported_once_until_it_is_over() -> None:
    """An exporter that fails is reported once; when it works again and fails again, it is reported again."""
    gate = Gate()
    gate.opened.set()
    counters = SpanCounters()
    sink = SpanSink("the gate", gate, counters)
    for gate.fault in ("broken", "broken", "", "broken again"):
        sink.export([span(1)])
    assert list(sink.warnings) == [
        "Spans cannot be exported to the gate: broken.",
        "Spans cannot be exported to the gate: broken again.",
    ]


def test_a_line_is_a_document_that_opentelemetry_reads(tmp_path: Path) -> None:
    """Each line of the file is one OTLP document with one span; the file and its directory are its owner's alone."""
    one_turn(tmp_path, {"JAATO_TRACE_FILE": "deep/er/spans.jsonl"})
    path = tmp_path / "work/deep/er/spans.jsonl"
    for line in path.read_bytes().splitlines():
        (resource,) = decoded(line).resource_spans
        named = {one.key: one.value.string_value for one in resource.resource.attributes}
        assert named["service.name"] == "jaato"
        (one,) = resource.scope_spans[0].spans
        assert one.end_time_unix_nano >= one.start_time_unix_nano > 1_700_000_000_000_000_000
        assert (len(one.trace_id), len(one.span_id)) == (16, 8)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_is_bounded(tmp_path: Path) -> None:
    """Two exporters append to one file; when it is full it is begun anew, and one before it is kept."""
    path = tmp_path / "spans.jsonl"
    for number in range(0, 400, 10):
        for file in (FileExporter(path, 20_000), FileExporter(path, 20_000)):
            file.export([span(number + one) for one in range(10)])
    old = tmp_path / "spans.jsonl.1"
    assert sorted(tmp_path.iterdir()) == [path, old]
    assert 0 < path.stat().st_size <= 20_000
    assert 10_000 < old.stat().st_size <= 20_000
    assert spans_of(path)[-1].name == "span 399"
    spans_of(old)


@pytest.mark.parametrize("kind", ["directory", "below a file", "pipe", "no permission"])
def test_a_file_that_cannot_be_written_harms_nothing(tmp_path: Path, kind: str) -> None:
    """The turn goes on as if there were none, and whoever follows the session is warned once, with the reason."""
    path = tmp_path / "there"
    match kind:
        case "directory":
            path.mkdir()
        case "below a file":
            path.write_text("")
            path = path / "spans.jsonl"
        case "pipe":
            os.mkfifo(path)
        case "no permission":
            path = Path("/proc/self/spans.jsonl")
    told: list[str] = []

    async def main() -> None:
        async with traced(tmp_path, [say("x"), say("y")], environ={"JAATO_TRACE_FILE": str(path)}) as live:
            for prompt in ("one", "two"):
                async for event in live.stream(prompt):
                    if isinstance(event, SystemMessage):
                        told.append(event.text)
            assert live.live.state.turns == 2

    anyio.run(main)
    assert len(told) == 1
    assert str(path) in told[0]
    config = read_config(load(environ={"HOME": str(tmp_path), "JAATO_TRACE_FILE": str(path)}), tmp_path)
    assert check(config) == (f"the file {path}", told)


def test_without_the_extra_sessions_work_and_doctor_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the OpenTelemetry SDK is not installed nothing is exported, a session works as ever, and the check names what
    to install."""
    for name in ("jaato.runtime.tracing.export", "opentelemetry.sdk.trace"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    environ = {"HOME": str(tmp_path), "JAATO_TRACE_FILE": "spans.jsonl"}
    _, wrong = check(read_config(load(environ=environ), tmp_path))
    assert "pip install 'jaato[otel]'" in wrong[0]
    one_turn(tmp_path, environ)
    assert not (tmp_path / "work/spans.jsonl").exists()
