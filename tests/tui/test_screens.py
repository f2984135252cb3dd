"""Agents as tabs, plans, screens, searches, themes, and small terminals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.mcp.hosting import configure, raw
from tests.tui.studio import Studio, call, say, studio
from textual.widgets import OptionList

from jaato.plugins.mcp.pool import SERVER_POOL
from jaato.protocol.commands import SessionFork
from jaato.protocol.specs import Plan, PlanStep
from jaato.server.sessions.listing import MAX_SUMMARY_CHARS
from jaato.tui.lines_view import LinesView
from jaato.tui.screens.list_screen import ListScreen, Row, Subject
from jaato.tui.screens.listings import drop_empty_columns
from jaato.tui.screens.sessions import MOST, SessionSubject

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def write_preferences(work: Path, **entries: Any) -> Path:
    """Write the user's `tui.json`; its path."""
    path = work.parent / "home" / ".config" / "jaato" / "tui.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(entries))
    return path


async def test_the_plan_is_a_panel_or_a_line(work: Path) -> None:
    """Beside the conversation where it is wide, one line above the prompt where it is not."""
    steps = [
        call("get_tool_schemas", names=["createPlan"]),
        call("createPlan", title="The plan", steps=["first step", "second step"]),
        say("Planned."),
    ]
    async with studio(work, steps=steps, size=(120, 30)) as one:
        await one.send("plan it")
        await one.see("Planned.", "· first step", "· second step")
        await one.pilot.resize_terminal(80, 24)
        await one.see("plan 0/2: The plan")
        plan = Plan("p", "t", [PlanStep("1", "x" * 500, "in_progress")], "active")
        one.app.link.session.state.agents[one.app.view.agent_id].plans = {"p": plan}
        one.app.link.session.state.agents[one.app.view.agent_id].plan_id = "p"
        one.app.view.draw()
        await one.see("plan 0/1: xxx")
        await one.pilot.resize_terminal(110, 24)
        await one.see("▸ xxx")


async def open_screen(one: Studio, name: str, *texts: str) -> None:
    """Open a screen, see what it shows, and leave it."""
    one.app.action_open(name)
    await one.see(*texts)
    await one.press("escape")
    await one.wait(lambda: one.app.screen is one.app.view)


async def test_every_screen_fits_a_small_terminal(work: Path) -> None:
    """At 80 by 24 nothing is wider than the screen, and Escape goes back to the prompt."""
    steps = [call("run", command="echo out"), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("some words to find")
        await one.see("Over.")
        await one.rest()
        await open_screen(one, "sessions", "Sessions", "(this one)", "user: some words")
        await open_screen(one, "search", "Search in the conversation", "some words to find")
        await open_screen(one, "history", "Messages sent before", "some words to find")
        await open_screen(one, "waypoints", "Waypoints", "w0", "session start")
        await open_screen(one, "tasks", "There are no background tasks.")
        await open_screen(one, "tools", "Tools", "* ", "tokens")
        await open_screen(one, "mcp", "MCP servers")
        await open_screen(one, "permissions", "No lasting answers")
        await open_screen(one, "usage", "by agent", "AGENT")
        await open_screen(one, "context", "of 128,000 tokens", "━")
        await open_screen(one, "keys", "Shift+Enter, Ctrl+J", "F2")
        assert one.app.view.prompt.has_focus


async def test_mcp_servers_are_shown_and_restarted(work: Path) -> None:
    """State, transport, protocol, price and error of each server; keys start, restart and switch off."""
    configure(work.parent / "home", {"raw": raw("fine", str(work)), "gone": raw("exit")})
    async with studio(work, steps=[say("x")], size=(140, 40)) as one:
        one.app.action_open("mcp")
        await one.see("MCP servers", "· raw", "configured", "transport stdio", "sandbox")
        await one.press("enter")
        await one.see("✓ raw", "started", "protocol 20", "tokens once declared", "mcp__raw__echo")
        started = next(line for line in one.screen.splitlines() if "started 20" in line)
        assert "UTC" in started
        await one.press("ctrl+d")
        await one.see("27  off  Say")
        await one.press("ctrl+d")
        await one.see("27  Say")
        await one.press("ctrl+x")
        await one.see("- raw", "switched off")
        servers_file = work.parent / "home" / ".mcp.json"
        assert json.loads(servers_file.read_text())["mcpServers"]["raw"]["disabled"] is True
        await one.press("ctrl+x")
        await one.see("✓ raw", "started")
        assert "disabled" not in servers_file.read_text()
        servers = [
            one for one in psutil.Process().children(recursive=True) if "raw.py" in " ".join(one.cmdline())
        ]
        assert len(servers) == 1
        await one.press("ctrl+r")
        await one.wait(lambda: not servers[0].is_running())
        await one.see("✓ raw")
        await one.press("down", "enter")
        await one.see("✗ gone", "gone: failed")
    SERVER_POOL.close()


async def test_another_session_is_found_and_opened(work: Path) -> None:
    """The picker searches the text of all sessions, shows a preview, and opens one with Enter."""
    async with studio(work, steps=[say("about zebras")], size=(110, 30)) as one:
        await one.send("tell me of animals")
        await one.see("about zebras")
        await one.rest()
        first = one.app.link.session.id
    async with studio(work, steps=[say("other")], size=(110, 30)) as one:
        await one.press("f3")
        await one.see("Sessions", "(this one)")
        await one.type("zebras")
        await one.see("found:", "agent: about zebras")
        await one.press("enter")
        await one.wait(lambda: one.app.link.session.id == first)
        await one.see("▌ tell me of animals", "about zebras")


async def fork_often(one: Studio, count: int) -> None:
    """Make sessions that are copies of this one."""
    session = one.app.link.session
    for number in range(count):
        await one.app.link.client.ask(SessionFork(session_id=session.id, name=f"copy {number}"))


async def load_more(one: Studio, browser: ListScreen, loaded: int) -> None:
    """Go to the last row, and wait until there are so many."""
    options = browser.query_one("#rows", OptionList)
    options.highlighted = options.option_count - 1
    await one.wait(lambda: options.option_count == loaded)


async def test_all_sessions_are_reached_at_the_end_of_the_list(work: Path) -> None:
    """The list says that there are more sessions than it has loaded, and loads them at its end: those of this directory, then
    those of others; so does the list of what a search has found."""
    other = work.parent / "other"
    other.mkdir()
    async with studio(other, steps=[say("about zebras")], size=(110, 30)) as one:
        await one.send("tell me of animals")
        await one.see("about zebras")
        await one.rest()
        await fork_often(one, 2)
    async with studio(work, steps=[say("about zebras")], size=(110, 30)) as one:
        await one.send("tell me of animals")
        await one.see("about zebras")
        await one.rest()
        await fork_often(one, 2 * MOST + 1)
        for words in ("", "zebras"):
            one.app.action_open("sessions")
            await one.see(f"Sessions ({MOST} loaded, more at the end of the list)")
            browser = one.app.screen
            assert isinstance(browser, ListScreen)
            if words:
                browser._filter_input.value = words
                await one.see("found:")
            for _ in range(MOST + 1):  # faster than they are loaded
                browser.action_move(1)
            assert browser.marked is browser._shown[-1]
            for loaded in (2 * MOST, 2 * MOST + 5):
                await load_more(one, browser, loaded)
            await one.wait(lambda: "loaded" not in one.screen)
            assert len({row.id for row in browser._shown}) == 2 * MOST + 5
            if not words:
                elsewhere = ["· other" in row.text for row in browser._shown]
                assert elsewhere == [False] * (2 * MOST + 2) + [True] * 3
            await one.press("escape")


async def test_waypoints_are_restored_after_a_preview(work: Path) -> None:
    """The preview says which files would change; Ctrl+R restores them."""
    steps = [
        call("get_tool_schemas", names=["writeNewFile"]),
        call("writeNewFile", path="made.txt", content="x"),
        say("Over."),
    ]
    async with studio(work, "--yes", steps=steps) as one:
        await one.send("/waypoint create before it")
        await one.see("is made")
        await one.send("write it")
        await one.see("Over.")
        await one.rest()
        one.app.action_open("waypoints")
        await one.see('"before it"')
        await one.press("down")
        await one.see("made.txt: would be")
        await one.press("ctrl+r")
        await one.wait(lambda: not (work / "made.txt").exists())


async def test_the_palette_lists_screens_and_commands(work: Path) -> None:
    """Ctrl+P finds a screen by its words, and puts a command into the prompt."""
    async with studio(work, steps=[say("x")]) as one:
        await one.press("ctrl+p")
        await one.see("Background tasks")
        assert "/commands" not in one.screen
        await one.type("usage")
        await one.see("tokens, price and time")
        await one.press("enter")
        await one.see("by agent")
        await one.press("escape")


async def test_the_theme_is_kept_and_keys_are_bound(work: Path) -> None:
    """A theme that was chosen is that of the next start; `tui.json` binds other keys, and a damaged one is reported."""
    async with studio(work, steps=[say("x")]) as one:
        one.app.theme = "textual-light"
        await one.pilot.pause(0.1)
    path = work.parent / "home" / ".config" / "jaato" / "tui.json"
    assert json.loads(path.read_text())["theme"] == "textual-light"
    path.write_text(json.dumps({"theme": "textual-light", "keys": {"app.keys": "f8"}}))
    async with studio(work, steps=[say("x")]) as one:
        assert one.app.theme == "textual-light"
        await one.press("f8")
        await one.see("Shift+Enter, Ctrl+J")
        await one.press("escape")
    path.write_text("{")
    async with studio(work, steps=[say("x")]) as one:
        await one.see("tui.json cannot be used")
    assert path.read_text() == "{"


async def test_every_size_is_drawn(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR every width down to 30 columns is drawn."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with studio(
        work, steps=[say("# Words\n\n" + "some words " * 40 + "\n\n```python\nx = 1\n```")]
    ) as one:
        await one.send("go")
        await one.see("tokens in")
        for width, height in ((30, 10), (200, 60), (80, 24)):
            await one.pilot.resize_terminal(width, height)
            await one.pilot.pause(0.1)
            assert "tokens" in one.screen


def test_tables_leave_out_what_is_zero() -> None:
    """Columns without a figure go; a text that is no table stays."""
    table = [
        "AGENT  CALLS  CACHED  PRICE",
        "main   5      0       $1",
        "sub    1      0       price unknown",
        "A note.",
    ]
    assert drop_empty_columns(table) == [
        "AGENT  CALLS  PRICE",
        "main   5      $1",
        "sub    1      price unknown",
        "A note.",
    ]
    assert drop_empty_columns(["No calls yet."]) == ["No calls yet."]
    assert drop_empty_columns([]) == []


async def test_hints_name_the_keys_as_they_are_bound(work: Path) -> None:
    """Status line, prompt, palette, and the list of keys; a name that does not exist is reported."""
    keys = {
        "app.keys": "f8",
        "app.stop": "ctrl+l",
        "prompt.queue": "f10, ctrl+y",
        "app.tasks": "f7",
        "app.sesions": "f12",
    }
    write_preferences(work, keys=keys)
    steps = [call("run", command="sleep 600"), say("Over.")]
    async with studio(work, steps=steps, size=(120, 40)) as one:
        await one.see("F8 shows the keys", "F8 keys", "tui.json: app.sesions does not exist")
        await one.press("f8")
        await one.see("F10, Ctrl+Y", "Ctrl+L", "Shift+Enter, Ctrl+J", "PageUp, PageDown")
        await one.press("f8")
        await one.send("go")
        await one.see("Ctrl+L stops", "F10: after the turn")
        await one.press("ctrl+l")
        await one.rest()
        await one.press("ctrl+p")
        await one.see("stop one (F7)")
        await one.press("escape")


async def test_what_cannot_be_used_of_the_preferences_is_reported(work: Path) -> None:
    """A theme, an entry, a key that does not exist, that types a character, that two have; the others are used."""
    keys = {
        "app.keys": "?",
        "app.stop": "ctrl+",
        "app.tasks": "F3, f7",
        "transcript.next": "j",
        "app.popup": 6,
    }
    path = write_preferences(work, theme="night", mouse=1, color="red", keys=keys)
    async with studio(work, steps=[say("x")]) as one:
        await one.see(
            'there is no theme "night"', '"mouse" must be', 'no entry "color"', "app.keys cannot have ?"
        )
        await one.see(
            'app.stop has no key "ctrl+"', "app.popup has no key 6", "app.tasks and app.sessions have"
        )
        assert "transcript.next" not in one.screen
        await one.press("f7")
        await one.see("Background tasks")
        await one.press("escape")
    path.write_text('{"keys": ["f3"]}')
    async with studio(work, steps=[say("x")]) as one:
        await one.see('"keys" must be an object')


async def test_all_keys_of_a_list_are_seen_in_80_columns(work: Path) -> None:
    """The longest line of them is broken."""
    async with studio(work, steps=[say("x")]) as one:
        one.app.action_open("mcp")
        await one.see("Enter start, list again · Ctrl+R restart", "Ctrl+X off or on for good", "Esc back")


async def test_keys_that_are_named_after_characters(work: Path) -> None:
    """The space bar types a character; with Ctrl, a sign is a key like any other, written as itself or by its name."""
    keys = {"app.keys": "ctrl+underscore", "app.sessions": "Ctrl+/", "app.tasks": "space", "app.plans": "-"}
    write_preferences(work, keys=keys)
    async with studio(work, steps=[say("x")]) as one:
        await one.see("app.tasks cannot have space", "app.plans cannot have -")
        assert "has no key" not in one.screen
        await one.press("ctrl+underscore")
        await one.see("Ctrl+Slash")
        await one.press("escape", "ctrl+slash")
        await one.see("type to search")
        await one.press("escape")


async def test_the_keys_of_the_prompt_can_be_bound(work: Path) -> None:
    """Enter begins a line and another key sends; a key of the editor itself becomes the client's; Ctrl+Q is none."""
    keys = {"prompt.send": "Ctrl+S", "prompt.newline": "enter", "app.unfold": "Ctrl+E"}
    write_preferences(work, keys=keys)
    async with studio(work, steps=[call("run", command="echo a; echo b"), say("Over.")]) as one:
        await one.press("a", "enter", "b", "ctrl+q")
        assert one.app.view.prompt.text == "a\nb"
        await one.press("ctrl+s")
        await one.see("Over.")
        await one.press("ctrl+e")
        await one.see("│ command: echo a; echo b")
        await one.press("f1")
        await one.see("Ctrl+S                send")
        await one.press("escape")


class Leaving(Subject[str]):
    """A preview, or rows, that arrive when the list was removed already."""

    title = "Leaving"

    def __init__(self, *, are_rows_late: bool = False) -> None:
        self.arrived = asyncio.Event()
        self.waiting = 0
        self._are_rows_late = are_rows_late

    async def rows(self, query: str) -> list[Row[str]]:
        """One row."""
        del query
        if self._are_rows_late:
            await self.arrived.wait()
        return [Row("one", "one", "one")]

    async def preview(self, row: Row[str]) -> list[tuple[str, str]]:
        """Waits."""
        self.waiting += 1
        await self.arrived.wait()
        return [(row.id, "")]


async def test_what_arrives_while_a_screen_is_removed_is_ignored(work: Path) -> None:
    """Of a screen that is left the list goes first: a preview or a key that comes then is no error."""
    async with studio(work, steps=[say("x")]) as one:
        subject = Leaving()
        browser = ListScreen(subject)
        one.app.push_screen(browser)
        await one.wait(lambda: subject.waiting)
        await browser.query_one("#rows").remove()
        subject.arrived.set()
        await one.pilot.pause(0.05)
        await browser.load()
        await one.press("escape")
        await one.wait(lambda: one.app.screen is one.app.view)


async def test_the_row_of_a_list_that_is_replaced_has_its_preview(work: Path) -> None:
    """A search or a refresh replaces the rows while the preview of one waits; a list says that it is loading until it has any."""
    async with studio(work, steps=[say("x")]) as one:
        subject = SessionSubject(one.app.link)
        (row,) = await subject.rows("")
        assert await subject.rows("nowhere") == []
        assert ("Without a name", "bold") in await subject.preview(row)
        silent = Leaving(are_rows_late=True)
        one.app.push_screen(ListScreen(silent))
        await one.see("loading …")
        silent.arrived.set()
        await one.press("escape")


async def test_the_list_of_a_screen_is_visible_on_a_tiny_terminal(work: Path) -> None:
    """Five lines show what is typed, rows, and the keys."""
    async with studio(work, steps=[say("x")], size=(30, 5)) as one:
        one.app.action_open("tools")
        await one.see("* ", "Enter switch")
        await one.press("escape")


async def test_the_preview_of_a_tool_has_the_first_paragraph_of_its_description(work: Path) -> None:
    """Not the first line of its source: a sentence that is broken there is whole."""
    async with studio(work, steps=[say("x")], size=(120, 40)) as one:
        info = one.app.link.session.info
        assert info is not None
        described = {tool["name"]: tool["description"] for tool in info.tools}
        assert described["updateFile"].endswith("Returns a diff of the edit.")
        assert not [text for text in described.values() if "\n" in text or len(text) > MAX_SUMMARY_CHARS]
        one.app.action_open("tools")
        await one.type("updateFile")
        preview = one.app.screen.query_one("#preview", LinesView)
        await one.wait(lambda: "Returns a diff of the edit." in " ".join(preview.text.split()))
        await one.press("escape")
