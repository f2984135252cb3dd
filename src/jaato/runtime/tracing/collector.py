"""Spans to a collector: OTLP over HTTP in JSON, tried again for a while where that can help."""

from __future__ import annotations

import gzip
import random
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.errors import ConfigError
from jaato.runtime.tracing.otlp import document
from jaato.runtime.tracing.outlet import SinkFault
from jaato.runtime.tracing.spans import Span, Value
from jaato.tools.route import certificates, proxy_for, shown

if TYPE_CHECKING:
    import httpx2

AGAIN = (429, 502, 503, 504)
"""Answers after which OTLP says to try again."""
TRYING_S = 30.0
FIRST_WAIT_S = 1.0
MAX_ANSWER_BYTES = 64 * 1024


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A collector: where, with which headers, how long one request may take, whether it is zipped."""

    url: str
    headers: dict[str, str] = {}
    timeout_s: float = 10.0
    gzip: bool = False
    certificate: str = ""


class Collector:
    """A collector's receiver of traces."""

    linger_s = 1.0

    def __init__(
        self,
        endpoint: Endpoint,
        resource: Mapping[str, Value],
        environ: Mapping[str, str],
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self.name = f"the collector at {host_of(endpoint.url)}"
        self._endpoint = endpoint
        self._resource = resource
        self._environ = environ
        self._first_wait_s = first_wait_s
        self._client: httpx2.Client | None = None

    def send(self, spans: Sequence[Span], closing: threading.Event) -> int:
        """Post spans as one request; gives how many the collector says it has not taken."""
        body = document(spans, self._resource)
        headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            **self._endpoint.headers,
        }
        if self._endpoint.gzip:
            body, headers["Content-Encoding"] = gzip.compress(body, 6), "gzip"
        until, wait_s = time.monotonic() + TRYING_S, self._first_wait_s
        while True:
            status, answer, after_s = self._post(body, headers)
            if 200 <= status < 300:
                return min(len(spans), rejected(answer))
            fault = f"it answers {status}." if status else answer.decode(errors="replace")
            if status and status not in AGAIN:
                raise SinkFault(fault)
            wait_s = max(after_s, wait_s * random.uniform(0.8, 1.2))  # noqa: S311 no secret, only spread
            if time.monotonic() + wait_s > until or closing.wait(wait_s):
                raise SinkFault(fault)
            wait_s *= 2

    def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            self._client.close()

    def _post(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes, float]:
        """Status, answer, and the seconds it wants to be left alone; status 0 and the reason where no answer came."""
        import httpx2

        limit = time.monotonic() + self._endpoint.timeout_s
        try:
            with self._opened().stream("POST", self._endpoint.url, content=body, headers=headers) as response:
                answer = b""
                for piece in response.iter_raw():
                    answer += piece
                    if len(answer) > MAX_ANSWER_BYTES or time.monotonic() > limit:
                        break
                return response.status_code, answer, seconds(response.headers.get("Retry-After", ""))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return 0, f"{type(error).__name__}: {error}.".encode(), 0.0

    def _opened(self) -> httpx2.Client:
        import httpx2

        if self._client is None:
            endpoint = self._endpoint
            try:
                proxy = proxy_for(endpoint.url, self._environ)
                verify: Any = False
                if endpoint.url.startswith("https:") or (proxy or "").startswith("https:"):
                    verify = believed(endpoint.certificate, self._environ)
            except (ConfigError, OSError, ssl.SSLError) as error:
                raise SinkFault(str(error)) from None
            transport = httpx2.HTTPTransport(
                verify=verify,
                trust_env=False,
                proxy=None if proxy is None else httpx2.Proxy(proxy, ssl_context=verify or None),
            )
            self._client = httpx2.Client(transport=transport, timeout=endpoint.timeout_s, trust_env=False)
        return self._client


def host_of(url: str) -> str:
    """Where a collector is, without the path and query, in which vendors put keys."""
    return "/".join(shown(url).split("/")[:3])


def believed(certificate: str, environ: Mapping[str, str]) -> ssl.SSLContext:
    """Whose certificates are believed: this file's, else those of the variables or the machine."""
    return ssl.create_default_context(cafile=certificate) if certificate else certificates(environ)


def rejected(answer: bytes) -> int:
    """How many spans an answer says were not taken."""
    try:
        found = msgspec.json.decode(answer) if answer.strip() else {}
        count = found["partialSuccess"]["rejectedSpans"]
        return max(0, int(count))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
        return 0


def seconds(text: str) -> float:
    """What Retry-After says, in seconds, up to a minute; 0 for a date or nothing."""
    return min(60.0, float(text)) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0
