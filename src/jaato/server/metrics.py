"""Figures of a running server, in Prometheus' text format."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaato.server.sessions.hub import Hub


@dataclass
class Metrics:
    """What is counted."""

    clients: int = 0
    since: float = field(default_factory=time.monotonic)

    def text(self, hub: Hub) -> str:
        """All of it, now."""
        live = hub.lives.by_id.values()
        rows = (
            ("jaato_uptime_seconds", "counter", "seconds since the start", time.monotonic() - self.since),
            ("jaato_cpu_seconds_total", "counter", "processor time used", time.process_time()),
            ("jaato_clients", "gauge", "connected clients", self.clients),
            ("jaato_sessions_live", "gauge", "sessions at hand", len(hub.lives.by_id)),
            ("jaato_sessions_busy", "gauge", "sessions in a turn", sum(one.session.is_busy for one in live)),
            (
                "jaato_sessions_watched",
                "gauge",
                "sessions somebody watches",
                sum(one.watched for one in hub.rooms.values()),
            ),
            ("jaato_events_total", "counter", "events heard in rooms", hub.events),
            ("jaato_spans_exported_total", "counter", "spans that were exported", hub.lives.spans.exported),
            ("jaato_spans_dropped_total", "counter", "spans that were lost", hub.lives.spans.dropped),
        )
        lines = []
        for name, kind, meaning, value in rows:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", f"{name} {value}"]
        return "\n".join(lines) + "\n"
