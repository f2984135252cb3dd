"""The prompt: lines, history, completion, pastes, drafts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tui.studio import Studio, call, say, studio
from textual import events

from jaato.errors import ConfigError
from jaato.protocol.events import MessageUser
from jaato.tui.prompt.drafts import MAX_DRAFT_CHARS, Drafts
from jaato.tui.prompt.external_editor import find_editor

pytestmark = pytest.mark.anyio
PNG = (
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f"
    "00050001ff89993d1d0000000049454e44ae426082"
)


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


async def test_a_draft_returns_when_another_message_is_sent(work: Path) -> None:
    """An earlier message that is sent again, one that is chosen from a list and a command do not cost what was typed; Ctrl+C
    keeps both in the history."""
    async with studio(work, steps=[say("one."), say("two."), say("three.")]) as one:
        prompt = one.app.view.prompt
        await one.type("first")
        await one.press("enter")
        await one.see("one.")
        await one.type("my draft")
        await one.press("up", "enter")
        await one.see("two.")
        assert prompt.text == "my draft"
        await one.press("ctrl+r")
        await one.see("Messages sent before")
        await one.press("enter")
        assert prompt.text == "first"
        await one.type(" again")
        await one.press("enter")
        await one.see("three.")
        assert prompt.text == "my draft"
        prompt.begin("first")
        prompt.begin("/mode ")
        prompt.begin("/help ")
        assert prompt.text == "/help ", "what was chosen before and not changed does not come back"
    async with studio(work, steps=[say("x")]) as one:
        prompt = one.app.view.prompt
        assert prompt.text == "my draft\n/help "
        prompt.clear_message()
        await one.type("typed")
        await one.press("up", "ctrl+c")
        assert prompt.text == ""
        await one.press("up", "up")
        assert prompt.text == "typed"


async def test_what_arrives_while_a_message_is_edited_elsewhere_stays(work: Path) -> None:
    """A message that could not be sent is put back into the prompt while its text is in the user's editor: both are there."""
    async with studio(work, steps=[say("x")]) as one:
        prompt = one.app.view.prompt
        for before, expected in (("old", "unsent\nnew"), ("", "unsent\nnew")):
            prompt.put(before)
            prompt.put_back("unsent")
            prompt.replace_message(before, "new")
            assert prompt.text == expected
        prompt.replace_message(prompt.message, "new")
        assert prompt.text == "new"


@pytest.mark.parametrize("named", ["'", "  ", "''"])
def test_without_an_editor_the_error_says_what_to_do(named: str) -> None:
    """A variable that names no program."""
    with pytest.raises(ConfigError, match="set EDITOR"):
        find_editor({"EDITOR": named})
    assert find_editor({"EDITOR": "a", "VISUAL": "code --wait"}) == ["code", "--wait"]


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


WAIT = call("run", command="until [ -e go ]; do sleep 0.05; done; rm go")


async def test_queued_messages_are_sent_after_the_turn(work: Path) -> None:
    """Ctrl+T: one turn for each, in their order, a command among them; the one that steers is delivered before."""
    steps = [WAIT, say("First."), say("Second."), say("Third.")]
    async with studio(work, steps=steps) as one:
        await one.send("begin")
        await one.see("run until", "Ctrl+T: after the turn")
        for text in ("/session name three", "queued one", "queued two"):
            one.app.view.prompt.insert(text)
            await one.press("ctrl+t")
        await one.send("steer")
        await one.see("▌ queued two", "waits until the turn has ended", "waits for the agent's next pause")
        lines = one.screen.splitlines()
        assert lines.index("▌ steer") < lines.index("▌ queued one") < lines.index("▌ queued two")
        (work / "go").touch()
        await one.see("Third.", "renamed")
        await one.rest()
        state = one.app.link.session.state
        sent = [entry.message.words for entry in state.entries if isinstance(entry, MessageUser)]
        assert sent == ["begin", "steer", "queued one", "queued two"]
        assert state.turns == 3
        assert "waits" not in one.screen


async def test_a_queued_message_is_taken_back(work: Path) -> None:
    """Alt+Up puts the newest before what is typed; a turn that is stopped sends none and gives all back."""
    async with studio(work, steps=[WAIT, say("never")]) as one:
        prompt = one.app.view.prompt
        await one.send("begin")
        await one.see("run until")
        prompt.insert("one")
        await one.press("ctrl+t")
        await one.see("Alt+Up: take the queued message back")
        prompt.insert("two")
        await one.press("ctrl+t")
        prompt.insert("draft")
        await one.press("alt+up")
        assert prompt.text == "two\ndraft"
        await one.press("escape")
        await one.rest()
        await one.wait(lambda: prompt.text == "one\ntwo\ndraft")
        assert "waits until" not in one.screen
    async with studio(work, steps=[WAIT, say("never")]) as one:
        one.app.view.prompt.clear_message()
        await one.send("begin")
        await one.see("run until")
        one.app.view.prompt.insert("kept")
        await one.press("ctrl+t")
        await one.see("waits until the turn has ended")
    async with studio(work, steps=[say("x")]) as one:
        assert one.app.view.prompt.text == "kept", "leaving loses no queued message"


async def test_queued_messages_are_part_of_the_draft(work: Path) -> None:
    """A client that is killed loses no queued message: its file of drafts has them until they are sent."""

    def kept() -> list[str]:
        path = Path.home() / ".local/state/jaato/tui_drafts.json"
        return list(json.loads(path.read_text()).values()) if path.exists() else []

    async with studio(work, steps=[WAIT, say("First."), say("Second.")]) as one:
        await one.send("begin")
        await one.see("run until")
        for text in ("one", "two"):
            one.app.view.prompt.insert(text)
            await one.press("ctrl+t")
        one.app.view.prompt.insert("draft")
        await one.wait(lambda: kept() == ["one\ntwo\ndraft"])
        await one.press("alt+up")
        await one.wait(lambda: kept() == ["one\ntwo\ndraft"] and one.app.view.prompt.text == "two\ndraft")
        one.app.view.prompt.clear_message()
        (work / "go").touch()
        await one.see("Second.")
        await one.wait(lambda: kept() == [])


async def test_keys_of_one_moment_act_in_their_order(work: Path) -> None:
    """What follows a key at once, as over a slow line, is neither sent with the message before it nor lost."""
    async with studio(work, steps=[WAIT, say("Over.")]) as one:
        await one.press(*"begin", "enter", *"a1", "ctrl+t", *"bx", "ctrl+u", *"c", "enter", *"draft")
        await one.see("▌ begin", "▌ a1", "▌ c")
        assert one.app.view.prompt.text == "draft"
        (work / "go").touch()
        await one.see("Over.")


async def test_an_unknown_command_says_so_and_comes_back(work: Path) -> None:
    """A command that does not exist is not sent as a message, and stays in the prompt."""
    async with studio(work, steps=[say("x")]) as one:
        await one.send("/nothing here")
        await one.see("There is no command /nothing")
        assert one.app.view.prompt.text == "/nothing here"


async def test_the_path_of_an_image_attaches_it(work: Path) -> None:
    """A pasted path of an image, as terminals give it for a dropped file, attaches it to the next message."""
    path = work / "a picture.png"
    path.write_bytes(bytes.fromhex(PNG))
    async with studio(work, steps=[say("seen.")]) as one:
        await paste(one, str(path).replace(" ", "\\ "))
        await one.see("a picture.png is attached")
        assert one.app.view.prompt.text == ""
        await paste(one, "/no/such.png")
        assert one.app.view.prompt.text == "/no/such.png"
        await one.press("enter")
        await one.see("[a picture.png]", "seen.")


async def test_two_clients_of_a_directory_have_a_draft_each(work: Path) -> None:
    """What one of two clients at once keeps never replaces the other's draft; each is there again at the next starts, the newest
    first."""
    steps = [say("x")]
    async with studio(work, steps=steps) as one:
        await one.type("one")
        async with studio(work, steps=steps) as two:
            assert two.app.view.prompt.text == "", "the first client has its draft open"
            await two.type("two")
        await one.type("!")
        one.app.view.area.keep_draft()
        async with studio(work, steps=steps) as again:
            assert again.app.view.prompt.text == "two"
    async with studio(work, steps=steps) as one, studio(work, steps=steps) as two:
        assert [client.app.view.prompt.text for client in (one, two)] == ["one!", "two"]
        one.app.view.prompt.clear_message()
        await one.type("sooner")
        one.app.view.area.keep_draft()
        two.app.view.prompt.clear_message()
    async with studio(work, steps=steps) as one, studio(work, steps=steps) as two:
        assert [client.app.view.prompt.text for client in (one, two)] == ["sooner", ""]
    state = Path.home() / ".local/state/jaato"
    assert [path.name for path in state.glob(".tui_drafts*")] == [".tui_drafts.json.lock"]


async def test_a_killed_client_leaves_its_draft_to_the_next_one(work: Path) -> None:
    """The draft of a client that was killed is no longer taken: the next client of the directory begins with it."""
    held = (
        "import sys; from pathlib import Path; from jaato.tui.prompt.drafts import Drafts;"
        "drafts = Drafts(Path.home() / '.local/state/jaato'); drafts.open(sys.argv[1]);"
        "drafts.keep('killed', []); print('kept', flush=True); input()"
    )
    words = [sys.executable, "-c", held, f"directory {work}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"kept\n"
        async with studio(work, steps=[say("x")]) as one:
            assert one.app.view.prompt.text == ""
        child.kill()
    async with studio(work, steps=[say("x")]) as one:
        assert one.app.view.prompt.text == "killed"


def open_once(state: Path, key: str, text: str | None = None) -> str:
    """The draft that a client finds; what it keeps, if it does."""
    drafts = Drafts(state)
    found, _ = drafts.open(key)
    if text is not None:
        drafts.keep(text, [])
    drafts.close()
    return found


def test_locks_of_killed_clients_are_removed(tmp_path: Path) -> None:
    """A client that was killed in another directory leaves a lock file until the next start; one that is held stays."""
    one = Drafts(tmp_path)
    one.open("one")
    (tmp_path / ".tui_drafts.json.0123456789abcdef.lock").touch()
    open_once(tmp_path, "two")
    (held,) = tmp_path.glob(".tui_drafts.json.*.lock")
    assert "0123456789abcdef" not in held.name
    one.close()
    assert not held.exists()


def test_drafts_are_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    """Without a lock a draft is shown, and kept for its client alone."""
    open_once(tmp_path, "here", "kept")
    (tmp_path / ".tui_drafts.json.lock").unlink()
    (tmp_path / ".tui_drafts.json.lock").mkdir()
    assert open_once(tmp_path, "here", "changed") == "kept"
    assert open_once(tmp_path, "here") == "kept"


async def test_a_draft_that_cannot_be_kept_is_reported(work: Path) -> None:
    """Once, with the reason; when it can be kept again, it is."""
    state = Path.home() / ".local/state/jaato"
    async with studio(work, steps=[say("x")]) as one:
        lock = state / ".tui_drafts.json.lock"
        lock.unlink()
        lock.mkdir()
        await one.type("mine")
        await one.wait(lambda: list(one.app._notifications))
        (shown,) = one.app._notifications
        assert "cannot be kept for the next start: Is a directory" in shown.message
        await one.type("!")
        one.app.view.area.keep_draft()
        assert len(one.app._notifications) == 1
        lock.rmdir()
        one.app.view.area.keep_draft()
    assert "mine!" in (state / "tui_drafts.json").read_text()


def test_huge_drafts_take_the_place_of_the_oldest_alone(tmp_path: Path) -> None:
    """What the file has no room for are the oldest drafts; no text is too large by itself, nor any name of a directory."""
    keys = [f"directory /\udcff{number}" for number in range(4)]
    for key in keys:
        open_once(tmp_path, key, "\U0001f600" * MAX_DRAFT_CHARS)
    found = [len(open_once(tmp_path, key)) for key in keys]
    assert found == [0, 0, MAX_DRAFT_CHARS, MAX_DRAFT_CHARS]


async def test_an_image_stays_with_its_message(work: Path) -> None:
    """An image that is attached to a message in the prompt is there again with the text: after Ctrl+C and the history, in the
    draft of the next client, and with messages that were queued; an image that is gone is named."""
    for name in ("one.png", "two.png"):
        (work / name).write_bytes(bytes.fromhex(PNG))
    async with studio(work, steps=[say("other."), say("seen.")]) as one:
        prompt = one.app.view.prompt
        await paste(one, str(work / "one.png"))
        await one.see("one.png is attached")
        await one.type("look")
        await one.press("ctrl+c")
        await one.send("meanwhile")
        await one.see("other.")
        await one.rest()
        assert "[one.png]" not in one.screen
        await one.press("up", "up")
        await one.wait(
            lambda: [note.message for note in one.app._notifications] == ["one.png attached again"]
        )
        assert prompt.text == "look"
        await one.press("down", "up")
        await one.type(" closely")
        await one.press("enter")
        await one.see("▌ look closely", "▌ [one.png]", "seen.")
        await one.rest()
        await paste(one, str(work / "one.png"))
        await paste(one, str(work / "two.png"))
        await one.see("two.png is attached")
        await one.type("both")
    (work / "one.png").unlink()
    async with studio(work, steps=[WAIT, say("Over.")]) as one:
        await one.see("one.png is no longer attached to the draft", "two.png is attached to the draft.")
        assert one.app.view.prompt.text == "both"
        one.app.view.prompt.clear_message()
        await one.press("ctrl+c")
        await one.send("begin")
        await one.see("run until")
        await paste(one, str(work / "two.png"))
        await one.wait(lambda: one.app.link.attachments.files)
        await one.type("queued")
        await one.press("ctrl+t")
    async with studio(work, steps=[say("shown.")]) as one:
        assert one.app.view.prompt.text == "queued"
        await one.see("two.png is attached to the draft.")
        await one.press("enter")
        await one.see("▌ queued", "▌ [two.png]", "shown.")
    async with studio(work, steps=[say("x")]) as one:
        assert "two.png" not in one.screen, "what was sent is no draft"


async def test_an_image_alone_is_a_draft(work: Path) -> None:
    """An image without a text is attached again by the next client, also where the first one was killed."""
    (work / "one.png").write_bytes(bytes.fromhex(PNG))
    async with studio(work, steps=[say("x")]) as one:
        await paste(one, str(work / "one.png"))
        await one.see("one.png is attached")
        path = Path.home() / ".local/state/jaato/tui_drafts.json"
        await one.wait(lambda: path.exists() and "one.png" in path.read_text())
    async with studio(work, steps=[say("seen.")]) as one:
        await one.see("one.png is attached to the draft.")
        await one.press("ctrl+c")
        assert not one.app.link.attachments.files
        await one.press("ctrl+c")
        await one.wait(lambda: one.app.left.is_set())
    async with studio(work, steps=[say("seen.")]) as one:
        await one.see("one.png is attached to the draft.")
        await one.send("look")
        await one.see("▌ look", "▌ [one.png]", "seen.")


async def test_a_long_text_of_a_killed_clients_editor_outlives_the_next_client(work: Path) -> None:
    """The file of the history keeps no text of that length, so it is in the prompt, and with that the draft."""
    saved = work.parent / "home/.local/state/jaato/tui_message-1/message.md"
    saved.parent.mkdir(parents=True)
    saved.write_text("saved " * 1_000)
    for _ in range(2):
        async with studio(work, steps=[say("x")]) as one:
            assert one.app.view.prompt.message == "saved " * 1_000
    assert not saved.exists()
