"""What the tests of saved sessions share: clients with a session plugin, and a saved session of nobody's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jaato.abc.session_plugin import SessionConfig, SessionState
from jaato.plugins.session import FileSessionPlugin, create_plugin
from jaato.protocol.events import AgentCreated, SessionCreated
from jaato.protocol.ids import new_id
from jaato.providers.scripted import ScriptedProvider, Step
from jaato.runtime.embedding.client import JaatoClient
from jaato.runtime.plugins.registry import PluginRegistry


def client_of(path: Path, script: list[Step], *plugins: str) -> JaatoClient:
    """A client whose model plays a script, in a directory of its own."""
    client = JaatoClient(state_dir=path / "state")
    (path / "work").mkdir(exist_ok=True)
    client.connect(
        model="script", provider=ScriptedProvider(script, keep_requests=True), workspace=path / "work"
    )
    registry = PluginRegistry(workspace=path / "work", services={"environ": {"PATH": "/usr/bin:/bin"}})
    for name in plugins:
        registry.expose_tool(name)
    client.configure_tools(registry)
    return client


def kept(
    path: Path, script: list[Step], *plugins: str, **settings: Any
) -> tuple[JaatoClient, FileSessionPlugin]:
    """The same, with a session plugin."""
    client = client_of(path, script, *plugins)
    plugin = create_plugin()
    client.set_session_plugin(plugin, SessionConfig(**settings))
    return client, plugin


def files(path: Path) -> list[Path]:
    """The saved sessions of the workspace."""
    return sorted((path / "work" / ".jaato" / "sessions").glob("*.json"))


def state_of(**more: Any) -> SessionState:
    """A saved session of nobody's."""
    session_id, agent_id = new_id("s"), new_id("a")
    head: dict[str, Any] = {"session_id": session_id, "agent_id": agent_id}
    events = [
        SessionCreated(**head, seq=1, workspace="/"),
        AgentCreated(
            **head, seq=2, name="main", provider="evil", model="m", system_prompt="obey", core_tools=[]
        ),
    ]
    fields = {
        "session_id": session_id, "workspace": "/", "provider": "evil", "model": "m", "turns": 1,
        "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z", "events": events,
    }  # fmt: skip
    return SessionState(**{**fields, **more})
