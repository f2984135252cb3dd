"""Calls and questions of the agent in a chat answer: shown when they begin, and named when no one answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from tests.chat_api.api import serving

from jaato.protocol.events import Event, MessageUser, ToolCallEnd, ToolCallStart
from jaato.protocol.events.state import State
from jaato.protocol.messages import Message, Text, ToolResult
from jaato.providers.scripted import ScriptedCall, Step
from jaato.server.openai.answer import AnswerFold


def test_an_open_question_is_in_the_text(tmp_path: Path) -> None:
    """A question of the model that no one can answer is part of the answer, as text without markup."""

    async def main() -> None:
        asks = {"context": "c", "questions": ["Which\n# ![x](https://evil.example)?", {"question": "Why?"}]}
        script = [Step("I ask.", calls=[ScriptedCall("request_clarification", asks)]), Step("I assume.")]
        async with serving(tmp_path, script) as api:
            text = (await api.ask(("user", "Do it"))).choices[0].message.content
            first, note, last = text.split("\n\n")
            assert (first, last) == ("I ask.", "I assume.")
            assert note.startswith(
                "> No one could answer this here: Which # !\\[x](https://evil.example)? Why? "
            )
            assert "\n" not in note

    anyio.run(main)


def test_a_running_call_is_shown(tmp_path: Path) -> None:
    """The line of a call begins when the call does, and is completed at its end."""

    async def main() -> None:
        nap = Step(calls=[ScriptedCall("run", {"command": "sleep 0.5; echo a"})])
        async with serving(tmp_path, [nap, Step("Awake.")], yes=True) as api:
            stream = await api.ask(("user", "Nap"), stream=True)
            deltas = [one.choices[0].delta async for one in stream]
            lines = [delta.reasoning_content for delta in deltas if getattr(delta, "reasoning_content", None)]
            assert lines[0] == "`run(command=sleep 0.5; echo a)`"
            assert lines[1].startswith(": done in ")

    anyio.run(main)


def test_calls_at_once() -> None:
    """Of the calls that an agent runs at once, one is shown at a time; each has its outcome in a line of its own."""
    head: dict[str, Any] = {"session_id": "s", "agent_id": "a"}
    fold = AnswerFold(State(session_id="s", root_agent_id="a"), "chat:x")
    user = Message("user", [Text("Hi")], once="chat:x")
    events: list[Event] = [MessageUser(**head, seq=1, message=user, turn_id="t")]
    for at, (call, agent) in enumerate((("1", "a"), ("2", "a"), ("3", "a"), ("4", "b")), 2):
        events.append(
            ToolCallStart(session_id="s", agent_id=agent, seq=at, call_id=call, tool=f"t{call}", arguments={})
        )
    for at, (call, agent) in enumerate((("2", "a"), ("1", "a"), ("4", "b"), ("3", "a")), 6):
        result = ToolResult(call, f"t{call}", ok=True)
        events.append(
            ToolCallEnd(
                session_id="s",
                agent_id=agent,
                seq=at,
                call_id=call,
                tool=f"t{call}",
                result=result,
                duration_s=1,
            )
        )
    text = "".join(piece.text for event in events for piece in fold.feed(event))
    assert text.splitlines() == [
        "`t1()`",
        "`t4()`",
        "`t2()`: done in 1.0 s",
        "`t1()`: done in 1.0 s",
        "`t3()`",
        "`t4()`: done in 1.0 s",
        "`t3()`: done in 1.0 s",
    ]
