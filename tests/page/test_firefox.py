"""The page in Firefox: paired, a message sent, text as it streams, a question answered, a panel opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.page.browser import VIOLATIONS, desk
from tests.page.firefox import ENTER, firefox
from tests.page.pictures import called

pytestmark = pytest.mark.system


def test_send_stream_and_approve(tmp_path: Path) -> None:
    """The flow of a first session, by mouse and keyboard; nothing is complained about, and the cookie pairs it again."""
    story = " ".join(f"sentence {number}." for number in range(60)) + " The end of it."
    write = called(("run", {"command": "printf done > d.txt", "need": ["write"]}))
    with (
        desk(tmp_path, main=[{"text": story}, write, {"text": "It is written."}]) as server,
        firefox(tmp_path / "profile") as browser,
    ):
        browser.ask("script.addPreloadScript", functionDeclaration=f"() => {{{VIOLATIONS}}}")
        browser.open(server.link())
        browser.see("No session is open.")
        browser.click(".sessions-head .button.primary")
        browser.click(".new-session input")
        browser.evaluate("document.activeElement.select()")
        browser.type(str(server.work) + ENTER)
        browser.see("Send a message to begin.")
        browser.click(".composer textarea")
        browser.type("Tell a story." + ENTER)
        browser.see("sentence 3.", ".streaming")
        assert "The end of it." not in browser.evaluate("document.body.innerText")
        browser.see("The end of it.", ".message.model:not(.streaming)")
        browser.type("Write a file." + ENTER)
        browser.see("printf done > d.txt", ".question")
        browser.click(".question .primary")
        browser.see("It is written.")
        assert (server.work / "d.txt").read_text() == "done"
        browser.click(".panel-tabs .tab:nth-child(6)")
        browser.see("What no rule covers is asked about.", ".panel")
        browser.evaluate("location.reload()")
        browser.see("It is written.")
        assert browser.evaluate("window.violations.length") == 0
        assert browser.complaints == []
