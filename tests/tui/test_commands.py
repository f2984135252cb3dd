"""Commands of the prompt: those of the client itself, what Enter takes, and the key of the permission modes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.studio import call, say, studio
from textual import events

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_shift_tab_goes_through_the_permission_modes(work: Path) -> None:
    """From the prompt, with what is typed in it."""
    async with studio(work, steps=[say("x")]) as one:
        one.app.view.prompt.insert("draft")
        for mode in ("accept-edits", "plan", "ask", "accept-edits"):
            await one.press("shift+tab")
            await one.wait(lambda mode=mode: one.app.link.session.state.mode == mode)  # type: ignore[misc]
            await one.wait(lambda mode=mode: f"· {mode} ·" in one.status)  # type: ignore[misc]
        assert one.app.view.prompt.has_focus
        assert one.app.view.prompt.text == "draft"


async def test_commands_of_the_client_open_its_screens(work: Path) -> None:
    """They are completed like the others, also in mid-turn; with more than the name they are no command of its own."""
    (work / ".jaato" / "commands").mkdir(parents=True)
    (work / ".jaato" / "commands" / "search.md").write_text("The stored prompt.")
    steps = [call("run", command="until [ -e go ]; do sleep 0.05; done"), say("Over."), say("Searched.")]
    async with studio(work, steps=steps, size=(100, 30)) as one:
        await one.send("go")
        await one.see("run until")
        await one.type("/key")
        await one.see("show all keys")
        await one.press("tab", "enter")
        await one.see("next permission mode")
        await one.press("escape")
        await one.send("/theme")
        await one.see("ansi-light")
        await one.press("escape")
        (work / "go").touch()
        await one.see("Over.")
        await one.rest()
        await one.send("/search")
        await one.see("Searched.")
        await one.send("/theme dark")
        await one.see("There is no command /theme")


async def test_enter_takes_the_completion_of_a_command_that_is_begun(work: Path) -> None:
    """Once: the next Enter runs it. A whole command, and another name of one, is run at once."""
    async with studio(work, steps=[say("x")], size=(100, 40)) as one:
        prompt = one.app.view.prompt
        await one.type("/conte")
        await one.see("show what the model")
        await one.press("enter")
        assert prompt.text == "/context "
        await one.press("enter")
        await one.see("tokens")
        assert prompt.text == ""
        for key in ("slash", *"conte", "enter"):  # keys of one moment
            one.app.post_message(events.Key(key, "/" if key == "slash" else key if len(key) == 1 else None))
        await one.wait(lambda: prompt.text == "/context ")
        prompt.clear_message()
        await one.type("/conte")
        await one.press("escape", "enter")
        await one.see("There is no command /conte")
        prompt.clear_message()
        for whole in ("/mode", "/?"):
            await one.type(whole)
            await one.press("enter")
            await one.wait(lambda: prompt.text == "")
        await one.see("/compact")


async def test_enter_takes_what_an_arrow_key_has_marked(work: Path) -> None:
    """A file whose name is only begun is sent as it is typed, unless one was marked."""
    (work / "one.txt").write_text("")
    (work / "two.txt").write_text("")
    async with studio(work, steps=[say("First."), say("Second.")]) as one:
        prompt = one.app.view.prompt
        await one.type("see @txt")
        await one.see("@one.txt", "@two.txt")
        await one.press("down", "enter")
        assert prompt.text in ("see @one.txt ", "see @two.txt ")
        await one.press("enter")
        await one.see("First.", "txt")
        await one.rest()
        await one.type("mail ana@txt @txt")
        await one.see("@one.txt", "@two.txt")
        await one.press("enter")
        await one.see("▌ mail ana@txt @txt", "Second.")
