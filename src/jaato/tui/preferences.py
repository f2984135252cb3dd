"""The user's preferences for the full-screen client: theme, keys and mouse, in a file of the configuration directory."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key

from jaato.cli.output.console import one_line
from jaato.errors import ConfigError
from jaato.tools.filesystem.atomic import read_bounded, write_private

MAX_BYTES = 100_000
LIGHT, DARK = "textual-light", "textual-dark"
LIGHT_BACKGROUNDS = ("7", "15", "11", "14")
"""The colours of COLORFGBG that are light backgrounds."""
ENTRIES = ("theme", "mouse", "keys")
KEY_NAMES = {"escape": "Esc", "pageup": "PageUp", "pagedown": "PageDown"}
CHARACTER_KEYS = {"space", *KEY_NAME_REPLACEMENTS.values()}
"""The names of keys that type a character, where Unicode has another name for it."""
NAMED_KEYS = {key.value for key in Keys} - CHARACTER_KEYS
MODIFIERS = {"ctrl", "alt", "shift", "super", "meta", "hyper"}
BINDING = re.compile(r"\{([a-z]+\.[a-z_]+)\}")
"""The id of a binding in a text, which its key replaces."""


class KeyNames:
    """The names of the keys, as the user has bound them: the keys of each binding's id, separated by commas."""

    def __init__(self, defaults: Mapping[str, str], bound: Mapping[str, str]) -> None:
        self.bound = [key for keys in bound.values() for key in keys.split(",")]
        """The keys that the user has bound."""
        self._keys = {**defaults, **bound}

    def fill(self, text: str, most: int = 1) -> str:
        """A text with the keys of the bindings whose ids stand in it as `{id}`, of each no more than `most`."""
        return BINDING.sub(lambda found: self._name(found[1], most), text)

    def _name(self, binding: str, most: int) -> str:
        keys = [key.strip() for key in self._keys[binding].split(",")]
        return ", ".join(map(name_key, keys[:most]))


def name_key(key: str) -> str:
    """The name of a key for users: `ctrl+e` is Ctrl+E."""
    return "+".join(KEY_NAMES.get(part, part.capitalize()) for part in key.split("+"))


def parse_key(text: str) -> str:
    """A key as a user writes it, `Ctrl+E` or `ctrl+e`, in the form of a binding; empty if it is none."""
    *modifiers, key = text.strip().split("+")
    modifiers = [part.lower() for part in modifiers]
    if len(key) > 1 or modifiers:
        key = {"esc": "escape"}.get(key.lower(), key.lower())
    key = _character_to_key(key) if len(key) == 1 else key
    is_key = len(key) == 1 or key in NAMED_KEYS or is_character_name(key)
    return "+".join([*modifiers, key]) if is_key and MODIFIERS.issuperset(modifiers) else ""


def is_character_name(key: str) -> bool:
    """Whether a key is named after its character, as `question_mark` is."""
    try:
        return key in CHARACTER_KEYS or (
            key not in NAMED_KEYS and bool(unicodedata.lookup(key.replace("_", " ")))
        )
    except KeyError:
        return False


class Preferences:
    """What `tui.json` has: `theme`, `mouse`, and `keys` (binding id to keys, separated by commas)."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._path = path
        self.problems: list[str] = []
        """What is wrong with the file."""
        self._is_usable = True
        self._known = self._read()
        background = environ.get("COLORFGBG", "").rpartition(";")[2]
        self._default_theme = LIGHT if background in LIGHT_BACKGROUNDS else DARK
        self.no_color = "NO_COLOR" in environ
        self.mouse = self._known.get("mouse") is not False
        if not isinstance(self._known.get("mouse", True), bool):
            self._report('"mouse" must be true or false')
        for name in self._known:
            if name not in ENTRIES:
                self._report(f"there is no entry {json.dumps(name)}, only {', '.join(ENTRIES)}")

    def _report(self, text: str) -> None:
        self.problems.append(one_line(f"{self._path.name}: {text}.", 400))

    def _read(self) -> dict[str, Any]:
        try:
            data = read_bounded(self._path, MAX_BYTES)
            known = json.loads(data) if data else {}
            if not isinstance(known, dict):
                raise ConfigError("It must be a JSON object.")
        except (OSError, ValueError, ConfigError, RecursionError) as error:
            self._is_usable = False
            self.problems.append(one_line(f"{self._path.name} cannot be used: {error}", 400))
            return {}
        return known

    def choose_theme(self, available: Container[str]) -> str:
        """The user's theme if there is one of its name, else one for the terminal's background."""
        theme = self._known.get("theme", self._default_theme)
        if isinstance(theme, str) and theme in available:
            return theme
        self._report(f"there is no theme {json.dumps(theme)}; the command Theme lists them")
        return self._default_theme

    def choose_keys(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """The keys of the user for bindings, of which `defaults` has those that exist."""
        given = self._known.get("keys", {})
        if not isinstance(given, dict):
            self._report('"keys" must be an object: names of bindings with their keys')
            return {}
        found: dict[str, str] = {}
        for name, text in given.items():
            keys = [parse_key(key) for key in text.split(",")] if isinstance(text, str) else [""]
            if name not in defaults:
                self._report(f"{name} does not exist, so it has no key; the guide has the names")
            elif not all(keys):
                self._report(f"{name} has no key {json.dumps(text)}; write one as ctrl+e, f8 or alt+up")
            elif any(len(key) == 1 or is_character_name(key) for key in keys) and not name.startswith(
                "transcript."
            ):
                self._report(f"{name} cannot have {text}, which types a character")
            else:
                found[name] = ",".join(keys)
        self._report_clashes({**defaults, **found}, found)
        return found

    def _report_clashes(self, keys: Mapping[str, str], bound: Mapping[str, str]) -> None:
        """Report keys of the user that something else has at the same place, too."""
        shared = [name for name in keys if not name.startswith("transcript.")]
        for name in filter(bound.__contains__, shared):
            for key in bound[name].split(","):
                others = [one for one in shared if one != name and key in keys[one].split(",")]
                for other in others:
                    if other not in bound or other < name:
                        self._report(f"{name} and {other} have the same key {name_key(key)}")

    def keep_theme(self, name: str) -> None:
        """Keep the theme; without effect where the file cannot be written, or is damaged."""
        if not self._is_usable or name == self._known.get("theme", self._default_theme):
            return
        self._known["theme"] = name
        try:
            write_private(self._path, json.dumps(self._known, indent=2).encode() + b"\n")
        except OSError:
            return
