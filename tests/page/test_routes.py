"""The address has what is shown: a reload, Back and Forward in Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.page.browser import desk, need_chromium, watched
from tests.page.pictures import PHONE, called

pytestmark = pytest.mark.system
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "main": [
        called(("get_tool_schemas", {"names": ["delegate"]})),
        called(("delegate", {"task": "Look.", "name": "looker"})),
        {"text": "All done."},
    ],
    "looker": [{"text": "I looked."}],
}


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def test_a_panel_and_an_agent_survive_a_reload(tmp_path: Path) -> None:
    """Back closes what was opened last, and what is closed by hand leaves nothing to go back through."""
    with desk(tmp_path, **SCRIPTS) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server, name="Views", mode="auto")
        seen.send("Go.")
        seen.see("All done.")
        page.locator(".turn-end").wait_for()
        page.get_by_role("button", name="Agents", exact=True).click()
        page.get_by_role("button", name="looker").click()
        page.get_by_text("Back to the main agent").wait_for()
        page.reload()
        page.get_by_text("Back to the main agent").wait_for()
        page.get_by_role("heading", name="Agents").wait_for()
        page.go_back()
        page.get_by_text("Back to the main agent").wait_for(state="detached")
        page.get_by_role("heading", name="Agents").wait_for()
        page.go_back()
        page.get_by_role("heading", name="Agents").wait_for(state="detached")
        page.go_forward()
        page.get_by_role("heading", name="Agents").wait_for()
        page.get_by_role("button", name="Usage", exact=True).click()
        page.get_by_role("heading", name="Usage").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("heading", name="Usage").wait_for(state="detached")
        page.go_back()
        page.get_by_text("No session is open.").wait_for()


CLOSE = "document.querySelector('.panel header button').click();"
USAGE = (
    "[...document.querySelectorAll('.panel-tabs .tab')].find((tab) => tab.textContent === 'Usage').click();"
)


def test_clicks_while_the_browser_goes_back(tmp_path: Path) -> None:
    """A panel that is closed twice in one moment leaves the session open; another one that is opened then is shown."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server, name="Views")
        for then, address in ((CLOSE, ""), (USAGE, "&panel=usage"), (CLOSE + USAGE, "&panel=usage")):
            shown = page.evaluate("location.href")
            page.get_by_role("button", name="Plan", exact=True).click()
            page.get_by_role("heading", name="Plan").wait_for()
            page.evaluate(f"() => {{ {CLOSE} {then} }}")
            page.wait_for_function("(href) => location.href === href", arg=shown + address)
            page.get_by_role("heading", name="Plan").wait_for(state="detached")
            if address:
                page.get_by_role("heading", name="Usage").wait_for()
                page.keyboard.press("Escape")
            page.wait_for_function("(href) => location.href === href", arg=shown)
        page.get_by_role("heading", name="Views").wait_for()


def test_back_on_a_phone(tmp_path: Path) -> None:
    """It closes the panel that covers the conversation; an agent that is chosen there is shown at once."""
    with desk(tmp_path, **SCRIPTS) as server, watched(server, **PHONE) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server, name="Views", mode="auto")
        seen.send("Go.")
        page.locator(".turn-end").wait_for()
        page.get_by_role("button", name="Usage", exact=True).click()
        page.get_by_role("heading", name="Usage").wait_for()
        page.go_back()
        page.get_by_role("heading", name="Usage").wait_for(state="detached")
        page.get_by_role("button", name="Agents", exact=True).click()
        page.get_by_role("button", name="looker").click()
        page.get_by_role("heading", name="Agents").wait_for(state="detached")
        seen.see("I looked.")


def test_a_session_is_deleted_on_a_phone(tmp_path: Path) -> None:
    """In the list, which is seen only when no session is open, the one that was left has the buttons."""
    with desk(tmp_path, main=[]) as server, watched(server, **PHONE) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server, name="Left")
        page.get_by_role("button", name="Back to the sessions").click()
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("textbox", name="Name of the session").fill("Renamed")
        page.get_by_role("dialog").get_by_role("button", name="Rename").click()
        page.get_by_role("link", name="Renamed").wait_for()
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.get_by_text("There are no sessions yet.").wait_for()


def test_an_address_with_nonsense(tmp_path: Path) -> None:
    """A panel and an agent that do not exist are left out; a session that cannot be one is none."""
    with desk(tmp_path, main=[{"text": "Hello."}]) as server, watched(server) as seen:
        page = seen.page
        seen.open(server)
        seen.begin(server, name="Here")
        page.goto(f"{page.url}&panel=constructor&agent=__proto__")
        page.get_by_role("heading", name="Here").wait_for()
        assert page.locator(".panel").count() == 0
        seen.send("Hi.")
        seen.see("Hello.")
        page.goto(f"{server.origin}/#s=../x&panel=plan")
        page.get_by_text("No session is open.").wait_for()
