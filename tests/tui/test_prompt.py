"""The prompt: lines, history, completion, pastes, drafts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.studio import Studio, call, say, studio
from textual import events

from jaato.protocol.events import MessageUser

pytestmark = pytest.mark.anyio


async def paste(one: Studio, text: str) -> None:
    """Paste into the prompt."""
    one.app.view.prompt.post_message(events.Paste(text))
    await one.pilot.pause(0.05)


async def test_lines_history_and_draft(work: Path) -> None:
    """Ctrl+J and a backslash begin a line; Up and Down go through what was sent, and give the draft back."""
    async with studio(work, steps=[say("one."), say("two.")]) as one:
        prompt = one.app.view.prompt
        await one.type("first\nline")
        await one.press("backslash", "enter")
        await one.type("last")
        assert prompt.text == "first\nline\nlast"
        await one.press("enter")
        await one.see("▌ last", "one.")
        await one.type("draft")
        await one.press("up")
        assert prompt.text == "first\nline\nlast"
        await one.press("down", "down", "down")
        assert prompt.text == "draft"
    async with studio(work, steps=[say("x")]) as one:
        assert one.app.view.prompt.text == "draft"
        await one.press("up")
        assert one.app.view.prompt.text == "first\nline\nlast"
    async with studio(work, steps=[say("x")]) as one:
        assert one.app.view.prompt.text == "draft", "an earlier message that was only shown is no draft"


async def test_commands_and_files_are_completed(work: Path) -> None:
    """`/` lists commands of client and session; `@` finds files by some of their letters; Tab takes one."""
    (work / "docs").mkdir()
    (work / "docs" / "guide.md").write_text("")
    (work / "[bold]x.py").write_text("")
    async with studio(work, steps=[say("x")]) as one:
        prompt = one.app.view.prompt
        await one.type("/wayp")
        await one.see("/waypoint")
        await one.press("tab")
        assert prompt.text == "/waypoint "
        prompt.clear_message()
        await one.type("see @gde")
        await one.see("@docs/guide.md")
        await one.press("tab")
        assert prompt.text == "see @docs/guide.md "
        await one.type("@bold")
        await one.see("@[bold]x.py")
        await one.press("escape")
        assert not one.app.view.area.choices.display
        assert prompt.text.endswith("@bold")


async def test_a_long_paste_is_folded_and_sent_whole(work: Path) -> None:
    """A megabyte stands in the prompt as one mark, which Backspace removes; the message has all of it."""
    text = "\x1b[31mline of text\n" * 60_000
    async with studio(work, steps=[say("taken.")]) as one:
        await paste(one, text)
        assert "[pasted #1: " in one.app.view.prompt.text
        assert len(one.app.view.prompt.text) < 80
        await one.press("backspace")
        assert one.app.view.prompt.text == ""
        await paste(one, text)
        await one.press("enter")
        await one.see("taken.")
        page = await one.app.link.session.history()
        sent = next(entry.message.words for entry in page.events if isinstance(entry, MessageUser))
        assert sent.count("line of text") == 60_000
        await paste(one, "short\npaste")
        assert one.app.view.prompt.text == "short\npaste"


async def test_a_message_in_mid_turn_waits_and_is_delivered(work: Path) -> None:
    """It stands below the conversation as waiting, and then where it was delivered."""
    steps = [call("run", command="until [ -e go ]; do sleep 0.05; done"), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("begin")
        await one.see("▸", "run until")
        await one.send("also this")
        await one.see("▌ also this", "waits for the agent's next pause")
        (work / "go").touch()
        await one.see("delivered in mid-turn", "Over.")
        assert "waits for" not in one.screen


async def test_an_unknown_command_says_so_and_comes_back(work: Path) -> None:
    """A command that does not exist is not sent as a message, and stays in the prompt."""
    async with studio(work, steps=[say("x")]) as one:
        await one.send("/nothing here")
        await one.see("There is no command /nothing")
        assert one.app.view.prompt.text == "/nothing here"


async def test_the_path_of_an_image_attaches_it(work: Path) -> None:
    """A pasted path of an image, as terminals give it for a dropped file, attaches it to the next message."""
    png = (
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf500f"
        "000301010018dd8db00000000049454e44ae426082"
    )
    path = work / "a picture.png"
    path.write_bytes(bytes.fromhex(png))
    async with studio(work, steps=[say("seen.")]) as one:
        await paste(one, str(path).replace(" ", "\\ "))
        await one.see("a picture.png is attached")
        assert one.app.view.prompt.text == ""
        await paste(one, "/no/such.png")
        assert one.app.view.prompt.text == "/no/such.png"
        await one.press("enter")
        await one.see("[a picture.png]", "seen.")
