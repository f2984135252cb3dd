"""The page in Chromium: a conversation from the first message to a killed server, by mouse and by keyboard."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pexpect
import pytest
from bench.long import filled
from tests.cli.terminal import end
from tests.page.browser import ROOT, Watched, desk, need_chromium, watched

from jaato.settings import environment
from jaato.storage.sqlite import SqliteStore

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


FOCUSED = "(document.activeElement.ariaLabel || document.activeElement.innerText)"


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
        page.get_by_text("This is not a link from jaato web.").wait_for()
        link = server.link()
        field.fill(link)
        field.press("Enter")
        page.get_by_text("No session is open.").wait_for()
        assert "pair" not in page.url
        page.reload()
        page.get_by_text("No session is open.").wait_for()
        page.goto("about:blank")
        page.goto(link)
        page.get_by_text("This browser is paired already.").wait_for()
        seen.complaints.clear()  # the console has the refusal
        page.get_by_role("button", name="Close").click()
        page.get_by_text("No session is open.").wait_for()
        assert page.get_by_text("This browser is paired already.").count() == 0
        other = page.context.browser.new_context().new_page()
        other.goto(link)
        other.get_by_text("This link was used already").wait_for()
        other.get_by_label("Or paste a link").fill(server.link())
        other.get_by_role("button", name="Pair").click()
        other.get_by_text("No session is open.").wait_for()
        assert other.get_by_text("This link was used already").count() == 0


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.12")
def test_send_stream_and_stop(tmp_path: Path) -> None:
    """Text is shown as it arrives; a command is stopped by a button, and the turn says so."""
    with desk(tmp_path, main=[{"text": STORY}, run("sleep 60")]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server, name="Stream")
        seen.send("Tell a story.")
        page = seen.page
        page.locator(".streaming").get_by_text("sentence 3.").wait_for()
        assert page.get_by_text("The end of it.").count() == 0
        page.locator(".message.model:not(.streaming)").get_by_text("The end of it.").wait_for()
        seen.send("Now sleep.")
        page.get_by_role("img", name="running").wait_for()
        page.get_by_role("button", name="Stop").click()
        page.locator(".turn-end").get_by_text("Interrupted; completed work is kept.").wait_for()
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
        field.fill(json.dumps({"command": 3}))
        allow(seen, "Allow with these arguments")
        page.get_by_role("alert").get_by_text("/command").wait_for()
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
        page.reload()
        page.locator(".call.done .call-args").get_by_text("printf edited > a.txt").wait_for()
        assert page.get_by_text("printf one > a.txt").count() == 0


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
            end(terminal)


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
            for panel in ("Waypoints", "Tools"):
                other.locator(".panel-tabs").get_by_role("button", name=panel).click()
                other.get_by_role("heading", name=panel).wait_for()
                assert (
                    other.locator(".panel-body")
                    .locator("button:enabled, input:enabled:not([type=search])")
                    .count()
                    == 0
                )


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


def test_the_directory_of_a_link_is_suggested(tmp_path: Path) -> None:
    """`jaato web` puts the directory where it was typed into the link; what is no text there is left out, and so is that
    of a link which does not pair."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        forged = f"{server.origin}/#pair={'A' * 43}"
        for link, given, suggested in (
            (server.link(), quote(f"{server.work}/ä b"), f"{server.work}/ä b"),
            (server.link(), "%ff", f"{server.work}/ä b"),
            (forged, "/elsewhere", f"{server.work}/ä b"),
        ):
            seen.page.goto("about:blank")
            seen.page.goto(f"{link.partition('&in=')[0]}&in={given}")
            if link == forged:
                seen.page.get_by_text("This link was used already, or is too old").wait_for()
                seen.complaints.clear()  # the console has the refusal
                seen.page.goto(server.origin)
            seen.page.get_by_role("button", name="New", exact=True).click()
            assert seen.page.get_by_label("Directory on the server").input_value() == suggested
            assert "#" not in seen.page.url


def test_by_keyboard_alone(tmp_path: Path) -> None:
    """A session is created, a message sent, a panel opened and closed, a command and a file completed without a mouse."""
    with desk(tmp_path, main=[{"text": "Hello, keyboard."}]) as server, watched(server) as seen:
        seen.open(server)
        page = seen.page
        page.get_by_role("button", name="New", exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_label("Directory on the server").focus()
        page.keyboard.press("Control+A")
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
        (server.work / "notes.txt").write_text("x")
        page.keyboard.type("See @nts")
        page.get_by_role("option", name="notes.txt").wait_for()
        page.keyboard.press("Tab")
        assert page.get_by_label("Message", exact=True).input_value() == "See @notes.txt "
        page.get_by_label("Message", exact=True).fill("")
        page.get_by_role("button", name="Usage").focus()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Usage").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("heading", name="Usage").wait_for(state="detached")
        assert page.evaluate(FOCUSED) == "Usage"  # the focus is where it was


def test_the_focus_follows_what_was_asked_for(tmp_path: Path) -> None:
    """Into a form that is opened and out of it again; a question takes it for the edit alone, and gives it back."""
    with (
        desk(tmp_path, main=[run("printf x > f.txt", "write"), {"text": "It ran."}]) as server,
        watched(server) as seen,
    ):
        seen.open(server)
        page = seen.page
        page.get_by_role("button", name="New", exact=True).press("Enter")
        page.wait_for_function("() => document.activeElement.name === 'workspace'")
        page.keyboard.press("Escape")
        page.wait_for_function("() => document.activeElement.innerText === 'New'")
        seen.begin(server)
        seen.send("Do it.")
        page.locator(".question .primary:enabled").wait_for()
        assert page.evaluate(FOCUSED) == "Message"
        page.keyboard.press("Alt+e")
        page.wait_for_function(f"() => {FOCUSED} === 'Arguments as JSON'")
        page.keyboard.press("Alt+e")
        page.wait_for_function(f"() => {FOCUSED} === 'Edit'")
        page.keyboard.press("Alt+e")
        page.wait_for_function(f"() => {FOCUSED} === 'Arguments as JSON'")
        page.keyboard.press("Alt+y")
        seen.see("It ran.")
        assert page.evaluate(FOCUSED) == "Message"


def test_a_tool_is_switched_off(tmp_path: Path) -> None:
    """The panel finds it, the switch holds in the session, and a call of it is refused."""
    with (
        desk(tmp_path, main=[{"text": "Hello."}, run("true"), {"text": "It is off."}]) as server,
        watched(server) as seen,
    ):
        seen.open(server)
        seen.begin(server)
        seen.send("Hello.")
        seen.see("Hello.")
        page = seen.page
        page.locator(".panel-tabs").get_by_role("button", name="Tools").click()
        page.get_by_label("Search tools").fill("run")
        switch = page.locator(".tool", has=page.get_by_text("run", exact=True)).get_by_role("checkbox")
        switch.uncheck()
        page.wait_for_timeout(300)
        assert not switch.is_checked()
        seen.send("Run it.")
        seen.see("It is off.")
        assert page.locator(".call.failed", has_text="run").count() == 1


def test_an_answer_is_copied_as_the_model_wrote_it(tmp_path: Path) -> None:
    """With its Markdown, and without what came before it in the turn."""
    calls = {"text": "First I count.", **run("seq 3")}
    with desk(tmp_path, main=[calls, {"text": "**Three**, see `seq`."}]) as server, watched(server) as seen:
        seen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        seen.open(server)
        seen.begin(server, mode="auto")
        seen.send("Count.")
        seen.page.get_by_role("button", name="Copy the answer").click()
        seen.page.get_by_text("Copied", exact=True).wait_for()
        assert seen.page.evaluate("navigator.clipboard.readText()") == "**Three**, see `seq`."


def test_a_notification_when_a_question_waits_elsewhere(tmp_path: Path) -> None:
    """It is shown when the page is not looked at, and not when it is; the tab's title counts the questions."""
    ask = run("printf x > g.txt", "write")
    with desk(tmp_path, main=[ask, ask, {"text": "Well."}]) as server, watched(server) as seen:
        seen.page.context.add_init_script(
            "window.shown = []; window.Notification = class { static permission = 'granted';"
            " constructor(title, more) { shown.push(`${title}: ${more.body}`); } close() {} };"
        )
        seen.open(server)
        seen.begin(server, name="Busy")
        seen.send("Do it.")
        page = seen.page
        page.locator(".question .primary:enabled").wait_for()
        assert page.evaluate("shown") == []
        page.wait_for_function("() => document.title.startsWith('(1) Busy')")
        page.evaluate("document.hasFocus = () => false")
        allow(seen)
        page.wait_for_function("() => shown.length === 1")
        assert page.evaluate("shown") == ["Busy: May run run?"]


def test_earlier_entries_are_fetched_and_the_list_stays_short(tmp_path: Path) -> None:
    """A session of ten thousand events opens with its newest entries; those before come on demand."""
    with desk(tmp_path, main=[{"text": "Hello."}]) as server:
        server.stop()
        store = SqliteStore(server.home / "state/jaato.db")
        session_id = filled(store, 10_000, server.work)
        store.close()
        server.start()
        with watched(server) as seen:
            seen.open(server)
            page = seen.page
            page.goto(f"{server.origin}/#s={session_id}")
            page.locator(".turn-end").last.wait_for()
            before = page.locator(".rows > *").count()
            assert before < 260
            log = page.get_by_role("log")
            log.evaluate("(log) => { log.scrollTop = 0; }")
            first = page.locator(".message.user .words").first.text_content()
            page.get_by_role("button", name="Show earlier").click()
            page.wait_for_function(f"() => document.querySelectorAll('.rows > *').length > {before}")
            assert page.locator(".message.user .words").first.text_content() != first
            assert (
                page.locator(".rows").count() < 7
            )  # the browser's work for a frame grows with what it may skip
            page.wait_for_timeout(300)
            shown = page.locator(".message.user .words", has_text=first.strip()).first.bounding_box()
            assert -100 < shown["y"] < 800, "what was read is still there"


def test_sessions_are_found_renamed_and_deleted(tmp_path: Path) -> None:
    """The list finds words of a conversation; a name is changed, after one that is refused and stays to
    be mended, and a session removed after a question."""
    with desk(tmp_path, main=[{"text": "The pelican crossing."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server, name="First")
        seen.send("Which crossing?")
        seen.see("pelican")
        seen.page.get_by_role("button", name="New", exact=True).click()
        seen.page.get_by_label("Name").fill("Second")
        seen.page.get_by_role("button", name="Create", exact=True).click()
        listed = seen.page.get_by_role("navigation", name="Sessions")
        listed.get_by_text("Second").wait_for()
        seen.page.get_by_label("Search sessions").fill("pelican")
        listed.get_by_text("Second").wait_for(state="detached")
        listed.get_by_role("link", name="First").click()
        seen.page.get_by_role("heading", name="First").wait_for()
        seen.page.get_by_label("Search sessions").fill("")
        seen.page.get_by_role("button", name="Rename").click()
        name = seen.page.get_by_role("textbox", name="Name of the session")
        name.fill("long " * 300)
        name.press("Enter")
        seen.page.locator("dialog [role=alert]").get_by_text("at most").wait_for()
        assert name.input_value() == "long " * 300
        assert name.evaluate("(field) => field === document.activeElement")
        name.fill("Third")
        seen.page.locator("dialog").get_by_role("button", name="Rename").click()
        seen.page.get_by_role("heading", name="Third").wait_for()
        seen.page.get_by_role("button", name="Delete").click()
        seen.page.locator("dialog").get_by_role("button", name="Delete").click()
        seen.page.get_by_text("No session is open.").wait_for()
        listed.get_by_text("Third").wait_for(state="detached")
