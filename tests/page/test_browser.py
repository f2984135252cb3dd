"""The page in Chromium: a conversation from the first message to a killed server, by mouse and by keyboard."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.page.browser import ROOT, Watched, desk, need_chromium, watched

from jaato.settings import environment

pytestmark = pytest.mark.system
STORY = " ".join(f"sentence {number}." for number in range(1, 60)) + " The end of it."


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def run(command: str, *need: str) -> dict[str, Any]:
    """A step that runs a command."""
    return {
        "calls": [
            {"name": "run", "arguments": {"command": command, **({"need": list(need)} if need else {})}}
        ]
    }


def allow(seen: Watched, name: str = "Allow") -> None:
    """Press a button of the question that is shown."""
    seen.page.get_by_role("button", name=name, exact=True).click()


def test_a_browser_that_is_not_paired(tmp_path: Path) -> None:
    """It is told what to do; a wrong link is refused with a reason, the right one typed in pairs it."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        page = seen.page
        page.goto(server.origin)
        page.get_by_role("heading", name="Pair this browser").wait_for()
        field = page.get_by_label("Or paste a link")
        field.fill("hello")
        field.press("Enter")
        page.get_by_text("This is not a link from").wait_for()
        link = server.link()
        field.fill(link)
        field.press("Enter")
        page.get_by_text("No session is open.").wait_for()
        assert "pair" not in page.url
        page.reload()
        page.get_by_text("No session is open.").wait_for()
        other = page.context.browser.new_context().new_page()
        other.goto(link)
        other.get_by_text("This link was used already").wait_for()


def test_send_stream_and_stop(tmp_path: Path) -> None:
    """Text is shown as it arrives; a command is stopped by a button, and the turn says so."""
    with desk(tmp_path, main=[{"text": STORY}, run("sleep 60")]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server, name="Stream")
        seen.send("Tell a story.")
        page = seen.page
        page.locator(".arriving").get_by_text("sentence 3.").wait_for()
        assert page.get_by_text("The end of it.").count() == 0
        page.locator(".message.model:not(.arriving)").get_by_text("The end of it.").wait_for()
        seen.send("Now sleep.")
        page.get_by_role("img", name="running").wait_for()
        page.get_by_role("button", name="Stop").click()
        page.locator(".turn-end").get_by_text("Stopped").wait_for()
        page.get_by_role("button", name="Send").wait_for()


def test_a_call_is_allowed_with_other_arguments_and_denied_with_a_comment(tmp_path: Path) -> None:
    """What runs is what was edited; a comment reaches the model; the next question comes after the answer."""
    steps = [
        run("printf one > a.txt", "write"),
        {
            "calls": [
                *run("printf two > b.txt", "write")["calls"],
                *run("printf three > c.txt", "write")["calls"],
            ]
        },
        {"text": "I see."},
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("Write a file.")
        page = seen.page
        page.get_by_role("button", name="Edit").click()
        field = page.get_by_label("Arguments as JSON")
        field.fill("{oops")
        allow(seen, "Allow with these arguments")
        page.get_by_text("This is no JSON").wait_for()
        field.fill(json.dumps({"command": "printf edited > a.txt", "need": ["write"]}))
        allow(seen, "Allow with these arguments")
        page.locator(".question").get_by_text("printf two > b.txt", exact=True).wait_for()
        assert (server.work / "a.txt").read_text() == "edited"
        page.get_by_label("Comment for the agent").fill("not this one")
        allow(seen, "Deny with comment")
        page.locator(".question").get_by_text("printf three > c.txt", exact=True).wait_for()
        page.locator(".question .primary:enabled").wait_for()
        page.keyboard.press("Alt+y")
        seen.see("I see.")
        assert not (server.work / "b.txt").exists()
        assert (server.work / "c.txt").read_text() == "three"
        page.locator(".call.denied summary").click()
        page.get_by_text("not this one").first.wait_for()


def test_a_message_in_mid_turn(tmp_path: Path) -> None:
    """It is shown as waiting, then as part of the conversation, and the model has it."""
    with (
        desk(tmp_path, main=[run("sleep 3"), {"text": "Changed course."}]) as server,
        watched(server) as seen,
    ):
        seen.open(server)
        seen.begin(server)
        seen.send("Begin.")
        page = seen.page
        page.get_by_role("img", name="running").wait_for()
        seen.send("Go left instead.")
        page.locator(".queued").get_by_text("Go left instead.").wait_for()
        seen.see("Changed course.")
        assert page.locator(".queued").count() == 0
        page.locator(".message.user:not(.queued)").get_by_text("Go left instead.").wait_for()


def test_the_server_is_killed_while_a_question_waits(tmp_path: Path) -> None:
    """The page says that it is offline, keeps the draft, comes back by itself, and the answer continues the turn."""
    steps = [run("printf done > d.txt", "write"), {"text": "It goes on."}]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("Do it.")
        page = seen.page
        page.get_by_role("button", name="Allow", exact=True).wait_for()
        page.get_by_label("Message", exact=True).fill("a draft")
        seen.offline_is_expected = True
        server.kill()
        page.get_by_text("Offline. What you see").wait_for()
        assert page.get_by_role("button", name="Allow", exact=True).is_disabled()
        server.start()
        page.get_by_text("connected", exact=True).wait_for()
        assert page.get_by_label("Message", exact=True).input_value() == "a draft"
        allow(seen)
        seen.see("It goes on.")
        assert (server.work / "d.txt").read_text() == "done"


def test_another_client_answers(tmp_path: Path) -> None:
    """A client of another kind sees the question of the page's session and answers it; the page follows."""
    steps = [run("printf x > e.txt", "write"), {"text": "Answered elsewhere."}]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("Do it.")
        seen.page.get_by_role("button", name="Allow", exact=True).wait_for()
        words = ["-m", "jaato", "attach", "--connect", str(server.home / "run/jaato.sock")]
        environ = {
            "HOME": str(server.home),
            "PATH": environment()["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "TERM": "dumb",
        }
        terminal = pexpect.spawn(
            sys.executable, words, cwd=server.work, env=environ, encoding="utf-8", timeout=30
        )
        try:
            terminal.expect_exact("allow?")
            terminal.sendline("y")
            seen.see("Answered elsewhere.")
            assert seen.page.get_by_role("button", name="Allow", exact=True).count() == 0
        finally:
            terminal.close(force=True)


def test_a_clarification_is_a_form(tmp_path: Path) -> None:
    """Choices and free text; what is left open is left open."""
    asked: dict[str, Any] = {
        "context": "Before I begin:",
        "questions": [
            {"question": "Which colour?", "choices": ["red", "blue"]},
            {"question": "Which name?"},
        ],
    }
    steps: list[dict[str, Any]] = [
        {"calls": [{"name": "get_tool_schemas", "arguments": {"names": ["request_clarification"]}}]},
        {"calls": [{"name": "request_clarification", "arguments": asked}]},
        {"text": "Thank you."},
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("Begin.")
        page = seen.page
        page.get_by_label("blue").check()
        page.get_by_label("Answer", exact=True).fill("Ada")
        page.get_by_role("button", name="Answer").click()
        seen.see("Thank you.")
        page.locator(".call", has_text="request_clarification").locator("summary").last.click()
        page.get_by_text("Ada").first.wait_for()


def test_roles_see_only_what_they_may_do(tmp_path: Path) -> None:
    """A viewer has no composer and no new session; its answers are not offered."""
    with (
        desk(tmp_path, main=[run("printf x > f.txt", "write"), {"text": "Well."}]) as server,
        watched(server) as seen,
    ):
        seen.open(server)
        seen.begin(server)
        seen.send("Do it.")
        seen.page.get_by_role("button", name="Allow", exact=True).wait_for()
        with watched_viewer(seen, server) as other:
            other.get_by_text("You only watch here").wait_for()
            assert other.get_by_role("button", name="Allow", exact=True).is_disabled()
            assert other.get_by_role("button", name="New", exact=True).count() == 0
            other.get_by_text("You watch this session.").wait_for()


def watched_viewer(seen: Watched, server: Any) -> Any:
    """Another browser, paired as a viewer, at the session that is shown."""
    context = seen.page.context.browser.new_context()
    page = context.new_page()
    page.goto(server.link("viewer"))
    page.get_by_role("navigation", name="Sessions").wait_for()
    page.goto(seen.page.url)

    class Closing:
        def __enter__(self) -> Any:
            return page

        def __exit__(self, *_: object) -> None:
            context.close()

    return Closing()


def test_by_keyboard_alone(tmp_path: Path) -> None:
    """A session is created, a message sent, a panel opened and closed, and a command completed without a mouse."""
    with desk(tmp_path, main=[{"text": "Hello, keyboard."}]) as server, watched(server) as seen:
        seen.open(server)
        page = seen.page
        page.get_by_role("button", name="New", exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_label("Directory on the server").focus()
        page.keyboard.type(str(server.work))
        page.keyboard.press("Enter")
        page.get_by_text("Send a message to begin.").wait_for()
        page.get_by_label("Message", exact=True).focus()
        page.keyboard.type("Hello")
        page.keyboard.press("Enter")
        seen.see("Hello, keyboard.")
        page.keyboard.type("/ren")
        page.get_by_role("option", name="/rename").wait_for()
        page.keyboard.press("Tab")
        page.keyboard.type("By keys")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="By keys").wait_for()
        page.get_by_role("button", name="Usage").focus()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Usage").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("heading", name="Usage").wait_for(state="detached")
