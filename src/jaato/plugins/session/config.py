"""`.jaato/.sessions.json`: when sessions are saved as files, and when the model is asked to describe one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path, PurePosixPath
from typing import Any

from jaato.abc.saved import SessionConfig
from jaato.errors import ConfigError, ToolError
from jaato.tools.folder import Folder

FILE = ".sessions.json"
MAX_BYTES = 65_536
KEYS = frozenset(entry.name for entry in dataclasses.fields(SessionConfig))


def load_session_config(
    path: str | Path | None = None, *, workspace: str | Path | None = None
) -> SessionConfig:
    """The settings in `.jaato/.sessions.json` of a workspace (default: the current directory), or in the file `path`;
    the defaults where there is none. Raises `ConfigError` that names the file and what to correct."""
    return found_config(path, workspace=workspace) or SessionConfig()


def found_config(
    path: str | Path | None = None, *, workspace: str | Path | None = None
) -> SessionConfig | None:
    """The same; None where there is no file."""
    place = Path(path) if path is not None else Path(workspace or Path.cwd()) / ".jaato" / FILE
    # of a workspace only its own directory may be a link, so that nobody who prepares one names other files
    folder = Folder(place.parent) if path is not None else Folder(place.parent.parent, ".jaato")
    try:
        data = folder.read(place.name, MAX_BYTES)
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
