"""Turns: any sequence of messages as an exchange in which each call has one answer."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from jaato.protocol.messages import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from jaato.providers.turns import CONTINUE, OMITTED, Conversation, WireCall, WireResult, WireTurn


def turns(*messages: Message) -> list[WireTurn]:
    """All turns of a conversation."""
    found = Conversation()
    assert found.follow(messages)
    return found.take() + found.tail()


def call(call_id: str, provider_id: str | None = None) -> ToolCall:
    return ToolCall(call_id, "run", {}, provider_id=provider_id)


def result(call_id: str, text: str = "done") -> ToolResult:
    return ToolResult(call_id, "run", ok=True, content=[Text(text)])


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    """What begins or ends with the model is framed by a word of the user."""
    assert [turn.role for turn in turns()] == ["user"]
    first, _, last = turns(Message("assistant", [Text("a")]))
    assert (first.pieces, last.pieces) == ([Text(OMITTED)], [Text(CONTINUE)])


def test_a_call_between_two_replies_is_answered_in_between() -> None:
    """A reply after an unanswered call begins a new turn, with the interruption said before it."""
    found = turns(Message("assistant", [call("c1")]), Message("assistant", [Text("b")]))
    assert [turn.role for turn in found] == ["user", "assistant", "user", "assistant", "user"]
    (answer,) = found[2].pieces
    assert isinstance(answer, WireResult)
    assert answer.result.error is not None
    assert answer.result.error.code == "interrupted"


def test_a_result_that_lost_its_call_becomes_text() -> None:
    """An orphaned or second result is told as text, its media with it."""
    picture = Media("image/png", "x")
    orphan = ToolResult("c9", "run", ok=True, content=[Text("old"), picture])
    found = turns(
        Message("assistant", [call("c1")]), Message("tool", [result("c1"), result("c1", "again"), orphan])
    )
    answer, again, old, media = found[-1].pieces
    assert isinstance(answer, WireResult)
    assert isinstance(again, Text)
    assert isinstance(old, Text)
    assert again.text.endswith("again")
    assert old.text.endswith("old")
    assert media is picture


def test_ids_on_the_wire_are_valid_and_never_twice() -> None:
    """A provider's id is used where every API takes it and it is new; otherwise one is derived from ours."""
    found = turns(
        Message("assistant", [call("c1", "call_0"), call("c2", "no/good"), call("c3")]),
        Message("assistant", [call("c1", "call_0"), call("c4", "call_0")]),
    )
    ids = [piece.wire_id for turn in found for piece in turn.pieces if isinstance(piece, WireCall)]
    assert ids == ["call_0", "c2", "c3", "c1", "c4"]
    again = turns(*[Message("assistant", [call("c1")])] * 3)
    ids = [piece.wire_id for turn in again for piece in turn.pieces if isinstance(piece, WireCall)]
    assert ids == ["c1", "c1-2", "c1-3"]


def test_what_ended_is_told_once_and_another_conversation_is_noticed() -> None:
    """Only new turns are taken; messages that do not continue those seen are refused."""
    found = Conversation()
    first, second = Message("user", [Text("a")]), Message("assistant", [Text("b")])
    assert found.follow([first])
    assert found.take() == []
    assert found.follow([first, second])
    assert [turn.role for turn in found.take()] == ["user"]
    assert found.take() == []
    assert not found.follow([second])
    assert not found.follow([Message("user", [Text("a")]), second])


def test_what_others_gave_for_themselves_stays_behind() -> None:
    """With a provider and a model named, foreign ids, opaque bytes and thoughts are dropped; the words stay."""
    opaque = Opaque("openai_chat", Raw(b"{}"))

    def kept(provider: str, model: str) -> list[object]:
        found = Conversation("mine", "m")
        parts: list[Part] = [
            Thinking("hm", opaque),
            Text("said", opaque),
            msgspec.structs.replace(call("c1", "x1"), opaque=opaque),
        ]
        assert found.follow(
            [Message("user", [Text("a")]), Message("assistant", parts, provider=provider, model=model)]
        )
        *thought, text, asked = found.tail()[0].pieces
        assert isinstance(text, Text)
        assert isinstance(asked, WireCall)
        return [
            len(thought),
            text.text,
            text.opaque is not None,
            asked.wire_id,
            asked.call.opaque is not None,
        ]

    assert kept("mine", "m") == [1, "said", True, "x1", True]
    assert kept("mine", "another") == [0, "said", True, "x1", True]
    assert kept("theirs", "m") == [0, "said", False, "c1", False]
