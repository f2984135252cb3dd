"""Export and import of sessions as files, and the session plugins that store them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from jaato.abc.session_plugin import SavedSession, SessionPlugin, SessionState
from jaato.abc.store import Store
from jaato.agent.event_redaction import redact_bytes, redact_log
from jaato.agent.session import Session
from jaato.agent.state import State
from jaato.errors import ConfigError, StoreError
from jaato.protocol.events import (
    AgentCreated,
    Event,
    PermissionGranted,
    PermissionRevoked,
    SessionCreated,
    SessionUpdated,
)
from jaato.protocol.events.turn import now
from jaato.protocol.ids import is_id
from jaato.runtime.plugins.discovery import Loader
from jaato.runtime.plugins.named import NONE, NamedPlugins
from jaato.tools.redaction.redactor import Redactor

BLOB_BYTES = 16_000_000
"""How many bytes of large results go into one file."""
DIGEST = re.compile(r"[0-9a-f]{64}")
METHODS = "initialize shutdown save load list_sessions delete on_session_start on_turn_complete on_session_end".split()
SESSION_PLUGINS: NamedPlugins[SessionPlugin] = NamedPlugins(
    "session", "session plugin", "SessionPlugin", METHODS, {"file": "jaato.plugins.session:FileSessionPlugin"}
)


class RestoreTarget(msgspec.Struct, frozen=True):
    """What a session from a file takes over from the one it is resumed from: nothing in a file decides where it works,
    what it is told first, who answers, or what it may do."""

    workspace: str
    provider: str
    model: str
    system_prompt: str
    core_tools: list[str]

    @classmethod
    def of(cls, state: State) -> RestoreTarget:
        """That of this session."""
        return cls(state.workspace, state.provider, state.model, state.system_prompt, list(state.core_tools))


# --- out -------------------------------------------------------------------------------------------------------------


def head_of(session: Session) -> SavedSession:
    """What a list shows of a session."""
    return SavedSession(**fields_of(session))


def fields_of(session: Session) -> dict[str, Any]:
    """The fields of a session's head; its log is masked, and so are they."""
    state = session.state
    return {
        "session_id": state.session_id,
        "workspace": state.workspace,
        "provider": state.provider,
        "model": state.model,
        "created_at": state.created_at,
        "updated_at": now(),
        "turns": state.turns,
        "name": state.name,
        "description": state.description,
    }


def export_state(session: Session) -> Callable[[], SessionState]:
    """What gives a session as it is now, as it is saved: its log and its large results, masked. Works in any thread."""
    journal, session_id = session.journal, session.state.session_id
    journal.flush()
    head, last = fields_of(session), journal.store.last_seq(session_id)

    def read() -> SessionState:
        log = redact_log(journal.store.read(session_id), journal.secrets)
        events = [event for event in log if isinstance(event, Event) and event.seq <= last]
        blobs, missing = blobs_of(journal.store, session_id, digests_in(events), journal.secrets)
        updated_at = events[-1].timestamp if events else head["updated_at"]
        return SessionState(**{**head, "updated_at": updated_at}, events=events, blobs=blobs, missing=missing)

    return read


def digests_in(events: Iterable[Event]) -> list[str]:
    """The hashes of large results that events name."""
    found: dict[str, None] = {}
    for event in events:
        for text in texts_at(msgspec.to_builtins(event)):
            if digest := DIGEST.fullmatch(text.removeprefix("result:").removeprefix("sha256:")):
                found[digest[0]] = None
    return list(found)


def texts_at(value: Any) -> Iterator[str]:
    """The texts under `blob` and `handle`, at any depth."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str):
                if key in ("blob", "handle"):
                    yield item
            else:
                yield from texts_at(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_at(item)


def blobs_of(
    store: Store, session_id: str, digests: Iterable[str], secrets: Redactor
) -> tuple[dict[str, bytes], list[str]]:
    """Large results by their hash, as far as they fit, and the hashes of the others."""
    kept: dict[str, bytes] = {}
    missing: list[str] = []
    left = BLOB_BYTES
    for digest in digests:
        try:
            size = store.blob_size(session_id, digest)
            data = store.get_blob(session_id, digest) if size <= left else None
        except StoreError:
            data = None
        if data is None or redact_bytes(data, secrets) != data:  # masked it would be another
            missing.append(digest)
            continue
        kept[digest] = data
        left -= len(data)
    return kept, missing


# --- in --------------------------------------------------------------------------------------------------------------


def import_saved(store: Store, state: SessionState, home: RestoreTarget) -> str:
    """Make a session of a saved one, under its own id, in one commit; returns the id.

    Raises `SessionBusy` when the store has it already, `ConfigError` for what is no session.
    """
    store.create(rewrite_foreign_log(state, home))
    for digest, data in state.blobs.items():
        if store.put_blob(state.session_id, data) != digest:
            state = msgspec.structs.replace(state, missing=[*state.missing, digest])
    return state.session_id


def rewrite_foreign_log(state: SessionState, home: RestoreTarget) -> list[Event]:
    """The log of a saved session, numbered anew, at home here and without what was granted."""
    if not is_id(state.session_id, "s"):
        raise ConfigError(f"{state.session_id[:60]!r} is no id of a session.")
    if not state.events or not isinstance(state.events[0], SessionCreated):
        raise ConfigError(f"The saved session {state.session_id} has lost its first record.")
    settled: list[Event] = []
    for event in state.events:
        if not event.durable or isinstance(event, PermissionGranted | PermissionRevoked):
            continue
        changes: dict[str, Any] = {"session_id": state.session_id, "seq": len(settled) + 1}
        match event:
            case SessionCreated() if settled:
                continue
            case SessionCreated():
                changes["workspace"] = home.workspace
            case AgentCreated():
                changes |= {
                    "provider": home.provider,
                    "model": home.model,
                    "system_prompt": home.system_prompt,
                    "core_tools": home.core_tools,
                }
            case SessionUpdated():
                changes |= {"provider": None, "model": None, "mode": None}
        settled.append(msgspec.structs.replace(event, **changes))
    if not any(isinstance(event, AgentCreated) and event.parent_agent_id is None for event in settled):
        raise ConfigError(f"The saved session {state.session_id} has lost its agent.")
    return settled


# --- which plugins ---------------------------------------------------------------------------------------------------


def discover_session_plugins(modules: Mapping[str, ModuleType] = NONE) -> dict[str, Loader]:
    """A loader for each session plugin by name: `file`, those of the entry point group `jaato.session_plugins`, and
    those of these modules. Nothing is imported yet."""
    return SESSION_PLUGINS.discover(modules)


def load_session_plugin(
    name: str = "file", config: dict[str, Any] | None = None, modules: Mapping[str, ModuleType] = NONE
) -> SessionPlugin:
    """The session plugin of this name, initialised. Raises `PluginError` for one that is not there or cannot be used.

    Whoever loads it shuts it down.
    """
    return SESSION_PLUGINS.load(name, config, modules)


def place_plugin(plugin: SessionPlugin, workspace: Path) -> SessionPlugin:
    """The plugin, told where it works if it wants to know."""
    settle = getattr(plugin, "set_workspace_path", None)
    if callable(settle):
        settle(str(workspace))
    return plugin
