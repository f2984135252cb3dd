"""Follows sessions at work and exports their spans."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from jaato.abc.store import Damaged
from jaato.agent.event_redaction import redact_log
from jaato.agent.journal import Journal
from jaato.log import logger
from jaato.protocol.events import Event, SystemMessage
from jaato.runtime.tracing.config import SpanCounters, TracingConfig, is_configured, read_config
from jaato.settings import Settings
from jaato.tools.redaction.redactor import Redactor

if TYPE_CHECKING:
    from jaato.runtime.tracing.export import SpanSink
    from jaato.runtime.tracing.fold import SpanFold

LOG = logger("tracing")
EXTRA = "Spans are exported by the OpenTelemetry SDK: pip install 'jaato[otel]'."


class Tracer:
    """Exports the spans of a workspace's sessions. Everything but `close` happens on the loop, and at once."""

    def __init__(self, sinks: list[SpanSink], config: TracingConfig) -> None:
        from opentelemetry.sdk.resources import Resource

        self.sinks = sinks
        self._content = config.content
        self._resource = Resource(config.resource)

    def follow(self, journal: Journal) -> Callable[[], None]:
        """Export the spans that end in a session from now on; returns what ends it."""
        fold = self._fold_of(journal)

        def listen(event: Event) -> None:
            if not event.durable:
                return
            spans = fold.apply(event)
            for sink in self.sinks:
                if spans:
                    sink.put(spans)
                if sink.warnings:
                    text = sink.warnings.popleft()
                    journal.show(SystemMessage(**journal.shown(), text=text, level="warning"))

        return journal.bus.listen(listen)

    def _fold_of(self, journal: Journal) -> SpanFold:
        """The fold of a session as it is now. Only after an interrupted turn is the log read for it, once more."""
        from jaato.runtime.tracing.fold import Agent, SpanFold

        fold, state = SpanFold(self._resource, content=self._content), journal.state
        subagents = journal.session_state.subagents
        states = [state, *(one.state for one in subagents.values())]
        is_interrupted = any(
            one.open_turn or any(task.status == "running" for task in one.tasks.values()) for one in states
        )
        if journal.loaded_seq and is_interrupted:
            for event in redact_log(journal.store.read(state.session_id), journal.secrets):
                if not isinstance(event, Damaged):
                    fold.apply(event)
            fold.resume(time.time_ns())
            return fold
        fold.agents[state.agent_id] = Agent(provider=state.provider, model=state.model)
        for agent_id, record in subagents.items():
            if record.created is not None and not record.is_closed:
                made = record.created
                fold.agents[agent_id] = Agent(
                    made.name, record.state.provider, record.state.model, made.parent_agent_id
                )
        return fold

    async def close(self) -> None:
        """Export what is queued, for a bounded time."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for sink in self.sinks:
                    group.start_soon(partial(anyio.to_thread.run_sync, sink.close))


def tracer_for(
    settings: Settings, workspace: Path, secrets: Redactor, counters: SpanCounters | None = None
) -> Tracer | None:
    """What traces the sessions of a workspace; None, and nothing is loaded, where no setting and no variable names an
    exporter. Its headers become secrets. Raises `ConfigError` for a malformed setting."""
    if not is_configured(settings):
        return None
    config = read_config(settings, workspace)
    sinks = open_sinks(config, counters or SpanCounters())
    if config.endpoint is not None:
        for name, value in config.endpoint.headers.items():
            secrets.add(f"OTEL_EXPORTER_OTLP_HEADERS.{name}", value)
            secrets.add(f"OTEL_EXPORTER_OTLP_HEADERS.{name}.word", value.rpartition(" ")[2])
    for note in config.notes:
        sinks[0].warn(note) if sinks else LOG.warning("%s", note)
    return Tracer(sinks, config) if sinks else None


def open_sinks(config: TracingConfig, counters: SpanCounters) -> list[SpanSink]:
    """The destinations of spans; none, which is noted, without the extra `otel`."""
    if config.file is None and config.endpoint is None:
        return []
    try:
        from jaato.runtime.tracing.export import CollectorExporter, FileExporter, SpanSink, collector_name
    except ModuleNotFoundError:
        config.notes.append(EXTRA)
        return []
    sinks: list[SpanSink] = []
    if config.file is not None:
        file = FileExporter(config.file, config.max_bytes)
        sinks.append(SpanSink(f"the file {config.file}", file, counters))
        if fault := file.check():
            sinks[0].fail(fault)
    if config.endpoint is not None:
        exporter = CollectorExporter(config.endpoint)
        sinks.append(SpanSink(collector_name(config.endpoint), exporter, counters))
    return sinks


def check(config: TracingConfig) -> tuple[str, list[str]]:
    """Where spans would be exported to, in words, and what is wrong with that; no collector is asked."""
    sinks = open_sinks(config, SpanCounters())
    names = [sink.name for sink in sinks]
    wrong = [*config.notes, *(text for sink in sinks for text in sink.warnings)]
    return ", ".join(names) or "no spans are exported", wrong
