"""The user's preferences for the full-screen client: theme, keys and mouse, in a file of the configuration directory."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError
from jaato.tools.filesystem.atomic import read_bounded, write_private

MAX_BYTES = 100_000
LIGHT, DARK = "textual-light", "textual-dark"
LIGHT_BACKGROUNDS = ("7", "15", "11", "14")
"""The colours of COLORFGBG that are light backgrounds."""


KEY_NAMES = {"escape": "Esc", "pageup": "PageUp", "pagedown": "PageDown"}
BINDING = re.compile(r"\{([a-z]+\.[a-z_]+)\}")
"""The id of a binding in a text, which its key replaces."""


class KeyNames:
    """The names of the keys, as the user has bound them. `defaults` has the keys of each binding's id."""

    def __init__(self, defaults: Mapping[str, str], bound: Mapping[str, str]) -> None:
        self.unknown = [name for name in bound if name not in defaults]
        self._keys = {**defaults, **{name: keys for name, keys in bound.items() if name in defaults}}

    def fill(self, text: str, most: int = 1) -> str:
        """A text with the keys of the bindings whose ids stand in it as `{id}`, of each no more than `most`."""
        return BINDING.sub(lambda found: self._name(found[1], most), text)

    def _name(self, binding: str, most: int) -> str:
        keys = [key.strip() for key in self._keys[binding].split(",")]
        return ", ".join(map(name_key, keys[:most]))


def name_key(key: str) -> str:
    """The name of a key for users: `ctrl+e` is Ctrl+E."""
    return "+".join(KEY_NAMES.get(part, part.capitalize()) for part in key.split("+"))


class Preferences:
    """What `tui.json` has: `theme`, `mouse`, and `keys` (binding id to keys, separated by commas)."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._path = path
        self.problem = ""
        """What is wrong with the file."""
        self._known = self._read()
        background = environ.get("COLORFGBG", "").rpartition(";")[2]
        default = LIGHT if background in LIGHT_BACKGROUNDS else DARK
        theme, keys = self._known.get("theme"), self._known.get("keys")
        self.theme = theme if isinstance(theme, str) else default
        self.no_color = "NO_COLOR" in environ
        self.mouse = self._known.get("mouse") is not False
        named = keys.items() if isinstance(keys, dict) else ()
        self.keys = {str(name): key for name, key in named if isinstance(key, str) and key}

    def _read(self) -> dict[str, Any]:
        try:
            data = read_bounded(self._path, MAX_BYTES)
            known = json.loads(data) if data else {}
        except (OSError, ValueError, ConfigError, RecursionError) as error:
            self.problem = f"{self._path.name} cannot be used: {error}"
            return {}
        if not isinstance(known, dict):
            self.problem = f"{self._path.name} must be a JSON object."
            return {}
        return known

    def keep_theme(self, name: str) -> None:
        """Keep the theme; without effect where the file cannot be written, or is damaged."""
        if self.problem or name == self._known.get("theme", self.theme):
            return
        self._known["theme"] = name
        try:
            write_private(self._path, json.dumps(self._known, indent=2).encode() + b"\n")
        except OSError:
            return
