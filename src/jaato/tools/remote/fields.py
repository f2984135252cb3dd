"""Fields of an entry in the configuration of remote sources: checked names, headers, `${VAR}`, digests."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

import msgspec

from jaato.errors import ConfigError
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.codec import is_unicode
from jaato.tools.invisible_text import find_invisible, strings_in
from jaato.typed_decoding import convert

MAX_DEPTH = 32
VARIABLE = lazy_pattern(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""A variable of the user's environment, with what stands for it where it is not set."""
HEADER_NAME = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
HEADER_VALUE = lazy_pattern(r"[\t\x20-\x7e\x80-\xff]*")
RESERVED_HEADERS = frozenset(
    "accept accept-encoding connection content-encoding content-length content-type expect host idempotency-key "
    "if-none-match keep-alive te traceparent trailer transfer-encoding upgrade x-request-id".split()
)

S = TypeVar("S", bound=msgspec.Struct)
Scope = Literal["user", "workspace", "argument"]


class Malformed(Exception):
    """A file or an entry that cannot be used; the text says why and what to do."""


class JsonObject(dict[str, Any]):
    """A JSON object that remembers which of its keys came twice."""

    def __init__(self, pairs: Iterable[tuple[str, Any]] = ()) -> None:
        given = list(pairs)
        super().__init__(given)
        self.duplicates: set[str] = set()
        if len(self) < len(given):
            counts = Counter(name for name, _ in given)
            self.duplicates = {name for name, times in counts.items() if times > 1}


class SourceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One source as written, its `${VAR}` not filled in.

    `digest` is the SHA-256 of the entry and, where it is not the user's, of where it stands: an equal entry of another
    workspace is another source.
    """

    NOUN: ClassVar[str]
    SHORT: ClassVar[str]
    """The same in one word."""
    COMMAND: ClassVar[str]
    """The command for this kind of source, as in `jaato mcp`."""
    KEYS: ClassVar[tuple[str, ...]]
    """The table of a file in which entries stand; the first name is the one that is written."""
    LIMIT: ClassVar[int]
    """How many a file may have."""
    UNIQUE: ClassVar[bool] = False
    """Whether two whose tools could be taken for each other may not stand in one file."""
    LOCK: ClassVar[str]
    FILLED: ClassVar[tuple[str, ...]]
    """The fields in which variables are filled in."""

    name: str
    scope: Scope
    origin: Path
    digest: str
    url: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False

    @classmethod
    def parse(cls, name: str, entry: Any, scope: Scope, origin: Path) -> Self:
        """The source an entry describes. Raises `Malformed` saying what is wrong with it."""
        raise Malformed("is of no known kind")

    @property
    def marks(self) -> tuple[str, ...]:
        """How the names of its tools begin, as names are compared: of two sources none may begin with the other's."""
        return ()

    def texts(self) -> list[str]:
        """Every text of the entry that is used, names of variables and headers too."""
        return list(strings_in([getattr(self, field) for field in self.FILLED]))

    def variables(self) -> list[str]:
        """The names of the variables the entry takes from the user's environment, sorted."""
        return sorted({found[1] for text in self.texts() for found in VARIABLE.finditer(text)})

    def expand(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """The fields with every `${VAR}`, `${env:VAR}` and `${VAR:-default}` filled in, which is not expanded again. Only ever
        for a trusted source, since it hands over the user's secrets. Raises `ConfigError` for a variable that is not set."""

        def fill(value: Any, place: str) -> Any:
            match value:
                case str():
                    return VARIABLE.sub(lambda found: value_at(found, place), value)
                case list() | tuple():
                    return type(value)(fill(member, place) for member in value)
                case dict():
                    return {key: fill(member, f"{place}.{key}") for key, member in value.items()}
            return value

        def value_at(found: re.Match[str], place: str) -> str:
            known = value_of(found, environ)
            if known is None:
                raise ConfigError(
                    f"The {self.NOUN} {self.name!r} needs the variable {found[1]} ({place} in {self.origin}), which is "
                    f"not set. Set it, or write ${{{found[1]}:-default}}."
                )
            return known

        return {field: fill(getattr(self, field), field) for field in self.FILLED}


C = TypeVar("C", bound=SourceConfig)


def value_of(found: re.Match[str], environ: Mapping[str, str]) -> str | None:
    """What stands for a variable (`VARIABLE`); None where it is not set and has no default."""
    name, default = found[1], found[2]
    known = environ.get(name)
    return default if known is None or (known == "" and default is not None) else known


def check_name(name: str, limit: int) -> None:
    """Raise `Malformed` for a name that could not be shown or distinguished."""
    if not name.strip() or name != name.strip():
        raise Malformed("needs a name that is not blank and has no space around it")
    if len(name) > limit:
        raise Malformed(f"has a name of more than {limit} characters; shorten it")
    if find_invisible(name) or not name.isprintable():
        raise Malformed("has invisible characters in its name; write it without them")


def check_shape(entry: JsonObject) -> None:
    """Raise `Malformed` for keys that come twice, texts that are none, and what is absurdly big or deep."""
    waiting: list[tuple[Any, int]] = [(entry, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise Malformed(f"is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, JsonObject):
            if value.duplicates:
                raise Malformed(f"has the key {min(value.duplicates)[:80]!r} twice; remove one of the two")
            waiting += [(member, depth + 1) for member in value.values()]
        elif isinstance(value, list):
            waiting += [(member, depth + 1) for member in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise Malformed("holds NaN or Infinity, which is no number of JSON")
    for text in strings_in(entry):
        if "\0" in text or not is_unicode(text):
            raise Malformed("holds a NUL or half a character, which no command or address can have")


def check_visible(texts: Iterable[str], also: str = "") -> None:
    """Raise `Malformed` for invisible characters, and for those in `also`."""
    unseen = {char for text in texts for char in find_invisible(text)}
    unseen |= {f"U+{ord(char):04X}" for text in texts for char in also if char in text}
    if unseen:
        raise Malformed(
            f"holds invisible characters ({', '.join(sorted(unseen)[:5])}); write it without them"
        )


def check_header(name: str, value: str, reserved: frozenset[str] = RESERVED_HEADERS) -> str:
    """The value of a header that can be sent. Raises `Malformed`, also for a header that the connection itself needs."""
    if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
        raise Malformed(
            f"has a header {name[:80]!r} that cannot be sent; look for a line end or an odd character"
        )
    if name.lower() in reserved:
        raise Malformed(f"sets the header {name!r}, which belongs to the connection; remove it")
    return value


def convert_entry(values: Mapping[str, Any], kind: type[S]) -> S:
    """The fields of an entry that are there and not null. Raises `Malformed` saying which is wrong."""
    try:
        return convert({key: value for key, value in values.items() if value is not None}, kind)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at ")
        field = field.replace("$.", "").replace("`", '"')
        raise Malformed(f"has a wrong field{f' {field}' if field else ''}: {what[:200]}") from None


def digest_of(value: Any) -> str:
    """The SHA-256 of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def ascii_name(name: str) -> str:
    """A name with what no tool's name can have as `_`."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name)
