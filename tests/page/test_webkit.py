"""The page in WebKit: it needs TLS there; then all of a first session, by keyboard and mouse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.page.browser import VIOLATIONS, Desk, desk
from tests.page.pictures import SOURCE, called
from tests.page.webkit import ALT, ENTER, WebKit, webkit
from tests.security.certificates import certificate

pytestmark = pytest.mark.system
STORY = "\n\n".join(f"## Part {number}\n\nSentence {number} of **it**, with `code`." for number in range(30))
END = "\n\n```python\ndef area(width):\n    return width\n```\n\n- [x] The end of it."
ERRORS = "window.errors = []; addEventListener('error', (event) => errors.push(event.message));"


def test_pairing_without_tls_says_what_is_needed(tmp_path: Path) -> None:
    """WebKit keeps no secure cookie of a plain address: the page says so, not that the token is invalid."""
    with desk(tmp_path, main=[]) as server, webkit(tmp_path / "profile") as browser:
        browser.open(server.link())
        browser.see("Safari and other browsers with WebKit keep it only over https")


def test_a_first_session(tmp_path: Path) -> None:
    """Pair, send, stream Markdown and code, approve with edited arguments, a diff, the plan, reload, go on after kill -9."""
    plan = ("createPlan", {"title": "Keep the zone", "steps": ["Find it", "Mend it"]})
    steps = [
        {"text": STORY + END},
        called(("run", {"command": "printf done > d.txt", "need": ["write"]})),
        called(plan, ("get_tool_schemas", {"names": ["updateFile"]}), text="It is written."),
        called(("updateFile", {"path": "dates.py", "old": "text[:19]", "new": "text"})),
        {"text": "It is mended."},
        {"text": "Still here."},
    ]
    certificate(tmp_path, "server")
    with desk(tmp_path, main=steps) as server, webkit(tmp_path / "profile") as browser:
        (server.work / "dates.py").write_text(SOURCE)
        begin(browser, server)
        browser.type("Tell a story." + ENTER)
        browser.see("Sentence 3 of it, with code.", ".streaming")
        assert "The end of it." not in browser.evaluate("document.body.innerText")
        browser.see("The end of it.", ".message.model:not(.streaming)")
        browser.wait("document.querySelector('.message.model .hljs-keyword')")
        assert browser.evaluate("document.querySelectorAll('.message.model strong').length") == 30

        browser.type("Write a file." + ENTER)
        approve_edited(browser)
        browser.see("It is written.")
        assert (server.work / "d.txt").read_text() == "edited"

        browser.wait("document.querySelector('.question .diff')")
        shown = "((diff) => [diff.scrollHeight, diff.querySelector('.split').offsetHeight])"
        scrolled, height = browser.evaluate(f"{shown}(document.querySelector('.question .diff'))")
        assert scrolled == height > 0
        browser.click(".panel-tabs .tab:nth-child(1)")
        browser.see("Keep the zone", ".panel")
        assert browser.evaluate("window.violations.concat(errors)") == []
        go_on(browser, server)
        browser.see("Still here.")
        assert "text[:19]" not in (server.work / "dates.py").read_text()
        assert browser.evaluate("window.violations.concat(errors)") == []


def test_a_key_at_once(tmp_path: Path) -> None:
    """Alt+Y answers a question that has just appeared, and one whose form was opened and closed."""
    ask = [called(("run", {"command": f"printf x > {name}", "need": ["write"]})) for name in ("a", "b")]
    steps = [ask[0], {"text": "First."}, ask[1], {"text": "Second."}]
    certificate(tmp_path, "server")
    with desk(tmp_path, main=steps) as server, webkit(tmp_path / "profile") as browser:
        begin(browser, server)
        browser.type("One." + ENTER)
        browser.see("May run run?", ".question")
        browser.type("y", ALT)
        browser.see("First.")
        browser.type("Two." + ENTER)
        browser.wait("document.querySelector('.question .primary:enabled')")
        for key in "eey":
            browser.type(key, ALT)
        browser.see("Second.")
        assert {path.name for path in server.work.iterdir()} >= {"a", "b"}


def begin(browser: WebKit, server: Desk) -> None:
    """Pair, create a session, and go to the message field."""
    browser.resize(1_280, 800)
    browser.open(server.link())
    browser.see("No session is open.")
    browser.run(VIOLATIONS + ERRORS)
    browser.click(".sessions-head .button.primary")
    browser.click(".new-session input")
    browser.run("document.activeElement.select()")
    browser.type(str(server.work) + ENTER)
    browser.see("Send a message to begin.")
    browser.click(".composer textarea")


def approve_edited(browser: WebKit) -> None:
    """Change the arguments of the call that is asked about, and allow it; the end of the conversation stays in view."""
    browser.see("printf done > d.txt", ".question")
    browser.type("e", ALT)
    browser.click(".question textarea")
    browser.run("document.activeElement.select()")
    browser.type(json.dumps({"command": "printf edited > d.txt", "need": ["write"]}))
    assert browser.evaluate("document.querySelector('.jump')") is None
    browser.click(".question .primary")


def go_on(browser: WebKit, server: Desk) -> None:
    """Kill the server while a question waits, start it, reload, allow the call, and send another message."""
    server.kill()
    browser.see("Offline.", ".banner")
    server.start()
    browser.see("connected", ".status-line")
    browser.run("location.reload()")
    browser.wait("window.violations === undefined")
    browser.see("May updateFile run?", ".question")
    browser.run(VIOLATIONS + ERRORS)
    browser.click(".question .primary")
    browser.see("It is mended.")
    browser.click(".composer textarea")
    browser.type("Are you there?" + ENTER)
