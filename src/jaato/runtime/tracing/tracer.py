"""Follows sessions at work and hands on their spans."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import anyio.to_thread

from jaato.abc.store import Damaged
from jaato.agent.journal import Journal
from jaato.agent.masking import masked_log
from jaato.log import logger
from jaato.protocol.events import Event, SystemMessage
from jaato.runtime.tracing import Tally
from jaato.runtime.tracing.collector import Collector, host_of
from jaato.runtime.tracing.file import TraceFile
from jaato.runtime.tracing.fold import Fold
from jaato.runtime.tracing.outlet import Outlet
from jaato.runtime.tracing.targets import Targets
from jaato.runtime.tracing.work import Agent
from jaato.tools.secrets import Secrets

LOG = logger("tracing")


def examined(targets: Targets) -> tuple[str, list[str]]:
    """Where spans would go, in words, and what is wrong with that; no collector is asked."""
    places, wrong = [], list(targets.notes)
    if targets.file is not None:
        places.append(str(targets.file))
        fault = TraceFile(targets.file, targets.max_bytes, targets.resource).ready()
        wrong += [f"it cannot be written: {fault}"] if fault else []
    if targets.endpoint is not None:
        places.append(host_of(targets.endpoint.url))
    return ", ".join(places) or "spans go nowhere", wrong


class Tracer:
    """The ways out for the spans of a workspace's sessions. Everything but `close` happens on the loop, and at once."""

    def __init__(self, outlets: list[Outlet], *, content: bool) -> None:
        self.outlets = outlets
        self._content = content

    def follow(self, journal: Journal) -> Callable[[], None]:
        """Hand on the spans that end in a session from now on; returns what ends it."""
        fold = self._fold_of(journal)

        def hear(event: Event) -> None:
            if not event.durable:
                return
            spans = fold.take(event)
            if spans:
                for outlet in self.outlets:
                    outlet.put(spans)
            for outlet in self.outlets:
                if (words := outlet.news()) is not None:
                    journal.show(SystemMessage(**journal.shown(), text=words, level="warning"))

        return journal.bus.listen(hear)

    def _fold_of(self, journal: Journal) -> Fold:
        """What a session's fold is now. Only where a turn was cut off is the log read for it, once more."""
        fold, state = Fold(content=self._content), journal.state
        members = journal.family.members
        states = [state, *(one.state for one in members.values())]
        cut_off = any(
            one.open_turn or any(task.status == "running" for task in one.tasks.values()) for one in states
        )
        if journal.loaded_seq and cut_off:
            for event in masked_log(journal.store.read(state.session_id), journal.secrets):
                if not isinstance(event, Damaged):
                    fold.take(event)
            fold.resumed(time.time_ns())
            return fold
        fold.agents[state.agent_id] = Agent(provider=state.provider, model=state.model)
        for agent_id, member in members.items():
            if member.created is not None and not member.closed:
                made = member.created
                fold.agents[agent_id] = Agent(
                    made.name, member.state.provider, member.state.model, made.parent_agent_id
                )
        return fold

    async def close(self) -> None:
        """Hand on what waits, for a bounded time."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for outlet in self.outlets:
                    group.start_soon(closed, outlet)


async def closed(outlet: Outlet) -> None:
    """Close a way out, beside the loop."""
    await anyio.to_thread.run_sync(outlet.close)


def tracer_to(targets: Targets, secrets: Secrets, tally: Tally | None = None) -> Tracer | None:
    """What hands spans to these targets; None where there are none. The headers of a collector are secrets from now
    on."""
    outlets: list[Outlet] = []
    if targets.file is not None:
        file = TraceFile(targets.file, targets.max_bytes, targets.resource)
        outlets.append(Outlet(file, tally))
        if fault := file.ready():
            outlets[0].failed(fault)
    if targets.endpoint is not None:
        for name, value in targets.endpoint.headers.items():
            secrets.add(f"OTEL_EXPORTER_OTLP_HEADERS.{name}", value)
            secrets.add(f"OTEL_EXPORTER_OTLP_HEADERS.{name}.word", value.rpartition(" ")[2])
        outlets.append(Outlet(Collector(targets.endpoint, targets.resource, targets.environ), tally))
    for note in targets.notes:
        if outlets:
            outlets[0].say(note)
        else:
            LOG.warning("%s", note)
    return Tracer(outlets, content=targets.content) if outlets else None
