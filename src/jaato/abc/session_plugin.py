"""The interface of a session plugin, which persists sessions as files of a workspace, with its configuration and records."""

# Annotations are not postponed here: msgspec would compile each one as text.

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from jaato.errors import ConfigError
from jaato.protocol.events import Event

STORAGE_PATH = ".jaato/sessions"
MAX_TURNS = 1_000_000
MAX_SESSIONS = 10_000


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """When sessions are saved, and how many of the saved ones stay. A number of turns that is 0 means never.

    Raises `ConfigError` for values that make no sense.
    """

    storage_path: str = STORAGE_PATH
    auto_save_on_exit: bool = True
    checkpoint_after_turns: int = 10
    request_description_after_turns: int = 3
    max_sessions: int = 20
    """How many exports stay; the oldest go. No log is ever deleted by it."""

    def __post_init__(self) -> None:
        given: dict[str, Any] = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        path = given["storage_path"]
        if not isinstance(path, str) or not path.strip("/. ") or "\0" in path:
            raise ConfigError(f"storage_path names a directory such as {STORAGE_PATH!r}.")
        if type(given["auto_save_on_exit"]) is not bool:
            raise ConfigError("auto_save_on_exit is true or false.")
        for name, least, most in (
            ("checkpoint_after_turns", 0, MAX_TURNS),
            ("request_description_after_turns", 0, MAX_TURNS),
            ("max_sessions", 1, MAX_SESSIONS),
        ):
            value = given[name]
            if type(value) is not int or not least <= value <= most:
                raise ConfigError(f"{name} is a whole number from {least} to {most:,}.")


class SavedSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A saved session as a list shows it; times are ISO 8601 UTC."""

    session_id: str
    workspace: str
    provider: str
    model: str
    created_at: str
    updated_at: str
    turns: int
    name: str | None = None
    description: str | None = None


class SessionState(SavedSession, frozen=True, kw_only=True, omit_defaults=True):
    """A session whole, as it is saved: its log, masked, and the large results that the log names by their hash.

    The log in the store is the original; this is a copy of it.
    """

    format: Literal["jaato-session"] = "jaato-session"
    version: Literal[1] = 1
    events: Sequence[Event] = ()
    blobs: dict[str, bytes] = {}
    missing: Sequence[str] = ()
    """Large results that are not in here: too much, or gone."""


@runtime_checkable
class SessionPlugin(Protocol):
    """What keeps sessions. Its methods are called in a thread, one at a time; what a hook raises is logged and harms
    nothing else. Its creator shuts it down."""

    @property
    def name(self) -> str: ...

    def initialize(self, config: dict[str, object] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def save(self, state: SessionState) -> str:
        """Keep a session, in the place of an earlier copy; returns where it is."""
        ...

    def load(self, session_id: str) -> SessionState:
        """A saved session. Raises `SessionNotFound`, `ConfigError` for one that is damaged."""
        ...

    def list_sessions(self) -> list[SavedSession]:
        """The saved sessions, newest first."""
        ...

    def delete(self, session_id: str) -> bool:
        """Remove a saved copy; whether there was one."""
        ...

    def set_description(self, session_id: str, description: str) -> None:
        """Describe a saved session."""
        ...

    def needs_description(self, state: SavedSession, config: SessionConfig) -> bool:
        """Whether a session should be described by now."""
        ...

    def on_session_start(self, state: SavedSession, config: SessionConfig) -> None:
        """A session begins, or is resumed. One that takes the settings alone is called with these."""
        ...

    def on_turn_complete(self, state: SavedSession, config: SessionConfig) -> None:
        """A turn has ended. Where the settings ask for a copy now, `save` is called before."""
        ...

    def on_session_end(self, state: SavedSession, config: SessionConfig) -> None: ...
