"""Loads settings once, from flags, `JAATO_*`, files and defaults in this precedence; each value remembers its source."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from jaato.errors import ConfigError
from jaato.settings.fields import FIELDS, Kind

MAX_FILE_BYTES = 1_000_000


class Value(msgspec.Struct, frozen=True):
    """A setting and where it came from."""

    value: Any
    source: str


class Settings(msgspec.Struct, frozen=True):
    """All settings, the environment they were read from, and the user's directories.

    `notes` says what was left out and why; `learned` holds keys that were read from elsewhere, by name.
    """

    values: Mapping[str, Value]
    environ: Mapping[str, str]
    state_dir: Path
    config_dir: Path
    cache_dir: Path
    notes: list[str] = msgspec.field(default_factory=list)
    learned: dict[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Settings({dict(self.values)})"  # neither `environ` nor `learned`, which hold keys

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value

    def source(self, name: str) -> str:
        """Where a value came from: a flag, a variable, a file or the default."""
        return self.values[name].source

    def with_flags(self, flags: Mapping[str, Any]) -> Settings:
        """The same settings with some given by hand, where they are not None. Raises `ConfigError`."""
        return replace(self, values={**self.values, **read_flags(flags)})

    @property
    def config_file(self) -> Path:
        """The user's configuration file."""
        return self.config_dir / "config.toml"


def environment() -> dict[str, str]:
    """The environment of this process, as it is now."""
    return dict(os.environ)  # noqa: TID251 the one place


def set_process_variables(values: Mapping[str, str]) -> None:
    """Set variables that libraries of this process read; what is set already stays."""
    for name, value in values.items():
        os.environ.setdefault(name, value)  # noqa: TID251 the one place


def home_of(environ: Mapping[str, str]) -> Path:
    """The home directory: `HOME` of these variables, else that of this process."""
    return Path(environ.get("HOME") or Path("~").expanduser())


def user_dir(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    """A directory of the XDG base directory specification, with `jaato` below it."""
    chosen = environ.get(variable, "")
    root = Path(chosen) if chosen.startswith("/") else home_of(environ) / fallback
    return root / "jaato"


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    workspace: Path | None = None,
    trusted: Callable[[Path, bytes], bool] = lambda _path, _data: False,
) -> Settings:
    """Read every source. Precedence: flags, `JAATO_*`, trusted workspace file, user file, defaults; an untrusted
    workspace can only tighten. Raises `ConfigError` naming file, key and remedy."""
    environ = environment() if environ is None else environ
    config_dir = user_dir(environ, "XDG_CONFIG_HOME", ".config")
    notes: list[str] = []
    values = {name: Value(entry.default, "default") for name, entry in FIELDS.items()}
    values |= read_file(config_dir / "config.toml", notes)
    if workspace is not None:
        values |= read_workspace(workspace / ".jaato" / "config.toml", values, trusted, notes)
    values |= read_environ(environ)
    values |= read_flags(flags or {})
    return Settings(
        values=values,
        environ=environ,
        state_dir=user_dir(environ, "XDG_STATE_HOME", ".local/state"),
        config_dir=config_dir,
        cache_dir=user_dir(environ, "XDG_CACHE_HOME", ".cache"),
        notes=notes,
    )


def read_flags(flags: Mapping[str, Any]) -> dict[str, Value]:
    """The settings that are given by hand. Raises `ConfigError`."""
    return {
        name: Value(check(name, value, "flag"), f"--{name.replace('_', '-')}")
        for name, value in flags.items()
        if value is not None and name in FIELDS
    }


def read_environ(environ: Mapping[str, str]) -> dict[str, Value]:
    """The settings given as `JAATO_NAME`."""
    found: dict[str, Value] = {}
    for name, entry in FIELDS.items():
        for variable in (entry.variable, f"JAATO_{name.upper()}"):
            text = environ.get(variable)
            if text:
                found[name] = Value(check(name, parse_value(entry.kind, text, variable), variable), variable)
    return found


def parse_value(kind: Kind, text: str, where: str) -> Any:
    """A value from the text of a variable."""
    match kind:
        case "switch":
            lowered = text.strip().lower()
            if lowered in ("1", "true", "yes", "on"):
                return True
            if lowered in ("0", "false", "no", "off"):
                return False
            raise ConfigError(f"{where}={text!r} is neither true nor false.")
        case "integer" | "number":
            try:
                return int(text) if kind == "integer" else float(text)
            except ValueError:
                raise ConfigError(f"{where}={text!r} is not a number.") from None
        case "list":
            return [item.strip() for item in text.split(",") if item.strip()]
    return text


def read_toml(path: Path) -> tuple[bytes, dict[str, Any]] | None:
    """A TOML file and its bytes, None when there is none."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; mend its permissions or remove it."
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes; that is no configuration file.")
    import tomllib  # many have no such file

    try:
        return data, tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct it or remove it.") from None


def read_file(path: Path, notes: list[str]) -> dict[str, Value]:
    """The settings of the user's file; unknown keys are noted, wrong ones raise."""
    loaded = read_toml(path)
    return {} if loaded is None else check_table(loaded[1], path, notes)


def check_table(table: Mapping[str, Any], path: Path, notes: list[str]) -> dict[str, Value]:
    """The known settings of a table."""
    notes += [explain_unknown(key, path) for key in table if key not in FIELDS]
    return {key: Value(check(key, table[key], str(path)), str(path)) for key in table if key in FIELDS}


def explain_unknown(key: str, path: Path) -> str:
    """A note about a key that is no setting, with the setting it resembles."""
    from difflib import get_close_matches

    near = " or ".join(get_close_matches(key, FIELDS, n=2, cutoff=0.7))
    return f"{path}: unknown setting {key!r}" + (f"; did you mean {near}?" if near else "")


def read_workspace(
    path: Path, before: Mapping[str, Value], trusted: Callable[[Path, bytes], bool], notes: list[str]
) -> dict[str, Value]:
    """What a workspace's file may say: everything once its content is trusted, before that only what tightens."""
    loaded = read_toml(path)
    if loaded is None:
        return {}
    data, table = loaded
    found = check_table(table, path, notes)
    if trusted(path, data):
        return merge_lists(found, before)
    kept: dict[str, Value] = {}
    for name, value in found.items():
        tighten = FIELDS[name].tighten
        if tighten is not None and tighten(value.value, before[name].value):
            kept[name] = value
        else:
            notes.append(f"{path}: {name} is ignored until the file is trusted: jaato config --trust")
    return merge_lists(kept, before)


def merge_lists(found: dict[str, Value], before: Mapping[str, Value]) -> dict[str, Value]:
    """A workspace adds to the user's lists; it never takes from them."""
    return {
        name: Value([*before[name].value, *value.value], value.source)
        if FIELDS[name].kind == "list"
        else value
        for name, value in found.items()
    }


def check(name: str, value: Any, where: str) -> Any:
    """The value if it fits its field; raises `ConfigError`."""
    entry = FIELDS[name]
    match entry.kind:
        case "text":
            fits = isinstance(value, str)
        case "number":
            fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        case "integer":
            fits = isinstance(value, int) and not isinstance(value, bool)
        case "switch":
            fits = isinstance(value, bool)
        case "list":
            fits = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    if not fits:
        raise ConfigError(f"{where}: {name} must be a {entry.kind}, not {value!r:.80}.")
    if entry.choices and value not in entry.choices:
        raise ConfigError(f"{where}: {name} is one of {', '.join(entry.choices)}, not {value!r:.80}.")
    return list(value) if entry.kind == "list" else value
