"""Message history in and out, and another model for one run."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit import call, calls, recorded, say
from tests.runtime.agents import agent

from jaato import Agent, ConfigError, Message
from jaato.abc.store import UsageQuery
from jaato.agent.history import history_events, parse_history
from jaato.agent.state import State
from jaato.protocol.events import MessageModel, ToolCallEnd, TurnCompleted
from jaato.protocol.messages import Media, Text, ToolCall, ToolResult
from jaato.protocol.usage import AgentBegan, ReplyUsed, TurnUsed
from jaato.providers.scripted import Answer, ScriptedProvider
from jaato.storage.sqlite import SqliteStore

TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "My name is Ada."},
    {"role": "assistant", "content": "Hello Ada."},
]


def asked(live: Agent, number: int = -1) -> list[Message]:
    """The messages of a request."""
    provider = live.provider
    assert isinstance(provider, ScriptedProvider)
    return list(provider.requests[number].messages)


def test_messages_go_out_as_json_and_into_another_agent(tmp_path: Path) -> None:
    """The other agent's model gets the same conversation, tool calls included; `json` reads what goes out."""

    def price(item: str) -> int:
        """The price."""
        return 3

    script: list[Answer] = [calls(("price", {"item": "tea"}), ("price", {"item": "honey"})), say("3 each")]
    first = agent(tmp_path, script, tools=[price]).run_sync("What do they cost?")
    text = first.messages_json()
    assert [entry["role"] for entry in json.loads(text)] == ["user", "assistant", "tool", "assistant"]
    for form in (text, text.encode(), json.loads(text), first.messages):
        other = agent(tmp_path, [*[say("unused")] * 2, say("Six.")], history=form)
        result = other.run_sync("And both?")
        assert result.text == "Six."
        assert result.session_id != first.session_id
        assert result.messages[:4] == first.messages
        assert [message.role for message in result.messages[4:]] == ["user", "assistant"]


def test_a_log_that_begins_with_a_history_is_a_log(tmp_path: Path) -> None:
    """The session is stored whole: resumed, it knows the conversation; the history cost nothing and is told as turns."""

    async def main() -> str:
        async with agent(tmp_path, [say("unused"), say("Ada.")], history=TALK) as live:
            result = await live.run("What is my name?")
            assert asked(live)[0].text == "My name is Ada."
            ended = [event for event in recorded(live.live) if isinstance(event, TurnCompleted)]
            assert (ended[0].reason, ended[0].cost_usd) == ("stop", 0.0)
            assert len(ended) == 2
            query = UsageQuery(session_id=result.session_id)
            used = [record for _, record in live.live.journal.store.usage.read(query)]
            assert [type(record) for record in used] == [AgentBegan, ReplyUsed, TurnUsed]
            return result.session_id

    session_id = anyio.run(main)
    again = agent(tmp_path, [*[say("unused")] * 2, say("Yes.")], session=session_id).run_sync("Sure?")
    assert [message.text for message in again.messages][:2] == ["My name is Ada.", "Hello Ada."]


def test_history_for_one_run_begins_a_new_conversation(tmp_path: Path) -> None:
    """What was said before is not in it; an unused session does not stay; the same messages again go on in the session."""

    async def main() -> None:
        script: list[Answer] = [say("unused"), say("one"), say("two"), say("three")]
        async with agent(tmp_path, script, name="mine") as live:
            unused = live.session_id
            first = await live.run("first", history=TALK)
            assert [message.text for message in asked(live)][:3] == ["My name is Ada.", "Hello Ada.", "first"]
            second = await live.run("second", history=first.messages)
            assert second.session_id == first.session_id
            third = await live.run("third", history=TALK)
            assert [message.text for message in asked(live)][:3] == ["My name is Ada.", "Hello Ada.", "third"]
            assert third.session_id != first.session_id
        store = SqliteStore(tmp_path / "state" / "jaato.db")
        try:
            stored = {row.id for row in store.sessions()}
        finally:
            store.close()
        assert stored == {first.session_id, third.session_id}
        assert unused not in stored

    anyio.run(main)


def test_an_empty_history_forgets(tmp_path: Path) -> None:
    """`history=[]` begins anew; without it the conversation goes on."""
    one = agent(tmp_path, [say("a"), say("b"), say("c")])
    assert len(one.run_sync("1").messages) == 2
    assert len(one.run_sync("2").messages) == 4
    assert len(one.run_sync("3", history=[]).messages) == 2


def test_calls_without_a_result_and_images_are_made_whole(tmp_path: Path) -> None:
    """A call that the history does not answer gets an error as its result; an image becomes a note."""
    image = Media("image/png", "0" * 64, 3, "chart.png")
    history = [
        Message("user", [Text("look"), image], id="m1"),
        Message("assistant", [ToolCall("c1", "a", {}), ToolCall("c2", "b", {})], id="m2"),
        Message("tool", [ToolResult("c2", "b", True, [image])], id="m3"),
        Message("user", [Text("well?")], id="m1"),
        Message("assistant", [ToolCall("c3", "a", {})]),
    ]

    async def main() -> None:
        async with agent(tmp_path, [say("unused"), say("unused"), say("done")], history=history) as live:
            await live.run("now")
            sent = asked(live)
            assert sent[0].parts[1] == Text("[chart.png is not part of this history]")
            answered: Any = [
                part for message in sent for part in message.parts if isinstance(part, ToolResult)
            ]
            assert [(result.call_id, result.ok) for result in answered] == [
                ("c1", False),
                ("c2", True),
                ("c3", False),
            ]
            assert len({message.id for message in sent}) == len(sent)
            kinds = [type(event) for event in recorded(live.live)]
            assert kinds.count(ToolCallEnd) == 3
            assert kinds.count(MessageModel) == 3

    anyio.run(main)


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ("{", "no JSON"),
        ({"role": "user"}, "a list of messages, not dict"),
        (7, "a list of messages, not int"),
        ([3], r"history\[0\]: Expected `object`"),
        ([*TALK, {"role": "system", "content": "x"}], r"history\[2\]: Invalid enum value 'system'"),
        ([{"role": "assistant", "tool_calls": []}], r"history\[0\]: .*`parts`.*its text as content"),
        ([Message("tool", [ToolResult("c1", "a", True)])], "no call before it has the id 'c1'"),
        ([Message("user", [ToolCall("c1", "a", {})])], "role user has no ToolCall"),
        ([Message("tool", [Text("x")])], "results and nothing else"),
        ([Message("user", [5])], r"history\[0\]: Expected `object`"),  # type: ignore[list-item]
        ([Message("user", "text")], r"history\[0\]: Expected `array`"),  # type: ignore[arg-type]
        ([Message("assistant", [ToolCall("c1", "a", {"at": object()})])], r"history\[0\]: .*object"),
        ([{"role": "user", "content": "\ud800"}], r"history\[0\]: .*surrogates"),
        ([Message("assistant", [ToolCall("c1", "a", {}), ToolCall("c1", "a", {})])], "two calls have the id"),
    ],
)
def test_a_history_that_is_none_is_refused(tmp_path: Path, history: Any, words: str) -> None:
    """The error names the message; nothing is lost, the conversation goes on without it."""
    one = agent(tmp_path, [say("a"), say("b")])
    one.run_sync("1")
    with pytest.raises(ConfigError, match=words):
        one.run_sync("2", history=history)
    assert len(one.run_sync("2").messages) == 4


def test_a_stored_session_takes_no_other_history(tmp_path: Path) -> None:
    """One or the other."""
    with pytest.raises(ConfigError, match="`session` or `history`"):
        agent(tmp_path, [], session="mine", history=TALK).run_sync("x")


def test_another_model_for_one_run(tmp_path: Path) -> None:
    """It answers this run, and the log says so; afterwards the agent's own answers again, also after an error."""

    async def main() -> None:
        script: list[Answer] = [say("a"), call("readFile", path="none"), say("b"), say("c")]
        async with agent(tmp_path, script, model="usual") as live:
            await live.run("1")
            result = await live.run("2", model="other")
            with pytest.raises(ConfigError, match="the name of a model"):
                await live.run("3", model=" ")
            await live.run("3")
            provider = live.provider
            assert isinstance(provider, ScriptedProvider)
            assert [request.model for request in provider.requests] == ["usual", "other", "other", "usual"]
            assert result.messages[-1].model == "other"
            assert live.live.state.model == "usual"

    anyio.run(main)


WORDS = st.text("ab é", min_size=1, max_size=5)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=4)
    | st.sampled_from(["user", "tool", "text"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "parts", "content", "type", "text", "id", "call_id"]), inner
        )
    ),
    max_leaves=20,
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Messages in any order, with calls of which some have results, in one message or several."""
    messages: list[Message] = []
    for number in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            messages.append(
                Message("user", [Text(draw(WORDS))], id=draw(st.sampled_from(["", "same", f"m{number}"])))
            )
            continue
        names = [f"c{number}-{index}" for index in range(draw(st.integers(0, 3)))]
        texts = [Text(draw(WORDS))] if draw(st.booleans()) or not names else []
        messages.append(Message("assistant", [*texts, *(ToolCall(name, "t", {}) for name in names)]))
        ordered = draw(st.permutations(names))
        chosen = ordered[: draw(st.integers(0, len(ordered)))]
        answered = [ToolResult(name, "t", True, [Text(name)]) for name in chosen]
        apart = draw(st.booleans())
        if answered and apart:
            messages += [Message("tool", [result]) for result in answered]
        elif answered:
            messages.append(Message("tool", [*answered]))
    return messages


@settings(max_examples=300, deadline=None)
@given(conversations())
def test_any_conversation_becomes_a_log_that_says_the_same(messages: list[Message]) -> None:
    """Folded, the events are the same messages, with one message of results behind each that calls, and no turn is open;
    what comes out goes in again and is the same."""
    state = State(session_id="s", agent_id="a")

    def head() -> dict[str, Any]:
        return {"session_id": "s", "agent_id": "a", "seq": 1}

    for event in history_events(parse_history(messages), head, "2026-01-01T00:00:00.000Z"):
        state.apply(msgspec.json.decode(msgspec.json.encode(event), type=type(event)))
    assert state.open_turn is None
    assert not state.open_calls
    shown = [(one.role, one.text) for one in state.messages if one.role != "tool"]
    assert shown == [(one.role, one.text) for one in messages if one.role != "tool"]
    for call_message, following in itertools.zip_longest(state.messages, state.messages[1:]):
        asked_for = [call.call_id for call in call_message.function_calls]
        answers = following.parts if following is not None and following.role == "tool" else []
        assert asked_for == [part.call_id for part in answers if isinstance(part, ToolResult)]
    given_results = {part.call_id for one in messages for part in one.parts if isinstance(part, ToolResult)}
    kept = {
        part.call_id
        for one in state.messages
        for part in one.parts
        if isinstance(part, ToolResult) and part.ok
    }
    assert kept == given_results
    again = parse_history(msgspec.json.encode(state.messages))
    assert list(again) == state.messages


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_no_data_breaks_the_history(data: Any) -> None:
    """Whatever is given is a history, or a `ConfigError`."""
    for form in (data, json.dumps(data)):
        try:
            parse_history(form)
        except ConfigError:
            continue
