"""Health, version and metrics of a registry."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from jaato.protocol.arp import SCHEMA_VERSION
from jaato.protocol.codec import encode
from jaato.server.registry.catalog import ServedTools
from jaato.server.registry.requests import RouteKind, Visibility
from jaato.server.registry.responses import JSON, NOT_STORED, Response
from jaato.version import __version__

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MAX_TOOLS = 200
"""Tools that are counted by name, the first that are called; the others are counted together."""
OTHERS = "*"
"""The label of the others."""

Row = tuple[str, str, str, Iterable[tuple[str, float]]]
"""A metric: its name, kind and help text, and its values by label."""


class Histogram:
    """A histogram of durations."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0


class RegistryMetrics:
    """Counters since the start, with a bounded number of labels."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.requests: defaultdict[tuple[str, bytes, int], int] = defaultdict(int)
        self.spreads: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.calls: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._tools: set[str] = set()

    @property
    def uptime_s(self) -> float:
        """The time since the start."""
        return time.monotonic() - self.since

    def record_request(self, kind: RouteKind | None, method: bytes, status: int, took_s: float) -> None:
        """Count a response; `kind` is None without a route. The method must be a supported one, or `*`."""
        route = "none" if kind is None else kind
        self.requests[route, method, status] += 1
        spread = self.spreads[route]
        spread.counts[bisect_left(BUCKETS_S, took_s)] += 1
        spread.sum_s += took_s

    def record_call(self, tool: str, code: str) -> None:
        """Count a call of an existing tool; `code` is that of the error, empty if it succeeded."""
        if tool not in self._tools:
            if len(self._tools) < MAX_TOOLS:
                self._tools.add(tool)
            else:
                tool = OTHERS
        self.calls[tool, code or "ok"] += 1

    def text(self, served: ServedTools, sessions: int, visibility: Visibility | None = None) -> str:
        """All metrics in the Prometheus text format; calls only of visible tools."""
        lines: list[str] = []
        for name, kind, meaning, values in self._rows(served, sessions, visibility):
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{what} {value}" for what, value in values]
        return "\n".join(lines) + "\n"

    def _rows(self, served: ServedTools, sessions: int, visibility: Visibility | None) -> Iterable[Row]:
        seconds = "jaato_registry_request_seconds"
        yield "jaato_uptime_seconds", "counter", "seconds since the start", [("", self.uptime_s)]
        yield "jaato_cpu_seconds_total", "counter", "processor time used", [("", time.process_time())]
        yield "jaato_registry_tools", "gauge", "tools that are served", [("", len(served))]
        yield "jaato_registry_sessions", "gauge", "sessions of callers", [("", sessions)]
        yield (
            "jaato_registry_requests_total",
            "counter",
            "requests answered",
            [
                (labels(route=route, method=method.decode("latin-1"), status=str(status)), count)
                for (route, method, status), count in sorted(self.requests.items())
            ],
        )
        yield (
            "jaato_registry_calls_total",
            "counter",
            "calls of tools that are there, by how they ended",
            [
                (labels(tool=tool, outcome=code), count)
                for (tool, code), count in sorted(self.calls.items())
                if visibility is None or tool == OTHERS or visibility.has(tool)
            ],
        )
        yield seconds, "histogram", "time until a request was answered, once it had come", self._spread()

    def _spread(self) -> Iterable[tuple[str, float]]:
        for route, spread in sorted(self.spreads.items()):
            count = 0
            for bound, more in zip((*BUCKETS_S, "+Inf"), spread.counts, strict=True):
                count += more
                yield "_bucket" + labels(route=route, le=str(bound)), count
            yield "_sum" + labels(route=route), spread.sum_s
            yield "_count" + labels(route=route), count


def labels(**values: str) -> str:
    """The labels of a value."""
    return "{" + ",".join(f'{name}="{escape_label(value)}"' for name, value in values.items()) + "}"


def escape_label(value: str) -> str:
    """Escape the value of a label."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


TEXT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class Health(Struct, frozen=True):
    """The health of the registry: its uptime in seconds, and the number of tools."""

    status: Literal["ok"]
    uptime_s: float
    tools: int


class Version(Struct, frozen=True):
    """The name and version of the registry, and the version of the contract."""

    name: str
    version: str
    schema_version: str


def health_response(served: ServedTools, figures: RegistryMetrics) -> Response:
    """The response with the health."""
    health = Health("ok", round(figures.uptime_s, 1), len(served))
    return Response(200, encode(health), [JSON, NOT_STORED])


def version_response() -> Response:
    """The response with the version."""
    return Response(200, encode(Version("jaato", __version__, SCHEMA_VERSION)), [JSON, NOT_STORED])


def metrics_response(
    served: ServedTools, figures: RegistryMetrics, sessions: int, visibility: Visibility | None
) -> Response:
    """The response with the metrics."""
    return Response(200, figures.text(served, sessions, visibility).encode(), [TEXT, NOT_STORED])
