"""`FileSessionPlugin`: sessions as JSON files of a workspace, copies of what the store has."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import msgspec

from jaato.abc.plugin import PromptEnrichmentResult, UserCommand
from jaato.abc.saved import STORAGE_PATH, SavedSession, SessionConfig, SessionState
from jaato.errors import ConfigError, SessionNotFound, ToolError
from jaato.log import logger
from jaato.plugins.session.describe import asked_for_description
from jaato.protocol.ids import is_id
from jaato.tools.file_errors import FileMissing
from jaato.tools.folder import Folder

PLUGIN_KIND = "session"
LOG = logger("session")
MAX_BYTES = 256_000_000
"""How large a saved session may be; a larger one stays in the store alone."""
ENCODER = msgspec.json.Encoder()
WHOLE: msgspec.json.Decoder[SessionState] = msgspec.json.Decoder(SessionState)
HEADS: msgspec.json.Decoder[SavedSession] = msgspec.json.Decoder(SavedSession)
COMMANDS = (
    UserCommand("save", "Save this session as a file of the workspace"),
    UserCommand("resume", "Go on with a session: resume ID"),
    UserCommand("sessions", "List the saved sessions"),
    UserCommand("delete-session", "Remove the saved file of a session: delete-session ID"),
)


class FileSessionPlugin:
    """Saved sessions are `ID.json` in `storage_path` (0600, written whole); no link in it is followed."""

    name: ClassVar[str] = "session"

    def __init__(self) -> None:
        self._workspace = Path.cwd()
        self._storage_path = STORAGE_PATH
        self._most = SessionConfig().max_sessions
        self._seen: SavedSession | None = None
        self._describe_after = SessionConfig().request_description_after_turns

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Take `storage_path` (relative to the workspace, or absolute) and `max_sessions`. Raises `ConfigError`."""
        given = dict(config or {})
        checked = SessionConfig(
            storage_path=given.pop("storage_path", self._storage_path),
            max_sessions=given.pop("max_sessions", self._most),
        )
        if given:
            raise ConfigError(f"The session plugin has no setting {min(given)!r}.")
        self._storage_path, self._most = checked.storage_path, checked.max_sessions

    def shutdown(self) -> None:
        """It holds nothing open."""

    def set_workspace_path(self, path: str) -> None:
        """What a relative `storage_path` begins at."""
        self._workspace = Path(path)

    @property
    def _folder(self) -> Folder:
        """Where the files are."""
        path = PurePosixPath(self._storage_path)
        if path.is_absolute():
            return Folder(Path(path.anchor), *path.parts[1:])
        if ".." in path.parts:
            raise ConfigError("A relative storage_path stays below the workspace.")
        return Folder(self._workspace, *path.parts)

    # --- copies ------------------------------------------------------------------------------------------------

    def save(self, state: SessionState) -> str:
        """Write the file of a session; returns its path. Raises `ToolError`s, `ConfigError` for one too large."""
        name = file_of(state.session_id)
        data = ENCODER.encode(state)
        if len(data) > MAX_BYTES:
            raise ConfigError(
                f"The session has {len(data):,} bytes, more than the {MAX_BYTES:,} of a file; its log stays in the store."
            )
        folder = self._folder
        with folder.locked():
            folder.write(name, data, mode=0o600)
            self._cap(folder, name)
        return f"{self._storage_path}/{name}"

    def _cap(self, folder: Folder, kept: str) -> None:
        """Remove the oldest files beyond the number that may stay, never the newest one."""
        times = {
            name: info.st_mtime_ns
            for name in folder.names()
            if is_file_of(name) and (info := folder.stat(name)) is not None
        }
        others = sorted((name for name in times if name != kept), key=lambda name: times[name])
        for name in others[: max(0, len(times) - self._most)]:
            with contextlib.suppress(FileMissing):
                folder.remove(name)

    def load(self, session_id: str) -> SessionState:
        """The saved session of this id. Raises `SessionNotFound`, `ConfigError` for a file that is none."""
        found: SessionState = self._read(file_of(session_id), WHOLE, session_id)
        return found

    def _read(self, name: str, decoder: msgspec.json.Decoder[Any], session_id: str) -> Any:
        try:
            data = self._folder.read(name, MAX_BYTES)
        except ToolError as error:
            raise ConfigError(str(error)) from None
        if data is None:
            raise SessionNotFound(f"There is no saved session {session_id}; `sessions` lists them.")
        try:
            found = decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self._storage_path}/{name} is no saved session: {error}") from None
        if found.session_id != session_id:
            raise ConfigError(
                f"{self._storage_path}/{name} is the session {found.session_id[:60]!r}, not {session_id}."
            )
        return found

    def list_sessions(self) -> list[SavedSession]:
        """The saved sessions, newest first; a damaged file is logged and hides no other."""
        found: list[SavedSession] = []
        for name in self._folder.names():
            if is_file_of(name):
                try:
                    found.append(self._read(name, HEADS, name.removesuffix(".json")))
                except (ConfigError, SessionNotFound) as error:
                    LOG.warning("%s", error)
        return sorted(found, key=lambda one: one.updated_at, reverse=True)

    def delete(self, session_id: str) -> bool:
        """Remove the file of a session; whether there was one. Its log in the store stays."""
        try:
            self._folder.remove(file_of(session_id))
        except FileMissing:
            return False
        return True

    # --- what happens ------------------------------------------------------------------------------------------

    def on_session_start(self, state: SavedSession, config: SessionConfig) -> None:
        """A session begins, or goes on."""
        self._follow(state, config)

    def on_turn_complete(self, state: SavedSession, config: SessionConfig) -> None:
        """A turn has ended."""
        self._follow(state, config)

    def on_session_end(self, state: SavedSession, config: SessionConfig) -> None:
        """The session ends here; it stays stored."""
        self._follow(state, config)

    def _follow(self, state: SavedSession, config: SessionConfig) -> None:
        self._seen = state
        self._most, self._describe_after = config.max_sessions, config.request_description_after_turns

    # --- prompts and commands ----------------------------------------------------------------------------------

    def subscribes_to_prompt_enrichment(self) -> bool:
        """Whether prompts are shown to it."""
        return True

    def get_enrichment_priority(self) -> int:
        """Last of all."""
        return 90

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt; after so many turns of a session without a description, with a word about that."""
        seen = self._seen
        if seen is None:
            return PromptEnrichmentResult(prompt)
        return asked_for_description(prompt, seen.turns, seen.description, self._describe_after)

    def get_user_commands(self) -> list[UserCommand]:
        """`save`, `resume`, `sessions` and `delete-session`, which whoever has the session carries out."""
        return list(COMMANDS)

    def get_tool_schemas(self) -> list[Any]:
        """It has no tools; `session_describe` is one of the built-in plugin."""
        return []

    def get_executors(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """It has no tools."""
        return {}


def create_plugin() -> FileSessionPlugin:
    """A session plugin with the defaults."""
    return FileSessionPlugin()


def file_of(session_id: str) -> str:
    """The name of a session's file. Raises `SessionNotFound` for what is no id."""
    if not is_id(session_id, "s"):
        raise SessionNotFound(f"{session_id[:60]!r} is no id of a session; `sessions` lists them.")
    return f"{session_id}.json"


def is_file_of(name: str) -> bool:
    """Whether a name is that of a saved session."""
    return name.endswith(".json") and is_id(name.removesuffix(".json"), "s")
