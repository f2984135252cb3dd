"""Trust in remote sources and pins of their tools: which may be used, and whether a definition has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from jaato.errors import ConfigError
from jaato.tools.filesystem.atomic import read_bounded
from jaato.tools.invisible_text import escape_all
from jaato.tools.network.proxy_settings import is_loopback
from jaato.tools.permissions.trust import Trust
from jaato.tools.remote.fields import C, SourceConfig
from jaato.tools.schema import depth_within
from jaato.typed_decoding import decode_json

MAX_FILE_BYTES = 33_554_432
MAX_DIFF_LINES = 400
MAX_LINE_CHARS = 2_000

P = TypeVar("P", bound=msgspec.Struct)


def read_pins(path: Path, kind: type[P], version: str, current: int, noun: str) -> P:
    """The pins in a file; none where there is none. Raises `ConfigError` for a damaged file, and for one in whose field
    `version` is not the `current` one."""
    content = read_bounded(path, MAX_FILE_BYTES)
    if content is None:
        return kind()
    try:
        known = decode_json(content, kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        known = None
    if known is None or getattr(known, version) != current:
        raise ConfigError(
            f"{path} is damaged or of another version, so changed tools of this {noun} cannot be recognized. Remove it "
            "to accept the tools as they are now."
        )
    return known


def render_diff(before: dict[str, Any], after: dict[str, Any], was: str) -> str:
    """A unified diff of two definitions in which every character is seen."""
    import difflib  # few definitions change

    lines = difflib.unified_diff(text_lines(before), text_lines(after), was, "now", lineterm="", n=2)
    shown = [
        escape_all(line)[:MAX_LINE_CHARS] for line, _ in zip(lines, range(MAX_DIFF_LINES + 1), strict=False)
    ]
    if len(shown) > MAX_DIFF_LINES:
        shown[MAX_DIFF_LINES:] = ["… the rest is not shown"]
    return "\n".join(shown)


def text_lines(definition: dict[str, Any]) -> list[str]:
    """A definition as lines: texts as they read, schemas as JSON."""
    lines: list[str] = []
    for key, value in definition.items():
        if isinstance(value, str):
            text = value.split("\n")
            lines += [f"{key}: {text[0]}", *(f"  {line}" for line in text[1:])]
        elif depth_within(value, 100):
            lines += f"{key}: {json.dumps(value, indent=2, ensure_ascii=False)}".split("\n")
    return lines


PLAIN_HTTP = "plain http: everybody on the way can read and change what is sent"


class SourceTrust(Generic[C]):
    """The user's trust in sources that a workspace names, kept with the other trust of `state_dir`, or as a session has it."""

    def __init__(self, state_dir: Path, trust: Trust | None = None) -> None:
        self.store = trust or Trust(state_dir)

    def content(self, config: C) -> bytes:
        """All that trust in a source is bound to. Raises `ConfigError` when that cannot be read."""
        return f"{config.COMMAND} {config.digest}".encode()

    def describe(self, config: C) -> list[tuple[str, str]]:
        """What a person must see before trusting a source: what is reached, and what it is given."""
        names = config.variables()
        rows = [
            ("sends", f"{escape_all(name)}: {escape_all(value)}") for name, value in config.headers.items()
        ]
        rows += [("takes", f"from your environment: {', '.join(names)}")] if names else []
        return rows + [("note", text) for text in self.warnings(config)]

    def warnings(self, config: C) -> list[str]:
        """What a person could overlook in an entry: letters that look like others, plain http."""
        found = [text for text in map(odd_letters, config.texts()) if text]
        return [*found, PLAIN_HTTP] if is_plain_http(config.url) else found

    def holds(self, config: C) -> bool:
        """Whether this source may be used. Raises `ConfigError` for a damaged `trust.json`."""
        if config.scope != "workspace":
            return True
        try:
            content = self.content(config)
        except ConfigError:
            return False
        return self.store.trusts(trust_path(config), content)

    def add(self, config: C, *, seen: bytes | None = None) -> None:
        """Vouch for a source as it is, and, with `seen`, only if it is still what was shown. Raises `ConfigError`, OSError."""
        content = self.content(config)
        if seen is not None and content != seen:
            raise ConfigError(f"The {config.NOUN} {config.name!r} changed meanwhile; look at it again.")
        if config.scope == "workspace":
            self.store.add(trust_path(config), content)

    def remove(self, config: C) -> None:
        """Vouch for nothing of this name any more. Raises `ConfigError`, OSError."""
        self.store.remove(trust_path(config))


def trust_path(config: SourceConfig) -> Path:
    """Under what path `trust.json` has a source."""
    return Path(f"{config.origin}#{quote(config.name, safe=' ')}")


def refuse_untrusted(config: SourceConfig) -> str:
    """That a person has to look at a source first."""
    return (
        f"The {config.NOUN} {config.name!r} is named by {config.origin} and not trusted as it is now; look at it and "
        f"trust it with `jaato {config.COMMAND} trust {config.name}`."
    )


def odd_letters(text: str) -> str:
    """What a person could overlook in a text: letters that look like others; empty without."""
    import unicodedata

    odd = [char for char in text if not char.isascii() and char.isalpha()]
    named = ", ".join(f"{c} (U+{ord(c):04X} {unicodedata.name(c, '?').lower()})" for c in odd[:3])
    return f"{escape_all(text)[:80]!r} has letters that are not plain ASCII: {named}" if odd else ""


def is_plain_http(url: str) -> bool:
    """Whether what is sent to an address can be read on the way; not what stays on this machine."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and not is_loopback(parts.hostname or "")
    except ValueError:  # a variable stands where the host is
        return url.startswith("http:")
