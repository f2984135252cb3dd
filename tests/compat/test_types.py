"""The documented types build, and recognise, the messages everything else works with."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from jaato.protocol import messages
from jaato.protocol.codec import decode_message, encode
from jaato.protocol.messages import Media, Message, Refusal, Text, Thinking, ToolCall
from jaato.runtime.embedding.types import FinishReason, FunctionCall, Part, Role, SourceType, ToolResult


@pytest.mark.spec("S3", "Provider-Agnostic Types")
def test_a_message_of_parts_has_text_and_function_calls() -> None:
    """A message built from the documented names gives its text and its calls, and their documented fields."""
    fc = FunctionCall(id="c1", name="greet", args={"name": "Al"})
    message = Message(
        role=Role.ASSISTANT, parts=[Part(text="Hello, "), Part(text="you"), Part(function_call=fc)]
    )
    assert message.text == "Hello, you"
    [found] = message.function_calls
    assert (found.id, found.name, found.args) == ("c1", "greet", {"name": "Al"})
    assert message.role == "assistant"


@pytest.mark.spec("S3", "Provider-Agnostic Types")
def test_a_tool_result_has_its_documented_fields() -> None:
    """Data, text and errors are given back as they were put in."""
    for value, error in [({"sum": 3}, False), ("three", False), ([1, 2], False), ("no such file", True)]:
        result = ToolResult(call_id="c1", name="add", result=value, is_error=error)
        assert (result.call_id, result.name, result.result, result.is_error) == ("c1", "add", value, error)
    failed = ToolResult(call_id="c1", name="add", result={"error": "no such file"}, is_error=True)
    assert failed.result == "no such file"
    assert ToolResult("c1", "add").result == ""


def test_there_is_one_set_of_types() -> None:
    """What the documented names build are the protocol's own records; they compare, match and travel as those."""
    assert Part(text="x") == Text("x")
    assert FunctionCall("c1", "n", {"a": 1}) == ToolCall("c1", "n", {"a": 1})
    assert isinstance(ToolCall("c1", "n", {}), FunctionCall)
    assert isinstance(messages.ToolResult("c1", "n", True), ToolResult)
    assert isinstance(Thinking("hm"), Part)
    assert not isinstance("text", Part)
    assert not isinstance(Text("x"), FunctionCall)
    message = Message(role=Role.TOOL, parts=[Part(function_response=ToolResult("c1", "n", "ok"))])
    assert decode_message(encode(message)) == message


def test_every_part_answers_to_every_documented_field() -> None:
    """Code that asks a part for `text`, `function_call` and `function_response` gets None where it does not apply."""
    call, result = FunctionCall("c1", "n"), ToolResult("c1", "n", "ok")
    assert (call.text, call.function_call, call.function_response) == (None, call, None)
    assert (result.text, result.function_call, result.function_response) == (None, None, result)
    for part in (Text("x"), Thinking("x"), Refusal("x")):
        assert (part.text, part.function_call, part.function_response) == ("x", None, None)
    assert Media("image/png", "0" * 64).text is None


def test_a_part_is_one_thing() -> None:
    """None or two of its fields is a mistake that is told at once."""
    with pytest.raises(TypeError, match="one of text"):
        Part()  # type: ignore[call-overload]  # the mistake
    with pytest.raises(TypeError, match="one of text"):
        Part(text="x", function_call=FunctionCall("c1", "n"))  # type: ignore[call-overload]  # the mistake


def test_a_call_without_an_id_gets_one() -> None:
    """An empty id is replaced, so that its result can be told from another's."""
    first, second = FunctionCall("", "n"), FunctionCall("", "n")
    assert first.id != second.id
    assert first.args == {}


@pytest.mark.spec("S4", "10. Streaming with Cancellation Tokens")
def test_the_documented_enums_are_the_protocols_words() -> None:
    """Each enum has exactly the protocol's values, and compares to them; `CANCELLED` is "cancelled"."""
    assert {str(reason) for reason in FinishReason} == set(get_args(messages.FinishReason))
    roles: Any = Role
    assert {str(role) for role in roles} == set(get_args(messages.Role))
    assert {str(source) for source in SourceType} == set(get_args(messages.Source))
    assert FinishReason.CANCELLED == "cancelled"  # type: ignore[comparison-overlap]  # that they compare is the point
    assert roles.MODEL is roles.ASSISTANT
