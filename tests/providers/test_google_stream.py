"""What the Gemini dialect makes of an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.providers.histories import nameless, play

from jaato.abc.provider import CallDelta, Chunk, Reply, TextDelta, ThinkingDelta
from jaato.errors import (
    AuthenticationError,
    ConnectionFault,
    ContentRefused,
    InvalidRequest,
    MalformedReply,
    ProviderError,
    ServerFault,
)
from jaato.protocol.messages import Refusal, Text, Thinking, ToolCall, Usage
from jaato.providers.google_genai.stream import FINISH, MALFORMED, REFUSED, ContentDecoder

GOLDEN = Path(__file__).parent / "golden"


def decoder() -> ContentDecoder:
    return ContentDecoder("google_genai", "gemini-x", {"mangled_1": "mcp:do it"})


def golden(name: str, step: int = 1 << 20) -> list[Chunk]:
    return play(decoder(), (GOLDEN / f"gemini_{name}.sse").read_bytes(), step)


def answers(*values: Any) -> bytes:
    return b"".join(b"data: %s\r\n\r\n" % msgspec.json.encode(value) for value in values)


def candidate(*parts: Any, reason: str | None = None, **more: Any) -> Any:
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": reason, **more}]
    }


def test_thoughts_text_and_parallel_calls() -> None:
    """A whole answer: thoughts, text, two calls, signatures on the parts they came with, usage, reason."""
    chunks = golden("thinking_parallel")
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    thought, text, one, two, end = reply.message.parts
    assert thought == Thinking("**Reading** the files — ü")
    assert text == Text("I will read both 🗂.")
    assert isinstance(one, ToolCall)
    assert isinstance(two, ToolCall)
    assert (one.name, one.arguments, one.provider_id) == ("readFile", {"path": "a.txt"}, "fc1")
    assert one.opaque is not None
    assert bytes(one.opaque.data) == b'"CpcBAdHtim8x"'
    assert (two.name, two.arguments, two.provider_id, two.opaque) == ("get_environment", {}, None, None)
    assert isinstance(end, Text)
    assert end.opaque is not None
    assert reply.finish_reason == "tool_calls"
    assert reply.usage == Usage(900, 71, 700, 0, 31)
    assert reply.message.model == "gemini-3.1-pro"
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == text.text
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingDelta)) == thought.text
    calls = [(chunk.index, chunk.name, chunk.arguments) for chunk in chunks if isinstance(chunk, CallDelta)]
    assert calls == [(0, "readFile", '{"path":"a.txt"}'), (1, "get_environment", "{}")]


@pytest.mark.parametrize("name", ["thinking_parallel", "safety"])
def test_a_stream_cut_anywhere_is_the_same_or_a_fault(name: str) -> None:
    """Cut after any byte, the stream gives the whole reply or a fault; chopped into bytes it is the same."""
    stream = (GOLDEN / f"gemini_{name}.sse").read_bytes()
    whole = nameless(golden(name)[-1])
    assert nameless(golden(name, step=1)[-1]) == whole
    for end in range(len(stream)):
        with pytest.raises(ConnectionFault):
            play(decoder(), stream[:end])
    assert nameless(play(decoder(), stream)[-1]) == whole


def test_a_filter_ends_the_answer_as_a_refusal() -> None:
    """What was said before the filter stays, and the refusal names it."""
    reply = golden("safety")[-1]
    assert isinstance(reply, Reply)
    said, refusal = reply.message.parts
    assert said == Text("Here is")
    assert isinstance(refusal, Refusal)
    assert "SAFETY" in refusal.text
    assert reply.finish_reason == "refusal"


def test_a_blocked_request_is_refused() -> None:
    """A request that a filter blocked raises, and is not worth a retry."""
    with pytest.raises(ContentRefused, match="PROHIBITED_CONTENT") as caught:
        golden("blocked")
    assert not caught.value.retryable


def test_a_json_array_is_read_as_the_same_answer() -> None:
    """A server that answers with one array of all events is understood."""
    body = msgspec.json.encode([candidate({"text": "a"}), candidate({"text": "b"}, reason="STOP")])
    read = decoder()
    read.feed("", body)
    (reply,) = read.end()
    assert isinstance(reply, Reply)
    assert reply.message.parts == [Text("ab")]


def test_a_wire_name_is_ours_again() -> None:
    """A tool whose name had to change for the wire is called by its own name again."""
    call = {"functionCall": {"name": "mangled_1", "args": {"a": 1}}}
    reply = play(decoder(), answers(candidate(call, reason="STOP")))[-1]
    assert isinstance(reply, Reply)
    assert reply.message.function_calls[0].name == "mcp:do it"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("RECITATION", "refusal"),
        ("ESCALATION", "refusal"),
        ("CONTINUATION", "length"),
        ("OTHER", "unknown"),
        ("NEW", "unknown"),
    ],
)
def test_reasons_to_finish(reason: str, finish: str) -> None:
    """Every reason to finish has its own; one that is not known is unknown."""
    reply = play(decoder(), answers(candidate({"text": "x"}, reason=reason)))[-1]
    assert isinstance(reply, Reply)
    assert reply.finish_reason == finish


KEY = {"error": {"code": 400, "message": "API key expired", "status": "INVALID_ARGUMENT"}}


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: {nonsense\n\n", MalformedReply),
        (b"data: 17\n\n", MalformedReply),
        (b"data: " + b"[" * 100_000 + b"\n\n", MalformedReply),
        (answers(candidate(reason="MALFORMED_FUNCTION_CALL", finishMessage="print(x)")), MalformedReply),
        (answers(candidate({"text": "x"}, reason="MALFORMED_RESPONSE")), MalformedReply),
        (answers(candidate(reason="MISSING_THOUGHT_SIGNATURE")), InvalidRequest),
        (
            answers(
                candidate({"text": "a"}), {"error": {"code": 503, "message": "o", "status": "UNAVAILABLE"}}
            ),
            ServerFault,
        ),
        (answers(candidate(reason="PUP_LIMITED_DISABLED")), ProviderError),
        (answers(KEY), AuthenticationError),
        (answers(candidate({"text": "a"})), ConnectionFault),
        (b"", ConnectionFault),
    ],
)
def test_what_breaks_the_protocol_is_a_typed_fault(stream: bytes, expected: type[ProviderError]) -> None:
    """Nonsense, calls the model could not write and errors in the stream raise; they never make a reply."""
    with pytest.raises(ProviderError) as caught:
        play(decoder(), stream)
    assert type(caught.value) is expected


def test_arguments_that_are_no_object_are_malformed() -> None:
    """A call whose arguments are no JSON object keeps them as text and has none."""
    call = {"functionCall": {"name": "x", "args": [1]}}
    reply = play(
        decoder(), answers(candidate(call, {"functionCall": {"name": "y", "args": None}}, reason="STOP"))
    )[-1]
    assert isinstance(reply, Reply)
    one, two = reply.message.function_calls
    assert (one.arguments, one.malformed) == ({}, "[1]")
    assert (two.arguments, two.malformed) == ({}, None)


def test_every_published_reason_is_known() -> None:
    """Each reason to finish that the vendor's package names has a meaning here, so a new one is noticed."""
    from google.genai.types import FinishReason

    vague = {"FINISH_REASON_UNSPECIFIED", "OTHER", "IMAGE_OTHER", "NO_IMAGE"}
    known = {*FINISH, *REFUSED, *MALFORMED, "MISSING_THOUGHT_SIGNATURE", "PUP_LIMITED_DISABLED"}
    assert {reason.value for reason in FinishReason} - known == vague
