"""Damaged answers of Anthropic and Gemini: whatever a server sends, a reply or a typed error comes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.providers.histories import play

from jaato.abc.provider import Reply
from jaato.errors import ProviderError
from jaato.providers.anthropic.stream import MessagesDecoder
from jaato.providers.dialect import Decoder
from jaato.providers.errors import status_error
from jaato.providers.google_genai.stream import ContentDecoder

GOLDEN = Path(__file__).parent / "golden"
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
STREAMS: dict[str, tuple[Callable[[], Decoder], bytes]] = {
    "anthropic": (
        lambda: MessagesDecoder("a", "m", {}),
        (GOLDEN / "anthropic_thinking_parallel.sse").read_bytes(),
    ),
    "gemini": (
        lambda: ContentDecoder("g", "m", {}),
        (GOLDEN / "gemini_thinking_parallel.sse").read_bytes(),
    ),
}
both = pytest.mark.parametrize("name", STREAMS)


def read(name: str, stream: bytes) -> None:
    """Play a stream: it ends in exactly one reply or in a typed error."""
    try:
        chunks = play(STREAMS[name][0](), stream)
    except ProviderError:
        return
    assert [isinstance(chunk, Reply) for chunk in chunks].count(True) == 1


@both
@QUICK
@given(data=st.data())
def test_damaged_bytes(name: str, data: st.DataObject) -> None:
    """Bytes changed, lost or doubled anywhere make a reply or a typed error, nothing else."""
    stream = bytearray(STREAMS[name][1])
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(stream) - 1))
        end = start + data.draw(st.integers(0, 40))
        match data.draw(st.sampled_from(["change", "lose", "double"])):
            case "change":
                stream[start : start + 1] = data.draw(st.binary(min_size=1, max_size=3))
            case "lose":
                del stream[start:end]
            case _:
                stream[start:start] = stream[start:end]
    read(name, bytes(stream))


@both
@QUICK
@given(data=st.data())
def test_damaged_values(name: str, data: st.DataObject) -> None:
    """Any value of any event may be of any other kind, and events may come in any order or twice."""
    events = [line[6:] for line in STREAMS[name][1].splitlines() if line.startswith(b"data: ")]
    order = data.draw(st.lists(st.integers(0, len(events) - 1), max_size=3))
    said = [msgspec.json.decode(events[index]) for index in [*order, *range(len(events))]]
    where: Any = said[data.draw(st.integers(0, len(said) - 1))]
    while isinstance(where, dict | list) and where:
        keys: list[Any] = list(where) if isinstance(where, dict) else list(range(len(where)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(where[key], dict | list) or data.draw(st.booleans()):
            where[key] = data.draw(json_values)
            break
        where = where[key]
    read(name, b"".join(b"data: %s\n\n" % msgspec.json.encode(event) for event in said))


@QUICK
@given(
    st.integers(400, 599),
    st.binary(max_size=60) | json_values.map(lambda v: msgspec.json.encode({"error": v})),
)
def test_any_error_body_is_a_typed_error(status: int, body: bytes) -> None:
    """Whatever an error answer holds, its status has an error with words in it."""
    error = status_error("anthropic", status, {"retry-after": "soon"}, body)
    assert isinstance(error, ProviderError)
    assert error.status == status
    assert str(error)


def test_an_error_in_another_encoding_is_shown_as_well_as_it_can_be() -> None:
    """An error whose text is not UTF-8 keeps its status and what can be read of it."""
    error = status_error("anthropic", 503, {}, b'{"error":{"message":"caf\xe9 closed"}}')
    assert error.retryable
    assert "closed" in str(error)
