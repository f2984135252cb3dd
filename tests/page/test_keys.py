"""The keys that answer questions, and the list of commands and keys, in Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.page.browser import desk, need_chromium, watched

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def write(*names: str) -> dict[str, Any]:
    """Calls that ask, each of which writes a file."""
    return {
        "calls": [
            {"name": "run", "arguments": {"command": f"printf x > {name}", "need": ["write"]}}
            for name in names
        ]
    }


AT_ONCE = """
(letter) => new MutationObserver((_changes, observer) => {
  if (!document.querySelector('.question .primary')) return;
  observer.disconnect();
  dispatchEvent(new KeyboardEvent('keydown', { altKey: true, key: letter, code: `Key${letter.toUpperCase()}` }));
}).observe(document.body, { subtree: true, childList: true })
"""


def test_a_key_in_the_moment_in_which_the_question_appears(tmp_path: Path) -> None:
    """It counts: no listener and no pause is waited for when no other question could have been meant."""
    with desk(tmp_path, main=[write("a.txt"), {"text": "Written."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.page.evaluate(AT_ONCE, "y")
        seen.send("Go.")
        seen.see("Written.")
        assert (server.work / "a.txt").read_text() == "x"


def test_a_second_press_does_not_answer_the_next_question(tmp_path: Path) -> None:
    """The page says that the key is to be pressed again; then it counts, also after the form was drawn again."""
    with (
        desk(tmp_path, main=[write("a.txt", "b.txt"), {"text": "Written."}]) as server,
        watched(server) as seen,
    ):
        seen.open(server)
        seen.begin(server)
        seen.send("Go.")
        page = seen.page
        page.locator(".question", has_text="a.txt").locator(".primary:enabled").wait_for()
        page.evaluate(
            "() => new MutationObserver((_changes, observer) => {"
            " if (!document.querySelector('.question')?.textContent.includes('b.txt')) return;"
            " observer.disconnect();"
            " dispatchEvent(new KeyboardEvent('keydown', { altKey: true, key: 'y', code: 'KeyY' }));"
            " }).observe(document.body, { subtree: true, childList: true, characterData: true })"
        )
        page.keyboard.press("Alt+y")
        page.get_by_text("This question has just followed another.").wait_for()
        page.locator(".question", has_text="b.txt").locator(".primary:enabled").wait_for()
        assert not (server.work / "b.txt").exists()
        for _ in range(4):
            page.keyboard.press("Alt+e")
        page.set_viewport_size({"width": 700, "height": 800})
        page.keyboard.press("Alt+y")
        seen.see("Written.")
        assert [(server.work / name).read_text() for name in ("a.txt", "b.txt")] == ["x", "x"]


@pytest.mark.parametrize(
    ("key", "code"), [("y", "KeyZ"), ("¥", "KeyY")], ids=["the letters of the keyboard", "Option on a Mac"]
)
def test_a_key_of_another_keyboard(tmp_path: Path, key: str, code: str) -> None:
    """The letter on the key decides, and its place where Alt makes another character of it."""
    with desk(tmp_path, main=[write("a.txt"), {"text": "Written."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("Go.")
        seen.page.locator(".question").wait_for()
        session = seen.page.context.new_cdp_session(seen.page)
        session.send("Input.dispatchKeyEvent", {"type": "keyDown", "modifiers": 1, "key": key, "code": code})
        seen.see("Written.")


def test_option_on_a_mac_writes_a_character(tmp_path: Path) -> None:
    """Where Alt makes a character, it belongs to the text that is being written, and answers nothing."""
    with desk(tmp_path, main=[write("a.txt"), {"text": "Written."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("Go.")
        page = seen.page
        page.locator(".question .primary:enabled").wait_for()
        page.get_by_label("Message", exact=True).fill("ma")
        session = page.context.new_cdp_session(page)
        for key, code in (("Dead", "KeyN"), ("å", "KeyA")):
            session.send(
                "Input.dispatchKeyEvent", {"type": "keyDown", "modifiers": 1, "key": key, "code": code}
            )
        page.wait_for_timeout(300)
        assert page.locator(".question").count() == 1
        page.get_by_label("Message", exact=True).fill("")
        session.send(
            "Input.dispatchKeyEvent", {"type": "keyDown", "modifiers": 1, "key": "Dead", "code": "KeyN"}
        )
        seen.see("Written.")
        assert not (server.work / "a.txt").exists()


def test_help_lists_the_commands_and_the_keys(tmp_path: Path) -> None:
    """An unknown command names `/help`, and `/help` is there; what was typed stays."""
    with desk(tmp_path, main=[]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("/nonsense")
        page = seen.page
        page.get_by_text("There is no command /nonsense").wait_for()
        field = page.get_by_label("Message", exact=True)
        assert field.input_value() == "/nonsense"
        field.fill("/he")
        page.get_by_role("option", name="/help").click()
        field.press("Enter")
        shown = page.locator(".notice", has_text="list the commands and the keys")
        shown.wait_for()
        keys = page.locator(".notice", has_text="Shift+Enter")
        lines = shown.inner_text().split("\n") + keys.inner_text().split("\n")
        for name, text in (
            ("/undo", "newest"),
            ("/fork", "copy"),
            ("/export", "HTML"),
            ("Alt+Y, Alt+N", "allow"),
            ("Alt+X", "deny"),
            ("Escape", "stop"),
        ):
            assert any(line.startswith(name) and text in line for line in lines), name
        page.get_by_text("There is no command /nonsense").wait_for(state="detached")
