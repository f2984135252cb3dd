"""What a chat completion has: text, reasoning, calls, usage and why it ended, in one object or streamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import openai
import pytest
from tests.chat_api.api import Api, serving

from jaato.abc.provider import ModelRequest
from jaato.agent.retry import RetryPolicy
from jaato.client.state import apply
from jaato.protocol.events import (
    AgentCreated,
    AgentOutput,
    Event,
    MessageModel,
    MessageUser,
    SessionInfo,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.protocol.events.state import State
from jaato.protocol.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage
from jaato.providers.scripted import ScriptedCall, ScriptedProvider, Step
from jaato.server.openai import errors
from jaato.server.openai.answer import AnswerFold, escape_markdown

WRITE = ScriptedCall("writeNewFile", {"path": "a.txt", "content": "x"})


@pytest.mark.parametrize("text", [r"\[x](https://evil.example)", r"!\[x](y)", r"\\[x](y)", r"\<img src=x>"])
def test_escaped_markup_stays_escaped(text: str) -> None:
    """A backslash of the text itself does not undo the escape of the character behind it."""
    shown = escape_markdown(text)
    for mark in "[<":
        before = shown.partition(mark)[0]
        assert mark not in shown or (len(before) - len(before.rstrip("\\"))) % 2


async def gather(stream: Any) -> tuple[str, str, list[Any]]:
    """The text, the reasoning and the chunks of a stream."""
    chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    text = "".join(delta.content or "" for delta in deltas)
    return text, "".join(getattr(delta, "reasoning_content", "") or "" for delta in deltas), chunks


def test_a_whole_answer(tmp_path: Path) -> None:
    """An answer in one object has the text, the reasoning, the usage of the turn and the reason of its end."""

    async def main() -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work/a.txt").write_text("one\n")
        first = Step("I look.", calls=[ScriptedCall("readFile", {"path": "a.txt"})], usage=Usage(100, 7))
        async with serving(
            tmp_path, [first, Step("One line.", thinking="So.", usage=Usage(120, 5, 90))]
        ) as api:
            answer = await api.ask(("user", "What is in a.txt?"))
            choice = answer.choices[0]
            assert (choice.finish_reason, choice.message.role) == ("stop", "assistant")
            assert choice.message.content == "I look.\n\nOne line."
            lines = choice.message.reasoning_content.splitlines()
            assert lines[0].startswith("`readFile(path=a.txt)`: done in ")
            assert lines[1] == "So."
            usage = answer.usage
            assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (220, 12, 232)
            assert usage.prompt_tokens_details.cached_tokens == 90
            assert (answer.object, answer.model) == ("chat.completion", "jaato")

    anyio.run(main)


def test_a_streamed_answer(tmp_path: Path) -> None:
    """A stream begins with the role, ends with the reason and, where asked for, the usage without choices; nothing comes twice."""

    async def main() -> None:
        async with serving(
            tmp_path, [Step("alpha beta gamma", thinking="Hm.", chunks=4, usage=Usage(9, 3))] * 2
        ) as api:
            stream = await api.ask(("user", "Hi"), stream=True, stream_options={"include_usage": True})
            text, reasoning, chunks = await gather(stream)
            assert (text, reasoning) == ("alpha beta gamma", "Hm.")
            assert chunks[0].choices[0].delta.role == "assistant"
            assert [one.choices[0].finish_reason for one in chunks if one.choices][-1] == "stop"
            assert chunks[-1].choices == []
            assert chunks[-1].usage.total_tokens == 12
            assert len({chunk.id for chunk in chunks}) == 1
            again = await api.ask(("user", "Hi"), stream=True)
            assert all(chunk.choices for chunk in (await gather(again))[2])

    anyio.run(main)


def test_the_lines_of_a_stream(tmp_path: Path) -> None:
    """Events have no names, and the last line is [DONE]."""

    async def main() -> None:
        async with serving(tmp_path, [Step("alpha")]) as api, httpx2.AsyncClient() as web:
            answer = await web.post(
                f"http://127.0.0.1:{api.port}/v1/chat/completions",
                headers={"Authorization": f"Bearer {api.token}"},
                json={"model": "jaato", "stream": True, "messages": [{"role": "user", "content": "Hi"}]},
            )
            assert answer.headers["content-type"].startswith("text/event-stream")
            blocks = answer.text.strip().split("\n\n")
            assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
            assert blocks[-1] == "data: [DONE]"

    anyio.run(main)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Step("cut", finish_reason="length"), "length"),
        (Step("I must not.", finish_reason="refusal"), "content_filter"),
    ],
)
def test_reasons(tmp_path: Path, step: Step, reason: str) -> None:
    """A reply that was cut or refused says so."""

    async def main() -> None:
        async with serving(tmp_path, [step] * 5) as api:
            answer = await api.ask(("user", "Hi"))
            assert answer.choices[0].finish_reason == reason

    anyio.run(main)


def test_a_denied_call_is_in_the_text(tmp_path: Path) -> None:
    """A question that no one can answer is denied at once; the answer says why, and how to allow it."""

    async def main() -> None:
        async with serving(tmp_path, [Step(calls=[WRITE]), Step("I could not write.")]) as api:
            answer = await api.ask(("user", "Write a.txt"))
            text = answer.choices[0].message.content
            assert text.startswith("> Denied: `writeNewFile(path=a.txt, content=x)`. ")
            assert "no one can answer" in text
            assert "--allow" in text
            assert text.endswith("\n\nI could not write.")
            assert not (api.work / "a.txt").exists()

    anyio.run(main)


def test_hostile_arguments(tmp_path: Path) -> None:
    """Arguments and reasons cannot bring images, links, HTML or lines of their own into the answer that a front end renders."""

    async def main() -> None:
        hostile = "` ![x](https://evil.example/?q=1) <img src=x>\n\n# Allowed\n\x1b[2J\u202e`"
        write = ScriptedCall("writeNewFile", {"path": hostile, "content": hostile})
        async with serving(tmp_path, [Step(calls=[write]), Step("Done.")]) as api:
            message = (await api.ask(("user", "Write"))).choices[0].message
            note = message.content.split("\n\n")[0]
            assert note.count("\n") == 0
            assert note.startswith("> Denied: `writeNewFile(")
            code, rest = note.removeprefix("> Denied: `").split("`")
            assert "evil.example" in code
            assert "[x]" not in rest.replace("\\[", "")
            for text in (message.content, message.reasoning_content):
                assert not any(hidden in text for hidden in ("\x1b", "\u202e", "\n#"))

    anyio.run(main)


def test_system_prompt_and_settings(tmp_path: Path) -> None:
    """The system message is the prompt; temperature, limit, stops, effort and schema reach the model."""

    async def main() -> None:
        provider = ScriptedProvider([Step("{}")], keep_requests=True)
        async with serving(tmp_path, provider) as api:
            schema = {"type": "object", "properties": {}, "additionalProperties": False}
            await api.ask(
                ("system", "You are a poet."),
                ("developer", "Be short."),
                ("user", "Sing"),
                temperature=0.25,
                max_completion_tokens=77,
                stop=["END"],
                reasoning_effort="low",
                response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
            )
            (request,) = provider.requests
            assert "You are a poet.\n\nBe short." in request.system
            given = request.settings
            assert (given.temperature, given.max_output_tokens, given.stop) == (0.25, 77, ["END"])
            assert (given.effort, given.response_schema) == ("low", schema)

    anyio.run(main)


def test_history_without_a_chat(tmp_path: Path) -> None:
    """Without a chat's id each request is a session of its own that begins with the given messages, calls and results too."""

    async def main() -> None:
        seen: list[list[Message]] = []

        def answer_yes(request: ModelRequest) -> Step:
            seen.append(list(request.messages))
            return Step("Yes.")

        async with serving(tmp_path, [answer_yes] * 9) as api:
            call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
            messages: Any = [
                {"role": "user", "content": "Look"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "a tree"},
                {"role": "assistant", "content": "A tree."},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Is it"}, {"type": "text", "text": "green?"}],
                },
            ]
            for _ in range(2):
                answer = await api.sdk.chat.completions.create(model="jaato", messages=messages)
                assert answer.choices[0].message.content == "Yes."
            assert len(api.sessions()) == 2
            sent = seen[0]
            assert [one.role for one in sent] == ["user", "assistant", "tool", "assistant", "user"]
            assert sent[1].function_calls[0].arguments == {"at": 1}
            assert sent[2].parts[0].result == "a tree"  # type: ignore[union-attr]
            assert sent[4].words == "Is it\ngreen?"
            assert api.hub.pool.loaded == {}, "nothing stays loaded"

    anyio.run(main)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("provider_authentication", 502),
        ("provider_invalid_request", 400),
        ("content_refused", 400),
        ("model_not_found", 404),
    ],
)
def test_a_failure_before_any_text(tmp_path: Path, code: str, status: int) -> None:
    """An error of the provider has its status and code, streamed or not."""

    async def main() -> None:
        async with serving(tmp_path, [Step(error=code)] * 9) as api:
            for stream in (False, True):
                with pytest.raises(openai.APIStatusError) as caught:
                    await api.ask(("user", "Hi"), stream=stream)
                assert caught.value.status_code == status
                assert isinstance(caught.value.body, dict)
                assert caught.value.body["code"] == code

    anyio.run(main)


def test_a_failure_after_a_call_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK repeats a request that the provider has refused, but not one whose calls were run."""
    monkeypatch.setattr(errors, "RETRY_AFTER_S", 1)

    async def main() -> None:
        script = [Step(error="provider_unavailable")] * 20 + [Step("never")]
        for steps, sent in ([Step(calls=[WRITE])], 1), ([], 2):
            retry = RetryPolicy(first_s=0.01)
            async with serving(tmp_path / str(sent), [*steps, *script], retry=retry) as api:
                sdk = api.sdk.with_options(max_retries=1)
                with pytest.raises(openai.InternalServerError):
                    await sdk.chat.completions.create(
                        model="jaato",
                        messages=[{"role": "user", "content": "x"}],
                        extra_headers={"X-Jaato-Session": "t"},
                    )
                (session,) = api.sessions()
                assert len(stored(api, session)) == sent

    anyio.run(main)


def test_a_failure_in_mid_stream(tmp_path: Path) -> None:
    """An error after the first piece is an error object in the stream, which the SDK raises."""

    async def main() -> None:
        async with serving(tmp_path, [Step("Half an", error="content_refused")]) as api:
            stream = await api.ask(("user", "Hi"), stream=True)
            text: list[str] = []

            async def read() -> None:
                async for chunk in stream:
                    text.append(chunk.choices[0].delta.content or "")

            with pytest.raises(openai.APIError, match="content_refused"):
                await read()
            assert "".join(text) == "Half an"

    anyio.run(main)


def turn_events() -> list[Event]:
    """The events of a turn with two replies and a call between them."""
    head: dict[str, Any] = {"session_id": "s", "agent_id": "a"}
    call = ToolCall("c", "look", {"at": 1})
    result = ToolResult("c", "look", ok=True)
    first = Message("assistant", [Thinking("Hm."), Text("I look."), call])
    last = Message("assistant", [Text("A tree.")])
    stream: list[tuple[Any, str, int]] = [("thinking", "Hm.", 0), ("model", "I ", 0), ("model", "look.", 2)]
    events: list[Event] = [
        AgentCreated(**head, seq=1, name="main", provider="p", model="m", system_prompt="", core_tools=[]),
        MessageUser(**head, seq=2, message=Message("user", [Text("Hi")], once="chat:x"), turn_id="t"),
        *(
            AgentOutput(**head, seq=2, source=source, text=text, mode="append", offset=at)
            for source, text, at in stream
        ),
        MessageModel(**head, seq=3, message=first, turn_id="t", finish_reason="tool_calls"),
        ToolCallStart(**head, seq=4, call_id="c", tool="look", arguments={"at": 1}),
        ToolCallEnd(**head, seq=5, call_id="c", tool="look", result=result, duration_s=0.1),
        AgentOutput(**head, seq=5, source="model", text="A ", mode="append"),
        AgentOutput(**head, seq=5, source="model", text="tree.", mode="append", offset=2),
        MessageModel(**head, seq=6, message=last, turn_id="t", finish_reason="stop"),
        TurnCompleted(
            **head,
            seq=7,
            turn_id="t",
            reason="stop",
            usage=Usage(1),
            model_calls=2,
            tool_calls=1,
            duration_s=1,
        ),
    ]
    return events


@pytest.mark.parametrize("ahead", range(12))
@pytest.mark.parametrize("start", range(12))
def test_a_snapshot_that_is_ahead_of_the_events_after_it(start: int, ahead: int) -> None:
    """The state of a snapshot may have what the events behind it bring again; none of that is in the answer twice."""
    events = turn_events()
    state = State(session_id="s")
    fold = AnswerFold(state, "chat:x")
    text = {"content": "", "reasoning": ""}
    for event in events[: start + 1 + ahead]:
        apply(state, event)
    snapshot = SessionInfo(
        session_id="s", agent_id="a", seq=0, session_name=None, workspace="",
        model_provider="", model_name="", tools=[], models=[], sessions=[], state=state,
    )  # fmt: skip
    for event in [*events[:start], snapshot, *events[start:]]:
        for piece in fold.feed(event):
            text[piece.kind] += piece.text
    assert text == {"content": "I look.\n\nA tree.", "reasoning": "Hm.\n`look(at=1)`: done in 0.1 s\n"}


@pytest.mark.parametrize("missed", range(1, 12))
@pytest.mark.parametrize("start", range(12))
def test_a_reader_that_missed_events(start: int, missed: int) -> None:
    """A reader that gets a snapshot in place of some events has the same answer, whichever they are."""
    events = turn_events()
    state = State(session_id="s")
    fold = AnswerFold(state, "chat:x")
    text = {"content": "", "reasoning": ""}
    for at, event in enumerate(events):
        apply(state, event)
        given: Event | None = event
        if start <= at < start + missed:
            given = None
            if at in (start + missed - 1, len(events) - 1):
                given = SessionInfo(
                    session_id="s", agent_id="a", seq=state.seq, session_name=None, workspace="",
                    model_provider="", model_name="", tools=[], models=[], sessions=[], state=state,
                )  # fmt: skip
        for piece in fold.feed(given) if given is not None else ():
            text[piece.kind] += piece.text
    assert text == {"content": "I look.\n\nA tree.", "reasoning": "Hm.\n`look(at=1)`: done in 0.1 s\n"}
    assert (fold.finish_reason, fold.usage.input_tokens) == ("stop", 1)


def test_models(tmp_path: Path) -> None:
    """The agent, the model alone, and the provider's models are listed; another name is 404."""

    async def main() -> None:
        async with serving(tmp_path, [Step("one"), Step("two")]) as api:
            assert [one.id async for one in api.sdk.models.list()] == [
                "jaato",
                "jaato-task",
                "scripted/script",
            ]
            assert (await api.sdk.models.retrieve("scripted/script")).owned_by == "jaato"
            assert (await api.ask(("user", "Hi"), model="scripted/script")).model == "scripted/script"
            for name in ("gpt-4o", "nowhere/else", "jaato/", ""):
                with pytest.raises(openai.NotFoundError, match="no model"):
                    await api.ask(("user", "Hi"), model=name)
            with pytest.raises(openai.NotFoundError):
                await api.sdk.models.retrieve("gpt-4o")

    anyio.run(main)


def test_workspaces(tmp_path: Path) -> None:
    """The agent works where the server or the request says; without either the request is refused with both ways."""

    async def main() -> None:
        other = tmp_path / "other place"
        other.mkdir()
        async with serving(tmp_path, [lambda _: Step("ok")] * 9, workspace=False) as api:
            with pytest.raises(openai.BadRequestError, match=r"--openai-workspace DIR.*X-Jaato-Workspace"):
                await api.ask(("user", "Hi"))
            await api.ask(("user", "Hi"), extra_headers={"X-Jaato-Workspace": str(other)})
            (session,) = api.sessions()
            events = api.hub.store.read(session, 0)
            assert next(iter(events)).workspace == str(other)  # type: ignore[union-attr]
            async with httpx2.AsyncClient(headers={"authorization": f"Bearer {api.token}"}) as http:
                twice = [("x-jaato-workspace", str(other))] * 2
                body = {"model": "jaato", "messages": [{"role": "user", "content": "Hi"}]}
                url = f"{api.sdk.base_url}chat/completions"
                assert (await http.post(url, json=body, headers=twice)).status_code == 400
            for wrong in ("work", str(tmp_path / "none"), "../work", "~"):
                with pytest.raises(openai.BadRequestError, match="absolute path"):
                    await api.ask(("user", "Hi"), extra_headers={"X-Jaato-Workspace": wrong})

    anyio.run(main)


def stored(api: Api, session: str) -> list[str]:
    """The messages of the user in a session's log."""
    return [event.message.words for event in api.hub.store.read(session, 0) if isinstance(event, MessageUser)]


def test_messages_are_stored_as_sent(tmp_path: Path) -> None:
    """Odd text arrives whole: other scripts, emoji, control characters, a long line."""

    async def main() -> None:
        odd = "Grüße 你好 🦜 \u202eabc\u202c \x07 " + "x" * 100_000
        async with serving(tmp_path, [lambda request: Step(request.messages[-1].words[:30])]) as api:
            answer = await api.ask(("user", odd))
            assert answer.choices[0].message.content == odd[:30]
            assert stored(api, api.sessions()[0]) == [odd]
            assert msgspec.json.encode(answer.model_dump())

    anyio.run(main)
