"""A user in Chromium who clicks twice, goes back, reloads and loses the connection: nothing is lost or done twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.page.browser import desk, need_chromium, watched

pytestmark = pytest.mark.system
SLOW = """
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (text) {
  setTimeout(() => this.readyState === 1 && send.call(this, text), text.includes('"message.send"') ? window.delay ?? 0 : 0);
};
"""

HELD = """
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (text) {
  if (window.held && text.includes('"message.send"')) held.push(() => send.call(this, text));
  else send.call(this, text);
};
"""


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def test_every_button_is_clicked_twice(tmp_path: Path) -> None:
    """One session, one message and one dialog; what a dialog asks is not answered by the click that opened it."""
    with desk(tmp_path, main=[{"text": "Received."}]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        page.get_by_role("button", name="New", exact=True).click()
        page.get_by_label("Directory on the server").fill(str(server.work))
        page.get_by_role("button", name="Create", exact=True).dblclick()
        page.get_by_text("Send a message to begin.").wait_for()
        page.get_by_label("Message", exact=True).fill("Hello.")
        page.locator(".composer .primary").dblclick()
        seen.see("Received.")
        page.locator(".turn-end").wait_for()
        assert page.locator(".message.user").count() == 1
        assert page.locator(".session-list li").count() == 1
        dialog = page.locator("dialog")
        page.get_by_role("button", name="Rename").dblclick()
        dialog.get_by_role("textbox").fill("Twice")
        assert dialog.count() == 1
        dialog.get_by_role("button", name="Rename").dblclick()
        dialog.wait_for(state="detached")
        page.get_by_role("heading", name="Twice").wait_for()
        page.get_by_role("button", name="Delete").dblclick()
        assert dialog.count() == 1
        dialog.get_by_role("button", name="Delete").evaluate(
            "(one) => one.dispatchEvent(new MouseEvent('click', { detail: 2, bubbles: true, cancelable: true }))"
        )
        assert dialog.count() == 1
        dialog.get_by_role("button", name="Delete").dblclick()
        page.get_by_text("No session is open.").wait_for()
        assert page.title() == "jaato"


def test_back_while_a_dialog_is_open(tmp_path: Path) -> None:
    """The dialog was about the session that is left, and closes with it; the tab is titled by what it shows."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        for name in ("First", "Second"):
            seen.begin(server, name=name)
            page.get_by_role("heading", name=name).wait_for()
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("textbox", name="Name of the session").fill("typed")
        page.go_back()
        page.get_by_role("heading", name="First").wait_for()
        page.locator("dialog").wait_for(state="detached")
        page.wait_for_function("() => document.title.startsWith('First ')")
        page.go_back()
        page.get_by_text("No session is open.").wait_for()
        assert page.title() == "jaato"
        page.go_forward()
        page.go_forward()
        page.get_by_role("heading", name="Second").wait_for()


def test_a_session_that_was_removed(tmp_path: Path) -> None:
    """Back to it says so, and a session that is left is watched no longer, also one that was created here."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        page = seen.page
        frames: list[str] = []
        page.on("websocket", lambda socket: socket.on("framesent", lambda sent: frames.append(str(sent))))
        seen.open(server)
        seen.begin(server, name="Gone")
        assert sum('"session.attach"' in frame for frame in frames) == 1
        page.get_by_role("button", name="Delete").click()
        page.locator("dialog").get_by_role("button", name="Delete").click()
        page.get_by_text("No session is open.").wait_for()
        page.wait_for_timeout(300)
        assert sum('"session.detach"' in frame for frame in frames) == 1
        page.go_back()
        page.get_by_text("This session cannot be opened.").wait_for()


def test_a_session_that_is_deleted_elsewhere(tmp_path: Path) -> None:
    """At once nothing can be sent or answered there; what was being written can be read, and the list is without it."""
    steps: list[dict[str, Any]] = [
        {"calls": [{"name": "run", "arguments": {"command": "id", "need": ["write"]}}]}
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server, name="Shared")
        seen.send("Go.")
        page.locator(".question").wait_for()
        field = page.get_by_label("Message", exact=True)
        field.fill("a long thought")
        other = page.context.new_page()
        other.goto(page.url)
        other.get_by_role("button", name="Delete").click()
        other.locator("dialog").get_by_role("button", name="Delete").click()
        other.get_by_text("No session is open.").wait_for()
        seen.see("This session was removed")
        page.locator(".question").wait_for(state="detached")
        assert field.input_value() == "a long thought"
        assert not field.is_editable()
        assert page.locator(".composer .primary").is_disabled()
        assert page.get_by_role("button", name="Stop").count() == 0
        page.get_by_text("There are no sessions yet.").wait_for()
        seen.offline_is_expected = True
        server.kill()
        page.get_by_text("Offline. What you see").wait_for()
        server.start()
        page.get_by_text("connected", exact=True).wait_for()
        other.get_by_text("There are no sessions yet.").wait_for()
        assert page.get_by_role("log").get_by_text("cannot be shown any more").count() == 1


def test_a_session_that_is_created_without_a_connection(tmp_path: Path) -> None:
    """It fails at once with the reason; what was typed stays, and nothing happens after Cancel."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        page.get_by_role("button", name="New", exact=True).click()
        page.get_by_label("Directory on the server").fill(str(server.work))
        page.get_by_label("Name").fill("Kept")
        seen.offline_is_expected = True
        server.kill()
        page.get_by_text("Offline. What you see").wait_for()
        page.get_by_role("button", name="Create", exact=True).click()
        page.locator(".new-session").get_by_text("There is no connection to the server").wait_for()
        assert page.get_by_label("Name").input_value() == "Kept"
        server.start()
        page.get_by_text("Offline. What you see").wait_for(state="detached")
        page.get_by_role("button", name="Create", exact=True).click()
        page.get_by_role("heading", name="Kept").wait_for()


def test_a_name_that_is_empty(tmp_path: Path) -> None:
    """It is refused with a reason, in the dialog and as a command, instead of being ignored."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server, name="Named")
        page.get_by_role("button", name="Rename").click()
        dialog = page.locator("dialog")
        dialog.get_by_role("textbox").fill(" ")
        dialog.get_by_role("textbox").press("Enter")
        dialog.get_by_text("Give a name").wait_for()
        page.keyboard.press("Escape")
        seen.send("/rename ")
        page.locator(".composer").get_by_text("Give a name").wait_for()


def test_a_rename_without_a_connection(tmp_path: Path) -> None:
    """It fails with what happened and keeps the name, which is sent when the server is back."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server, name="Before")
        page.get_by_role("button", name="Rename").wait_for()
        seen.offline_is_expected = True
        server.kill()
        page.get_by_text("Offline. What you see").wait_for()
        page.get_by_role("button", name="Rename").click()
        dialog = page.locator("dialog")
        dialog.get_by_role("textbox").fill("After")
        dialog.get_by_role("button", name="Rename").click()
        dialog.get_by_text("There is no connection to the server, and nothing was sent").wait_for()
        server.start()
        page.get_by_text("connected", exact=True).wait_for()
        dialog.get_by_role("button", name="Rename").click()
        page.get_by_role("heading", name="After").wait_for()
        dialog.wait_for(state="detached")


def test_a_reload_while_a_message_is_sent(tmp_path: Path) -> None:
    """On a slow network the message is shown until the server has it, and a reload before that brings it back."""
    steps: list[dict[str, Any]] = [{"text": "Received."}, {"text": "Again."}]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        page = seen.page
        page.context.add_init_script(SLOW)
        seen.open(server)
        seen.begin(server, name="Slow")
        field = page.get_by_label("Message", exact=True)
        page.evaluate("window.delay = 60_000")
        field.fill("a long thought")
        field.press("Enter")
        page.get_by_text("Sending: a long thought").wait_for()
        assert field.input_value() == ""
        page.evaluate("location.hash = ''")
        page.get_by_text("No session is open.").wait_for()
        page.go_back()
        field.wait_for()
        assert field.input_value() == "", "it is still being sent"
        page.reload()
        field.wait_for()
        assert field.input_value() == "a long thought"
        page.evaluate("window.delay = 1_500")
        field.press("Enter")
        page.get_by_text("Sending: a long thought").wait_for()
        field.fill("the next one")
        seen.see("Received.")
        page.get_by_text("Sending: a long thought").wait_for(state="detached")
        page.reload()
        field.wait_for()
        assert field.input_value() == "the next one"
        assert page.locator(".message.user").count() == 1


def test_two_messages_that_are_not_sent_to_the_end(tmp_path: Path) -> None:
    """A reload brings both back, and one that fails comes back before what was written since."""
    with desk(tmp_path, main=[{"text": "Received."}]) as server, watched(server) as seen:
        page = seen.page
        page.context.add_init_script(HELD)
        seen.open(server)
        seen.begin(server, name="Slow")
        field = page.get_by_label("Message", exact=True)
        page.evaluate("window.held = []")
        for text in ("the first", "the second"):
            field.fill(text)
            field.press("Enter")
            page.get_by_text(f"Sending: {text}").wait_for()
        field.fill("the third")
        page.reload()
        field.wait_for()
        assert field.input_value() == "the first\n\nthe second\n\nthe third"
        page.reload()
        field.wait_for()
        assert field.input_value() == "the first\n\nthe second\n\nthe third"
        page.evaluate("window.held = []")
        field.fill("/nothing")
        field.press("Enter")
        page.get_by_text("Sending: /nothing").wait_for()
        field.fill("written since")
        page.evaluate("for (const send of held) send()")
        page.locator(".composer .error-text:not(:empty)").wait_for()
        assert field.input_value() == "/nothing\n\nwritten since"


def test_a_reload_while_an_answer_is_written(tmp_path: Path) -> None:
    """The edited arguments, the comment and the fields of a form are there again, until the question is answered."""
    asked = {
        "context": "c",
        "questions": [
            {"question": "Which?", "choices": ["red", "blue"], "default": "blue"},
            {"question": "Why?"},
        ],
    }
    steps: list[dict[str, Any]] = [
        {"calls": [{"name": "get_tool_schemas", "arguments": {"names": ["request_clarification"]}}]},
        {"calls": [{"name": "run", "arguments": {"command": "echo one", "need": ["write"]}}]},
        {"calls": [{"name": "request_clarification", "arguments": asked}]},
        {"text": "Well."},
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server)
        seen.send("Go.")
        edit = page.get_by_role("button", name="Edit")
        edit.wait_for()
        comment = page.get_by_label("Comment for the agent")
        comment.fill("rather not")
        edit.click()
        arguments = page.get_by_label("Arguments as JSON")
        arguments.fill('{"command": "echo two"}')
        page.reload()
        arguments.wait_for()
        assert arguments.input_value() == '{"command": "echo two"}'
        assert comment.input_value() == "rather not"
        page.get_by_role("button", name="Allow with these arguments").click()
        page.get_by_role("radio", name="red").check()
        page.get_by_label("Answer", exact=True).fill("because")
        page.reload()
        page.get_by_label("Answer", exact=True).wait_for()
        assert page.get_by_role("radio", name="red").is_checked()
        assert page.get_by_label("Answer", exact=True).input_value() == "because"
        page.locator(".question .primary:enabled").click()
        seen.see("Well.")
        kept = "Object.keys(sessionStorage).filter((key) => key.includes('answer'))"
        page.locator(".question").wait_for(state="detached")
        assert page.evaluate(kept) == []


def test_a_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """The turn that was cut off is reported once, and is continued on demand."""
    with desk(tmp_path, main=[{"text": "Some words. " * 100}]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server)
        seen.send("Go.")
        page.locator(".streaming").wait_for()
        seen.offline_is_expected = True
        for _ in range(3):
            server.kill()
            page.get_by_text("Offline. What you see").wait_for()
            server.start()
            page.get_by_text("connected", exact=True).wait_for()
            seen.see("The turn was cut off")
            page.wait_for_timeout(300)
        assert page.get_by_role("log").get_by_text("The turn was cut off").count() == 1
        seen.send("/continue")
        page.locator(".turn-end").wait_for()
        assert page.locator(".message.user").count() == 1


def test_the_keyboard_after_stop(tmp_path: Path) -> None:
    """The button is gone with the turn; the focus is in the message field, not nowhere."""
    with desk(tmp_path, main=[{"text": "A long text. " * 300}]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server)
        seen.send("Go.")
        page.locator(".streaming").wait_for()
        page.get_by_role("button", name="Stop").dblclick()
        seen.see("Interrupted; completed work is kept.")
        assert page.get_by_label("Message", exact=True).evaluate("(one) => one === document.activeElement")
        assert page.locator(".composer .error-text").inner_text() == ""
