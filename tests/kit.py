"""What tests of the core share: a runtime over a real store, a scripted model, and events as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from jaato.abc.store import Damaged
from jaato.agent.journal import Journal
from jaato.agent.retry import RetryPolicy
from jaato.agent.session import Session
from jaato.agent.state import State
from jaato.agent.turn import Limits
from jaato.protocol.events import Event
from jaato.protocol.messages import ToolResult, Usage
from jaato.providers.scripted import Answer, ScriptedCall, ScriptedProvider, Step
from jaato.runtime.plugins.adapter import Toolset
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.runtime import Plan, Runtime
from jaato.storage.sqlite import SqliteStore
from jaato.tools.permissions.access import FULL
from jaato.tools.permissions.gate import Policy
from jaato.tools.tool import Tool, tool_from

USAGE = Usage(input_tokens=100, output_tokens=10)
FAST = RetryPolicy(attempts=3, first_s=0.001)


def say(text: str, **more: Any) -> Step:
    """A reply of text alone."""
    return Step(text=text, usage=USAGE, **more)


def call(name: str, /, **arguments: Any) -> Step:
    """A reply that makes one call."""
    return Step(calls=[ScriptedCall(name, arguments)], usage=USAGE)


def calls(*made: tuple[str, dict[str, Any]]) -> Step:
    """A reply that makes several calls."""
    return Step(calls=[ScriptedCall(name, arguments) for name, arguments in made], usage=USAGE)


def runtime(
    path: Path, tools: Sequence[Callable[..., Any] | Tool] = (), plugins: Sequence[str] = ("introspection",)
) -> Runtime:
    """A runtime whose store and workspace are below `path`."""
    workspace = path / "work"
    workspace.mkdir(exist_ok=True)
    registry = PluginRegistry(
        workspace=workspace, services={"environ": {"PATH": "/usr/bin:/bin", "HOME": str(path)}}
    )
    for name in plugins:
        registry.expose_tool(name)
    made = [entry if isinstance(entry, Tool) else tool_from(entry, "test") for entry in tools]
    registry.add_toolset(Toolset("test", None, tools=made))
    return Runtime(SqliteStore(path / "state" / "jaato.db"), registry)


def plan(path: Path, script: Sequence[Answer], **more: Any) -> Plan:
    """A plan for a session that plays a script; everything is allowed, without a sandbox, unless `policy` says otherwise."""
    settings: dict[str, Any] = {
        "provider": ScriptedProvider(script, keep_requests=True),
        "policy": Policy.of({"defaultPolicy": "allow"}).with_flags(access=FULL),
        "retry": FAST,
        "limits": Limits(),
    }
    return Plan(model="script", workspace=path / "work", **(settings | more))


@asynccontextmanager
async def session(
    path: Path,
    script: Sequence[Answer],
    tools: Sequence[Callable[..., Any] | Tool] = (),
    plugins: Sequence[str] = ("introspection",),
    **more: Any,
) -> AsyncIterator[Session]:
    """A session at work; the runtime behind it is closed in the end."""
    made = runtime(path, tools, plugins)
    try:
        async with made.create(plan(path, script, **more)) as live:
            yield live
    finally:
        made.close()


@asynccontextmanager
async def reopened(
    path: Path,
    session_id: str,
    script: Sequence[Answer],
    tools: Sequence[Callable[..., Any] | Tool] = (),
    plugins: Sequence[str] = ("introspection",),
    **more: Any,
) -> AsyncIterator[Session]:
    """A stored session, opened as another process would."""
    made = runtime(path, tools, plugins)
    try:
        journal = Journal(made.store, State())
        journal.load(session_id)
        async with made.open(journal, plan(path, script, **more)) as live:
            yield live
    finally:
        made.close()


def recorded(live: Session) -> list[Event | Damaged]:
    """The session's log as it is stored."""
    return list(live.journal.store.read(live.state.session_id))


def results(live: Session) -> list[ToolResult]:
    """Every tool result the model was given, in order."""
    return [part for m in live.state.messages for part in m.parts if isinstance(part, ToolResult)]


def provider_of(live: Session) -> ScriptedProvider:
    """The scripted model, with the requests it got."""
    assert isinstance(live.model.provider, ScriptedProvider)
    return live.model.provider
