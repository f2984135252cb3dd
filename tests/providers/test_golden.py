"""Golden streams of both dialects: what they mean, whole and cut at every byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from jaato.abc.provider import CallDelta, Chunk, ModelRequest, Reply, TextDelta, ThinkingDelta
from jaato.errors import ConnectionFault
from jaato.protocol.messages import Opaque, Part, Refusal, Text, Thinking, ToolCall, Usage
from jaato.providers.dialect import Decoder
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses
from jaato.providers.sse import SseParser

GOLDEN = Path(__file__).parent / "golden"
READ_A: tuple[str, dict[str, Any], str | None] = ("readFile", {"path": "a.py"}, None)
RUN_LS: tuple[str, dict[str, Any], str | None] = ("run", {"command": "ls"}, None)
CUT: tuple[str, dict[str, Any], str | None] = ("writeNewFile", {}, '{"path":"a","content":"lorem')
CONTENT = Opaque("openai_chat", Raw(b'"reasoning"'))
PHASE = Opaque("openai_responses", Raw(b'{"phase":"final_answer"}'))
THOUGHT = b'{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAAAB"}'
SUMMED = (
    b'{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"First."},'
    b'{"type":"summary_text","text":"Second."}],"encrypted_content":"gAAAAAB"}'
)

EXPECTED: dict[str, tuple[str, list[Any], Usage | None]] = {
    "chat_text": ("stop", [Text("Grüß Gott")], Usage(1200, 42, 1024, 0, 30)),
    "chat_parallel_calls": (
        "tool_calls",
        [Text("Reading both."), ("call_a", *READ_A), ("call_b", *RUN_LS)],
        None,
    ),
    "chat_calls_without_index": ("tool_calls", [("t1", *READ_A), ("t2", *RUN_LS)], None),
    "chat_calls_same_index": ("tool_calls", [("x1", *READ_A), ("x2", *RUN_LS)], None),
    "chat_call_pieces_repeat": ("tool_calls", [("r1", *READ_A), ("r2", *RUN_LS)], None),
    "chat_reasoning": ("stop", [Thinking("Let me think.", CONTENT), Text("42")], Usage(7, 3, 5)),
    "chat_typed_content": ("stop", [Thinking("Hm."), Text("42")], None),
    "chat_refusal": ("refusal", [Refusal("I cannot do that.")], None),
    "chat_cut_by_length": ("length", [("call_a", *CUT)], None),
    "responses_text": (
        "stop",
        [
            Thinking("First.\n\nSecond.", Opaque("openai_responses", Raw(SUMMED))),
            Text("Grüß Gott", PHASE),
        ],
        Usage(1200, 42, 1024, 100, 30),
    ),
    "responses_calls": (
        "tool_calls",
        [Thinking("", Opaque("openai_responses", Raw(THOUGHT))), ("call_a", *READ_A), ("call_b", *RUN_LS)],
        None,
    ),
    "responses_refusal": ("refusal", [Refusal("I cannot do that.")], None),
    "responses_incomplete": ("length", [("call_a", *CUT)], Usage(5, 6)),
}


def decoder(name: str) -> Decoder:
    """The decoder a golden stream is for."""
    dialect = OpenAIChat() if name.startswith("chat") else OpenAIResponses()
    return dialect.decoder(ModelRequest("m", []))


def decode(name: str, data: bytes) -> list[Chunk]:
    """Every chunk of a stream that ends where the data ends."""
    parser, reader = SseParser(), decoder(name)
    chunks = [chunk for event in parser.feed(data) for chunk in reader.feed(*event)]
    return [*chunks, *reader.end()]


def plain(part: Part) -> Any:
    """A part without the id that is new each time."""
    if isinstance(part, ToolCall):
        return (part.provider_id, part.name, part.arguments, part.malformed)
    return part


def split(chunks: list[Chunk]) -> tuple[list[Chunk], Reply]:
    """The deltas, and the reply, which comes last and once."""
    *deltas, reply = chunks
    assert isinstance(reply, Reply)
    assert not [chunk for chunk in deltas if isinstance(chunk, Reply)]
    return deltas, reply


def test_all_are_known() -> None:
    """Every golden stream has its expectation."""
    ours = [*GOLDEN.glob("chat_*.sse"), *GOLDEN.glob("responses_*.sse")]
    assert {path.stem for path in ours} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_meaning(name: str) -> None:
    """A golden stream means its parts, its reason to end and its usage; the deltas say the same."""
    finish, parts, usage = EXPECTED[name]
    deltas, reply = split(decode(name, (GOLDEN / f"{name}.sse").read_bytes()))
    assert [plain(part) for part in reply.message.parts] == parts
    assert (reply.finish_reason, reply.usage) == (finish, usage)
    assert (reply.message.role, reply.message.provider, reply.message.model) == ("assistant", "openai", "m")
    said = "".join([chunk.text for chunk in deltas if isinstance(chunk, TextDelta)])
    assert said == "".join([part.text for part in reply.message.parts if isinstance(part, (Text, Refusal))])
    thought = "".join([chunk.text for chunk in deltas if isinstance(chunk, ThinkingDelta)])
    assert thought == "".join([part.text for part in reply.message.parts if isinstance(part, Thinking)])
    calls = reply.message.function_calls
    for index, call in enumerate(calls):
        mine = [chunk for chunk in deltas if isinstance(chunk, CallDelta) and chunk.index == index]
        assert mine[-1].name == call.name
    assert len({call.call_id for call in calls}) == len(calls)


@pytest.mark.parametrize("name", EXPECTED)
def test_cut_at_every_byte(name: str) -> None:
    """A stream cut at any byte gives its first chunks and then `ConnectionFault`, or the whole message."""
    data = (GOLDEN / f"{name}.sse").read_bytes()
    deltas, reply = split(decode(name, data))
    for cut in range(len(data)):
        parser, reader = SseParser(), decoder(name)
        chunks = [chunk for event in parser.feed(data[:cut]) for chunk in reader.feed(*event)]
        try:
            chunks += reader.end()
        except ConnectionFault:
            assert chunks == deltas[: len(chunks)]
            continue
        found, last = split(chunks)
        assert found == deltas
        assert [plain(part) for part in last.message.parts] == [plain(part) for part in reply.message.parts]
        assert last.finish_reason == reply.finish_reason
