"""What the headers of a call ask for."""

from __future__ import annotations

import pytest

from jaato.protocol.arp import InvalidShape
from jaato.server.registry.requests import parse_preferences


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("text/event-stream", "sse"),
        ("TEXT/Event-Stream;charset=utf-8", "sse"),
        ("application/x-ndjson, text/event-stream;q=0.9", "ndjson"),
        ("text/event-stream;q=0.5, application/x-ndjson;q=0.6", "ndjson"),
        ("application/json, text/event-stream", None),
        ("application/json;q=0.5, text/event-stream", "sse"),
        ("text/event-stream, */*", "sse"),
        ("text/event-stream;q=0.5, */*", None),
        ("text/event-stream;q=0", None),
        ("text/event-stream;q=nonsense", None),
        ("*/*", None),
        ("text/*", None),
        ("", None),
        (", ;q=1,,", None),
    ],
)
def test_the_form_is_what_the_client_likes_best(accept: str, form: str | None) -> None:
    """`Accept` is read with its qualities; only who names a stream has one, and not where JSON is liked as well."""
    assert parse_preferences([(b"accept", accept.encode())]).form == form


def test_other_wishes_are_read_as_they_are_written() -> None:
    """A key is a string with or without quotes; `Prefer` says how long to wait."""
    for given, key in ((b'"a b"', "a b"), (b"a-b", "a-b"), (b" 0f ", "0f")):
        assert parse_preferences([(b"idempotency-key", given)]).key == key
    for bad in (b"", b'""', b'"a', b"a b", b"x" * 256, b"\xff", b"a,b", b'"a"; x=1'):
        with pytest.raises(InvalidShape, match="Idempotency-Key"):
            parse_preferences([(b"idempotency-key", bad)])
    with pytest.raises(InvalidShape, match="Idempotency-Key"):
        parse_preferences([(b"idempotency-key", b"a"), (b"idempotency-key", b"a")])
    for given, wait_s in ((b"wait=5", 5.0), (b'respond-async, Wait = "7"; x=1', 7.0), (b"wait=-1", None)):
        assert parse_preferences([(b"prefer", given)]).wait_s == wait_s
