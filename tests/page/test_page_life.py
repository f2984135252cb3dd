"""What happens around a page: sessions switched while they load, a hidden tab, a server that is silent, revoked or newer."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.long import filled
from tests.page.browser import Desk, Watched, desk, need_chromium, watched

from jaato.server.auth.tokens import remove_token, tokens_file
from jaato.storage.sqlite import SqliteStore

pytestmark = pytest.mark.system
WRITE: dict[str, Any] = {
    "calls": [{"name": "run", "arguments": {"command": "printf x > x.txt", "need": ["write"]}}]
}


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def fill(server: Desk, *sizes: int) -> list[str]:
    """Store sessions of so many events while the server is stopped."""
    server.stop()
    store = SqliteStore(server.home / "state/jaato.db")
    ids = [filled(store, size, server.work) for size in sizes]
    store.close()
    server.start()
    return ids


def test_sessions_switched_while_they_load(tmp_path: Path) -> None:
    """However fast the address changes, the last session is shown, followed and answered; no text of another is in it."""
    steps = [WRITE, {"text": "It was denied."}]
    slow = (
        "const send = WebSocket.prototype.send;"
        " WebSocket.prototype.send = function (text) { setTimeout(() => send.call(this, text), 60); };"
    )
    with desk(tmp_path, main=steps) as server:
        (other,) = fill(server, 3_000)
        with watched(server) as seen:
            seen.page.context.add_init_script(slow)
            seen.open(server)
            seen.begin(server, name="Mine")
            seen.send("Go.")
            page = seen.page
            page.locator(".question").wait_for()
            mine = page.evaluate("location.hash.slice(3)")
            switch = (
                "(ids) => { for (let at = 0; at < 9; at += 1)"
                " setTimeout(() => { location.hash = `s=${ids[at % 2]}`; }, at * 4); }"
            )
            page.evaluate(switch, [mine, other])
            page.wait_for_timeout(500)
            page.locator("main").get_by_role("heading", name="Mine").wait_for()
            assert page.get_by_role("log").get_by_text("an answer of some length").count() == 0
            page.get_by_role("button", name="Deny", exact=True).click()
            seen.see("It was denied.")


def test_a_tab_that_is_hidden_in_mid_stream_counts_questions(tmp_path: Path) -> None:
    """A frame that was asked for and never comes holds nothing back: the title and the notification are there."""
    steps = [{"text": "A sentence. " * 60, **WRITE}, {"text": "Well."}]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.page.context.add_init_script(
            "window.shown = []; window.Notification = class { static permission = 'granted';"
            " constructor(title) { shown.push(title); throw new TypeError('Illegal constructor'); } };"
        )
        seen.open(server)
        seen.begin(server, name="Hidden")
        seen.send("Go.")
        page = seen.page
        page.locator(".streaming").wait_for()
        page.evaluate(
            "() => { window.requestAnimationFrame = () => 1; document.hasFocus = () => false;"
            " Object.defineProperty(document, 'visibilityState', { value: 'hidden' });"
            " Object.defineProperty(document, 'hidden', { value: true }); }"
        )
        page.wait_for_function("() => document.title.startsWith('(1) Hidden')", polling=100)
        page.wait_for_function("() => shown.length === 1", polling=100)


def test_a_server_that_accepts_and_never_answers(tmp_path: Path) -> None:
    """A connection without a welcome is given up, so the page is back when the server is."""
    with desk(tmp_path, main=[{"text": "Back."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.offline_is_expected = True
        server.kill()
        with socket.create_server(("127.0.0.1", server.port)) as mute:
            held, _ = mute.accept()
            seen.page.get_by_text("connecting", exact=True).wait_for()
            assert seen.page.locator(".banner").inner_text().startswith("Offline.")
        server.start()
        seen.page.get_by_text("connected", exact=True).wait_for()
        held.close()
        seen.send("Hello?")
        seen.see("Back.")


def test_a_computer_that_has_slept(tmp_path: Path) -> None:
    """A connection that died meanwhile is given up within seconds of the first look at the page, however often it is looked at
    again, and resumed."""
    with desk(tmp_path, main=[{"text": "Hello."}]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server)
        seen.offline_is_expected = True
        server.process.send_signal(signal.SIGSTOP)
        look = "document.dispatchEvent(new Event('visibilitychange'))"
        page.evaluate(f"() => {{ {look}; setInterval(() => {look}, 3_000); }}")
        page.get_by_text("Offline. What you see").wait_for()
        server.process.send_signal(signal.SIGCONT)
        page.get_by_text("connected", exact=True).wait_for()
        seen.send("Hi.")
        seen.see("Hello.")


def test_a_lost_connection_is_shown_in_the_list_of_a_phone(tmp_path: Path) -> None:
    """Where the list of sessions is all that is seen, it says that the connection is lost."""
    with desk(tmp_path, main=[]) as server, watched(server, viewport={"width": 360, "height": 700}) as seen:
        seen.open(server)
        seen.page.get_by_role("button", name="New", exact=True).wait_for()
        seen.offline_is_expected = True
        server.kill()
        seen.page.get_by_text("Offline. What you see").wait_for()
        server.start()
        seen.page.get_by_text("Offline. What you see").wait_for(state="detached")


def test_each_tab_keeps_its_draft(tmp_path: Path) -> None:
    """Two tabs write to one session: neither gets the other's text, and a new one begins with the last."""
    with desk(tmp_path, main=[{"text": "Received."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        page = seen.page
        other = page.context.new_page()
        fields = [tab.get_by_label("Message", exact=True) for tab in (page, other)]
        other.goto(page.url)
        for field, text in zip(fields, ("mine", "yours"), strict=True):
            field.fill(text)
        for tab, field, text in zip((page, other), fields, ("mine", "yours"), strict=True):
            tab.reload()
            field.wait_for()
            assert field.input_value() == text
        fields[0].press("Enter")
        seen.see("Received.")
        assert fields[1].input_value() == "yours"
        page.reload()
        fields[0].wait_for()
        assert fields[0].input_value() == ""


def test_a_removed_token_disconnects_with_a_reason(tmp_path: Path) -> None:
    """The page says why it asks to be paired again; what was being written is there afterwards."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        page = seen.page
        page.get_by_label("Message", exact=True).fill("a draft")
        for entry in tokens_file(server.home / "state").read():
            remove_token(server.home / "state", entry.name)
        page.get_by_text("does not accept this browser any more").wait_for()
        page.get_by_label("Or paste a link").fill(server.link())
        page.get_by_role("button", name="Pair").click()
        page.get_by_label("Message", exact=True).wait_for()
        assert page.get_by_label("Message", exact=True).input_value() == "a draft"


@pytest.mark.parametrize("storage", ["full", "forbidden"])
def test_a_storage_that_takes_nothing(tmp_path: Path, storage: str) -> None:
    """The page is paired and keeps drafts until it is closed."""
    deny = {
        "full": "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };",
        "forbidden": "Object.defineProperty(window, 'localStorage',"
        " { get() { throw new DOMException('no', 'SecurityError'); } });",
    }
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        seen.page.context.add_init_script(deny[storage])
        seen.open(server)
        seen.begin(server, name="First")
        page = seen.page
        page.get_by_label("Message", exact=True).fill("a draft")
        hash_ = page.evaluate("location.hash")
        page.evaluate("location.hash = ''")
        page.get_by_text("No session is open.").wait_for()
        page.evaluate("(hash) => { location.hash = hash; }", hash_)
        page.get_by_label("Message", exact=True).wait_for()
        assert page.get_by_label("Message", exact=True).input_value() == "a draft"


def test_a_session_without_a_name_is_called_by_its_first_message(tmp_path: Path) -> None:
    """In its head as in the list, also when its beginning is not among the entries that the page has."""
    with desk(tmp_path, main=[{"text": "Hello."}]) as server:
        (long,) = fill(server, 3_000)
        with watched(server) as seen:
            seen.open(server)
            seen.begin(server)
            head = seen.page.locator("main").get_by_role("heading", level=2)
            assert head.inner_text().startswith("Untitled ")
            seen.send("What is new?")
            head.get_by_text("What is new?").wait_for()
            seen.page.locator(".session-list .current .name", has_text="What is new?").wait_for()
            seen.page.goto(f"{server.origin}/#s={long}")
            head.get_by_text("question 3 question 3").wait_for()


def test_the_list_stays_as_long_as_it_was_made(tmp_path: Path) -> None:
    """A refresh does not take back what `Show more` has shown."""
    with desk(tmp_path, main=[{"text": "Hello."}]) as server:
        fill(server, *[20] * 100)
        with watched(server) as seen:
            seen.open(server)
            seen.begin(server)
            rows = seen.page.locator(".session-list li")
            for count in (80, 101):
                seen.page.get_by_role("button", name="Show more").click()
                seen.page.wait_for_function(
                    f"() => document.querySelectorAll('.session-list li').length === {count}"
                )
            seen.send("Hello.")
            seen.see("Hello.")
            seen.page.locator(".turn-end").wait_for()
            seen.page.wait_for_timeout(1_000)
            assert rows.count() == 101


class Altered:
    """The frames between the server and the page: those to the page changed, those of the page kept."""

    def __init__(self, seen: Watched, change: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> None:
        self.sent: list[str] = []

        def connect(route: Any) -> None:
            server = route.connect_to_server()

            def keep(text: str) -> None:
                self.sent.append(text)
                server.send(text)

            route.on_message(keep)
            server.on_message(lambda text: [route.send(json.dumps(one)) for one in change(json.loads(text))])

        seen.page.route_web_socket("**/v1/connect", connect)


def test_texts_and_numbers_that_do_not_fit(tmp_path: Path) -> None:
    """Half a character is sent as U+FFFD; an integer beyond 2^53 is shown, edited and sent digit by digit."""
    large = 9_007_199_254_740_993

    def change(frame: dict[str, Any]) -> list[dict[str, Any]]:
        if frame.get("type") == "permission.requested":
            frame["arguments"]["number"] = large
        return [frame]

    with (
        desk(tmp_path, main=[{"text": "Received."}, WRITE, {"text": "Done."}]) as server,
        watched(server) as seen,
    ):
        altered = Altered(seen, change)
        seen.open(server)
        seen.begin(server)
        page = seen.page
        field = page.get_by_label("Message", exact=True)
        field.evaluate(
            "(field) => { field.value = 'half \\ud83d of it';"
            " field.dispatchEvent(new InputEvent('input', { bubbles: true })); }"
        )
        field.press("Enter")
        seen.see("Received.")
        seen.see("half \ufffd of it")
        seen.send("Go.")
        page.locator(".question-body").get_by_text(str(large)).wait_for()
        page.get_by_role("button", name="Edit").click()
        arguments = page.get_by_label("Arguments as JSON")
        assert str(large) in arguments.input_value()
        button = page.get_by_role("button", name="Allow with these arguments")
        arguments.fill('{"command": 1e999}')
        button.click()
        page.get_by_text("This is no JSON: 1e999 is too large").wait_for()
        arguments.fill(json.dumps({"command": "true", "number": large + 2}))
        button.click()
        page.wait_for_timeout(300)
        assert any(f'"number":{large + 2}' in frame for frame in altered.sent)


def test_events_of_a_newer_and_an_older_server(tmp_path: Path) -> None:
    """Unknown events, kinds and values and missing fields cost the entry they are in, not the page."""

    def change(frame: dict[str, Any]) -> list[dict[str, Any]]:
        if frame.get("type") != "message.model" or frame["message"]["parts"][0].get("text") != "First.":
            return [frame]
        odd = {name: frame[name] for name in ("session_id", "agent_id")} | {"timestamp": "never"}
        parts: list[dict[str, Any]] = [
            {"type": "hologram"},
            {"type": "tool_call", "call_id": "c", "name": "__proto__"},
        ]
        step = {"id": "s", "description": "d", "status": "constructor"}
        strange: list[dict[str, Any]] = [
            {"type": "agent.dreamed", "__proto__": {"x": 1}},
            {"type": "message.model", "turn_id": "t", "message": {"role": "assistant", "parts": parts}},
            {"type": "system.message", "text": "a notice", "level": "constructor"},
            {"type": "plan.updated", "plan": {"id": "__proto__", "title": "p", "steps": [step]}},
            {"type": "tool.output", "call_id": "constructor", "text": "x"},
        ]
        number = frame["seq"] - 0.9
        return [{**odd, **one, "seq": number + at / 10} for at, one in enumerate(strange)] + [frame]

    with desk(tmp_path, main=[{"text": "First."}, {"text": "Second."}]) as server, watched(server) as seen:
        Altered(seen, change)
        seen.open(server)
        seen.begin(server)
        seen.send("One.")
        page = seen.page
        seen.see("First.")
        page.get_by_role("log").get_by_text("This cannot be shown here").wait_for()
        for panel in ("Plan", "Agents", "Changes", "Waypoints", "Tools", "Usage"):
            page.locator(".panel-tabs").get_by_role("button", name=panel).click()
            page.get_by_role("heading", name=panel).first.wait_for()
        page.keyboard.press("Escape")
        seen.send("Two.")
        seen.see("Second.")
        assert page.evaluate("({}).x") is None


def test_an_answer_that_is_not_offered(tmp_path: Path) -> None:
    """A viewer's keys change nothing: not the form of the question, and not the call."""
    with desk(tmp_path, main=[WRITE, {"text": "Well."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("Do it.")
        seen.page.locator(".question .primary:enabled").wait_for()
        context = seen.page.context.browser.new_context()
        viewer = context.new_page()
        viewer.goto(server.link("viewer"))
        viewer.get_by_role("navigation", name="Sessions").wait_for()
        viewer.goto(seen.page.url)
        viewer.get_by_text("You only watch here").wait_for()
        time.sleep(0.5)  # for a moment after it has appeared, a question takes no key from anyone
        for key in "yneotialx":
            viewer.keyboard.press(f"Alt+{key}")
        viewer.keyboard.press("Escape")
        assert viewer.get_by_label("Arguments as JSON").count() == 0
        assert viewer.get_by_role("button", name="Stop").count() == 0
        assert seen.page.locator(".question").count() == 1
        context.close()


def test_a_form_of_pairing_in_two_tabs(tmp_path: Path) -> None:
    """A server that does not answer is said to be the reason; the tab that was not paired follows the one that was."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        page = seen.page
        page.goto(server.origin)
        link = server.link()
        seen.offline_is_expected = True
        server.kill()
        page.get_by_label("Or paste").fill(link)
        page.get_by_role("button", name="Pair").click()
        page.get_by_text("The server does not answer.").wait_for()
        server.start()
        other = page.context.new_page()
        other.goto(server.link())
        other.get_by_role("navigation", name="Sessions").wait_for()
        page.get_by_role("navigation", name="Sessions").wait_for()
