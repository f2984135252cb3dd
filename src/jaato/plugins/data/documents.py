"""JSON, JSON Lines, YAML and TOML documents: parsing, JMESPath queries, validation by JSON Schema.

Runs in a process of its own.
"""

from __future__ import annotations

import io
import json
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import date, time
from typing import IO, Any, Literal

from jaato.errors import ToolError
from jaato.tools.processes.sandbox_process import QueryTimer

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


def decode_text(file: IO[bytes], label: str) -> IO[str]:
    """A file as text. Raises `DocumentRefused` for one that is not UTF-8 or UTF-16 with a mark."""
    start = file.read(4)
    file.seek(0)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return io.TextIOWrapper(file, encoding="utf-16")
    if b"\0" in start:
        raise DocumentRefused(f"{label} is binary.")
    return io.TextIOWrapper(file, encoding="utf-8-sig")


def load_document(text: IO[str], kind: Format, label: str, size_bytes: int) -> Any:
    """The document. Raises `DocumentRefused`."""
    if size_bytes > WHOLE_BYTES:
        raise DocumentRefused(
            f"{label} has {size_bytes >> 20} MB; at most {WHOLE_BYTES >> 20} MB are read whole. For JSON Lines or a "
            "top-level array, each=true reads one item at a time and takes any size."
        )
    try:
        content = text.read()
    except UnicodeError as error:
        raise DocumentRefused(
            f"{label} is not UTF-8 text: {error}. Convert it, for instance with iconv."
        ) from None
    try:
        match kind:
            case "json":
                return json.loads(content, parse_constant=str)
            case "jsonl":
                return list(parse_lines(content, label))
            case "toml":
                import tomllib

                return to_json_value(tomllib.loads(content))
            case "yaml":
                return parse_yaml(content, label)
    except json.JSONDecodeError as error:
        hint = " It looks like JSON Lines: give format=jsonl." if error.msg == "Extra data" else ""
        place = f"line {error.lineno}, column {error.colno}"
        raise DocumentRefused(f"{label} is no JSON, at {place}: {error.msg}.{hint}") from None
    except ValueError as error:
        raise DocumentRefused(f"{label} is no {kind.upper()}: {str(error)[:300]}.") from None


def parse_yaml(content: str, label: str) -> Any:
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
    return to_json_value(found[0] if len(found) == 1 else found)


def to_json_value(value: Any) -> Any:
    """A value as JSON has it: keys are text, dates too, what is in order or a set is a list, bytes are base64.

    What aliases share stays shared.
    """
    done: dict[int, tuple[Any, Any]] = {}

    def convert(one: Any) -> Any:
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
                {json_key(key): convert(inner) for key, inner in one.items()}
                if isinstance(one, dict)
                else [convert(inner) for inner in (sorted(one, key=str) if isinstance(one, set) else one)]
            )
            done[id(one)] = (whole, one)  # which keeps its number from being used again
        return done[id(one)][0]

    return convert(value)


def json_key(key: Any) -> str:
    """The key of a mapping as text, spelled as JSON spells values."""
    if isinstance(key, bool | int | float | None):
        return json.dumps(key)
    return key if isinstance(key, str) else key.isoformat() if isinstance(key, date | time) else str(key)


def refuse_many(value: Any, label: str) -> None:
    """Raise `DocumentRefused` for what means too many values, as aliases of aliases do in a few lines."""
    values = [value]
    for current in values:  # level by level, for there are ever more to a level
        if isinstance(current, dict):
            values += current.values()
        elif isinstance(current, list | tuple):
            values += current
        if len(values) > MAX_VALUES:
            raise DocumentRefused(
                f"{label} means more than {MAX_VALUES:,} values, by its aliases. It is not read."
            )


def parse_lines(content: str, label: str) -> Iterator[Any]:
    """The values of JSON Lines. Raises `DocumentRefused`."""
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            try:
                yield json.loads(line, parse_constant=str)
            except ValueError as error:
                raise DocumentRefused(f"{label} has no JSON in line {number}: {str(error)[:200]}.") from None


def iterate_items(text: IO[str], kind: Format, label: str) -> Iterator[Any]:
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


MAX_RESULT_CHARS = 1_000_000
MAX_PROBLEMS = 50


class ExpressionRefused(ToolError):
    """The expression is wrong, or does not fit the data."""

    code = "expression_refused"


def query(request: dict[str, Any]) -> dict[str, Any]:
    """Evaluate an expression on a document, or on each of its items."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    timer = QueryTimer(request["query_s"])
    try:
        with timer:
            expression = jmespath.compile(request["expression"])
    except JMESPathError as error:
        raise expression_error(error) from None
    text, label, size = open_document(request["document"])
    kind = request["format"] or format_of(request["document"]["path"] or "")
    try:
        if request["each"]:
            return apply_to_items(expression, iterate_items(text, kind, label), request["max_items"], timer)
        document = load_document(text, kind, label, size)
        with timer:
            return truncate_value(apply_expression(expression, document), request["max_items"])
    except JMESPathError as error:
        raise expression_error(error) from None


def apply_expression(expression: Any, value: Any) -> Any:
    """Evaluate an expression. Raises `ExpressionRefused` for values of a type it cannot use."""
    from jmespath.exceptions import JMESPathError

    try:
        return expression.search(value)
    except JMESPathError:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, KeyError, IndexError) as error:
        raise ExpressionRefused(
            f"The expression meets values it cannot work with: {str(error)[:300]}. Choose the fitting ones first, such "
            "as [?type(a) == 'number'] | [?a > `10`]."
        ) from None


def expression_error(error: Exception) -> ExpressionRefused:
    """The error for an invalid expression."""
    text = " ".join(str(error).split())[:400]
    return ExpressionRefused(
        f"{text}. It is JMESPath: a.b[0], items[?price > `10`].name, length(@), keys(@)."
    )


def open_document(document: dict[str, Any]) -> tuple[IO[str], str, int]:
    """A document as text, how messages name it, and its size in bytes."""
    if document["fd"] is None:
        return io.StringIO(document["text"]), "The text", len(document["text"])
    label = repr(document["path"])
    file = os.fdopen(document["fd"], "rb")
    return decode_text(file, label), label, os.fstat(file.fileno()).st_size


def apply_to_items(
    expression: Any, given: Iterable[Any], max_items: int, timer: QueryTimer
) -> dict[str, Any]:
    """Evaluate the expression on each item; items without a result are left out."""
    found: list[Any] = []
    looked = size = 0
    for item in given:
        looked += 1
        with timer:
            value = apply_expression(expression, item)
        if value is None or value is False:
            continue
        if len(found) == max_items:
            return {
                "result": found,
                "items_read": looked,
                "more": True,
                "note": f"The first {max_items} that match.",
            }
        with timer:
            rendered, cut = fit_json(value, MAX_RESULT_CHARS - size)
        size += len(rendered)
        found.append(decode_result(rendered) if not cut else rendered)
        if size >= MAX_RESULT_CHARS or cut:
            return {
                "result": found,
                "items_read": looked,
                "more": True,
                "note": "Cut: ask for less of each item.",
            }
    return {"result": found, "items_read": looked}


def truncate_value(value: Any, max_items: int) -> dict[str, Any]:
    """A value, with the first items of a long list and of one that is too long as text the beginning."""
    result: dict[str, Any] = {}
    if isinstance(value, list) and len(value) > max_items:
        result = {
            "more": True,
            "note": f"{len(value)} items; the first {max_items} are shown. Slice such as [100:200].",
        }
        value = value[:max_items]
    rendered, cut = fit_json(value, MAX_RESULT_CHARS)
    if cut:
        shape = (
            f"{type(value).__name__} of {len(value)}"
            if isinstance(value, dict | list)
            else type(value).__name__
        )
        note = f"The value ({shape}) is too long; this is its beginning as text. Narrow the expression."
        return {"result": rendered, "more": True, "note": note}
    return {"result": decode_result(rendered), **result}


def fit_json(value: Any, room: int) -> tuple[str, bool]:
    """A value as JSON text of at most `room` characters, and whether it was cut."""
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder(default=str, check_circular=True).iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > room:
            return "".join(pieces)[:room], True
    return "".join(pieces), False


def decode_result(text: str) -> Any:
    """A value from its JSON text, the numbers JSON has no spelling for as text."""
    return json.loads(text, parse_constant=str)


def validate(request: dict[str, Any]) -> dict[str, Any]:
    """Whether a document fits a schema, with every problem and where it is."""
    from jaato.errors import PluginError
    from jaato.tools.schema import Validator

    text, label, size = open_document(request["document"])
    document = load_document(
        text, request["format"] or format_of(request["document"]["path"] or ""), label, size
    )
    schema_text, schema_label, schema_size = open_document(request["schema"])
    schema = load_document(schema_text, format_of(request["schema"]["path"] or ""), schema_label, schema_size)
    if not isinstance(schema, dict | bool):
        raise ExpressionRefused(f"{schema_label} is no JSON Schema: that is an object.")
    timer = QueryTimer(request["query_s"])
    try:
        with timer:
            validator = Validator(schema if isinstance(schema, dict) else ({} if schema else {"not": {}}))
    except PluginError as error:
        raise ExpressionRefused(
            f"{schema_label}: {' '.join(str(error).split())[:500]}. References to other files are not followed."
        ) from None
    instance = decode_result(json.dumps(document))
    with timer:
        issues = validator.issues(instance)
    result: dict[str, Any] = {"valid": not issues}
    if issues:
        result["problems"] = [
            {"path": path or "/", "message": message} for path, message in issues[:MAX_PROBLEMS]
        ]
    if len(issues) > MAX_PROBLEMS:
        result["more"] = len(issues) - MAX_PROBLEMS
    return result
