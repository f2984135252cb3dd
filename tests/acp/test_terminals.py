"""Output of commands in terminals of the editor: by a program that follows the call, or without one by `_meta`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import psutil
from tests.acp.editor import Editor, Terminal, editing, run
from tests.cli.environment import CliEnvironment, call, say

SLOW = call("run", command="echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended; exit 3")
FAST = call("run", command="echo quick")
SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
LEAK = call(
    "run",
    command=f"echo {SECRET[:9]}''{SECRET[9:]}; seq 3000; echo after; while [ ! -e go ]; do sleep 0.05; done",
)


HASTY = [
    sys.executable,
    "-c",
    (
        "import sys; from jaato.acp import terminals; terminals.CLOSE_TIMEOUT_S = 0.5\n"
        "from jaato.cli import main; sys.exit(main())"
    ),
]
"""An agent that waits for a shorter time than others until a terminal has shown the output."""


def terminals_of(editor: Editor, title: str = "run") -> list[Any]:
    """The terminals in the content of a call."""
    return [one for one in editor.call(title).get("content") or [] if one["type"] == "terminal"]


async def shown(editor: Editor, text: str) -> Terminal:
    """The terminal, once it shows a text."""
    await editor.wait(lambda: any(text in one.output for one in editor.terminals.values()))
    return next(one for one in editor.terminals.values() if text in one.output)


def test_a_command_is_followed_in_a_terminal(desk: CliEnvironment) -> None:
    """The program of the terminal is ours: it shows the output live, ends with the exit code, and is released."""
    script = desk.script(SLOW, say("done"))
    trap = desk.root / "trap"
    trap.mkdir()
    for name in (
        "jaato",
        "asyncio",
        "json",
    ):  # where a terminal begins, from where no program of ours may import
        (trap / f"{name}.py").write_text("print('imported')")

    async def story() -> None:
        async with editing(desk, *script, terminal=True) as editor:
            editor.cwd = str(trap)
            session = await editor.new(desk)
            turn = asyncio.create_task(editor.say(session, "go"))
            terminal = await shown(editor, "begun")
            assert "echo" not in " ".join(terminal.command)
            await editor.wait(lambda: terminals_of(editor))
            (desk.work / "go").touch()
            assert (await turn).stop_reason == "end_turn"
            assert terminals_of(editor)
            await editor.wait(lambda: terminal.released)
            assert await terminal.ended == 3
            assert terminal.output == "begun\nended\n"
            assert editor.call("run")["states"][-1] == "completed"

    run(story())


def test_a_terminal_with_another_encoding(desk: CliEnvironment) -> None:
    """Every character can be printed; one that a command prints in pieces is whole, and an escape has no effect."""
    command = "echo begun ünï; while [ ! -e go ]; do sleep 0.05; done; printf '\\303'; sleep 0.3; "
    script = desk.script(call("run", command=command + "printf '\\251\\033[31mred\\377\\r\\n'"), say("done"))

    async def story() -> None:
        async with editing(desk, *script, terminal=True) as editor:
            editor.env = {"PYTHONIOENCODING": "ascii"}
            session = await editor.new(desk)
            turn = asyncio.create_task(editor.say(session, "go"))
            terminal = await shown(editor, "begun")
            (desk.work / "go").touch()
            await turn
            assert await terminal.ended == 0
            assert terminal.output == "begun ünï\né[31mred\ufffd\n"

    run(story())


def test_a_short_command_needs_no_terminal(desk: CliEnvironment) -> None:
    """Its output is text, as for an editor without terminals."""
    script = desk.script(FAST, say("done"))

    async def story() -> None:
        async with editing(desk, *script, terminal=True) as editor:
            await editor.say(await editor.new(desk), "go")
            assert "quick" in editor.call("run")["content"][0]["content"]["text"]
            assert not editor.terminals

    run(story())


def test_killing_the_terminal_stops_the_command(desk: CliEnvironment) -> None:
    """The call ends as stopped and the turn goes on."""
    script = desk.script(call("run", command="echo begun; sleep 300.173"), say("stopped"))

    async def story() -> None:
        async with editing(desk, *script, terminal=True) as editor:
            session = await editor.new(desk)
            turn = asyncio.create_task(editor.say(session, "go"))
            terminal = await shown(editor, "begun")
            terminal.process.terminate()
            assert (await turn).stop_reason == "end_turn"
            assert editor.text() == "stopped"
            assert editor.call("run")["states"][-1] == "failed"
            assert not [
                one for one in psutil.process_iter(["cmdline"]) if "300.173" in (one.info["cmdline"] or [])
            ]

    run(story())


def test_a_program_that_fails_leaves_the_command_alone(desk: CliEnvironment) -> None:
    """Its output is text then."""
    script = desk.script(SLOW, say("done"))

    class Failing(Editor):
        async def create_terminal(self, session_id: str, command: str, *args: Any, **more: Any) -> Any:
            return await super().create_terminal(session_id, "/bin/sh", ["-c", "echo broken; exit 1"])

    async def story() -> None:
        async with editing(desk, *script, terminal=True, editor=Failing()) as editor:
            session = await editor.new(desk)
            turn = asyncio.create_task(editor.say(session, "go"))
            await editor.wait(lambda: any(one.released for one in editor.terminals.values()))
            (desk.work / "go").touch()
            assert (await turn).stop_reason == "end_turn"
            assert len(editor.terminals) == 1
            assert not terminals_of(editor)
            assert "begun\nended" in editor.call("run")["content"][0]["content"]["text"]

    run(story())


def test_a_program_that_is_late(desk: CliEnvironment) -> None:
    """One that has not shown the output in time after the end of its call, as on a busy machine, shows nothing any more: the
    output is text then."""
    script = desk.script(SLOW, say("done"))

    class Busy(Editor):
        async def create_terminal(self, session_id: str, command: str, *args: Any, **more: Any) -> Any:
            return await super().create_terminal(session_id, "/bin/sh", ["-c", "exec sleep 300.29"])

    async def story() -> None:
        async with editing(desk, *script, terminal=True, editor=Busy(), command=HASTY) as editor:
            session = await editor.new(desk)
            turn = asyncio.create_task(editor.say(session, "go"))
            await editor.wait(lambda: editor.terminals and terminals_of(editor))
            (desk.work / "go").touch()
            await turn
            assert terminals_of(editor)
            await editor.wait(lambda: not terminals_of(editor))
            assert "begun\nended" in editor.call("run")["content"][0]["content"]["text"]
            assert editor.terminals["t1"].released
            await editor.terminals["t1"].ended
            await editor.agent.close_session(session_id=session)

    run(story())


def test_a_terminal_that_is_created_late_is_released(desk: CliEnvironment) -> None:
    """An editor that takes longer to create it than the agent waits keeps no terminal, and the output is text."""
    script = desk.script(SLOW, say("done"))

    class Slow(Editor):
        free: asyncio.Event
        asked: asyncio.Event

        async def create_terminal(self, session_id: str, command: str, *args: Any, **more: Any) -> Any:
            self.asked.set()
            await self.free.wait()
            return await super().create_terminal(session_id, command, *args, **more)

    async def story() -> None:
        editor = Slow()
        editor.free, editor.asked = asyncio.Event(), asyncio.Event()
        async with editing(desk, *script, terminal=True, editor=editor, command=HASTY):
            session = await editor.new(desk)
            turn = asyncio.create_task(editor.say(session, "go"))
            await editor.asked.wait()
            (desk.work / "go").touch()
            await turn
            ends = editor.call("run")["states"]
            await editor.wait(lambda: len(editor.call("run")["states"]) > len(ends))  # that it waits no more
            assert "begun\nended" in editor.call("run")["content"][0]["content"]["text"]
            editor.free.set()
            await editor.wait(lambda: any(one.released for one in editor.terminals.values()))

    run(story())


def test_secrets_are_removed(desk: CliEnvironment) -> None:
    """What follows a call reads events, from which secrets are removed."""
    script = desk.script(LEAK, say("done"))

    async def story() -> None:
        async with editing(desk, *script, terminal=True) as editor:
            session = await editor.new(desk)
            turn = asyncio.create_task(editor.say(session, "go"))
            terminal = await shown(editor, "masked:")
            (desk.work / "go").touch()
            await turn
            assert SECRET not in terminal.output

    run(story())


def test_output_is_sent_for_a_display_terminal(desk: CliEnvironment) -> None:
    """An editor that shows output without a program has it in `_meta`, each text once, with the exit code at the end."""
    script = desk.script(SLOW, FAST, say("done"))

    async def story() -> None:
        async with editing(desk, *script, terminal=True, meta={"terminal_output": True}) as editor:
            session = await editor.new(desk)
            turn = asyncio.create_task(editor.say(session, "go"))
            await editor.wait(lambda: "begun" in text_in_meta(editor, "begun"))
            (desk.work / "go").touch()
            await turn
            assert not editor.terminals
            start = next(one for one in editor.of("tool_call") if "begun" in one.title)
            assert start.field_meta["terminal_info"] == {
                "terminal_id": start.tool_call_id,
                "cwd": str(desk.work),
            }
            assert text_in_meta(editor, "begun") == "begun\nended\n"
            assert exit_in_meta(editor, "begun") == 3
            assert text_in_meta(editor, "quick") == "quick\n"
            assert exit_in_meta(editor, "quick") == 0
            assert terminals_of(editor, "quick")
            await editor.agent.close_session(session_id=session)
            editor.updates.clear()
            await editor.agent.load_session(cwd=str(desk.work), session_id=session, mcp_servers=[])
            assert text_in_meta(editor, "begun") == "begun\nended\n"

    run(story())


def metas_of(editor: Editor, title: str) -> list[dict[str, Any]]:
    """The `_meta` of the updates of a call."""
    start = next((one for one in editor.of("tool_call") if title in one.title), None)
    changes = [
        one for one in editor.of("tool_call_update") if start and one.tool_call_id == start.tool_call_id
    ]
    return [one.field_meta for one in changes if one.field_meta]


def text_in_meta(editor: Editor, title: str) -> str:
    """The output of a call in `_meta`."""
    found = [one["terminal_output"] for one in metas_of(editor, title) if "terminal_output" in one]
    return "".join(one["data"] for one in found)


def exit_in_meta(editor: Editor, title: str) -> Any:
    """The exit code of a call in `_meta`."""
    return metas_of(editor, title)[-1]["terminal_exit"]["exit_code"]


def test_the_program_of_a_terminal_loads_no_protocol() -> None:
    """It begins with each command that is shown, and the protocol's library takes longer to load than the rest of it."""
    program = "import sys, jaato.acp.follow; sys.exit('acp' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", program], check=False).returncode == 0
