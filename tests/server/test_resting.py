"""Sessions that are put down when nobody needs them, saved when nobody watches, and taken up where they were."""

from __future__ import annotations

import gc
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.kit import call, say
from tests.server.serving import Raw, Served, served

from jaato.protocol.codec import encode
from jaato.protocol.events import MessageModel, TurnCompleted
from jaato.protocol.events.state import State
from jaato.protocol.frames import Opened, Reply

S3 = pytest.mark.spec("S3", "SessionManager + SessionPlugin Integration")
SOON_S = 0.02


async def until(holds: Callable[[], object]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(60):
        while not holds():
            await anyio.sleep(0.005)


async def begun(client: Raw, path: Path, **more: Any) -> str:
    """A new session that this client watches."""
    made = await client.ask("session.create", workspace=str(path / "work"), **more)
    assert isinstance(made.result, Opened)
    return made.result.session_id


async def said(client: Raw, text: str) -> None:
    """Say something and wait for the end of the turn."""
    await client.ask("message.send", text=text)
    if not any(isinstance(event, TurnCompleted) for event in client.events):
        await client.until(TurnCompleted)
    client.events.clear()


async def swept(server: Served, path: Path) -> None:
    """Wait until the server has looked for idle sessions: one that is idle has been put down since."""
    async with server.client() as client:
        other = await begun(client, path)
    await until(lambda: other not in server.hub.pool.loaded)


def durable(state: State) -> bytes:
    """A state without what no log holds: the commands, until the session works again."""
    again = msgspec.json.decode(encode(state), type=State)
    again.commands = []
    return encode(again)


def fifo(path: Path) -> Path:
    """Something a command waits for."""
    (path / "work").mkdir(exist_ok=True)
    os.mkfifo(path / "work" / "gate")
    return path / "work" / "gate"


@S3
@pytest.mark.spec("S3", "SessionManager + SessionPlugin Integration", "S3.manager.1")
def test_an_idle_session_is_put_down_and_taken_up_again(tmp_path: Path) -> None:
    """Unwatched and idle it leaves memory; whoever attaches sees the same conversation, to the byte, and the talk goes on."""

    async def main() -> None:
        script = [say("one"), say("two")]
        async with served(tmp_path, script, SOON_S) as server:
            async with server.client() as client:
                session_id = await begun(client, tmp_path)
                await said(client, "go")
                await client.ask("client.config")
                before = durable(client.states[session_id])
            await until(lambda: session_id not in server.hub.pool.loaded)
            await until(lambda: session_id not in server.hub.rooms)
            async with server.client() as client:
                await client.ask("session.attach", session_id=session_id)
                await client.ask("client.config")
                assert durable(client.states[session_id]) == before
                await said(client, "go on")
                texts = [
                    event.message.text
                    for event in client.states[session_id].entries
                    if isinstance(event, MessageModel)
                ]
                assert texts == ["one", "two"]

    anyio.run(main)


@S3
@pytest.mark.spec("S3", "SessionManager + SessionPlugin Integration", "S3.manager.3")
def test_work_goes_on_without_anybody(tmp_path: Path) -> None:
    """A session at work is not put down when its last client leaves; its turn ends, then it is."""
    gate = fifo(tmp_path)

    async def main() -> None:
        script = [call("run", command="cat gate"), say("done")]
        async with served(tmp_path, script, SOON_S, yes=True) as server:
            async with server.client() as client:
                session_id = await begun(client, tmp_path)
                await client.ask("message.send", text="go")
            await swept(server, tmp_path)
            assert server.hub.pool.loaded[session_id].session.is_busy
            await anyio.to_thread.run_sync(gate.write_text, "open")
            await until(lambda: session_id not in server.hub.pool.loaded)
            async with server.client() as client:
                await client.ask("session.attach", session_id=session_id)
                await client.ask("client.config")
                turn = client.states[session_id].entries[-1]
                assert isinstance(turn, TurnCompleted)
                assert turn.reason == "stop"

    anyio.run(main)


SLOW = """
import pathlib

PLUGIN_KIND = "tool"


class Slow:
    name = "slow"
    def get_tool_schemas(self): return []
    def get_executors(self): return {}
    def initialize(self, config=None): pass
    def shutdown(self): pass
    def get_system_instructions(self): return None
    def get_auto_approved_tools(self): return []
    def get_user_commands(self): return []
    def set_workspace_path(self, path): self.gate = pathlib.Path(path, "gate")
    def subscribes_to_prompt_enrichment(self): return True
    def enrich_prompt(self, prompt):
        from jaato.abc.plugin import PromptEnrichmentResult
        return PromptEnrichmentResult(prompt + self.gate.read_text())
"""


@S3
def test_a_message_that_is_still_being_prepared_keeps_its_session(tmp_path: Path) -> None:
    """A session whose prompt a plugin is working on is not put down under it; the message is taken."""
    gate = fifo(tmp_path)
    plugins = tmp_path / ".config" / "jaato" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "slow.py").write_text(SLOW)

    async def main() -> None:
        async with served(tmp_path, [say("heard")], SOON_S) as server, server.client() as client:
            session_id = await begun(client, tmp_path)
            await client.ask("session.detach", session_id=session_id)
            replies: list[Reply] = []

            async def send() -> None:
                replies.append(await client.ask("message.send", session_id=session_id, text="go"))

            async with anyio.create_task_group() as group:
                group.start_soon(send)
                loaded = server.hub.pool.loaded  # the session may have been put down before the message came
                await until(lambda: session_id in loaded and loaded[session_id].uses)
                await swept(server, tmp_path)
                await anyio.to_thread.run_sync(gate.write_text, "open")
            assert replies[0].error is None

    anyio.run(main)


@S3
def test_a_background_task_keeps_its_session(tmp_path: Path) -> None:
    """While a background task runs its session is not put down; when it has ended, it is."""
    gate = fifo(tmp_path)

    async def main() -> None:
        script = [call("run", command="cat gate", background=True), say("it runs")]
        async with served(tmp_path, script, SOON_S, yes=True) as server:
            async with server.client() as client:
                session_id = await begun(client, tmp_path)
                await said(client, "go")
            await swept(server, tmp_path)
            live = server.hub.pool.loaded[session_id]
            assert not live.session.is_busy
            assert list(live.session.tasks.running())
            await anyio.to_thread.run_sync(gate.write_text, "open")
            await until(lambda: session_id not in server.hub.pool.loaded)

    anyio.run(main)


@S3
@pytest.mark.spec("S3", "SessionManager + SessionPlugin Integration", "S3.manager.2")
def test_detaching_saves(tmp_path: Path) -> None:
    """With `.jaato/.sessions.json` the session is saved when its last client leaves, and again only if more happened."""
    (tmp_path / "work" / ".jaato").mkdir(parents=True)
    (tmp_path / "work" / ".jaato" / ".sessions.json").write_text("{}")

    async def main() -> None:
        async with served(tmp_path, [say("one"), say("two")]) as server:
            async with server.client() as client:
                session_id = await begun(client, tmp_path)
                await said(client, "go")
            file = tmp_path / "work" / ".jaato" / "sessions" / f"{session_id}.json"
            await until(file.exists)
            assert session_id in server.hub.pool.loaded
            assert json.loads(file.read_bytes())["turns"] == 1
            first = file.stat().st_ino
            async with server.client() as client:
                await client.ask("session.attach", session_id=session_id)
            async with server.client() as client:
                await client.ask("session.attach", session_id=session_id)
                assert file.stat().st_ino == first
                await said(client, "more")
            await until(lambda: json.loads(file.read_bytes())["turns"] == 2)

    anyio.run(main)


def test_nothing_is_saved_unless_the_workspace_says_so(tmp_path: Path) -> None:
    """Without the file no export is written, by leaving or stopping; the command `save` writes one all the same."""

    async def main() -> None:
        saved = tmp_path / "work" / ".jaato" / "sessions"
        async with served(tmp_path, [say("one")]) as server, server.client() as client:
            session_id = await begun(client, tmp_path)
            await said(client, "go")
        assert not saved.exists()
        async with served(tmp_path, [say("one")]) as server, server.client() as client:
            await client.ask("session.attach", session_id=session_id)
            reply = await client.ask("command.execute", name="save")
            assert isinstance(reply, Reply)
            assert [file.stem for file in saved.glob("*.json")] == [session_id]

    anyio.run(main)


def count_objects() -> Counter[str]:
    """The objects of ours that there are, by their class."""
    gc.collect()
    kinds = map(type, gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("jaato."))


def test_nothing_is_kept_of_sessions_that_came_and_went(tmp_path: Path) -> None:
    """While another session goes on in their workspace, sessions whose commands could be repeated come and go, with a turn
    each: no object of ours is left of them, however many there were, and a repeated command finds its session in the store."""
    script = tmp_path / "script.json"
    script.write_text('[{"text": "ok"}]')
    model = {"provider": "scripted", "model": str(script)}

    async def main() -> None:
        async with served(tmp_path, [], idle_after_s=SOON_S) as server, server.client() as staying:
            await begun(staying, tmp_path, **model)
            hub = server.hub

            async def visits(first: int, number: int) -> None:
                for word in range(first, first + number):
                    async with server.client() as client:
                        session_id = await begun(client, tmp_path, once=f"word {word}", **model)
                        await said(client, "hello")
                        if word % 2:
                            await client.ask("session.delete", session_id=session_id)
                await until(lambda: len(hub.pool.loaded) == len(hub.rooms) == 1)

            def grown() -> dict[str, int]:
                left = count_objects() - before
                return {kind: count for kind, count in left.items() if count >= 10}

            await visits(0, 10)
            before = count_objects()
            await visits(10, 20)
            with anyio.move_on_after(60):
                await until(lambda: not grown())  # the last connections are still closed
            assert not grown()
            assert not hub.once
            async with server.client() as client:
                again = await client.ask("session.create", workspace=str(tmp_path / "work"), once="word 8")
                assert isinstance(again.result, Opened)
                assert again.result.again

    anyio.run(main)
