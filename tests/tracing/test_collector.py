"""Spans to a collector over HTTP: valid OTLP, tried again where that helps, and never in anybody's way."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import anyio
import pytest
from tests.kit import call, say
from tests.tracing.spying import collector, decoded, traced, tree
from tests.tracing.write_spans import span

from jaato.runtime.tracing import collector as module
from jaato.runtime.tracing.collector import Collector, Endpoint
from jaato.runtime.tracing.outlet import Outlet, SinkFault


def one_turn(path: Path, environ: dict[str, str]) -> None:
    """A turn with a call, traced as this environment says."""

    async def main() -> None:
        async with traced(path, [call("readFile", path="none"), say("Done.")], environ=environ) as live:
            await live.run("go")

    anyio.run(main)


@pytest.mark.parametrize(
    "named",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "{url}"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{url}/v1/traces", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
        {"JAATO_TRACE_ENDPOINT": "{url}/", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"JAATO_TRACE_ENDPOINT": "{url}/v1/traces", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_what_arrives_is_valid_otlp(tmp_path: Path, named: dict[str, str]) -> None:
    """A collector named by a setting or by OpenTelemetry's variables gets, at /v1/traces, documents that its own
    definitions read, with the headers and resource attributes that are set."""
    with collector() as here:
        environ = {name: value.format(url=here.url) for name, value in named.items()}
        environ |= {
            "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=ours,authorization=Bearer%20abcdefgh12345678",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.name=other",
        }
        one_turn(tmp_path, environ)
        for path, headers, _ in here.requests:
            assert path == "/v1/traces"
            assert headers["content-type"] == "application/json"
            assert headers["x-tenant"] == "ours"
            assert headers["authorization"] == "Bearer abcdefgh12345678"
        spans = [
            one
            for body in here.bodies()
            for resource in decoded(body).resource_spans
            for one in resource.scope_spans[0].spans
        ]
        assert sorted(one.name for one in spans) == [
            "chat script",
            "chat script",
            "execute_tool readFile",
            "invoke_agent main",
        ]
        assert tree(here.spans())[""] == ["invoke_agent main"]
        attributes = decoded(here.bodies()[0]).resource_spans[0].resource.attributes
        known = {one.key: one.value.string_value for one in attributes}
        assert known["service.name"] == "other"
        assert known["deployment.environment.name"] == "test"
    assert not (tmp_path / "work/spans.jsonl").exists()


def sink(url: str, **more: float) -> Collector:
    """A way to a collector."""
    return Collector(Endpoint(url=f"{url}/v1/traces", **more), {}, {}, first_wait_s=0.01)  # type: ignore[arg-type]


def test_what_may_pass_is_tried_again_and_the_rest_is_not() -> None:
    """After 503 and 429 the same request is sent again, after 400 it is not; what a collector says it has not taken is
    counted."""
    with collector() as here:
        here.answers = [503, 429]
        assert sink(here.url).send([span(1)], threading.Event()) == 0
        assert len(here.requests) == 3
        assert len({body for _, _, body in here.requests}) == 1
        here.answers = [400, 200]
        with pytest.raises(SinkFault, match="400"):
            sink(here.url).send([span(1)], threading.Event())
        assert len(here.requests) == 4
        here.answers = []
        here.answer = b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}'
        assert sink(here.url).send([span(1), span(2), span(3)], threading.Event()) == 2
        for strange in (b"", b"[]", b"<html>", b'{"partialSuccess":{"rejectedSpans":"many"}}', b"[" * 60_000):
            here.answer = strange
            assert sink(here.url).send([span(1)], threading.Event()) == 0


def test_a_closing_program_tries_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end a collector that is not there is asked once more, not for half a minute."""
    with collector() as here:
        here.answers = [503] * 100
        closing = threading.Event()
        closing.set()
        with pytest.raises(SinkFault, match="503"):
            sink(here.url).send([span(1)], closing)
        assert len(here.requests) == 1
        monkeypatch.setattr(module, "TRYING_S", 0.05)
        with pytest.raises(SinkFault, match="503"):
            sink(here.url).send([span(1)], threading.Event())
        assert 1 < len(here.requests) < 10


def test_a_dead_collector_costs_a_turn_nothing(tmp_path: Path) -> None:
    """With nobody at the port the turn ends as ever, and the program with it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    one_turn(tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"})


def test_a_collector_that_hangs_costs_a_turn_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a collector keeps its answer back turns go on; at the end it is waited for no longer than said."""
    from jaato.runtime.tracing import outlet

    monkeypatch.setattr(outlet.Outlet.close, "__defaults__", (0.05,))
    with collector() as here:
        here.held.clear()

        async def main() -> None:
            script = [say(str(number)) for number in range(20)]
            async with traced(tmp_path, script, environ={"JAATO_TRACE_ENDPOINT": here.url}) as live:
                for _ in range(20):
                    await live.run("go")
                assert live.live.state.turns == 20
                await anyio.to_thread.run_sync(here.wait_for, 1)

        anyio.run(main)


def test_an_answer_that_never_ends_is_left() -> None:
    """A collector that answers without end, or with too much, is cut off; one that is no HTTP server is a fault."""
    with collector() as here:
        here.answer = b" " * 3_000_000
        assert sink(here.url).send([span(1)], threading.Event()) == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: speak(server))
        thread.start()
        closing = threading.Event()
        closing.set()
        with pytest.raises(SinkFault):
            sink(f"http://127.0.0.1:{server.getsockname()[1]}", timeout_s=0.5).send([span(1)], closing)
        thread.join()


def speak(server: socket.socket) -> None:
    """Say something that is no HTTP, and go."""
    connection, _ = server.accept()
    with connection:
        connection.recv(100)
        connection.sendall(b"SSH-2.0-nothing here\r\n")


def test_putting_spans_is_quick_whatever_the_collector_does() -> None:
    """A span is handed to the queue in microseconds while the collector hangs: the thread, not the loop, waits."""
    with collector() as here:
        here.held.clear()
        outlet = Outlet(sink(here.url))
        outlet.put([span(0)])
        begun = time.thread_time()
        for number in range(20_000):
            outlet.put([span(number)])
        assert time.thread_time() - begun < 5
        assert outlet.dropped >= 20_000 - 4_096 - 512
        here.held.set()
        outlet.close(20)
        assert outlet.exported + outlet.dropped == 20_001
