"""Reading answers of both OpenAI dialects: what servers do beyond the golden streams."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.reading import REQUEST, STOP, chat, delta, last, piece, responses, run

from jaato.abc.provider import Chunk, Reply, TextDelta, ThinkingDelta
from jaato.errors import ConnectionFault, MalformedReply, ProviderError
from jaato.protocol.messages import FinishReason, Refusal, Text, Thinking, ToolCall, Usage
from jaato.providers.anthropic.dialect import AnthropicDialect
from jaato.providers.google_genai.dialect import GeminiDialect
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses


@pytest.mark.parametrize(
    ("word", "called", "reason"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("tool_calls", True, "tool_calls"),
        ("tool_calls", False, "stop"),
        ("length", True, "length"),
        ("content_filter", False, "refusal"),
        ("eos", False, "stop"),
        ("something new", False, "unknown"),
    ],
)
def test_finish_reasons(word: str, called: bool, reason: FinishReason) -> None:
    """Servers differ in the word for the end; what was said decides between a stop and calls."""
    calls = [piece("{}", "run", index=0)] if called else []
    assert last(chat(*calls, delta(word))).finish_reason == reason


def test_usage_that_is_repeated_counts_once() -> None:
    """A server that sends growing counts in every chunk is believed at its last word."""
    counted = [
        delta(content="a") | {"usage": {"prompt_tokens": 5, "completion_tokens": number}}
        for number in (1, 2, 3)
    ]
    assert last(chat(*counted, STOP | {"usage": None})).usage == Usage(5, 3)
    assert last(chat(delta(content="a"), STOP)).usage is None


def test_usage_after_the_finish() -> None:
    """Counts that come after the finish reason, without choices, are in the reply."""
    usage = {
        "choices": [],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": None},
    }
    assert last(chat(STOP, usage, b"[DONE]")).usage == Usage(5, 1)


def test_nothing_comes_after_the_reply() -> None:
    """Whatever follows [DONE] is ignored; there is one reply."""
    chunks = chat(delta("stop", content="a"), b"[DONE]", delta(content="b"), b"[DONE]", b"{oops")
    assert [type(chunk) for chunk in chunks] == [TextDelta, Reply]


def test_done_without_a_finish_reason() -> None:
    """[DONE] ends an answer even when the server never said why; [DONE] alone is no answer."""
    assert last(chat(delta(content="a"), b"[DONE]")).finish_reason == "unknown"
    with pytest.raises(ConnectionFault):
        chat(b"[DONE]")


def test_other_choices_are_ignored() -> None:
    """Only the first of several alternative answers counts."""
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    assert last(chat(delta(content="yes"), other, STOP)).message.text == "yes"


def test_an_empty_answer() -> None:
    """A model that says nothing gives a reply without parts."""
    assert last(chat(delta(content=""), STOP)).message.parts == []


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"null",
        b"7",
        b"\xff\xfe",
        b'{"choices": [{"delta": {"content": "caf\xe9"}}]}',
        b'{"type": "response.output_text.delta", "delta": "caf\xe9"}',
        b'{"choices": [{"delta": {"content": 7}}]}',
        b'{"x":' * 100_000,
    ],
)
@pytest.mark.parametrize("dialect", [OpenAIChat(), OpenAIResponses()], ids=["chat", "responses"])
def test_what_is_no_event(dialect: OpenAIChat | OpenAIResponses, data: bytes) -> None:
    """Data that is no event of the dialect is `MalformedReply` with a bounded quotation."""
    with pytest.raises(MalformedReply) as caught:
        run(dialect.decoder(REQUEST), data)
    assert len(str(caught.value)) < 1_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "usage",
                    "error",
                    "type",
                    "item",
                    "response",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(st.lists(JSON | st.binary(max_size=20), max_size=4))
@pytest.mark.parametrize("dialect", [OpenAIChat(), OpenAIResponses()], ids=["chat", "responses"])
def test_any_nonsense_is_a_typed_error(dialect: OpenAIChat | OpenAIResponses, values: list[Any]) -> None:
    """Whatever a server sends, the outcome is a reply or a `ProviderError`."""
    try:
        outcome: Chunk | ProviderError = run(dialect.decoder(REQUEST), *values)[-1]
    except ProviderError as error:
        outcome = error
    assert isinstance(outcome, (Reply, ProviderError))
    assert isinstance(outcome, Reply) or len(str(outcome)) < 1_500


def test_items_only_in_the_completed_response() -> None:
    """Responses: a server that sends its items only at the end is understood."""
    item = {"type": "function_call", "call_id": "x", "name": "run", "arguments": '{"a":1}'}
    event = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
    reply = last(run(OpenAIResponses().decoder(REQUEST), event))
    (call,) = reply.message.parts
    assert isinstance(call, ToolCall)
    assert (call.provider_id, call.arguments, reply.finish_reason) == ("x", {"a": 1}, "tool_calls")


@pytest.mark.parametrize("streamed", [False, True])
def test_what_was_not_streamed_is_shown_at_the_end(streamed: bool) -> None:
    """Responses: text, refusal and thought that came whole are chunks as well, once; otherwise nobody would see them."""
    said = {"type": "message", "content": [{"type": "output_text", "text": "42"}]}
    refused = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    deltas: list[Any] = [
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "42"},
        {"type": "response.refusal.delta", "output_index": 2, "delta": "No."},
    ]
    done: list[Any] = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate((thought, said, refused))
    ]
    whole = {"status": "completed", "output": [thought, said, refused]}
    for events in (done, []):
        chunks = run(
            OpenAIResponses().decoder(REQUEST),
            *(deltas if streamed else []),
            *events,
            {"type": "response.completed", "response": whole},
        )
        assert chunks[:-1] == [ThinkingDelta("hm"), TextDelta("42"), TextDelta("No.")]
        assert last(chunks).message.parts == [Thinking("hm"), Text("42"), Refusal("No.")]


def test_the_name_of_the_event_stands_in_for_its_type() -> None:
    """Responses: an event whose data lacks its type is known by its name."""
    decoder = OpenAIResponses().decoder(REQUEST)
    assert decoder.feed("response.output_text.delta", b'{"delta": "a"}') == (TextDelta("a"),)
    done = b'{"response": {"status": "completed", "output": []}}'
    (reply,) = decoder.feed("response.completed", done)
    assert isinstance(reply, Reply)
    assert reply.message.parts == [Text("a")]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "refusal"), ("other", "unknown")],
)
def test_incomplete_responses(reason: str, finish: FinishReason) -> None:
    """Responses: why a response is incomplete is its reason to end."""
    response = {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": []}
    event = {"type": "response.incomplete", "response": response}
    assert last(run(OpenAIResponses().decoder(REQUEST), event)).finish_reason == finish


def test_tools_of_the_server_are_left_out() -> None:
    """Responses: items of tools that run at the server, which nobody asked for, are not calls of ours."""
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    event = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
    reply = last(run(OpenAIResponses().decoder(REQUEST), event))
    assert (reply.message.parts, reply.finish_reason) == ([], "stop")


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "content": "hello"},
        {"type": "message", "content": [{"type": "text", "text": "hello"}]},
        {"type": "function_call", "call_id": "x", "name": "run", "arguments": {"a": 1}},
    ],
)
def test_items_as_other_servers_write_them(item: dict[str, Any]) -> None:
    """Responses: text without its list or under its older name, and arguments as the object they are, are understood."""
    event = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
    message = responses(event).message
    assert message.text == "hello" or message.function_calls[0].arguments == {"a": 1}


@pytest.mark.parametrize("number", [12.0, "12", -1, 10**30, 1e300, True, None, [], {"a": 1}])
def test_counts_that_are_none_cost_nothing(number: Any) -> None:
    """A strange count of tokens never costs the answer: what can be no count is 0, and fits where counts are stored."""
    told = {"prompt_tokens": number, "completion_tokens": 3, "prompt_tokens_details": number}
    usage = last(chat(delta("stop", content="x"), {"choices": [], "usage": told})).usage
    assert usage == Usage(12 if number == 12.0 else 0, 3)
    made = {"input_tokens": number, "output_tokens": 3}
    event = {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": made}}
    assert responses(event).usage == usage
    start = {"type": "message_start", "message": {"usage": made}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": number}
    assert last(run(AnthropicDialect().decoder(REQUEST), start, stop)).usage == usage
    counted = {"promptTokenCount": number, "candidatesTokenCount": 3}
    answer = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": counted}
    assert last(run(GeminiDialect().decoder(REQUEST), answer)).usage == usage
