"""What was decided for a call holds wherever the call goes on, and control files are held wherever a program runs: whole
agents, played to the end."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.hostile import ALL, Lair
from tests.kit import call, recorded, results, say
from tests.permissions.ground import C4
from tests.runtime.agents import agent

from jaato.protocol.events import PermissionRequested, ToolCallStart
from jaato.providers.scripted import Answer
from jaato.runtime.embedding.agent import Agent

TOOLS = ["start_background", "get_background_output", "shell_spawn", "shell_input", "shell_read", "notebook_execute"]  # fmt: skip
WAYS = ["in the foreground", "moved", "in the background", "started there", "at a terminal"]
MOVED_AFTER_S = 0.3
BASH = "PS1='$ ' exec bash --norc --noprofile -i"
GIT = "git init -q -b main . && git config user.email a@example.org && git config user.name A"


def scripted(way: str, line: str, need: dict[str, Any]) -> Answer:
    """The call that runs a line in some way."""
    match way:
        case "moved":
            return call("run", command=f"sleep 1.2; {line}", **need)
        case "in the background":
            return call("run", command=line, background=True, **need)
        case "started there":
            return call("start_background", tool="run", args={"command": line, **need})
        case "at a terminal":
            return call("shell_spawn", command=line, wait_s=30, **need)
        case "in a notebook":
            return call("notebook_execute", code=f"!{line} 2>&1")
    return call("run", command=line, **need)


async def until_done(live: Agent) -> None:
    """Wait for the end of what goes on in the background."""
    with anyio.fail_after(60):
        while live.live.tasks.running():
            await anyio.sleep(0.05)


@C4
@pytest.mark.parametrize(
    ("way", "opened"),
    [
        *((way, opened) for way in WAYS for opened in ("nothing", "a rule", "a directory", "everything")),
        *(("in a notebook", opened) for opened in ("nothing", "a rule")),
    ],
)
def test_what_was_decided_holds_wherever_the_call_goes_on(tmp_path: Path, way: str, opened: str) -> None:
    """A command that was moved to the background, was begun there, or runs at a terminal or in a notebook does what its call
    was allowed and no more, though the session allows everything by then."""
    asked: list[PermissionRequested] = []

    def yes(event: PermissionRequested) -> str:
        asked.append(event)
        return "y"

    async def main(lair: Lair) -> None:
        need = {"a directory": [f"dir:{lair.outside}"], "everything": ["full"]}.get(opened)
        script: list[Answer] = [
            call("get_tool_schemas", names=TOOLS),
            scripted(way, lair.line, {"need": need} if need else {}),
            say("done"),
        ]
        allowed = ["run", "shell_spawn", "notebook_execute"] if opened == "a rule" else []
        made = agent(
            tmp_path, script, allow=allowed, on_permission=yes if need else None, environ=lair.environ
        )
        async with made as live:
            found = live.live.catalog.find("run")
            assert found is not None
            found.tool.background_after_s = MOVED_AFTER_S if way == "moved" else 30.0
            await live.run("go")
            with anyio.fail_after(60):
                while way == "started there" and not any(
                    isinstance(event, ToolCallStart) and event.tool == "run" for event in recorded(live.live)
                ):
                    await anyio.sleep(0.01)
            live.live.gate.set_mode("auto")
            promise = results(live.live)[1].structured
            assert (isinstance(promise, dict) and "task_id" in promise) is (
                way in ("moved", "in the background", "started there")
            )
            await until_done(live)

    with Lair(tmp_path) as lair:
        anyio.run(main, lair)
        wanted = {"nothing": set(), "a rule": {"planted"}, "a directory": {"planted", "wrote"}}
        assert lair.harm == wanted.get(opened, ALL)
    assert len(asked) == (1 if opened in ("a directory", "everything") else 0)


@C4
def test_control_files_are_held_at_a_terminal(tmp_path: Path) -> None:
    """A program that goes on at a terminal changes none that is there; what it makes is gone with the next result, which says
    so, and what it made last is gone with the session; git works."""
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["/bin/bash", "-c", GIT], cwd=work, check=True)
    before = (work / ".git" / "config").read_bytes()
    typed = [
        "echo evil >>.git/config; touch .git/hooks/pre-commit",
        "mv .git x; git config core.fsmonitor ./x",
        "mkdir .claude; echo '{}' >.claude/settings.json; echo x >f; git add f; git commit -qm one && echo committed",
        "echo '{}' >.mcp.json; ls -a",
        "(while :; do mkdir .cursor; sleep 0.01; done 2>/dev/null &) ; sleep 0.3",
    ]

    def type_in(text: str) -> Answer:
        return lambda request: call("shell_input", session_id=ids[0], text=text)

    def remember(request: Any) -> Any:
        ids.append(request.messages[-1].parts[-1].structured["session_id"])
        return type_in(typed[0])(request)  # type: ignore[operator]  # it is a function

    ids: list[str] = []
    script: list[Answer] = [
        call("get_tool_schemas", names=TOOLS),
        call("shell_spawn", command=BASH),
        remember,
        *(type_in(text) for text in typed[1:]),
        say("done"),
    ]

    async def main() -> None:
        made = agent(tmp_path, script, allow=["shell_spawn", "shell_input"])
        async with made as live:
            await live.run("go")
            told = [one.structured for one in results(live.live) if one.name == "shell_input"]
            assert [one.get("removed") for one in told[:4]] == [None, None, [".claude"], [".mcp.json"]]
            assert "permission" in told[2]["note"]
            assert "committed" in told[2]["screen"]
            assert not (work / ".claude").exists()
            assert not (work / ".mcp.json").exists()
            assert told[4]["removed"] == [".cursor"]

    anyio.run(main)
    assert (work / ".git" / "config").read_bytes() == before
    assert not (work / ".git" / "hooks" / "pre-commit").exists()
    assert not (work / ".cursor").exists()
    log = subprocess.run(["git", "log", "--oneline"], cwd=work, capture_output=True, text=True, check=True)
    assert log.stdout.endswith("one\n")


@C4
def test_control_files_are_held_in_a_notebook(tmp_path: Path) -> None:
    """A cell changes none that is there, and what it makes is gone with its result, which says so, also when it fails."""
    work = tmp_path / "work"
    work.mkdir()
    (work / ".mcp.json").write_text("good")
    cells = [
        "open('.mcp.json', 'w')",
        "import os; os.mkdir('.claude'); print('made')",
        "os.mkdir('.cursor'); 1 / 0",
        "os.mkdir('.claude'); os._exit(1)",
    ]
    script: list[Answer] = [
        call("get_tool_schemas", names=TOOLS),
        *(call("notebook_execute", code=one) for one in cells),
        say("x"),
    ]

    async def main() -> None:
        async with agent(tmp_path, script, allow=["notebook_execute"]) as live:
            await live.run("go")
            told = [one for one in results(live.live) if one.name == "notebook_execute"]
            assert [(one.structured or {}).get("removed") for one in told[:3]] == [
                None,
                [".claude"],
                [".cursor"],
            ]
            assert "made" in str(told[1].content)
            assert "Moved away: .claude" in str(told[1].content)
            assert sorted(one.name for one in work.iterdir()) == [".mcp.json"]

    anyio.run(main)
    assert (work / ".mcp.json").read_text() == "good"
