"""The panels in Chromium that show and change what runs: background tasks, permissions, MCP servers, restores, times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.hosting import configure, raw
from tests.page.browser import Desk, Watched, desk, need_chromium, watched
from tests.page.pictures import called, open_panel
from tests.page.test_looks import serious

pytestmark = pytest.mark.system
WAITS = "seq 1 900; while [ ! -e go ]; do sleep 0.05; done; echo second; while [ ! -e end ]; do sleep 0.05; done; exit 3"
START_MS = 60_000
"""For the start of an MCP server, whose client is imported first."""
LEAVE_ALONE = [{"text": f"Noted, {number}."} for number in range(6)]


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def begin(seen: Watched, server: Desk, text: str = "Begin.", **fields: str) -> Any:
    """Create a session, send a message, and give the page."""
    seen.open(server)
    seen.begin(server, **fields)
    seen.send(text)
    return seen.page


def check_looks(page: Any) -> None:
    """What is shown can be used with a screen reader, and fits on a phone."""
    assert serious(page) == []
    before = page.viewport_size
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for button in page.locator(".panel .button, dialog .button").all():
        box = button.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    assert serious(page) == []
    page.set_viewport_size(before)


def press(page: Any, role: str, name: str, key: str = "Enter") -> None:
    """Use a control of a page, or a part of it, by the keyboard."""
    page.get_by_role(role, name=name).press(key)


def answer(page: Any, name: str) -> None:
    """Answer the question that is shown."""
    page.locator(".question .primary:enabled").wait_for()
    shown = page.locator(".question").element_handle()
    page.get_by_role("button", name=name, exact=True).click()
    shown.wait_for_element_state("hidden")  # the next question may be there at once


def test_background_tasks_show_their_output_and_are_cancelled(tmp_path: Path) -> None:
    """Output after the end of the call, in the panel and at the call; exit code and duration, also after a reload; a task is
    cancelled by the keyboard."""
    steps = [
        called(("run", {"command": WAITS, "background": True})),
        {"text": "It runs."},
        {"text": "It has ended."},
        called(("run", {"command": "echo again; sleep 300", "background": True})),
        *LEAVE_ALONE,
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        page = begin(seen, server)
        seen.see("It runs.")
        open_panel(seen, "Background")
        panel = page.get_by_role("region", name="Background", exact=True)
        panel.get_by_text("running ·").wait_for()
        output = panel.get_by_role("region", name="Output of run")
        assert "900" in output.inner_text()
        assert "\n17\n" not in output.inner_text()
        (server.work / "go").touch()
        output.get_by_text("second").wait_for()
        press(page, "button", "earlier characters not shown")
        assert "\n17\n" in output.inner_text()
        row = page.locator(".call", has_text="in the background")
        row.locator("summary").click()
        row.get_by_role("region", name="Output of run").get_by_text("second").wait_for()
        (server.work / "end").touch()
        seen.see("It has ended.")
        panel.get_by_text("completed · exit code 3").wait_for()
        row.get_by_text("completed · exit code 3").wait_for()
        page.reload()
        seen.see("It has ended.")
        panel.get_by_text("No background task runs.").wait_for()
        panel.get_by_text("completed · exit code 3").wait_for()
        assert "second" in output.inner_text()
        check_looks(page)
        seen.send("Another one.")
        panel.get_by_text("again", exact=True).wait_for()
        press(page, "button", "Cancel run")
        press(page, "button", "Cancel the task")
        panel.get_by_text("cancelled ·").wait_for()
        panel.get_by_text("again", exact=True).wait_for()
        assert panel.get_by_role("button", name="Cancel run").count() == 0


def test_permissions_are_shown_changed_and_revoked(tmp_path: Path) -> None:
    """Rules with where they come from, an answer that is revoked and asked about again, a denial that is not lifted over the
    network, another mode; all by the keyboard."""
    write = called(("run", {"command": "touch a", "need": ["write"]}))
    steps = [
        write,
        {"text": "First."},
        called(("run", {"command": "mkdir d", "need": ["write"]})),
        {"text": "Second."},
        write,
        {"text": "Third."},
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        rules = server.work / ".jaato/permissions.json"
        rules.parent.mkdir()
        rules.write_text(json.dumps({"version": 1, "blacklist": {"patterns": ["run(rm *)"]}}))
        page = begin(seen, server)
        answer(page, "Always")
        seen.see("First.")
        seen.send("More.")
        answer(page, "Never")
        seen.see("Second.")
        open_panel(seen, "Permissions")
        denied, allowed = (page.get_by_role("list", name=name) for name in ("Denied", "Allowed"))
        denied.get_by_text("run(rm *)").wait_for()
        assert denied.get_by_text("the permission file").count() == 1
        assert allowed.get_by_text("an answer").count() == 1
        page.get_by_text("What no rule covers is asked about.").wait_for()
        answers = page.get_by_role("list", name="Remembered answers")
        assert answers.get_by_role("listitem").count() == 2
        answers.get_by_text("jaato permissions revoke g").wait_for()
        check_looks(page)
        press(page, "button", "Revoke run(touch ")
        page.locator("dialog").get_by_role("button", name="Revoke").focus()
        page.keyboard.press("Enter")
        page.get_by_text("No rule allows a call.").wait_for()
        assert answers.get_by_role("listitem").count() == 1
        seen.send("Once more.")
        answer(page, "Deny")
        seen.see("Third.")
        page.get_by_label("Mode", exact=True).focus()
        page.keyboard.press("ArrowDown")
        page.get_by_text("file tools change the workspace").wait_for()
        assert page.locator(".status-line").get_by_text("ask", exact=True).count() == 1
        press(page.locator(".panel"), "button", "Change")
        page.locator(".status-line").get_by_text("accept-edits").wait_for()
        other = page.context.browser.new_context().new_page()
        other.goto(server.link("viewer"))
        other.get_by_role("navigation", name="Sessions").wait_for()
        other.goto(page.url)
        other.get_by_text("paired as owner can see and change permissions").wait_for()
        other.get_by_role("button", name="MCP").click()
        other.get_by_text("paired as owner can see and start").wait_for()


def test_mcp_servers_are_shown_and_connected(tmp_path: Path) -> None:
    """Each with its state; one is connected, has tools and a protocol, and is restarted, one fails and says why, one is off."""
    with desk(tmp_path, main=[{"text": "Hello."}]) as server, watched(server) as seen:
        entry, starts = raw("fine", f"--{tmp_path.name}-panel"), tmp_path / "starts"
        counted = f'echo started >> "{starts}"; exec "$@"'
        good = {"command": "sh", "args": ["-c", counted, "sh", entry["command"], *entry["args"]]}
        gone = raw("exit")
        configure(tmp_path, {"good": good, "gone": gone, "off": raw("fine", disabled=True)})
        page = begin(seen, server)
        seen.see("Hello.")
        open_panel(seen, "MCP")
        servers = page.get_by_role("list", name="MCP servers")
        listed = servers.get_by_role("listitem")
        names = ("good", "gone", "off")
        rows = {name: listed.filter(has=page.get_by_text(name, exact=True)) for name in names}
        rows["good"].get_by_text("not started yet").wait_for()
        rows["off"].get_by_text("switched off").wait_for()
        assert rows["off"].get_by_role("button").count() == 0
        press(page, "button", "Connect good")
        rows["good"].get_by_text("running").wait_for(timeout=START_MS)
        rows["good"].get_by_text("handshake").wait_for()
        assert "tool" in rows["good"].inner_text()
        press(page, "button", "Restart good")
        while starts.read_text() != "started\nstarted\n":
            page.wait_for_timeout(50)
        page.get_by_role("button", name="Restart good", disabled=False).wait_for()
        rows["good"].get_by_text("started just now").wait_for()
        press(page, "button", "Connect gone")
        rows["gone"].get_by_text("failed").wait_for(timeout=START_MS)
        page.locator(".panel").get_by_role("alert").get_by_text("gone").wait_for()
        page.get_by_role("button", name="Try again gone").wait_for()
        check_looks(page)


def test_no_mcp_server_is_configured(tmp_path: Path) -> None:
    """The panel says how to add one."""
    with desk(tmp_path, main=[{"text": "Hello."}]) as server, watched(server) as seen:
        page = begin(seen, server)
        seen.see("Hello.")
        open_panel(seen, "MCP")
        page.get_by_text("No MCP server is configured.").wait_for()


OLD = "def area(width, height):\n    return width * height  # of a room\n\nname = 'x'\n"
NEW = "def area(width, depth):\n    return width * depth  # of a room\n\nnothing remains of it\n"


def test_changed_words_are_marked(tmp_path: Path) -> None:
    """In both forms of the diff; a line that was replaced has no marks, and of a very long one start and end are compared."""
    long = " ".join(f"word{number}" for number in range(4_000))
    steps = [
        called(("get_tool_schemas", {"names": ["updateFile"]})),
        called(("updateFile", {"path": "room.py", "new_content": NEW})),
        called(("updateFile", {"path": "long.txt", "new_content": long.replace("word7 ", "w\u202e7 ")})),
        {"text": "Done."},
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        (server.work / "room.py").write_text(OLD)
        (server.work / "long.txt").write_text(long)
        page = begin(seen, server)
        page.locator(".question .diff").wait_for()
        words = page.locator(".question .diff .unified .word").all_text_contents()
        assert words == ["height", "height", "depth", "depth"]
        words = page.locator(".question .diff .split .word").all_text_contents()
        assert sorted(words) == ["depth", "depth", "height", "height"]
        sizes = "(diff) => [diff.scrollHeight, diff.querySelector('.split').offsetHeight]"
        scrolled, shown = page.locator(".question .diff").evaluate(sizes)
        assert scrolled == shown  # the form that is not shown takes no room
        answer(page, "Allow")
        page.locator(".question").get_by_text("long.txt").first.wait_for()
        marked = page.locator(".question .diff .unified .added .word").all_text_contents()
        assert marked[0] == "w<U+202E>7"
        assert len(marked) < 5
        answer(page, "Allow")
        seen.see("Done.")
        assert page.locator(".call .diff .unified .word").count() > 4


def test_the_timeline_is_made_of_the_log(tmp_path: Path) -> None:
    """Waiting for answers of other clients, and before the page was opened, is part of it; so are clarifications."""
    questions = {"context": "Before:", "questions": [{"question": "Which?", "choices": ["a", "b"]}]}
    steps = [
        called(("run", {"command": "touch a", "need": ["write"]})),
        called(("get_tool_schemas", {"names": ["request_clarification"]})),
        called(("request_clarification", questions)),
        {"text": "Done."},
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        page = begin(seen, server)
        page.locator(".question").wait_for()
        url = page.url
        page.goto("about:blank")
        other = page.context.browser.new_context().new_page()
        other.goto(server.link())
        other.get_by_role("navigation", name="Sessions").wait_for()
        other.goto(url)
        other.locator(".question .primary:enabled").wait_for()
        other.wait_for_timeout(1_100)
        other.get_by_role("button", name="Allow", exact=True).click()
        other.get_by_label("a", exact=True).check()
        other.wait_for_timeout(1_100)
        other.get_by_role("button", name="Answer", exact=True).click()
        other.get_by_role("log").get_by_text("Done.").wait_for()
        page.goto(url)
        seen.see("Done.")
        summary = page.locator(".timeline > summary")
        summary.focus()
        page.keyboard.press("Enter")
        rows = page.get_by_role("list", name="What the turn did").get_by_role("listitem")
        rows.filter(has_text="permission for run, answered by Chrome page").wait_for()
        rows.filter(has_text="the agent's question, answered by Chrome page").wait_for()
        rows.filter(has_text="run").filter(has_not_text="permission").wait_for()
        assert rows.filter(has_text="model").count() == 4
        check_looks(page)
        waiting = page.locator(".timeline .legend").get_by_text("waiting for answers").inner_text()
        assert float(waiting.split()[-2]) >= 2.0


def test_a_restore_is_shown_as_a_diff_before_it_is_done(tmp_path: Path) -> None:
    """Counts, the changes of each file, and what stays; cancelled, nothing has changed."""
    steps = [
        called(("get_tool_schemas", {"names": ["updateFile", "writeNewFile"]})),
        called(
            ("updateFile", {"path": "a.txt", "new_content": "one\nchanged line\nthree\n"}),
            ("writeNewFile", {"path": "new.txt", "content": "n\n"}),
            ("writeNewFile", {"path": "theirs.txt", "content": "t\n"}),
        ),
        {"text": "Done."},
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        file = server.work / "a.txt"
        file.write_text("one\nfirst line\nthree\n")
        page = begin(seen, server, "/waypoint create before", mode="accept-edits")
        page.get_by_role("log").get_by_text("w1").first.wait_for()
        seen.send("Change it.")
        seen.see("Done.")
        (server.work / "theirs.txt").write_text("somebody's\n")
        open_panel(seen, "Waypoints")
        press(page, "button", "Go back to w1")
        dialog = page.get_by_role("dialog")
        dialog.get_by_text(
            "2 files would change: 1 line added, 2 removed. 1 would stay as they are."
        ).wait_for()
        assert dialog.locator(".diff .unified .word").all_text_contents() == ["changed", "first"]
        dialog.get_by_text("somebody else has changed it since").wait_for()
        check_looks(page)
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        assert file.read_text() == "one\nchanged line\nthree\n"
        press(page, "button", "Go back to w1")
        dialog.get_by_role("button", name="Restore").click()
        page.get_by_text("Waypoint w1 restored").wait_for()
        assert file.read_text() == "one\nfirst line\nthree\n"
        assert not (server.work / "new.txt").exists()
