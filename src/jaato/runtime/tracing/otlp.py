"""Spans as OTLP writes them in JSON, one document for any number of spans, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

import jaato
from jaato.runtime.tracing.spans import INTERNAL, MAX_NS, Span, Value

ERROR = 2


def document(spans: Sequence[Span], resource: Mapping[str, Value]) -> bytes:
    """A `TracesData` (which has the shape of an `ExportTraceServiceRequest`), without a line break. Spans that have not
    ended are left out. Raises `UnicodeEncodeError` for text that is none."""
    scope = {"name": "jaato", "version": jaato.__version__}
    made = [encoded(span) for span in spans if span.end_ns is not None]
    return msgspec.json.encode(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": attributes(resource)},
                    "scopeSpans": [{"scope": scope, "spans": made}],
                }
            ]
        }
    )


def encoded(span: Span) -> dict[str, Any]:
    """A span; 64-bit numbers are texts, as in all JSON of protocol buffers."""
    made: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id:
        made["parentSpanId"] = span.parent_id
    made |= {
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": attributes(span.attributes),
        "status": {"code": ERROR} if span.problem else {},
    }
    return made


def attributes(named: Mapping[str, Value]) -> list[dict[str, Any]]:
    """Attributes as a list of keys and typed values."""
    return [{"key": key, "value": typed(value)} for key, value in named.items()]


def typed(value: Value) -> dict[str, Any]:
    """A value that says what it is."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [typed(one) for one in value]}}
    return {"stringValue": value}


# --- reading ---------------------------------------------------------------------------------------------------------


def spans_in(line: bytes) -> Iterator[Span]:
    """The spans of one document, whoever wrote it; those that are none are left out. Raises `ValueError` for a line
    that is no such document."""
    try:
        found = msgspec.json.decode(line)
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None
    documents = listed(found, "resourceSpans")
    if not documents:
        raise ValueError("It has no resourceSpans.")
    for resource in documents:
        for scope in listed(resource, "scopeSpans"):
            for one in listed(scope, "spans"):
                span = read(one)
                if span is not None:
                    yield span


def listed(of: Any, key: str) -> list[Any]:
    """A list in an object; empty for anything else."""
    value = of.get(key) if isinstance(of, dict) else None
    return value if isinstance(value, list) else []


def read(one: Any) -> Span | None:
    """One span; None for what has no ids or times."""
    if not isinstance(one, dict):
        return None
    words = [one.get(key) for key in ("traceId", "spanId", "name")]
    start_ns, end_ns = (number(one.get(key)) for key in ("startTimeUnixNano", "endTimeUnixNano"))
    if not all(isinstance(word, str) and word for word in words) or start_ns is None or end_ns is None:
        return None
    parent, kind, status = one.get("parentSpanId"), one.get("kind"), one.get("status")
    known: dict[str, Value] = {}
    for pair in listed(one, "attributes"):
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            value = plain(pair.get("value"))
            if value is not None:
                known[pair["key"]] = value
    failed = isinstance(status, dict) and status.get("code") in (ERROR, "STATUS_CODE_ERROR")
    return Span(
        trace_id=str(words[0]),
        span_id=str(words[1]),
        parent_id=parent if isinstance(parent, str) else "",
        name=str(words[2]),
        kind=kind if isinstance(kind, int) else INTERNAL,
        start_ns=start_ns,
        end_ns=max(start_ns, end_ns),
        attributes=known,
        problem=str(known.get("error.type", "_OTHER")) if failed else "",
    )


def number(value: Any) -> int | None:
    """A time in nanoseconds, as a text or a number; None for what is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= MAX_NS else None


def plain(value: Any) -> Value | None:
    """An attribute's value; None for kinds that are not ours."""
    match value:
        case {"stringValue": str(text)}:
            return text
        case {"boolValue": bool(switch)}:
            return switch
        case {"intValue": str() | int() as count}:
            return number(count)
        case {"doubleValue": float() | int() as amount}:
            return float(amount)
        case {"arrayValue": {"values": list(values)}}:
            return [found for one in values if isinstance(found := plain(one), str)]
    return None
