"""What the Anthropic dialect makes of an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.providers.histories import nameless, play

from jaato.abc.provider import CallDelta, Chunk, Reply, TextDelta, ThinkingDelta
from jaato.errors import (
    ConnectionFault,
    InvalidRequest,
    MalformedReply,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.protocol.ids import is_id
from jaato.protocol.messages import Refusal, Text, Thinking, ToolCall, Usage
from jaato.providers.anthropic.stream import FINISH, MessagesDecoder

GOLDEN = Path(__file__).parent / "golden"


def decoder() -> MessagesDecoder:
    return MessagesDecoder("anthropic", "claude-x", {"mangled_1": "mcp:do it"})


def golden(name: str, step: int = 1 << 20) -> list[Chunk]:
    return play(decoder(), (GOLDEN / f"anthropic_{name}.sse").read_bytes(), step)


def events(*values: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (value["type"].encode(), msgspec.json.encode(value)) for value in values
    )


def test_thoughts_text_and_parallel_calls() -> None:
    """A whole answer: thoughts with their signature, text, two calls with the provider's ids, usage."""
    chunks = golden("thinking_parallel")
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    thought, hidden, text, one, two = reply.message.parts
    assert isinstance(thought, Thinking)
    assert thought.text == "Two files; read both — ü"
    assert thought.opaque is not None
    assert msgspec.json.decode(thought.opaque.data) == {
        "type": "thinking",
        "thinking": "Two files; read both — ü",
        "signature": "EqQBCgIYAhIM1gbcDa9GJwZA==",
    }
    assert isinstance(hidden, Thinking)
    assert hidden.opaque is not None
    assert bytes(hidden.opaque.data) == b'{"data":"EmwKAhgBEgy3va3pzix/LafPsn4a","type":"redacted_thinking"}'
    assert text == Text("I will read both files 🗂.")
    assert isinstance(one, ToolCall)
    assert isinstance(two, ToolCall)
    assert is_id(one.call_id, "c")
    assert (one.name, one.arguments, one.provider_id) == ("readFile", {"path": "a.txt"}, "toolu_01A")
    assert (two.name, two.arguments, two.provider_id) == ("get_environment", {}, "toolu_01B")
    assert reply.finish_reason == "tool_calls"
    assert reply.usage == Usage(2160, 87, 2000, 40, 31)
    assert (reply.message.model, reply.message.provider) == ("claude-opus-5-5", "anthropic")
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == text.text
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingDelta)) == thought.text
    deltas = [(chunk.index, chunk.name, chunk.arguments) for chunk in chunks if isinstance(chunk, CallDelta)]
    assert "".join(arguments for index, _, arguments in deltas if index == 0) == '{"path": "a.txt"}'
    assert deltas[-1] == (1, "get_environment", "")


@pytest.mark.parametrize("name", ["thinking_parallel", "refusal", "cut_call"])
def test_a_stream_cut_anywhere_is_the_same_or_a_fault(name: str) -> None:
    """Cut after any byte, the stream gives the whole reply or a fault; chopped into bytes it is the same."""
    stream = (GOLDEN / f"anthropic_{name}.sse").read_bytes()
    whole = nameless(golden(name)[-1])
    assert nameless(golden(name, step=1)[-1]) == whole
    ends = 0
    for end in range(len(stream)):
        try:
            assert nameless(play(decoder(), stream[:end])[-1]) == whole
            ends += 1
        except ConnectionFault:
            assert not ends  # once complete, always complete
    assert ends


def test_a_refusal_has_its_words() -> None:
    """A refused answer ends as a refusal and says why."""
    reply = golden("refusal")[-1]
    assert isinstance(reply, Reply)
    assert reply.message.parts == [Text("I"), Refusal("This could help an attack.")]
    assert reply.finish_reason == "refusal"
    assert reply.usage == Usage(30, 5)


def test_a_call_cut_by_the_limit_is_malformed() -> None:
    """Arguments that end in the middle are kept as the text they are; the call has none and cannot run."""
    reply = golden("cut_call")[-1]
    assert isinstance(reply, Reply)
    (call,) = reply.message.function_calls
    assert call.arguments == {}
    assert call.malformed == '{"path":"b.txt","content":"half of a lo'
    assert reply.finish_reason == "length"


START = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1}}}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}}
CLOSE = {"type": "content_block_stop", "index": 0}


def test_a_wire_name_is_ours_again() -> None:
    """A tool whose name had to change for the wire is called by its own name again."""
    block = {"type": "tool_use", "id": "t", "name": "mangled_1", "input": {"a": 1}}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    reply = play(decoder(), events(START, start, CLOSE, STOP))[-1]
    assert isinstance(reply, Reply)
    (call,) = reply.message.function_calls
    assert (call.name, call.arguments) == ("mcp:do it", {"a": 1})
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("tool_use", "unknown"),
        ("something_new", "unknown"),
    ],
)
def test_reasons_to_stop(reason: str, finish: str) -> None:
    """Every reason to stop has its finish reason; one that is not known is unknown."""
    stop = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}}
    reply = play(decoder(), events(START, TEXT, CLOSE, stop))[-1]
    assert isinstance(reply, Reply)
    assert reply.finish_reason == finish


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: {nonsense\n\n", MalformedReply),
        (b"data: 17\n\n", MalformedReply),
        (b"data: " + b"[" * 100_000 + b"\n\n", MalformedReply),
        (events(START, START), MalformedReply),
        (events(START, TEXT, TEXT), MalformedReply),
        (
            events(START, {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta"}}),
            MalformedReply,
        ),
        (events(START, TEXT, CLOSE, CLOSE), MalformedReply),
        (events({"type": "message", "content": []}), MalformedReply),
        (
            events(START, {"type": "error", "error": {"type": "overloaded_error", "message": "o"}}),
            ServerFault,
        ),
        (
            events(START, {"type": "error", "error": {"type": "rate_limit_error", "message": "o"}}),
            RateLimited,
        ),
        (
            events({"type": "error", "error": {"type": "invalid_request_error", "message": "o"}}),
            InvalidRequest,
        ),
        (events(START, {"type": "error", "error": {"type": "new_error", "message": "o"}}), ServerFault),
        (events(START, {"type": "brand_new"}, {"type": "ping"}), ConnectionFault),
        (b"", ConnectionFault),
    ],
)
def test_what_breaks_the_protocol_is_a_typed_fault(stream: bytes, expected: type[ProviderError]) -> None:
    """Nonsense, doubled or unannounced blocks and errors in the stream raise; they never make a reply."""
    with pytest.raises(ProviderError) as caught:
        play(decoder(), stream)
    assert type(caught.value) is expected


def test_new_kinds_of_blocks_are_passed_over() -> None:
    """A block of a kind not known yet does not disturb the rest."""
    new = {"type": "content_block_start", "index": 1, "content_block": {"type": "hologram", "x": [1]}}
    delta = {"type": "content_block_delta", "index": 1, "delta": {"type": "hologram_delta", "y": 2}}
    reply = play(decoder(), events(START, TEXT, CLOSE, new, delta, STOP, STOP))[-1]
    assert isinstance(reply, Reply)
    assert reply.message.parts == [Text("hi")]


def test_a_thought_cut_before_its_signature_cannot_go_back() -> None:
    """A thought that the limit cut is shown but carries nothing to give back, which the API would refuse."""
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 1}}
    reply = play(decoder(), events(START, start, delta, CLOSE, stop))[-1]
    assert isinstance(reply, Reply)
    assert reply.message.parts == [Thinking("hm")]
    assert reply.finish_reason == "length"


def test_every_published_reason_is_known() -> None:
    """Each reason to stop that the vendor's package names has a meaning here, so a new one is noticed."""
    from typing import get_args

    from anthropic.types import StopReason

    assert set(get_args(StopReason)) == set(FINISH)


def test_counts_are_running_totals() -> None:
    """A gateway that blanks a count at the end does not take back what it counted at the beginning."""
    start = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 90, "cache_read_input_tokens": 10}},
    }
    usage = {"input_tokens": 0, "output_tokens": 7, "cache_read_input_tokens": 0}
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    reply = play(decoder(), events(start, TEXT, CLOSE, stop))[-1]
    assert isinstance(reply, Reply)
    assert reply.usage == Usage(input_tokens=100, output_tokens=7, cached_input_tokens=10)


def test_a_whole_message_is_read_as_the_same_answer() -> None:
    """A gateway that answers with one document instead of a stream is understood: thoughts, text, calls, usage."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    call = {"type": "tool_use", "id": "t1", "name": "mangled_1", "input": {"a": 1}}
    body = {
        "type": "message",
        "model": "claude-x",
        "content": [thought, {"type": "text", "text": "Reading."}, call],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }
    *chunks, reply = decoder().feed("", msgspec.json.encode(body))
    assert chunks == [ThinkingDelta("hm"), TextDelta("Reading."), CallDelta(0, "mcp:do it", "")]
    assert isinstance(reply, Reply)
    kept, said, asked = reply.message.parts
    assert isinstance(kept, Thinking)
    assert kept.opaque is not None
    assert msgspec.json.decode(kept.opaque.data) == thought
    assert said == Text("Reading.")
    assert isinstance(asked, ToolCall)
    assert (asked.name, asked.arguments, asked.provider_id) == ("mcp:do it", {"a": 1}, "t1")
    assert (reply.finish_reason, reply.usage) == ("tool_calls", Usage(5, 7))
