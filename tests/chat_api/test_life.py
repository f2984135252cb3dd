"""Many clients, clients that disconnect, and servers that end: nothing is left behind, and a chat continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import openai
import pytest
from tests.chat_api.api import serving
from tests.cli.warm import warm

from jaato.protocol.events import ToolCallEnd, ToolCallStart, TurnCompleted
from jaato.providers.scripted import ScriptedCall, Step
from jaato.server.openai import application, wire
from jaato.server.openai.answer import Piece
from jaato.settings import environment

NAP = f"sleep 300.{os.getpid()}"
EXAMPLES = Path(__file__).parents[2] / "examples"
SLEEP = Step("I wait.", calls=[ScriptedCall("run", {"command": NAP})])
ALLOWED = {"yes": True}


def sleepers() -> list[int]:
    """The processes of the command that waits."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and NAP.encode() in command.replace(b"\0", b" "):
            found.append(int(entry.name))
    return found


async def wait_until(is_true: Any) -> None:
    """Wait for a condition."""
    with anyio.fail_after(60):
        while not is_true():
            await anyio.sleep(0.02)


@pytest.mark.parametrize("chat", [{}, {"X-OpenWebUI-Chat-Id": "c"}])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_disconnects_stops_its_turn(
    tmp_path: Path, chat: dict[str, str], *, stream: bool
) -> None:
    """The turn is stopped with its processes, as the stop button of a front end is meant; a chat continues with the next message."""

    async def main() -> None:
        script = [SLEEP, Step("I am back.")]
        async with serving(tmp_path, script, **ALLOWED) as api:
            with anyio.CancelScope() as asking:
                async with anyio.create_task_group() as group:

                    async def ask() -> None:
                        answer = await api.ask(("user", "Wait"), stream=stream, extra_headers=chat)
                        async for _ in answer:
                            pass

                    group.start_soon(ask)
                    await wait_until(sleepers)
                    asking.cancel()
            (session,) = api.sessions()
            await wait_until(lambda: not sleepers() and not api.hub.pool.loaded)
            events = list(api.hub.store.read(session, 0))
            assert [one.reason for one in events if isinstance(one, TurnCompleted)] == ["cancelled"]
            started = [one.call_id for one in events if isinstance(one, ToolCallStart)]
            assert started == [one.call_id for one in events if isinstance(one, ToolCallEnd)]
            if chat:
                answer = await api.ask(
                    ("user", "Wait"), ("assistant", "I wait."), ("user", "Well?"), extra_headers=chat
                )
                assert answer.choices[0].message.content == "I am back."
                assert api.sessions() == [session]

    anyio.run(main)


def test_ten_streams_at_once(tmp_path: Path) -> None:
    """Ten clients are answered side by side, each with its own answer."""

    async def main() -> None:
        async with serving(
            tmp_path, [lambda asked: Step(f"for {asked.messages[0].words} " * 200, chunks=200)] * 99
        ) as api:
            texts: dict[int, str] = {}

            async def ask(number: int) -> None:
                stream = await api.ask(("user", str(number)), stream=True)
                texts[number] = "".join([one.choices[0].delta.content or "" async for one in stream])

            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(ask, number)
            assert texts == {number: f"for {number} " * 200 for number in range(10)}
            assert api.hub.pool.loaded == {}

    anyio.run(main)


def test_a_full_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit a request is 429 with Retry-After, and taken once another has ended."""
    monkeypatch.setattr(application, "MAX_CONCURRENT", 1)

    async def main() -> None:
        async with serving(tmp_path, [SLEEP, Step("ok")], **ALLOWED) as api:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: api.ask(("user", "Wait")))
                await wait_until(sleepers)
                with pytest.raises(openai.RateLimitError) as caught:
                    await api.ask(("user", "Hi"))
                assert caught.value.response.headers["retry-after"] == "5"
                group.cancel_scope.cancel()
            await wait_until(lambda: not api.hub.pool.loaded)

    anyio.run(main)


def test_a_long_call_keeps_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a tool runs, comments are sent; clients ignore them."""
    monkeypatch.setattr(wire, "KEEP_ALIVE_S", 0.1)

    async def main() -> None:
        nap = Step(calls=[ScriptedCall("run", {"command": "sleep 1"})])
        async with (
            serving(tmp_path, [nap, Step("Awake.")], **ALLOWED) as api,
            httpx2.AsyncClient(timeout=60) as web,
        ):
            answer = await web.post(
                f"http://127.0.0.1:{api.port}/v1/chat/completions",
                headers={"Authorization": f"Bearer {api.token}"},
                json={"model": "jaato", "stream": True, "messages": [{"role": "user", "content": "Nap"}]},
            )
            lines = answer.text.split("\n\n")
            assert lines.count(": keep-alive") >= 3
            assert lines[-2] == "data: [DONE]"
            assert "Awake." in answer.text

    anyio.run(main)


def test_background_tasks_outlive_the_answer(tmp_path: Path) -> None:
    """A background task of a chat runs on after the answer, and the next message finds it."""

    async def main() -> None:
        start = Step(calls=[ScriptedCall("run", {"command": NAP, "background": True})])
        async with serving(tmp_path, [start, Step("Started."), Step("Still there.")], **ALLOWED) as api:
            chat = {"X-Conversation-Id": "c"}
            await api.ask(("user", "Start"), extra_headers=chat)
            await wait_until(sleepers)
            await api.ask(("user", "Start"), ("assistant", "Started."), ("user", "And?"), extra_headers=chat)
            assert sleepers()
            (session,) = api.hub.pool.loaded
            assert list(api.hub.pool.loaded[session].session.tasks.running())

    anyio.run(main)
    assert not sleepers(), "they end with the server"


@contextmanager
def daemon(
    root: Path, script: Path, port: int = 0
) -> Iterator[tuple[subprocess.Popen[bytes], openai.OpenAI]]:
    """`jaato serve` in a process of its own, and the synchronous SDK at it."""
    env = {
        "HOME": str(root),
        "PATH": environment()["PATH"],
        "JAATO_PROVIDER": "scripted",
        "JAATO_MODEL": str(script),
        "JAATO_DEFERRED_TOOLS": "0",
        "OLLAMA_HOST": "127.0.0.1:9",
    }
    work = root / "work"
    work.mkdir(exist_ok=True)
    process = warm().start(
        [
            *("serve", "--ipc-socket", str(root / "s.sock")),
            *("--web-socket", f"127.0.0.1:{port}", "--openai-workspace", str(work)),
        ],
        env=env,
        cwd=root,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    with process:
        try:
            line = process.stderr.readline().decode()
            address = next(word for word in line.split() if word.startswith("ws://")).rstrip(",;")
            token = (root / ".local/state/jaato/server-token").read_text().strip()
            url = address.replace("ws://", "http://").rstrip("/") + "/v1"
            with openai.OpenAI(api_key=token, base_url=url, max_retries=0, timeout=30) as sdk:
                yield process, sdk
        finally:
            process.terminate()
            process.wait(60)


def test_the_program_of_the_guide(tmp_path: Path) -> None:
    """The program of the guide is the one in examples/, and prints both answers of one session."""
    program = EXAMPLES / "openai_sdk.py"
    guide = EXAMPLES.parent / "docs/guides/openai.md"
    assert program.read_text() in guide.read_text()
    with daemon(tmp_path, EXAMPLES / "replies/openai_sdk.json") as (_, sdk):
        token = tmp_path / ".local/state/jaato/server-token"
        done = subprocess.run(
            [sys.executable, str(program), str(sdk.base_url), str(token)],
            env={"HOME": str(tmp_path), "PATH": environment()["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "A list of the stock, and one of what is to do.\nThe list of what is to do.\n"


def test_a_restarted_server_knows_the_chat(tmp_path: Path) -> None:
    """After kill -9 in mid-turn and a restart, the next message of the same chat continues the same session."""
    script = tmp_path / "script.json"
    steps: list[dict[str, Any]] = [
        {"text": "One."},
        {"calls": [{"name": "run", "arguments": {"command": NAP}}]},
        {"text": "Three."},
    ]
    script.write_text(json.dumps(steps))
    chat = {"X-OpenWebUI-Chat-Id": "c"}
    messages: Any = [{"role": "user", "content": "one"}]
    with daemon(tmp_path, script) as (process, sdk):
        first = sdk.chat.completions.create(model="jaato", messages=messages, extra_headers=chat)
        assert first.choices[0].message.content == "One."
        messages += [{"role": "assistant", "content": "One."}, {"role": "user", "content": "two"}]
        stream = sdk.chat.completions.create(
            model="jaato", messages=messages, extra_headers=chat, stream=True, timeout=60
        )
        with pytest.raises((openai.APIError, httpx2.HTTPError, OSError, StopIteration)):
            next_piece(stream, process)
    deadline = time.monotonic() + 60
    while sleepers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not sleepers()
    with daemon(tmp_path, script) as (_, sdk):
        messages += [{"role": "assistant", "content": ""}, {"role": "user", "content": "three"}]
        answer = sdk.chat.completions.create(model="jaato", messages=messages, extra_headers=chat)
        assert answer.choices[0].message.content == "Three."
        env = {"HOME": str(tmp_path), "PATH": environment()["PATH"]}
        listing = ["sessions", "list", "--all", "--json"]
        listed = warm().run(listing, data=None, cwd=tmp_path, env=env, timeout_s=60)
        assert len(json.loads(listed.stdout)) == 1


def next_piece(stream: Any, process: subprocess.Popen[bytes]) -> None:
    """Kill the server while the stream waits, and read on."""
    deadline = time.monotonic() + 60
    while not sleepers() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    for _ in stream:
        pass
    raise StopIteration


@pytest.mark.parametrize("sent", [4, 5])
def test_a_server_that_stops_at_the_end_of_an_answer(sent: int) -> None:
    """The client leaves when it has read the last line, and the server stops at this moment: nothing follows the end."""

    async def main() -> None:
        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)
            if len(messages) == sent:
                scope.cancel()
            await anyio.lowlevel.checkpoint()

        stream = wire.EventStream({}, send, "jaato", include_usage=False)
        with anyio.CancelScope() as scope:
            await stream.run(Whole())
        assert scope.cancelled_caught
        await stream.fail(application.stopping_error())
        assert len(messages) == sent
        assert b"[DONE]" in messages[3]["body"]

    anyio.run(main)


class Whole:
    """An answer without any text."""

    outcome = wire.Outcome()

    async def pieces(self) -> AsyncGenerator[Piece]:
        """None."""
        nothing: list[Piece] = []
        for piece in nothing:
            yield piece


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_server_that_stops(tmp_path: Path, is_stream: bool) -> None:
    """A stop of the server in mid-turn is an error for the client, which is not repeated, and none in the server's log."""
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps([{"calls": [{"name": "run", "arguments": {"command": NAP}}]}, {"text": "Never."}])
    )
    body = {"model": "jaato", "messages": [{"role": "user", "content": "one"}], "stream": is_stream}
    with daemon(tmp_path, script) as (process, sdk), ThreadPoolExecutor(1) as pool:
        headers = {"authorization": f"Bearer {sdk.api_key}"}
        asked = pool.submit(
            httpx2.post, f"{sdk.base_url}chat/completions", json=body, headers=headers, timeout=30
        )
        deadline = time.monotonic() + 60
        while not sleepers() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.terminate()
        answer = asked.result(60)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert not sleepers()
    if is_stream:
        assert answer.text.endswith("data: [DONE]\n\n")
    else:
        assert answer.status_code == 503
        assert answer.headers["x-should-retry"] == "false"
    assert '"server_stopping"' in answer.text
