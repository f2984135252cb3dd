"""JMESPath expressions over documents, and documents against a JSON Schema.

Runs in a process of its own.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from typing import IO, Any

from jaato.errors import ToolError
from jaato.plugins.data.documents import decoded, format_of, items, whole
from jaato.tools.apart import QueryTimer

MAX_RESULT_CHARS = 1_000_000
MAX_PROBLEMS = 50


class ExpressionRefused(ToolError):
    """The expression is wrong, or does not fit the data."""

    code = "expression_refused"


def query(request: dict[str, Any]) -> dict[str, Any]:
    """What an expression finds in a document, or in each of its items."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    timer = QueryTimer(request["query_s"])
    try:
        with timer:
            expression = jmespath.compile(request["expression"])
    except JMESPathError as error:
        raise wrong(error) from None
    text, label, size = opened(request["document"])
    kind = request["format"] or format_of(request["document"]["path"] or "")
    try:
        if request["each"]:
            return each(expression, items(text, kind, label), request["max_items"], timer)
        document = whole(text, kind, label, size)
        with timer:
            return bounded(applied(expression, document), request["max_items"])
    except JMESPathError as error:
        raise wrong(error) from None


def applied(expression: Any, value: Any) -> Any:
    """What an expression finds. Raises `ExpressionRefused` where it meets values it cannot work with."""
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


def wrong(error: Exception) -> ExpressionRefused:
    """What is wrong with an expression."""
    text = " ".join(str(error).split())[:400]
    return ExpressionRefused(
        f"{text}. It is JMESPath: a.b[0], items[?price > `10`].name, length(@), keys(@)."
    )


def opened(document: dict[str, Any]) -> tuple[IO[str], str, int]:
    """A document as text, how messages name it, and its size in bytes."""
    if document["fd"] is None:
        return io.StringIO(document["text"]), "The text", len(document["text"])
    label = repr(document["path"])
    file = os.fdopen(document["fd"], "rb")
    return decoded(file, label), label, os.fstat(file.fileno()).st_size


def each(expression: Any, given: Iterable[Any], max_items: int, timer: QueryTimer) -> dict[str, Any]:
    """What the expression finds in each item; items in which it finds nothing are left out."""
    found: list[Any] = []
    looked = size = 0
    for item in given:
        looked += 1
        with timer:
            value = applied(expression, item)
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
            rendered, cut = fitting(value, MAX_RESULT_CHARS - size)
        size += len(rendered)
        found.append(carried(rendered) if not cut else rendered)
        if size >= MAX_RESULT_CHARS or cut:
            return {
                "result": found,
                "items_read": looked,
                "more": True,
                "note": "Cut: ask for less of each item.",
            }
    return {"result": found, "items_read": looked}


def bounded(value: Any, max_items: int) -> dict[str, Any]:
    """A value, with the first items of a long list and of one that is too long as text the beginning."""
    said: dict[str, Any] = {}
    if isinstance(value, list) and len(value) > max_items:
        said = {
            "more": True,
            "note": f"{len(value)} items; the first {max_items} are shown. Slice such as [100:200].",
        }
        value = value[:max_items]
    rendered, cut = fitting(value, MAX_RESULT_CHARS)
    if cut:
        shape = (
            f"{type(value).__name__} of {len(value)}"
            if isinstance(value, dict | list)
            else type(value).__name__
        )
        note = f"The value ({shape}) is too long; this is its beginning as text. Narrow the expression."
        return {"result": rendered, "more": True, "note": note}
    return {"result": carried(rendered), **said}


def fitting(value: Any, room: int) -> tuple[str, bool]:
    """A value as JSON text of at most `room` characters, and whether it was cut."""
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder(default=str, check_circular=True).iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > room:
            return "".join(pieces)[:room], True
    return "".join(pieces), False


def carried(text: str) -> Any:
    """A value from its JSON text, the numbers JSON has no spelling for as text."""
    return json.loads(text, parse_constant=str)


def validate(request: dict[str, Any]) -> dict[str, Any]:
    """Whether a document fits a schema, with every problem and where it is."""
    from jaato.errors import PluginError
    from jaato.tools.schema import Validator

    text, label, size = opened(request["document"])
    document = whole(text, request["format"] or format_of(request["document"]["path"] or ""), label, size)
    schema_text, schema_label, schema_size = opened(request["schema"])
    schema = whole(schema_text, format_of(request["schema"]["path"] or ""), schema_label, schema_size)
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
    instance = carried(json.dumps(document))
    with timer:
        issues = validator.issues(instance)
    said: dict[str, Any] = {"valid": not issues}
    if issues:
        said["problems"] = [
            {"path": path or "/", "message": message} for path, message in issues[:MAX_PROBLEMS]
        ]
    if len(issues) > MAX_PROBLEMS:
        said["more"] = len(issues) - MAX_PROBLEMS
    return said
