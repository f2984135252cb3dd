"""Metrics of the server, in Prometheus' text format."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaato.server.sessions.hub import Hub


@dataclass
class Metrics:
    """Counts of one server."""

    clients: int = 0
    since: float = field(default_factory=time.monotonic)

    def render(self, hub: Hub) -> str:
        """All metrics, now."""
        loaded, spans = hub.pool.loaded, hub.pool.spans
        busy = sum(one.session.is_busy for one in loaded.values())
        watched = sum(one.is_watched for one in hub.rooms.values())
        rows = (
            ("jaato_uptime_seconds", "counter", "seconds since the start", time.monotonic() - self.since),
            ("jaato_cpu_seconds_total", "counter", "processor time used", time.process_time()),
            ("jaato_clients", "gauge", "connected clients", self.clients),
            ("jaato_sessions_live", "gauge", "sessions in memory", len(loaded)),
            ("jaato_sessions_busy", "gauge", "sessions in a turn", busy),
            ("jaato_sessions_watched", "gauge", "sessions with subscribers", watched),
            ("jaato_events_total", "counter", "events published", hub.events),
            ("jaato_spans_exported_total", "counter", "spans that were exported", spans.exported),
            ("jaato_spans_dropped_total", "counter", "spans that were lost", spans.dropped),
        )
        lines = []
        for name, kind, meaning, value in rows:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", f"{name} {value}"]
        return "\n".join(lines) + "\n"
