"""Idle agents whose background work ends: a turn begins with the news, within bounds, and not against the user's will."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.kit import call, say
from tests.server.serving import Raw, served
from tests.server.test_resting import begun, fifo, until
from tests.subagent.cast import Cast

from jaato.abc.compactor import GCConfig, GCResult
from jaato.abc.provider import ModelRequest
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.compaction.strategies import TruncateGCPlugin
from jaato.errors import ProviderError, ToolError
from jaato.protocol.events import BackgroundUpdated, MessageUser, PermissionRequested, TurnCompleted
from jaato.protocol.messages import Message
from jaato.providers.scripted import Step
from jaato.server.sessions.wake import MAX_WAKES
from jaato.storage.sqlite import LOOKS_EVERY_S
from jaato.tools.tool import tool

FREE = ["start_background", "run(cat *)", "run(true)", "run(sleep *)"]
ACTIVATE = call("get_tool_schemas", names=["start_background", "stop_background", "delegate"])


def start(command: str) -> Step:
    """A call that starts a command in the background."""
    return call("start_background", tool="run", args={"command": command})


def ended(client: Raw, session_id: str) -> list[TurnCompleted]:
    """The turns of the root agent that have ended so far."""
    root = client.states[session_id].root_agent_id
    return [one for one in client.events if isinstance(one, TurnCompleted) and one.agent_id == root]


async def turns(client: Raw, session_id: str, count: int) -> list[TurnCompleted]:
    """Wait until so many turns of the root agent have ended."""
    while len(ended(client, session_id)) < count:
        await client.next()
    return ended(client, session_id)


def news(client: Raw) -> list[str]:
    """What the model was told of background work."""
    messages = [event.message for event in client.events if isinstance(event, MessageUser)]
    return [message.text for message in messages if message.source in ("system", "child")]


def test_a_background_command_wakes_its_idle_agent(tmp_path: Path) -> None:
    """The turn is over; the command ends; the model learns it in a turn of its own. A grant until idle does not revive."""
    gate = fifo(tmp_path)
    write = call("writeNewFile", path="a", content="")
    script = [
        ACTIVATE,
        call("get_tool_schemas", names=["writeNewFile"]),
        start("cat gate"),
        write,
        say("first"),
    ]
    script += [call("writeNewFile", path="b", content=""), say("second")]

    async def main() -> None:
        async with served(tmp_path, script) as server, server.client() as client:
            session_id = await begun(client, tmp_path, allow=FREE)
            await client.ask("client.config", answers=True)
            await client.ask("message.send", text="go")
            asked = await client.until(PermissionRequested)
            await client.ask("permission.response", question_id=asked.question_id, answer="idle")
            await turns(client, session_id, 1)
            await anyio.to_thread.run_sync(gate.write_text, "done")
            again = await client.until(PermissionRequested)
            assert again.arguments["path"] == "b"
            await client.ask("permission.response", question_id=again.question_id, answer="y")
            _, woken = await turns(client, session_id, 2)
            assert woken.reason == "stop"
            (told,) = news(client)
            assert "completed" in told

    anyio.run(main)


def test_a_session_is_not_evicted_between_the_end_of_a_task_and_its_wake(tmp_path: Path) -> None:
    """From the moment the event is published the session counts as used, until the turn it causes has ended."""
    gate = fifo(tmp_path)

    async def main() -> None:
        script = [ACTIVATE, start("cat gate"), say("first"), say("second")]
        async with served(tmp_path, script) as server, server.client() as client:
            session_id = await begun(client, tmp_path, allow=FREE)
            await client.ask("message.send", text="go")
            await turns(client, session_id, 1)
            live = server.hub.pool.loaded[session_id]
            uses: list[int] = []
            live.session.journal.bus.listen(
                lambda event: uses.append(live.uses) if isinstance(event, BackgroundUpdated) else None
            )
            await anyio.to_thread.run_sync(gate.write_text, "done")
            await turns(client, session_id, 2)
            await until(lambda: live.is_evictable)
            assert uses[-1] == 1

    anyio.run(main)


def test_a_background_subagent_wakes_its_idle_parent(tmp_path: Path) -> None:
    """The parent's turn ends before its subagent does; the subagent's result starts the parent's next turn."""
    gate = anyio.Event()

    async def slow(_request: ModelRequest) -> Step:
        await gate.wait()
        return say("found it")

    order = call("delegate", task="look", name="scout", background=True)
    cast = Cast({"main": [ACTIVATE, order, say("first"), say("second")], "scout": [slow]})

    async def main() -> None:
        nonlocal gate
        gate = anyio.Event()
        async with served(tmp_path, cast) as server, server.client() as client:
            session_id = await begun(client, tmp_path, allow=["delegate"])
            await client.ask("message.send", text="go")
            await turns(client, session_id, 1)
            gate.set()
            await turns(client, session_id, 2)
            (told,) = news(client)
            assert "found it" in told

    anyio.run(main)


@pytest.mark.parametrize("which", ["tool", "subagent"])
def test_background_work_that_fails_wakes_its_idle_agent(tmp_path: Path, which: str) -> None:
    """A failure is news, too, of a tool and of a subagent."""
    gate = fifo(tmp_path)

    async def fail(_request: ModelRequest) -> Step:
        await anyio.to_thread.run_sync(gate.read_text)
        raise ProviderError("It failed.", provider="scripted")

    @tool(core=True, access="read")
    def break_down() -> None:
        """Fail later."""
        gate.read_text()
        raise ToolError("It failed.")

    order = call("delegate", task="look", name="scout", background=True)
    order = call("start_background", tool="break_down") if which == "tool" else order
    cast = Cast({"main": [ACTIVATE, order, say("first"), say("second")], "scout": [fail]})

    async def main() -> None:
        async with served(tmp_path, cast, tools=[break_down]) as server, server.client() as client:
            session_id = await begun(client, tmp_path, allow=[*FREE, "delegate"])
            await client.ask("message.send", text="go")
            await turns(client, session_id, 1)
            await anyio.to_thread.run_sync(gate.write_text, "done")
            with anyio.fail_after(60):
                await turns(client, session_id, 2)
            (told,) = news(client)
            assert "failed" in told

    anyio.run(main)


def test_an_interrupted_turn_is_not_ended_by_background_work(tmp_path: Path) -> None:
    """The store has failed in a turn, which can be continued: the end of a background task does not begin another one."""
    gate = fifo(tmp_path)
    path = tmp_path / "state" / "jaato.db"

    async def lose(_request: ModelRequest) -> Step:
        path.rename(path.with_suffix(".away"))
        await anyio.sleep(LOOKS_EVERY_S)  # a store looks no more often whether it is still there
        return say("lost")

    cast = Cast({"main": [ACTIVATE, start("cat gate"), lose, say("second")]})

    async def main() -> None:
        async with served(tmp_path, cast) as server, server.client() as client:
            session_id = await begun(client, tmp_path, allow=FREE)
            session = server.hub.pool.loaded[session_id].session
            await client.ask("message.send", text="go")
            await until(lambda: session.is_interrupted)
            path.with_suffix(".away").rename(path)
            await anyio.sleep(LOOKS_EVERY_S)
            turn = session.state.open_turn
            await anyio.to_thread.run_sync(gate.write_text, "done")
            await until(lambda: not list(session.tasks.running()))
            for _ in range(200):
                await anyio.sleep(0)
            assert session.state.open_turn == turn
            cast.scripts["main"][2] = say("found")
            await client.ask("turn.continue")
            (ended,) = await turns(client, session_id, 1)
            assert (ended.turn_id, ended.reason) == (turn, "stop")

    anyio.run(main)


@pytest.mark.parametrize("why", ["stopped task", "stopped turn", "setting"])
def test_the_user_decides_when_an_agent_continues(tmp_path: Path, why: str) -> None:
    """A task that was stopped wakes nobody; nor does one that ends after a turn was stopped, or where the setting is off.
    The news waits for the user's next message."""
    gate = fifo(tmp_path)
    config = tmp_path / ".config/jaato"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f"wake_idle_agent = {'false' if why == 'setting' else 'true'}\n")
    wait = call("run", command="sleep 600")
    rest = [wait] if why == "stopped turn" else [say("first")]
    script = [ACTIVATE, start("cat gate"), *rest, say("next")]

    async def main() -> None:
        async with served(tmp_path, script) as server, server.client() as client:
            session_id = await begun(client, tmp_path, allow=FREE)
            live = server.hub.pool.loaded[session_id]
            await client.ask("message.send", text="go")
            if why == "stopped turn":
                await until(lambda: "sleep 600" in str(live.session.state.started))
                await client.ask("session.stop")
            await turns(client, session_id, 1)
            (task,) = live.session.tasks.running()
            if why == "stopped task":
                await client.ask("task.stop", task_id=task.id)
            else:
                await anyio.to_thread.run_sync(gate.write_text, "done")
            while not [
                one for one in client.events if isinstance(one, BackgroundUpdated) and one.status != "running"
            ]:
                await client.next()
            for _ in range(200):
                await anyio.sleep(0)
            assert len(live.session.inbox.messages) == 1
            assert live.session.state.turns == 1
            await client.ask("message.send", text="and?")
            await turns(client, session_id, 2)
            assert len(news(client)) == 1

    anyio.run(main)


def test_an_agent_that_wakes_itself_again_and_again_is_bounded(tmp_path: Path) -> None:
    """Each turn starts another task; after so many turns without a message of a user the news waits. With one the count
    starts anew."""
    step = [start("true"), say("again")]
    script = [ACTIVATE, *step * (MAX_WAKES + 2), say("over")]

    async def main() -> None:
        async with served(tmp_path, script) as server, server.client() as client:
            session_id = await begun(client, tmp_path, allow=FREE)
            live = server.hub.pool.loaded[session_id]
            await client.ask("message.send", text="go")
            await turns(client, session_id, 1 + MAX_WAKES)
            await until(lambda: not live.session.is_busy and live.session.inbox.messages)
            for _ in range(200):
                await anyio.sleep(0)
            assert live.session.state.turns == 1 + MAX_WAKES
            await client.ask("message.send", text="and?")
            with anyio.fail_after(60):
                await turns(client, session_id, 3 + MAX_WAKES)

    anyio.run(main)


def test_only_turns_that_began_count_against_the_bound(tmp_path: Path) -> None:
    """Many tasks that end while a turn runs are delivered by it; a later one still wakes the idle agent."""
    gate = fifo(tmp_path)
    left: list[Callable[[], bool]] = []

    async def wait(_request: ModelRequest) -> Step:
        await until(left[0])
        return say("first")

    tasks = MAX_WAKES + 2
    lines = [ACTIVATE, start("cat gate"), *[start("true")] * tasks, wait, say("seen"), say("second")]

    async def main() -> None:
        async with served(tmp_path, Cast({"main": lines})) as server, server.client() as client:
            session_id = await begun(client, tmp_path, allow=FREE)
            live = server.hub.pool.loaded[session_id]
            left.append(lambda: len(live.session.tasks.running()) == 1)
            await client.ask("message.send", text="go")
            await turns(client, session_id, 1)
            assert len(news(client)) == tasks
            await anyio.to_thread.run_sync(gate.write_text, "done")
            with anyio.fail_after(60):
                await turns(client, session_id, 2)

    anyio.run(main)


class Slow(TruncateGCPlugin):
    """A strategy that works until it may end."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def collect(self, *given: Any) -> tuple[list[Message], GCResult]:
        self.begun.set()
        self.may_end.wait(60)
        return super().collect(*given)


def test_a_task_that_ends_during_a_compaction_wakes_its_agent_after_it(tmp_path: Path) -> None:
    """A compaction by hand delivers no messages, so the turn begins when it has ended."""
    gate = fifo(tmp_path)
    slow = Slow()

    async def main() -> None:
        script = [ACTIVATE, start("cat gate"), say("first"), say("second")]
        async with served(tmp_path, script) as server, server.client() as client:
            session_id = await begun(client, tmp_path, allow=FREE)
            live = server.hub.pool.loaded[session_id]
            await client.ask("message.send", text="go")
            await turns(client, session_id, 1)
            live.session.compaction.use(CompactionSetup(slow, GCConfig()))
            async with anyio.create_task_group() as group:
                group.start_soon(live.session.compact)
                await anyio.to_thread.run_sync(slow.begun.wait, 20)
                await anyio.to_thread.run_sync(gate.write_text, "done")
                await until(lambda: live.session.inbox.messages)
                for _ in range(200):
                    await anyio.sleep(0)
                assert live.session.state.turns == 1
                slow.may_end.set()
            with anyio.fail_after(60):
                await turns(client, session_id, 2)

    anyio.run(main)
