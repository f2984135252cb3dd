"""Notifications in Chromium of questions in sessions that are not open: once, also of a hidden tab, and the click opens them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.page.browser import Watched, desk, need_chromium, watched
from tests.page.serve_page import HOLD

pytestmark = pytest.mark.system
ASK = {"calls": [{"name": "run", "arguments": {"command": "printf x > x.txt", "need": ["write"]}}]}
STEPS: list[dict[str, Any]] = [{"text": f"{HOLD} A moment.", **ASK}, {"text": "Well."}]
NOTIFICATION = """
window.shown = [];
window.Notification = class {
  static permission = 'granted';
  constructor(title, more) { shown.push(this); this.text = `${title}: ${more.body}`; }
  close() { this.closed = true; }
};
"""
HIDE = """
() => {
  window.requestAnimationFrame = () => 1;
  document.hasFocus = () => false;
  window.focus = () => { document.hasFocus = () => true; Object.defineProperty(document, 'visibilityState', { value: 'visible' }); };
  Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });
  Object.defineProperty(document, 'hidden', { value: true });
}
"""


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def texts(page: Any) -> Any:
    """What the notifications of a tab say."""
    return page.evaluate("shown.map((one) => one.text)")


def wait_in_another(seen: Watched, server: Any, name: str = "Busy") -> Any:
    """Let a session work until the file `go` exists, after which it asks, and open another."""
    seen.page.context.add_init_script(NOTIFICATION)
    seen.open(server)
    seen.begin(server, name=name)
    seen.send("Go.")
    seen.see("A moment.")
    seen.begin(server, name="Quiet")
    seen.page.get_by_role("heading", name="Quiet").wait_for()
    return seen.page


@pytest.mark.parametrize("state", ["looked at", "hidden", "searched"])
def test_a_question_in_another_session(tmp_path: Path, state: str) -> None:
    """It is shown once with the session's name; the click opens the session, whose question can be answered."""
    with desk(tmp_path, main=STEPS) as server, watched(server) as seen:
        page = wait_in_another(seen, server)
        if state == "hidden":
            page.evaluate(HIDE)
        if state == "searched":
            page.get_by_label("Search sessions").fill("nothing has these words")
        (server.work / "go").touch()
        page.wait_for_function("() => shown.length > 0", polling=100)
        page.wait_for_timeout(11_000)
        assert texts(page) == ["Busy: 1 question waits for an answer."]
        page.evaluate("shown[0].onclick()")
        page.get_by_role("heading", name="Busy").wait_for()
        assert page.evaluate("shown[0].closed")
        page.locator(".question .primary:enabled").click()
        seen.see("Well.")
        assert len(texts(page)) == 1


def test_another_tab_that_shows_the_session_notifies_alone(tmp_path: Path) -> None:
    """Of two tabs, the one with the session open does it; a reload repeats nothing."""
    with desk(tmp_path, main=STEPS) as server, watched(server) as seen:
        page = wait_in_another(seen, server)
        other = page.context.new_page()
        other.goto(page.url)
        other.get_by_role("link", name="Busy").click()
        other.get_by_role("heading", name="Busy").wait_for()
        other.evaluate("document.hasFocus = () => false")
        (server.work / "go").touch()
        other.wait_for_function("() => shown.length > 0", polling=100)
        page.get_by_text("waits for an answer").wait_for()
        page.wait_for_timeout(500)
        assert (texts(page), texts(other)) == ([], ["Busy: May run run?"])
        other.close()
        page.reload()
        page.get_by_text("waits for an answer").wait_for()
        page.wait_for_timeout(500)
        assert texts(page) == []
