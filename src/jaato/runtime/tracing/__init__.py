"""Spans of turns, model calls and tool calls: folded from a session's events, written to a file, sent to a collector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jaato.settings import Settings

if TYPE_CHECKING:
    from jaato.runtime.tracing.tracer import Tracer
    from jaato.tools.secrets import Secrets

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@dataclass(slots=True)
class Tally:
    """How many spans went out and how many did not, of all ways out that share it."""

    exported: int = 0
    dropped: int = 0


def tracer_for(
    settings: Settings, workspace: Path, secrets: Secrets, tally: Tally | None = None
) -> Tracer | None:
    """What traces the sessions of a workspace; None, and nothing is loaded, where no setting and no variable asks for
    it. Raises `ConfigError` for a setting that makes no sense."""
    named = settings["trace_file"] or settings["trace_endpoint"]
    if not named and not any(settings.environ.get(name) for name in ENDPOINTS):
        return None
    from jaato.runtime.tracing.targets import targets_of
    from jaato.runtime.tracing.tracer import tracer_to

    return tracer_to(targets_of(settings, workspace), secrets, tally)
