"""Reading calls in both OpenAI dialects, however servers cut, number and end them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.providers.reading import STOP, chat, delta, last, piece, responses

from jaato.abc.provider import CallDelta
from jaato.providers.wire_encoding import read_arguments


@pytest.mark.parametrize(
    "pieces",
    [
        [piece('{"a":', "run", id="x"), piece("1}"), piece('{"b":2}', "glob", id="y")],
        [piece('{"a":', "run"), piece("1}"), piece('{"b":2}', "glob")],
        [
            piece('{"a":', "run", index=0, id=""),
            piece("1}", index=0),
            piece('{"b":2}', "glob", index=1, id=7),
        ],
        [piece('{"a":', "run", index=3, id="x"), piece("1}", index=3), piece('{"b":2}', "glob", index=5)],
        [piece({"a": 1}, "run", index=0), piece({"b": 2}, "glob", index=1)],
        [
            piece('{"a":', "run", id="x"),
            piece('{"b":', "glob", id="y"),
            piece("1}", id="x"),
            piece("2}", id="y"),
        ],
        [piece('{"a":1}', "run", index=0, id="same"), piece('{"b":2}', "glob", index=1, id="same")],
    ],
)
def test_calls_however_they_are_cut(pieces: list[Any]) -> None:
    """Two calls stay two, with their own arguments, however the server numbers and names their pieces."""
    chunks = chat(*pieces, STOP)
    calls = last(chunks).message.function_calls
    assert [(call.name, call.arguments) for call in calls] == [("run", {"a": 1}), ("glob", {"b": 2})]
    assert len({call.call_id for call in calls}) == 2
    provider_ids = [call.provider_id for call in calls if call.provider_id]
    assert len(set(provider_ids)) == len(provider_ids)
    shown = [chunk for chunk in chunks if isinstance(chunk, CallDelta)]
    assert {chunk.index for chunk in shown} == {0, 1}


@pytest.mark.parametrize(
    ("text", "arguments", "malformed"),
    [
        ("", {}, None),
        ("  ", {}, None),
        ("null", {}, None),
        ('{"a": 1}', {"a": 1}, None),
        ("[1]", {}, "[1]"),
        ('"text"', {}, '"text"'),
        ('{"a": 1', {}, '{"a": 1'),
        ('{"a": NaN}', {}, '{"a": NaN}'),
        ('{"a": 1} extra', {}, '{"a": 1} extra'),
        ('{"a": "\\ud800"}', {}, '{"a": "\\ud800"}'),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, {}, '{"a":' * 100_000 + "1" + "}" * 100_000),
    ],
)
def test_arguments(text: str, arguments: dict[str, Any], malformed: str | None) -> None:
    """Arguments are a JSON object or kept as the text they are; no text means none."""
    assert read_arguments(text) == (arguments, malformed)


ANNOUNCED = {
    "type": "response.output_item.added",
    "item": {"type": "function_call", "call_id": "x", "name": "run", "arguments": ""},
}


def test_a_call_cut_before_its_arguments_is_no_call_without_any() -> None:
    """A call that the limit cut before a word of its arguments came is malformed, so that it does not run without them."""
    incomplete = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    cut = responses(ANNOUNCED, {"type": "response.incomplete", "response": incomplete})
    for reply in (cut, last(chat(piece(name="run", index=0), delta("length")))):
        (call,) = reply.message.function_calls
        assert (call.arguments, call.malformed, reply.finish_reason) == ({}, "", "length")
    (whole,) = last(chat(piece(name="run", index=0), delta("tool_calls"))).message.function_calls
    assert (whole.arguments, whole.malformed) == ({}, None)


def test_arguments_that_came_only_with_their_own_end() -> None:
    """Responses: a server that ends arguments without having streamed them, or the item, has said them all the same."""
    done = {"type": "response.function_call_arguments.done", "arguments": '{"a":1}'}
    reply = responses(ANNOUNCED, done, {"type": "response.completed", "response": {"status": "completed"}})
    assert reply.message.function_calls[0].arguments == {"a": 1}
