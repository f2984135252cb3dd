"""The codec: what goes out comes back, and what is not JSON is found before."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.strategies import COMMAND_TYPES, EVENT_TYPES, JSON, MESSAGES, values_of

from jaato.protocol.codec import (
    MAX_DEPTH,
    decode_command,
    decode_event,
    decode_message,
    encode,
    escape,
    is_unicode,
    json_problems,
)
from jaato.protocol.events import ToolCallStart

FEW = settings(max_examples=12, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_events_come_back_equal(kind: type[Any]) -> None:
    """Every event, whatever its fields hold, is the same event after encoding and decoding."""

    @FEW
    @given(values_of(kind))
    def check(event: Any) -> None:
        decoded = decode_event(encode(event))
        assert type(decoded) is kind
        assert decoded == event
        assert encode(decoded) == encode(event)

    check()


@pytest.mark.parametrize("kind", COMMAND_TYPES)
def test_commands_come_back_equal(kind: type[Any]) -> None:
    """Every command is the same command after encoding and decoding."""

    @FEW
    @given(values_of(kind))
    def check(command: Any) -> None:
        assert decode_command(encode(command)) == command

    check()


@FEW
@given(MESSAGES)
def test_messages_come_back_equal(message: Any) -> None:
    """Every message with all its parts is the same after encoding and decoding, opaque bytes included."""
    assert decode_message(encode(message)) == message
    assert encode(decode_message(encode(message))) == encode(message)


@FEW
@given(st.binary(max_size=200))
def test_garbage_is_a_decode_error(data: bytes) -> None:
    """No bytes make the decoder raise anything but the errors its callers expect."""
    for decode in (decode_event, decode_command, decode_message):
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            decode(data)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_unknown_fields_are_ignored(kind: type[Any]) -> None:
    """The wire only ever adds: an event with fields of a newer version is still understood."""

    @settings(FEW, max_examples=5)
    @given(values_of(kind), JSON)
    def check(event: Any, value: Any) -> None:
        newer = msgspec.json.decode(encode(event)) | {"from_the_future": value}
        assert decode_event(msgspec.json.encode(newer)) == event

    check()


@FEW
@given(JSON)
def test_json_has_no_problems(value: Any) -> None:
    """Plain JSON is never complained of, and comes back equal."""
    assert json_problems(value) == []
    assert msgspec.json.decode(encode(value)) == value


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"a": [1, {"b": math.nan}]}, "/a/1/b", "nan"),
        ([math.inf], "/0", "inf"),
        ((-math.inf,), "/0", "-inf"),
        ("\ud800", "", "lone surrogate"),
        ({"x": "ok\udfff"}, "/x", "lone surrogate"),
        ({"\ud800": 1}, "", "not Unicode"),
        ({1: 2}, "", "the key 1"),
        ({"a/b": {"c~d": object()}}, "/a~1b/c~0d", "object"),
        ([b"bytes"], "/0", "bytes"),
        ({"s": {1, 2}}, "/s", "set"),
        ([2**64], "/0", "64 bits"),
        ([-(2**63) - 1], "/0", "64 bits"),
        (nested(MAX_DEPTH + 1), "/0" * MAX_DEPTH, "nested deeper"),
        (nested(100_000 + 1), "/0" * MAX_DEPTH, "nested deeper"),
    ],
    ids=lambda value: None if not isinstance(value, str) else value[:12].encode("ascii", "replace").decode(),
)
def test_what_is_not_json_is_named_by_its_path(value: Any, path: str, words: str) -> None:
    """NaN, infinities, lone surrogates, foreign objects, huge integers and depth are found,
    each by its JSON Pointer.
    """
    ((found, reason),) = json_problems(value)
    assert found == path
    assert words in reason
    while isinstance(value, list) and value:  # freed level by level: the interpreter would recurse
        value = value[0]


def test_every_problem_is_found() -> None:
    """Not the first problem alone is reported, but all."""
    value = {"a": math.nan, "b": ["\ud800", 1, object()], "c": "fine"}
    assert [path for path, _ in json_problems(value)] == ["/a", "/b/0", "/b/2"]


def test_the_deepest_that_is_allowed() -> None:
    """A value of exactly the allowed depth has no problems and can be encoded and decoded in an event."""
    value = nested(MAX_DEPTH)
    assert json_problems(value) == []
    call = ToolCallStart(session_id="s", agent_id="a", seq=1, call_id="c", tool="t", arguments={"v": value})
    assert decode_event(encode(call)) == call


@FEW
@given(st.text(max_size=10), st.text(max_size=10))
def test_escaped_keys_stay_apart(one: str, other: str) -> None:
    """Two keys make the same pointer segment only when they are the same, and none holds a slash."""
    assert "/" not in escape(one)
    assert (escape(one) == escape(other)) == (one == other)


def test_is_unicode() -> None:
    """A pair of surrogates is not text either, a character beyond the first plane is."""
    assert is_unicode("é😀\x00")
    assert not is_unicode("\ud83d\ude00")
