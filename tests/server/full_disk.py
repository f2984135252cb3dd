"""A server whose disk fills up while it works, in a process that may mount things nobody else sees."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import anyio
from tests.server.serving import Raw, Served, opened, served, turn_of

from jaato.abc.provider import ModelRequest
from jaato.protocol.events import (
    BackgroundUpdated,
    PermissionRequested,
    SessionInfo,
    SystemMessage,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.frames import History, Reply, Sessions
from jaato.providers.scripted import ScriptedCall, Step
from jaato.tools.tool import tool

NO_ROOM = re.compile(r"Free some space|Check free space")


class Disk:
    """A small file system, which a tool can fill; its ledger is elsewhere."""

    def __init__(self, place: Path) -> None:
        self.place = place / "disk"
        self.ledger = place / "ledger"
        self.place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(self.place)],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            print("no mounts here", flush=True)
            raise SystemExit(0)

    def fill(self) -> None:
        """Take all the room there is."""
        with (self.place / "ballast").open("ab", buffering=0) as file:
            for size in (4096, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        """Give it back."""
        (self.place / "ballast").unlink()


def script(request: ModelRequest) -> Step:
    """Fill the disk, at once or in the background, when told to; else repeat what was said."""
    said = [
        message.text for message in request.messages if message.role == "user" and message.source == "user"
    ]
    answered = request.messages[-1].role == "tool"
    match said[-1]:
        case "fill" if not answered:
            return Step(
                calls=[
                    ScriptedCall("fills", {}),
                    ScriptedCall("run", {"command": "touch asked", "need": ["write"]}),
                ]
            )
        case "fill behind" if not answered:
            return Step(calls=[ScriptedCall("start_background", {"tool": "fills"})])
    return Step(text=f"You said {said[-1]}.")


async def main(place: Path) -> None:
    """Everything in one server: sessions in the middle of a turn, with a background task, and at rest."""
    disk = Disk(place)

    @tool(core=True, access="read")
    async def fills() -> str:
        """Fill the disk."""
        with disk.ledger.open("a") as file:
            file.write("filled\n")
        disk.fill()
        return "x" * 50_000

    environ = {"HOME": str(disk.place), "PATH": "/usr/bin:/bin", "JAATO_DEFERRED_TOOLS": "0"}
    async with (
        served(disk.place, [script] * 100, tools=(fills,), environ=environ) as server,
        server.client("one") as one,
        server.client("two") as two,
    ):
        first, second = await opened(one, disk.place / "work"), await opened(two, disk.place / "work")
        await turn_of(one, first, "hello")
        await in_mid_turn(one, disk, first)
        await others_are_served(two, server, disk, first, second)
        disk.free()
        await gone_on_with(one, disk, first)
        await behind(two, disk, second)
        for client, session_id in ((one, first), (two, second)):
            log = list(server.hub.store.read(session_id))
            assert [event.seq for event in log] == list(range(1, client.states[session_id].seq + 1))
    print("done", flush=True)


def refused(reply: Reply) -> None:
    """A command that needs room says so, and what to do."""
    assert reply.error is not None
    assert (reply.error.code, reply.error.retryable) == ("store_full", True), reply.error
    assert NO_ROOM.search(reply.error.message), reply.error


async def in_mid_turn(client: Raw, disk: Disk, session_id: str) -> None:
    """Who watches learns that the turn has broken off, why, and that nobody works on it."""
    client.events.clear()
    sent = await client.ask("message.send", text="fill", session_id=session_id)
    assert sent.error is None
    told = next((one for one in client.events if isinstance(one, SystemMessage)), None)
    told = told or await client.until(SystemMessage)
    assert told.level == "error"
    assert NO_ROOM.search(told.text), told.text
    info = await client.until(SessionInfo)
    assert not info.at_work
    state = client.states[session_id]
    assert state.open_turn is not None
    assert state.agents[state.root_agent_id].status == "error"
    refused(await client.ask("message.send", text="and now?", session_id=session_id))


async def others_are_served(client: Raw, server: Served, disk: Disk, first: str, second: str) -> None:
    """On a full disk sessions are listed, watched and read; what needs room is refused, and nothing ends the server."""
    refused(await client.ask("message.send", text="hello", session_id=second))
    refused(await client.ask("session.create", workspace=str(disk.place / "work")))
    refused(await client.ask("session.fork", session_id=first))
    listed = (await client.ask("session.list")).result
    assert isinstance(listed, Sessions)
    assert len(listed.sessions) == 2
    page = (await client.ask("history.request", session_id=first)).result
    assert isinstance(page, History)
    assert any(isinstance(entry, TurnCompleted) for entry in page.events)
    async with server.client("three") as three:
        assert (await three.ask("session.attach", session_id=first)).error is None
        if first not in three.states:
            await three.until(SessionInfo)
        assert three.states[first].open_turn is not None


async def gone_on_with(client: Raw, disk: Disk, session_id: str) -> None:
    """With room again the turn goes on: what had begun is not repeated, what was asked is asked anew, and only that."""
    client.events.clear()
    before = list(client.states[session_id].questions)
    assert (await client.ask("turn.continue", session_id=session_id)).error is None
    asked = [event for event in client.events if isinstance(event, PermissionRequested)]
    question = asked[0] if asked else await client.until(PermissionRequested)
    assert list(client.states[session_id].questions) == [question.question_id] != before
    answer = await client.ask(
        "permission.response", session_id=session_id, question_id=question.question_id, answer="y"
    )
    assert answer.error is None
    if client.states[session_id].open_turn is not None:
        await client.until(TurnCompleted)
    ends = [event for event in client.events if isinstance(event, ToolCallEnd)]
    assert [(end.tool, end.result.ok) for end in ends] == [("fills", False), ("run", True)]
    assert ends[0].result.error is not None
    assert ends[0].result.error.code == "interrupted"
    assert disk.ledger.read_text() == "filled\n"
    assert (await turn_of(client, session_id, "hello again")).reason == "stop"


async def behind(client: Raw, disk: Disk, session_id: str) -> None:
    """A background task whose end had no room in the log is recorded with the next turn."""
    client.events.clear()
    await client.ask("message.send", text="fill behind", session_id=session_id)
    while disk.ledger.read_text() != "filled\n" * 2:
        await anyio.sleep(0.005)
    refused(await client.ask("message.send", text="and now?", session_id=session_id))
    disk.free()
    done = await turn_of(client, session_id, "and now?")
    assert done.reason == "stop"
    tasks = [event for event in client.events if isinstance(event, BackgroundUpdated)]
    assert [task.status for task in tasks] != []
    state = client.states[session_id]
    assert not state.tasks
    assert not state.calls


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
