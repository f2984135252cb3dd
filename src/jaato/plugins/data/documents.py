"""Documents of JSON and its relatives: read whole, or one item at a time however large the file is.

Runs in a process of its own.
"""

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import date, time
from typing import IO, Any, Literal

from jaato.errors import ToolError

Format = Literal["json", "jsonl", "yaml", "toml"]
WHOLE_BYTES = 96 << 20
MAX_ITEM_CHARS = 32 << 20
MAX_VALUES = 3_000_000
CHUNK_CHARS = 1 << 20
SUFFIXES: dict[str, Format] = {
    ".json": "json",
    ".geojson": "json",
    ".ipynb": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
}


class DocumentRefused(ToolError):
    """The text is no such document, or too large to be read whole."""

    code = "document_refused"


def format_of(path: str) -> Format:
    """The format a file's name says; JSON when it says none."""
    name = path.lower()
    return next((known for suffix, known in SUFFIXES.items() if name.endswith(suffix)), "json")


def decoded(file: IO[bytes], label: str) -> IO[str]:
    """A file as text. Raises `DocumentRefused` for one that is not UTF-8 or UTF-16 with a mark."""
    start = file.read(4)
    file.seek(0)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return io.TextIOWrapper(file, encoding="utf-16")
    if b"\0" in start:
        raise DocumentRefused(f"{label} is binary.")
    return io.TextIOWrapper(file, encoding="utf-8-sig")


def whole(text: IO[str], kind: Format, label: str, size_bytes: int) -> Any:
    """The document. Raises `DocumentRefused`."""
    if size_bytes > WHOLE_BYTES:
        raise DocumentRefused(
            f"{label} has {size_bytes >> 20} MB; at most {WHOLE_BYTES >> 20} MB are read whole. For JSON Lines or a "
            "top-level array, each=true reads one item at a time and takes any size."
        )
    content = read(text, label)
    try:
        match kind:
            case "json":
                return json.loads(content, parse_constant=str)
            case "jsonl":
                return [parsed(line, number, label) for number, line in numbered(content.split("\n"))]
            case "toml":
                import tomllib

                return plain(tomllib.loads(content))
            case "yaml":
                return yaml_of(content, label)
    except json.JSONDecodeError as error:
        hint = " It looks like JSON Lines: give format=jsonl." if error.msg == "Extra data" else ""
        place = f"line {error.lineno}, column {error.colno}"
        raise DocumentRefused(f"{label} is no JSON, at {place}: {error.msg}.{hint}") from None
    except ValueError as error:
        raise DocumentRefused(f"{label} is no {kind.upper()}: {str(error)[:300]}.") from None


def read(text: IO[str], label: str) -> str:
    """All of a text. Raises `DocumentRefused`."""
    try:
        return text.read()
    except UnicodeError as error:
        raise DocumentRefused(
            f"{label} is not UTF-8 text: {error}. Convert it, for instance with iconv."
        ) from None


def yaml_of(content: str, label: str) -> Any:
    """A YAML document; several become a list. Raises `DocumentRefused`."""
    try:
        import yaml
    except ImportError:
        raise DocumentRefused("YAML needs PyYAML. Ask the user to run: pip install 'jaato[data]'.") from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found = list(yaml.load_all(content, Loader=loader))
    except yaml.YAMLError as error:
        raise DocumentRefused(f"{label} is no YAML: {' '.join(str(error).split())[:300]}.") from None
    refuse_many(found, label)
    return plain(found[0] if len(found) == 1 else found)


def plain(value: Any) -> Any:
    """A value as JSON has it: keys are text, dates too, what is in order or a set is a list, bytes are base64.

    What aliases share stays shared.
    """
    done: dict[int, tuple[Any, Any]] = {}

    def made(one: Any) -> Any:
        if isinstance(one, str | int | float | None):
            return one
        if isinstance(one, date | time):
            return one.isoformat()
        if isinstance(one, bytes):
            return b64encode(one).decode()
        if not isinstance(one, dict | list | tuple | set):
            return str(one)
        if id(one) not in done:
            whole = (
                {key_of(key): made(inner) for key, inner in one.items()}
                if isinstance(one, dict)
                else [made(inner) for inner in (sorted(one, key=str) if isinstance(one, set) else one)]
            )
            done[id(one)] = (whole, one)  # which keeps its number from being used again
        return done[id(one)][0]

    return made(value)


def key_of(key: Any) -> str:
    """The key of a mapping as text, spelled as JSON spells values."""
    if isinstance(key, bool | int | float | None):
        return json.dumps(key)
    return key if isinstance(key, str) else key.isoformat() if isinstance(key, date | time) else str(key)


def refuse_many(value: Any, label: str) -> None:
    """Raise `DocumentRefused` for what means too many values, as aliases of aliases do in a few lines."""
    left = MAX_VALUES
    waiting = [value]
    while waiting:
        current = waiting.pop()
        left -= 1
        if left < 0:
            raise DocumentRefused(
                f"{label} means more than {MAX_VALUES:,} values, by its aliases. It is not read."
            )
        if isinstance(current, dict):
            waiting += current.values()
        elif isinstance(current, list | tuple):
            waiting += current


def numbered(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def parsed(line: str, number: int, label: str) -> Any:
    """One line of JSON Lines. Raises `DocumentRefused`."""
    try:
        return json.loads(line, parse_constant=str)
    except ValueError as error:
        raise DocumentRefused(f"{label} has no JSON in line {number}: {str(error)[:200]}.") from None


def items(text: IO[str], kind: Format, label: str) -> Iterator[Any]:
    """The items of JSON Lines or of a top-level array, one at a time. Raises `DocumentRefused`."""
    if kind not in ("json", "jsonl"):
        raise DocumentRefused("each=true goes with JSON and JSON Lines. Leave it out.")
    scanner = Scanner(text, label)
    is_array = scanner.skip() == "["
    if not is_array and kind == "json" and scanner.skip() != "{":
        raise DocumentRefused(f"{label} is neither a JSON array nor JSON Lines. Leave each out.")
    if is_array:
        scanner.take("[")
        if scanner.skip() == "]":
            return
    while scanner.skip():
        yield scanner.item()
        if is_array and scanner.skip() == "]":
            return
        if is_array:
            scanner.take(",")
    if is_array:
        raise DocumentRefused(f"{label} ends in the middle of its array, after {scanner.count} items.")


class Scanner:
    """JSON values one after the other from a text of any length."""

    def __init__(self, text: IO[str], label: str) -> None:
        self._text = text
        self._label = label
        self._held = ""
        self._place = 0
        self._ended = False
        self._decoder = json.JSONDecoder(parse_constant=str)
        self.count = 0

    def more(self) -> bool:
        """Read on; False at the end."""
        try:
            piece = self._text.read(max(CHUNK_CHARS, len(self._held) - self._place))
        except UnicodeError as error:
            raise DocumentRefused(f"{self._label} is not UTF-8 text: {error}.") from None
        self._held = self._held[self._place :] + piece
        self._place = 0
        self._ended = not piece
        return bool(piece)

    def skip(self) -> str:
        """The next character that is not white space; nothing at the end."""
        while True:
            while self._place < len(self._held):
                character = self._held[self._place]
                if character not in " \t\r\n":
                    return character
                self._place += 1
            if not self.more():
                return ""

    def take(self, wanted: str) -> None:
        """Pass this character. Raises `DocumentRefused` when there is another."""
        found = self.skip()
        if found != wanted:
            raise DocumentRefused(
                f"{self._label}: after item {self.count} there is {found or 'the end'!r} where {wanted!r} should be."
            )
        self._place += 1

    def item(self) -> Any:
        """The next value."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self._held, self._place)
            except json.JSONDecodeError as error:
                if len(self._held) - self._place > MAX_ITEM_CHARS:
                    raise DocumentRefused(
                        f"{self._label}: item {self.count + 1} has more than {MAX_ITEM_CHARS >> 20} MB."
                    ) from None
                if self._ended or not self.more():
                    raise DocumentRefused(
                        f"{self._label}: item {self.count + 1} is no JSON: {error.msg}."
                    ) from None
                continue
            if end == len(self._held) and not self._ended and self.more():
                continue  # a number may go on
            self._place = end
            self.count += 1
            return value
