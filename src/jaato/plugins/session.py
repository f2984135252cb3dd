"""The plugin `session`: sessions saved as JSON files of the workspace, `.jaato/.sessions.json`, and the tool
`session_describe`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from jaato.abc.plugin import Enrichment, Plugin, PromptEnrichmentResult, UserCommand
from jaato.abc.session_plugin import STORAGE_PATH, SavedSession, SessionConfig, SessionPlugin, SessionState
from jaato.errors import ConfigError, SessionNotFound, ToolError
from jaato.log import logger
from jaato.protocol.events import SessionUpdated, now
from jaato.protocol.ids import is_id
from jaato.tools.call import CURRENT, SERVICES, Call, NoSession, replace_surrogates, session_of
from jaato.tools.filesystem.errors import FileMissing
from jaato.tools.filesystem.private_directory import PrivateDirectory
from jaato.tools.invisible_text import printable_line
from jaato.tools.tool import tool

FILE = ".sessions.json"
MAX_CONFIG_BYTES = 65_536
KEYS = frozenset(entry.name for entry in dataclasses.fields(SessionConfig))
UNDESCRIBED = (
    "[This session has no description yet. Beside your answer, describe it in one line with session_describe, "
    "so that the user finds it among others.]"
)
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
SYSTEM = "system"
DEFAULTS = SessionConfig()


def load_session_config(
    path: str | Path | None = None, *, workspace: str | Path | None = None
) -> SessionConfig:
    """The settings in `.jaato/.sessions.json` of a workspace (default: the current directory), or in the file `path`;
    the defaults where there is none. Raises `ConfigError` that names the file and what to correct."""
    return read_session_config(path, workspace=workspace) or SessionConfig()


def read_session_config(
    path: str | Path | None = None, *, workspace: str | Path | None = None
) -> SessionConfig | None:
    """The same; None where there is no file."""
    place = Path(path) if path is not None else Path(workspace or Path.cwd()) / ".jaato" / FILE
    # of a workspace only its own directory may be a link, so that a prepared workspace cannot name other files
    folder = (
        PrivateDirectory(place.parent)
        if path is not None
        else PrivateDirectory(place.parent.parent, ".jaato")
    )
    try:
        data = folder.read(place.name, MAX_CONFIG_BYTES)
    except ToolError as error:
        raise ConfigError(f"{place}: {error}") from None
    if data is None:
        return None
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{place} is not JSON: {error}. Correct or remove it.") from None
    return from_mapping(given, place)


def from_mapping(given: Any, place: Path) -> SessionConfig:
    """The settings of a decoded file. Raises `ConfigError`."""
    if not isinstance(given, dict):
        raise ConfigError(f"{place} holds no JSON object; write {{}} or the keys {', '.join(sorted(KEYS))}.")
    unknown = sorted(str(key) for key in given.keys() - KEYS)
    if unknown:
        raise ConfigError(f"{place} has the unknown key {unknown[0]!r}; there are {', '.join(sorted(KEYS))}.")
    try:
        config = SessionConfig(**given)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    parts = PurePosixPath(config.storage_path).parts
    if config.storage_path.startswith("/") or ".." in parts:
        raise ConfigError(f"{place}: storage_path leads out of the workspace; name a directory below it.")
    return config


def request_description(
    prompt: str, turns: int, description: str | None, after_turns: int
) -> PromptEnrichmentResult:
    """The prompt, with that word when there is no description after exactly so many turns; 0 turns: never."""
    if not after_turns or turns != after_turns or description or prompt.endswith(UNDESCRIBED):
        return PromptEnrichmentResult(prompt)
    return PromptEnrichmentResult(
        f"{prompt}\n\n{UNDESCRIBED}", {"asked_for": "description", "activates": ["session_describe"]}
    )


__all__ = [
    "PLUGIN_KIND",
    "FileSessionPlugin",
    "SavedSession",
    "SessionConfig",
    "SessionPlugin",
    "SessionState",
    "create_plugin",
    "load_session_config",
]


class SessionFiles:
    """Saved sessions are `ID.json` in `storage_path` (0600, written whole); no link in it is followed."""

    def __init__(self) -> None:
        self._workspace = Path.cwd()
        self._storage_path = STORAGE_PATH
        self._most = SessionConfig().max_sessions

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

    def set_workspace_path(self, path: str) -> None:
        """Set the directory that a relative `storage_path` starts from."""
        self._workspace = Path(path)

    @property
    def _folder(self) -> PrivateDirectory:
        """Where the files are."""
        path = PurePosixPath(self._storage_path)
        if path.is_absolute():
            return PrivateDirectory(Path(path.anchor), *path.parts[1:])
        if ".." in path.parts:
            raise ConfigError("A relative storage_path stays below the workspace.")
        return PrivateDirectory(self._workspace, *path.parts)

    # --- copies ------------------------------------------------------------------------------------------------

    def save(self, state: SessionState) -> str:
        """Write the file of a session; returns its path. Raises `ToolError`s, `ConfigError` for one too large."""
        name = session_file_name(state.session_id)
        data = ENCODER.encode(state)
        if len(data) > MAX_BYTES:
            raise ConfigError(
                f"The session has {len(data):,} bytes, more than the {MAX_BYTES:,} of a file; its log stays in the store."
            )
        folder = self._folder
        with folder.lock():
            folder.write(name, data, mode=0o600)
            self._cap(folder, name)
        return f"{self._storage_path}/{name}"

    def _cap(self, folder: PrivateDirectory, kept: str) -> None:
        """Remove the oldest files beyond the number that may stay, never the newest one."""
        times = {
            name: info.st_mtime_ns
            for name in folder.names()
            if is_session_file(name) and (info := folder.stat(name)) is not None
        }
        others = sorted((name for name in times if name != kept), key=lambda name: times[name])
        for name in others[: max(0, len(times) - self._most)]:
            with contextlib.suppress(FileMissing):
                folder.remove(name)

    def load(self, session_id: str) -> SessionState:
        """The saved session of this id. Raises `SessionNotFound`, `ConfigError` for a file that is none."""
        found: SessionState = self._read(session_file_name(session_id), WHOLE, session_id)
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
            if is_session_file(name):
                try:
                    found.append(self._read(name, HEADS, name.removesuffix(".json")))
                except (ConfigError, SessionNotFound) as error:
                    LOG.warning("%s", error)
        return sorted(found, key=lambda one: one.updated_at, reverse=True)

    def delete(self, session_id: str) -> bool:
        """Remove the file of a session; whether there was one. Its log in the store stays."""
        try:
            self._folder.remove(session_file_name(session_id))
        except FileMissing:
            return False
        return True

    def set_description(self, session_id: str, description: str) -> None:
        """Describe a saved session; the description is there when it is resumed. Raises as `load` and `save`."""
        state = self.load(session_id)
        text = to_one_line(description)
        event = SessionUpdated(
            session_id=session_id,
            agent_id=state.events[-1].agent_id if state.events else "",
            seq=state.events[-1].seq + 1 if state.events else 1,
            timestamp=now(),
            description=text,
        )
        self.save(msgspec.structs.replace(state, description=text, events=[*state.events, event]))


class FileSessionPlugin(SessionFiles):
    """Keeps sessions as files of the workspace."""

    name: ClassVar[str] = "session"

    def __init__(self) -> None:
        super().__init__()
        self._seen: SavedSession | None = None
        self._describe_after = SessionConfig().request_description_after_turns

    def shutdown(self) -> None:
        """It holds nothing open."""

    def needs_description(self, state: SavedSession, config: SessionConfig) -> bool:
        """Whether a session has gone on long enough to be described, and is not."""
        after = config.request_description_after_turns
        return bool(after) and state.turns >= after and not state.description

    # --- what happens ------------------------------------------------------------------------------------------

    def on_session_start(
        self, state: SavedSession | SessionConfig, config: SessionConfig | None = None
    ) -> None:
        """A session begins, or is resumed; with the settings alone, as the documents print it, it is not known yet which."""
        if isinstance(state, SessionConfig):
            self._use(state)
        else:
            self._follow(state, config or SessionConfig())

    def on_turn_complete(self, state: SavedSession, config: SessionConfig) -> None:
        """A turn has ended."""
        self._follow(state, config)

    def on_session_end(self, state: SavedSession, config: SessionConfig) -> None:
        """The session ends here; it stays stored."""
        self._follow(state, config)

    def _follow(self, state: SavedSession, config: SessionConfig) -> None:
        self._seen = state
        self._use(config)

    def _use(self, config: SessionConfig) -> None:
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
        return request_description(prompt, seen.turns, seen.description, self._describe_after)

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


def session_file_name(session_id: str) -> str:
    """The name of a session's file. Raises `SessionNotFound` for what is no id."""
    if not is_id(session_id, "s"):
        raise SessionNotFound(f"{session_id[:60]!r} is no id of a session; `sessions` lists them.")
    return f"{session_id}.json"


def is_session_file(name: str) -> bool:
    """Whether a name is that of a saved session."""
    return name.endswith(".json") and is_id(name.removesuffix(".json"), "s")


class SessionToolsPlugin(Plugin):
    """Its description and its saved copies."""

    name: ClassVar[str] = "session"
    enrichment: ClassVar[Enrichment] = Enrichment(90, instant=True)

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt; after `request_description_after_turns` turns without a description, with a word about that."""
        services = SERVICES.get()
        session, keeper = services.get("session"), services.get("keeper")
        if session is None:
            return PromptEnrichmentResult(prompt)
        config = keeper.config if keeper is not None else DEFAULTS
        after = config.request_description_after_turns
        return request_description(prompt, session.state.turns, session.state.description, after)

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """The user saves, lists and removes copies of sessions, and has one made a session again."""
        return {command: functools.partial(run_command, command.name) for command in COMMANDS}

    @tool(category=SYSTEM, access="read")
    async def session_describe(
        self,
        description: Annotated[str, Meta(min_length=1, max_length=500), "one line"],
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Describe in one line what this session is about, so that the user finds it among others. Use it once the topic is
        clear or has changed. Returns the description as kept."""
        text = to_one_line(description)
        session = session_of(call)
        if text != session.state.description:
            session.journal.record(SessionUpdated(**session.journal.head(), description=text))
        return {"description": text}


def to_one_line(description: str) -> str:
    """A description as one printable line. Raises `ToolError` for an empty one."""
    text = printable_line(replace_surrogates(description))
    if not text:
        raise ToolError("The description is empty. Say in a few words what the session is about.")
    return text


# --- commands --------------------------------------------------------------------------------------------------------


def run_command(name: str, line: str) -> Any:
    """Run a command on the rest of its line, by what saves the session it belongs to. Raises `NoSession`."""
    call = CURRENT.get()
    keeper = call.services.get("keeper") if call is not None else None
    if keeper is None:
        raise NoSession("This command belongs to no session that is kept. It works inside one.")
    return keeper.command(name, line)
