"""Requests that are repeated, by the SDK itself or with a key: no call is made twice, and the client gets the answer or a clear error."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from tests.chat_api.api import Api, serving
from tests.chat_api.test_life import daemon
from tests.cli.warm import warm
from tests.ports import unused_port

from jaato.client import state
from jaato.protocol.events import MessageUser, ToolCallStart
from jaato.providers.scripted import ScriptedCall, Step
from jaato.server.openai import idempotency
from jaato.settings import environment

CHATS: dict[str, dict[str, str]] = {
    "chat": {"X-OpenWebUI-Chat-Id": "c"},
    "session": {"X-Jaato-Session": "tea"},
    "none": {},
}
AGAIN = {"X-Stainless-Retry-Count": "1"}
WRITE = Step(calls=[ScriptedCall("run", {"command": "echo x >> log"})])


def events_of(api: Api, kind: type[Any]) -> list[Any]:
    """The events of a kind, of all sessions."""
    return [
        event
        for session in api.sessions()
        for event in api.hub.store.read(session, 0)
        if isinstance(event, kind)
    ]


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_was_lost(tmp_path: Path, chat: dict[str, str], *, stream: bool) -> None:
    """A request that the SDK repeats after its turn has ended gets the answer of that turn; one sent anew has its own."""

    async def main() -> None:
        script = [WRITE, Step("Written.", thinking="So."), Step("Twice."), Step("Thrice.")]
        async with serving(tmp_path, script, yes=True) as api:

            async def ask(**headers: str) -> str:
                answer = await api.ask(("user", "Write"), extra_headers=chat | headers, stream=stream)
                if stream:
                    return "".join([one.choices[0].delta.content or "" async for one in answer])
                assert answer.choices[0].message.reasoning_content.endswith("So.")
                return str(answer.choices[0].message.content)

            assert await ask() == "Written."
            assert await ask(**AGAIN) == "Written."
            assert await ask(**AGAIN) == "Written."
            assert (api.work / "log").read_text() == "x\n"
            assert len(events_of(api, MessageUser)) == 1
            assert api.hub.pool.loaded == {}
            assert len(api.sessions()) == 1

    anyio.run(main)


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
def test_a_key(tmp_path: Path, chat: dict[str, str]) -> None:
    """A request with an Idempotency-Key that was used for the same request has its answer; another key, or another request
    with the same key, is a new one."""

    async def main() -> None:
        async with serving(tmp_path, [Step("one"), Step("two"), Step("three")]) as api:

            async def ask(key: str, text: str = "Hi") -> str:
                headers = chat | {"Idempotency-Key": key}
                answer = await api.ask(("user", text), extra_headers=headers)
                return str(answer.choices[0].message.content)

            assert await ask("a") == "one"
            assert await ask("a") == "one"
            other = await ask("b")
            assert await ask("b") == other
            await ask("b", "Bye")
            assert len(events_of(api, MessageUser)) == 3
            with pytest.raises(openai.BadRequestError, match="Idempotency-Key"):
                await ask("x" * 201)

    anyio.run(main)


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
def test_a_turn_that_was_stopped(tmp_path: Path, chat: dict[str, str]) -> None:
    """A request whose turn was stopped after calls is refused when it is repeated, and not repeated by the SDK; without calls it
    is answered."""

    async def main() -> None:
        nap = Step(calls=[ScriptedCall("run", {"command": "touch began; sleep 60"})])
        async with serving(tmp_path, [nap, Step("never")], yes=True) as api:
            with anyio.CancelScope() as asking:
                async with anyio.create_task_group() as group:

                    async def ask() -> None:
                        await api.ask(("user", "Wait"), extra_headers=chat)

                    group.start_soon(ask)
                    while not (api.work / "began").exists():
                        await anyio.sleep(0.02)
                    asking.cancel()
            while api.hub.pool.loaded:
                await anyio.sleep(0.02)
            with pytest.raises(openai.ConflictError, match="not repeated") as caught:
                await api.ask(("user", "Wait"), extra_headers=chat | AGAIN)
            assert caught.value.response.headers["x-should-retry"] == "false"
            assert len(events_of(api, ToolCallStart)) == 1

    anyio.run(main)


def test_one_key_at_once(tmp_path: Path) -> None:
    """Requests with one key at the same time run one turn, and all have its answer."""

    async def main() -> None:
        nap = Step(calls=[ScriptedCall("run", {"command": "sleep 0.5"})])
        async with serving(tmp_path, [nap, Step("Once."), Step("Twice.")], yes=True) as api:
            texts: list[str] = []

            async def ask() -> None:
                answer = await api.ask(("user", "Hi"), extra_headers={"Idempotency-Key": "k"})
                texts.append(answer.choices[0].message.content)

            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(ask)
            assert texts == ["Once."] * 3
            assert len(events_of(api, ToolCallStart)) == 1

    anyio.run(main)


def test_one_of_two_clients_of_a_key_leaves(tmp_path: Path) -> None:
    """The turn continues for the other clients with the same key when the one that began it disconnects."""

    async def main() -> None:
        wait = Step(
            calls=[ScriptedCall("run", {"command": "touch began; until test -e end; do sleep 0.05; done"})]
        )
        async with serving(tmp_path, [wait, Step("Once."), Step("Twice.")], yes=True) as api:
            texts: list[str] = []

            async def ask(scope: anyio.CancelScope) -> None:
                with scope:
                    answer = await api.ask(("user", "Hi"), extra_headers={"Idempotency-Key": "k"})
                    texts.append(answer.choices[0].message.content)

            def count_clients() -> int:
                return sum(len(room.clients) for room in api.hub.rooms.values())

            async with anyio.create_task_group() as group:
                first = anyio.CancelScope()
                group.start_soon(ask, first)
                while not (api.work / "began").exists():
                    await anyio.sleep(0.02)
                group.start_soon(ask, anyio.CancelScope())
                while count_clients() < 2:
                    await anyio.sleep(0.02)
                first.cancel()
                while count_clients() > 1:
                    await anyio.sleep(0.02)
                (api.work / "end").touch()
            assert texts == ["Once."]

    anyio.run(main)


def test_a_request_after_another_that_said_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated request without a key gets no answer that was given long before, compared with the timeout of its client: its
    own first attempt has begun no turn."""
    monkeypatch.setattr(idempotency, "MARGIN_S", -900.0)

    async def main() -> None:
        async with serving(
            tmp_path, [Step("Monday."), Step("Tuesday."), Step("Wednesday."), Step("Friday.")]
        ) as api:
            for chat, day in (("none", "Monday."), ("none", "Tuesday."), ("session", "Wednesday.")):
                answer = await api.ask(("user", "Which day?"), extra_headers=CHATS[chat] | AGAIN)
                assert answer.choices[0].message.content == day
            patient = {"X-Stainless-Read-Timeout": "3600"}
            answer = await api.ask(("user", "Which day?"), extra_headers=CHATS["session"] | AGAIN | patient)
            assert answer.choices[0].message.content == "Wednesday."

    anyio.run(main)


def test_a_turn_that_is_longer_than_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of a repeated request is whole, also where the state of its session has only the end of the turn."""
    monkeypatch.setattr(state, "WINDOW", 3)

    async def main() -> None:
        calls = [ScriptedCall("run", {"command": "true"})]
        script = [Step(text, calls=calls) for text in ("One.", "Two.", "Three.")]
        async with serving(tmp_path, [*script, Step("Four."), Step("Again.")], yes=True) as api:
            for headers in ({}, AGAIN):
                answer = await api.ask(("user", "Go"), extra_headers=CHATS["session"] | headers)
                message = answer.choices[0].message
                assert message.content == "One.\n\nTwo.\n\nThree.\n\nFour."
                assert message.reasoning_content.count("`run(command=true)`: done") == 3

    anyio.run(main)


def test_a_message_before_many_of_subagents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn of a repeated request is found behind any number of messages to subagents."""
    monkeypatch.setattr(idempotency, "PAGE", 1)

    async def main() -> None:
        look = Step(calls=[ScriptedCall("delegate", {"task": "Look."})])
        script = [look, Step("Seen."), look, Step("Seen."), Step("Done."), Step("Done twice.")]
        async with serving(tmp_path, script, yes=True) as api:
            for headers in ({}, AGAIN):
                answer = await api.ask(("user", "Go"), extra_headers=CHATS["session"] | headers)
                assert answer.choices[0].message.content == "Done."
            assert len(events_of(api, MessageUser)) == 3

    anyio.run(main)


def test_a_failure_without_calls_is_run_again(tmp_path: Path) -> None:
    """A request that failed before any call is run again when it is repeated."""

    async def main() -> None:
        async with serving(tmp_path, [Step(error="content_refused"), Step("Now.")]) as api:
            with pytest.raises(openai.BadRequestError):
                await api.ask(("user", "Hi"), extra_headers=CHATS["session"])
            answer = await api.ask(("user", "Hi"), extra_headers=CHATS["session"] | AGAIN)
            assert answer.choices[0].message.content == "Now."

    anyio.run(main)


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
def test_a_server_that_is_killed_in_mid_answer(tmp_path: Path, chat: dict[str, str]) -> None:
    """The SDK repeats a request whose server was killed while a call ran: the next server continues the turn, and the call is not
    made again."""
    script, log = tmp_path / "script.json", tmp_path / "work/log"
    log.parent.mkdir()
    (log.parent / "wait.sh").write_text("echo x >> log; sleep 300\n")
    run = {"name": "run", "arguments": {"command": "sh wait.sh"}}
    script.write_text(json.dumps([{"calls": [run]}, {"text": "Continued."}]))
    rules = tmp_path / "work/.jaato/permissions.json"
    rules.parent.mkdir()
    rules.write_text(json.dumps({"version": 1, "whitelist": {"patterns": ["run(sh wait.sh)"]}}))
    env = {"HOME": str(tmp_path), "PATH": environment()["PATH"]}
    trusting = ["permissions", "trust"]
    trusted = warm().run(trusting, data=None, cwd=tmp_path / "work", env=env, timeout_s=60)
    assert trusted.returncode == 0
    port = unused_port()
    with ThreadPoolExecutor(1) as pool, daemon(tmp_path, script, port) as (process, sdk):
        patient: Any = sdk.with_options(max_retries=9, timeout=60)
        messages = [{"role": "user", "content": "one"}]
        create = patient.chat.completions.create
        asked = pool.submit(create, model="jaato", messages=messages, extra_headers=chat)
        deadline = time.monotonic() + 60
        while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.wait(60)
        with daemon(tmp_path, script, port):
            answer = asked.result(60)
    assert answer.choices[0].message.content == "Continued."
    assert "`run(command=sh wait.sh)`: failed" in answer.choices[0].message.reasoning_content
    assert log.read_text() == "x\n"
