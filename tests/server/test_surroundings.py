"""What is around the conversation, as clients are told it: commands, tools, notes, and what fails beside a turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.kit import call, say
from tests.server.serving import served

from jaato.cli.output.console import Console
from jaato.cli.repl.editor import Keyboard
from jaato.cli.repl.session_output import completions
from jaato.client.connection import connect
from jaato.client.session import RemoteSession
from jaato.plugins.memory import brief_entries, workspace_notes
from jaato.protocol.codec import encode
from jaato.protocol.events import CommandList, MemoryList, SessionInfo
from jaato.protocol.events.state import State

C8 = pytest.mark.spec("C8", "Server and events")
GREET = """
from jaato.abc.plugin import UserCommand

PLUGIN_KIND = "tool"


class Greet:
    name = "greet"
    def get_tool_schemas(self): return []
    def get_executors(self): return {"greet": lambda given: f"Hello {given['input']}."}
    def initialize(self, config=None): pass
    def shutdown(self): pass
    def get_system_instructions(self): return None
    def get_auto_approved_tools(self): return []
    def get_user_commands(self): return [UserCommand("greet", "Say hello\\x1b[31m: greet NAME"), ("silent", "no function")]
"""
LONG = "The build is started by make in the directory tools, never by the script beside it. " * 4


async def until(session: RemoteSession, holds: Callable[[State], bool]) -> None:
    """Wait for a state."""
    with session.events() as events:
        if not holds(session.state):
            async for _ in events:
                if holds(session.state):
                    return


def names(state: State) -> list[str]:
    """The commands there are."""
    return [command.name for command in state.commands]


@C8
def test_commands_are_told_and_told_again(tmp_path: Path) -> None:
    """A client knows every plugin's commands, with their arguments, when it has attached; a plugin that comes or goes
    is told to all, on whichever thread it does, and so are the tools. What is told can be executed."""
    plugins = tmp_path / ".config" / "jaato" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "greet.py").write_text(GREET)

    async def main() -> None:
        async with served(tmp_path, []) as server, connect(server.path, name="one") as one:
            session = await one.create(tmp_path / "work")
            known = {command.name: command for command in session.state.commands}
            assert {"greet", "waypoint", "resume", "save", "plan"} <= set(known)
            assert names(session.state) == sorted(known)
            assert (known["resume"].description, known["resume"].parameters) == ("Go on with a session", "ID")
            assert (known["greet"].parameters, known["greet"].plugin) == ("NAME", "greet")
            assert known["greet"].description.isprintable()
            assert "silent" not in known
            assert await session.execute("greet", "you") == "Hello you."
            registry = server.hub.pool.loaded[session.id].session.services["registry"]
            with session.events() as events:
                await anyio.to_thread.run_sync(registry.unexpose_tool, "waypoint")
                told: list[Any] = []
                async for event in events:
                    told.append(event)
                    if isinstance(event, SessionInfo):
                        break
            assert [type(event) for event in told] == [CommandList, SessionInfo]
            assert set(names(session.state)) == set(known) - {"waypoint", "undo"}
            assert "create_waypoint" not in {tool["name"] for tool in told[-1].tools}
            registry.unexpose_tool("greet")
            await until(session, lambda state: "greet" not in names(state))
            registry.expose_tool("greet")
            await until(session, lambda state: "greet" in names(state))
            async with server.client("two") as two:
                await two.ask("session.attach", session_id=session.id, after_seq=session.state.seq - 1)
                two.states[session.id] = State(session_id=session.id, seq=session.state.seq - 1)
                await two.until(SessionInfo)
                assert two.states[session.id].commands == session.state.commands

    anyio.run(main)


@C8
def test_notes_are_told_and_told_again(tmp_path: Path) -> None:
    """Every client of a workspace learns which notes it has, in short, when it attaches and when one was kept, replaced
    or removed, by whichever session or hand."""
    work = tmp_path / "work"
    script = [
        call("get_tool_schemas", names=["store_memory"]),
        call("store_memory", content=LONG, tags=["Build", "make it"]),
        say("Kept."),
        call("list_tools"),
        say("Looked."),
    ]

    async def main() -> None:
        async with served(tmp_path, script, yes=True) as server, connect(server.path) as client:
            mine = await client.create(work)
            other = await client.create(work)
            assert (mine.state.memories, mine.state.memory_count) == ([], 0)
            await mine.run("Remember how it is built.")
            for session in (mine, other):
                await until(session, lambda state: state.memory_count == 1)
                (note,) = session.state.memories
                assert note.tags == ["build", "make-it"]
                assert note.at
                assert LONG.startswith(note.description.rstrip("…"))
                assert len(note.description) <= 80
            await anyio.to_thread.run_sync(lambda: workspace_notes(work).add("Shorter.", [], note.id, ""))
            async with server.client("late") as late:
                await late.ask("session.create", workspace=str(work))
                await late.ask("client.config")
                (state,) = late.states.values()
                if not state.memories:
                    await late.until(MemoryList)
                assert [one.description for one in state.memories] == ["Shorter."]
                await until(mine, lambda state: state.memories[0].description == "Shorter.")
                (work / ".jaato/memory/memories.jsonl").unlink()
                await late.ask("session.attach", session_id=mine.id)
                for session in (mine, other):
                    await until(session, lambda state: not state.memories and state.memory_count == 0)
            await client.list()
            assert encode(mine.state) == encode(server.hub.rooms[mine.id].state)

    anyio.run(main)


def test_of_many_notes_the_newest_are_told(tmp_path: Path) -> None:
    """However many notes a file has, and whatever a stranger wrote into it, what is told of it is bounded and printable."""
    notes = workspace_notes(tmp_path)
    for number in range(3):
        notes.add(f"note {number}", [], None, "")
    file = tmp_path / ".jaato/memory/memories.jsonl"
    lines = [
        f'{{"id":"x{n}\\u001b","at":"now","content":"{"w " * 999}","tags":{["t" * 99] * 99}}}'
        for n in range(300)
    ]
    file.write_text(file.read_text() + "\n".join(lines).replace("'", '"'))
    told = brief_entries(notes.read())
    assert len(told) == 100
    assert told[0].id.startswith("x299")
    assert all(entry.id.isprintable() and len(encode(entry)) < 1_500 for entry in told)


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.13")
def test_models_and_sessions_of_the_snapshot_are_completed(tmp_path: Path) -> None:
    """What Tab offers comes from `session.info`: the provider's models, and the sessions of this workspace."""

    async def main() -> None:
        async with served(tmp_path, [say("Hello.")]) as server, connect(server.path) as client:
            work = tmp_path / "work"
            (tmp_path / "other").mkdir()
            await client.create(tmp_path / "other", name="elsewhere")
            await client.create(work, name="first")
            session = await client.create(work, name="second")
            await until(session, lambda _state: session.info is not None and len(session.info.sessions) == 3)
            info = session.info
            assert info is not None
            offered = completions(info)
            assert [text for text in offered if text.startswith("/model")] == [
                f"/model {name}" for name in info.models
            ]
            assert info.models
            assert {text for text in offered if text.startswith("/resume")} == {
                "/resume first",
                "/resume second",
            }

    anyio.run(main)


def test_what_is_completed_follows_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The editor completes the commands there are now."""
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    with Path("/dev/null").open() as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        keyboard = Keyboard(environ, Console(environ), ["/help"])
        completer = keyboard._editor._toolkit_session().completer

        def completed(text: str) -> list[str]:
            return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]

        assert (completed("/h"), completed("/w")) == (["/help"], [])
        keyboard.set_completions(["/waypoint"])
        assert completed("/w") == ["/waypoint"]


@C8
def test_what_fails_beside_the_turn_is_told(tmp_path: Path) -> None:
    """A session that cannot be saved as a file, as its workspace asks for, says so to everybody: an `error` with its code."""
    kept = tmp_path / "work/.jaato"
    kept.mkdir(parents=True)
    (kept / ".sessions.json").write_text('{"checkpoint_after_turns": 1}')
    (kept / "sessions").write_text("a file where the directory would be")

    async def main() -> None:
        async with served(tmp_path, [say("Hello.")]) as server, connect(server.path) as client:
            session = await client.create(tmp_path / "work")
            await session.run("Hi.")
            await until(session, lambda state: state.problem is not None)
            assert session.state.problem is not None
            assert "failed in save" in session.state.problem.message
            assert session.state.problem.code

    anyio.run(main)
