"""What tests of flows share: a flow of a user of its own, a scripted model, plans as a model writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from tests.arp.serving import Shop
from tests.kit import say

from jaato.abc.provider import ModelRequest
from jaato.protocol.events import Event
from jaato.providers.scripted import Answer, ScriptedProvider, Step
from jaato.runtime.flow.flow import Flow
from jaato.runtime.flow.result import FlowRun
from jaato.runtime.flow.trace import AnyRecord
from jaato.storage.sqlite import SqliteStore

ASKED = "What is six times seven?"


class Flown(NamedTuple):
    """A flow that has ended, what the model was asked, and what was recorded."""

    run: FlowRun
    requests: list[ModelRequest]
    records: list[AnyRecord]
    path: Path

    @property
    def trace(self) -> Path:
        """The trace file."""
        return trace_of(self.path)

    def log(self) -> list[Event]:
        """The log of the session that kept it."""
        store = SqliteStore(self.path / "state" / "jaato.db")
        try:
            return [one for one in store.read(self.run.flow_id) if isinstance(one, Event)]
        finally:
            store.close()


def trace_of(path: Path) -> Path:
    """Where the flows of these tests write their trace."""
    return path / "flow.jsonl"


def planned(*tools: str) -> Step:
    """A reply that plans to call these tools."""
    return say(json.dumps({"steps": [{"tool": name, "purpose": f"for {name}"} for name in tools]}))


def flow_of(path: Path, script: Sequence[Answer], *registries: str, **more: Any) -> Flow:
    """A flow of the user whose home is this directory; everything is allowed, unless it is said otherwise."""
    (path / "work").mkdir(exist_ok=True)
    given: dict[str, Any] = {
        "provider": ScriptedProvider(script, keep_requests=True),
        "workspace": path / "work",
        "state_dir": path / "state",
        "environ": {"HOME": str(path), "PATH": "/usr/bin:/bin"},
        "trace": trace_of(path),
        "yes": True,
    }
    return Flow(registries, **{**given, **more})


async def flown(
    path: Path, script: Sequence[Answer], *registries: str, asked: str = ASKED, **more: Any
) -> Flown:
    """A flow from its beginning to its end."""
    trace_of(path).unlink(missing_ok=True)
    records: list[AnyRecord] = []
    flow = flow_of(path, script, *registries, on_record=records.append, **more)
    run = await flow.run(asked)
    assert isinstance(flow.provider, ScriptedProvider)
    return Flown(run, flow.provider.requests, records, path)


def replayed(path: Path, *script: Answer, it: Shop, **more: Any) -> Flown:
    """A flow with one registry, whose trace plays again as it was recorded."""
    done: Flown = anyio.run(lambda: flown(path, script, it.url, **more))
    assert Flow.replay(done.trace) == done.run
    return done
