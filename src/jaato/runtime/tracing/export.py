"""Exports spans to a collector or a file with OpenTelemetry's batch processor, and counts what was lost."""

from __future__ import annotations

import logging
import os
import stat
import threading
from base64 import b64decode
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import requests
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from jaato.log import logger
from jaato.runtime.tracing.config import Endpoint, SpanCounters
from jaato.tools.network.proxy_settings import redact_url

LOG = logger("tracing")
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # no lines on stderr of its own
CAPACITY = 4_096
BATCH = 512
DELAY_MS = 500.0
CLOSE_S = 2.0
"""How long the end of a program may wait for spans that are still to be exported."""
MAX_ANSWER_BYTES = 64 * 1024
OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
SDK_HEADERS = ("content-type", "content-encoding", "user-agent")


class SpanSink(SpanExporter):
    """One destination of spans: a bounded queue that no session waits for, and the SDK's thread that empties it. What
    comes while the queue is full is dropped and counted; a fault is reported once until it is over."""

    def __init__(self, name: str, exporter: SpanExporter, counters: SpanCounters) -> None:
        self.name = name
        self.warnings: deque[str] = deque(maxlen=4)
        self._exporter = exporter
        self._counters = counters
        self._lock = threading.Lock()
        self._pending = 0
        self._is_closed = False
        self._is_failing = False
        self._processor: BatchSpanProcessor | None = None

    def put(self, spans: Sequence[ReadableSpan]) -> None:
        """Queue spans to be exported; returns at once."""
        with self._lock:
            room = 0 if self._is_closed else max(0, CAPACITY - self._pending)
            taken = spans[:room]
            self._pending += len(taken)
            self._counters.dropped += len(spans) - len(taken)
        if taken and self._processor is None:
            self._processor = BatchSpanProcessor(self, CAPACITY, DELAY_MS, BATCH, 30_000)
        for span in taken:
            if self._processor is not None:
                self._processor.on_end(span)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export a batch in the SDK's thread, and count it."""
        try:
            self._exporter.export(spans)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            self.fail(getattr(error, "strerror", None) or str(error))
            exported = False
        else:
            self._is_failing, exported = False, True
        with self._lock:
            count = min(len(spans), self._pending)  # none once close() has given them up
            self._pending -= count
            self._counters.exported += count if exported else 0
            self._counters.dropped += 0 if exported else count
        return SpanExportResult.SUCCESS if exported else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Close the exporter; the processor calls it at its end."""
        self._exporter.shutdown()

    def warn(self, text: str) -> None:
        """Log a warning, and store it for the session."""
        LOG.warning("%s", text)
        self.warnings.append(text)

    def fail(self, reason: str) -> None:
        """Warn that spans are lost, and why; once, until an export succeeds."""
        if not self._is_failing:
            self._is_failing = True
            self.warn(f"Spans cannot be exported to {self.name}: {reason.rstrip('.')}.")

    def close(self, within_s: float = CLOSE_S) -> None:
        """Export what is queued, for so long at most; the rest is dropped and counted. May be called again."""
        with self._lock:
            self._is_closed = True
        if self._processor is not None:  # its shutdown waits for half a minute
            thread = threading.Thread(target=self._processor.shutdown, name="jaato-trace-close", daemon=True)
            thread.start()
            thread.join(within_s)
            if thread.is_alive():
                self._exporter.shutdown()  # ends its retries
        with self._lock:
            lost, self._pending = self._pending, 0
            self._counters.dropped += lost
        if lost:
            LOG.warning("%d spans were not exported to %s", lost, self.name)


class CollectorExporter(OTLPSpanExporter):
    """OpenTelemetry's exporter with the network rules of the settings. Raises `OSError` for a batch that was not taken."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._rules = CollectorSession(endpoint)
        self._is_shut = False
        super().__init__(
            endpoint.url,
            timeout=endpoint.timeout_s,
            compression=Compression.Gzip if endpoint.gzip else Compression.NoCompression,
            session=self._rules,
        )

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch, with retries."""
        self._rules.fault = "the spans cannot be encoded"
        if super().export(spans) is not SpanExportResult.SUCCESS:
            raise OSError(self._rules.fault)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """End retries, also those of a running export. May be called again."""
        if not self._is_shut:
            self._is_shut = True
            super().shutdown()  # type: ignore[no-untyped-call]


class CollectorSession(requests.Session):
    """Requests with the headers, proxy and certificates of an endpoint, whatever the environment of the process says. No
    redirect is followed, and of an answer only the beginning is read."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self.trust_env = False
        self.fault = ""
        self._endpoint = endpoint

    def request(self, method: str, url: str | bytes, *_: Any, **options: Any) -> requests.Response:
        """Send a request of the exporter."""
        endpoint, given = self._endpoint, options["headers"]
        kept = {name: value for name, value in given.items() if name.lower() in SDK_HEADERS}
        rules: dict[str, Any] = {
            "headers": {**kept, "Accept-Encoding": "identity", **endpoint.headers},
            "proxies": {"http": endpoint.proxy, "https": endpoint.proxy} if endpoint.proxy else {},
            "verify": endpoint.certificates or True,
            "allow_redirects": False,
            "stream": True,
        }
        try:
            response = super().request(method, url, **{**options, **rules})
            try:
                response.raw.read(MAX_ANSWER_BYTES)
            finally:
                response.close()
        except (OSError, ValueError) as error:
            self.fault = type(error).__name__
            raise
        self.fault = f"it answers {response.status_code}"
        if response.is_redirect:  # the exporter would take it for a success
            raise requests.TooManyRedirects(self.fault)
        return response


class FileExporter(SpanExporter):
    """A private file of OTLP in JSON, a span a line, to which any number of processes append. When it would grow beyond
    `max_bytes` it becomes `NAME.1`, in place of the one before."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes

    def check(self) -> str:
        """Why the file cannot be written; empty when it can."""
        try:
            os.close(self._open())
        except (OSError, ValueError) as error:
            return getattr(error, "strerror", None) or str(error)
        return ""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append a line for each span in one write. Raises `OSError`."""
        data = b"".join([otlp_json(span) + b"\n" for span in spans])
        fd = self._open()
        try:
            size = os.fstat(fd).st_size
            if size and size + len(data) > self._max_bytes:
                os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
                os.close(fd)
                fd = self._open()
            if os.write(fd, data) < len(data):
                raise OSError("the disk is full")
        finally:
            os.close(fd)
        return SpanExportResult.SUCCESS

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self.path, OPEN_FLAGS, 0o600)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(f"{self.path.name} is no regular file")
        return fd


def otlp_json(span: ReadableSpan) -> bytes:
    """A document of one span as OTLP writes JSON: like protocol buffers do, but for ids, which are hexadecimal."""
    found = MessageToDict(encode_spans([span]), use_integers_for_enums=True)
    (made,) = found["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for key in ("traceId", "spanId", "parentSpanId"):
        if key in made:
            made[key] = b64decode(made[key]).hex()
    return msgspec.json.encode(found)


def collector_name(endpoint: Endpoint) -> str:
    """A collector without the path and query of its URL, in which vendors put keys."""
    return f"the collector at {'/'.join(redact_url(endpoint.url).split('/')[:3])}"
