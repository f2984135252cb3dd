"""A session in the full-screen client: send, stream, ask, answer, stop, leave."""

from __future__ import annotations

import gc
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.tui.studio import call, calls, say, studio
from textual import events

from jaato.protocol.commands import SessionDelete
from jaato.protocol.events import InitProgress
from jaato.tui import app
from jaato.tui.session_screen import SLOW_TICK_S, TICK_S

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_a_message_is_sent_and_the_answer_streamed(work: Path) -> None:
    """The message and the answer stand in the conversation, and what the turn has used below them."""
    async with studio(work, steps=[say("# Title\n\nSome **bold** words.", chunks=9)]) as one:
        await one.see("session", str(work)[:30], "ready")
        await one.send("hello there")
        await one.see("▌ hello there", "# Title", "Some bold words.", "1,000 tokens in, 20 out")
        await one.rest()
        assert "ready" in one.status


async def test_a_question_is_answered_by_a_key_of_its_panel(work: Path) -> None:
    """The panel shows the diff and what `always` covers; Tab enters it, and a key answers."""
    (work / "a.txt").write_text("one\ntwo\n")
    steps = [
        call("get_tool_schemas", names=["updateFile"]),
        call("updateFile", path="a.txt", old="two", new="2"),
        say("Done."),
    ]
    async with studio(work, steps=steps) as one:
        await one.send("edit it")
        await one.see("May updateFile run?", "- two", "+ 2", "'always' would cover", "Tab answers")
        await one.answer("y")
        await one.see("Done.", "✓ updateFile")
        assert (work / "a.txt").read_text() == "one\n2\n"


async def test_typed_keys_never_answer(work: Path) -> None:
    """Keys typed while a question appears go into the prompt."""
    steps = [call("run", command="touch made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.see("May run run?")
        await one.type("yes and always")
        assert one.app.view.prompt.text == "yes and always"
        assert one.panel.current is not None
        assert not (work / "made").exists()
        await one.answer("n")
        await one.see("Over.", "denied")
        assert one.app.view.prompt.text == "yes and always"
        assert not (work / "made").exists()


async def test_escape_stops_and_keeps_the_draft(work: Path) -> None:
    """Escape ends the turn; what was typed stays."""
    steps = [call("run", command="sleep 60"), say("never")]
    async with studio(work, steps=steps) as one:
        await one.send("wait")
        await one.see("run sleep 60", "Esc stops")
        await one.type("next")
        await one.press("escape")
        await one.see("Interrupted; completed work is kept.")
        await one.rest()
        assert one.app.view.prompt.text == "next"


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second Ctrl+C counts for a minute."""
    monkeypatch.setattr(app, "LEAVE_S", 60.0)


@pytest.mark.usefixtures("unhurried")
async def test_ctrl_c_twice_leaves(work: Path) -> None:
    """The first Ctrl+C says what the second one does."""
    async with studio(work, steps=[say("x")]) as one:
        await one.press("ctrl+c")
        assert "Ctrl+C again leaves" in one.status
        await one.press("ctrl+c")
        await one.wait(lambda: one.app.left.is_set())
        assert one.app.return_code == 0


@pytest.mark.usefixtures("unhurried")
async def test_ctrl_c_stops_the_turn_before_it_leaves(work: Path) -> None:
    """While a turn runs the first Ctrl+C stops it; the draft stays."""
    async with studio(work, steps=[call("run", command="sleep 60"), say("never")], size=(30, 20)) as one:
        await one.send("wait")
        await one.see("run sleep")
        await one.type("next")
        await one.press("ctrl+c")
        await one.see("Ctrl+C again leaves")
        await one.rest()
        assert one.app.view.prompt.text == "next"


@pytest.mark.usefixtures("unhurried")
async def test_ctrl_c_empties_the_prompt_into_the_history(work: Path) -> None:
    """At rest the first Ctrl+C moves what was typed to the history, however long it is; leaving keeps it as the draft."""
    whole = "y" * 20_000
    async with studio(work, steps=[say("x")]) as one:
        prompt = one.app.view.prompt
        prompt.put(whole)
        await one.press("ctrl+c")
        assert prompt.text == ""
        await one.press("up")
        assert prompt.message == whole
        prompt.clear_message()
        one.app._interrupted_at -= app.LEAVE_S
        await one.type("words")
        await one.press("ctrl+c")
        assert "Up brings" in one.status
        await one.press("ctrl+c")
        await one.wait(lambda: one.app.left.is_set())
    async with studio(work, steps=[say("x")]) as one:
        assert one.app.view.prompt.text == "words"


@pytest.mark.usefixtures("unhurried")
async def test_ctrl_c_leaves_from_a_screen(work: Path) -> None:
    """In a screen or dialog it copies what is selected in its field, and leaves at the second press; the draft stays."""
    async with studio(work, steps=[say("x")]) as one:
        await one.type("draft")
        await one.press("f3")
        await one.type("words")
        await one.press("shift+home", "ctrl+c")
        assert one.app.clipboard == "words"
        await one.press("end", "ctrl+c")
        await one.see("Ctrl+C again leaves")
        await one.press("ctrl+c")
        await one.wait(lambda: one.app.left.is_set())
    async with studio(work, steps=[say("x")]) as one:
        assert one.app.view.prompt.text == "draft"


async def test_ctrl_d_leaves_from_an_empty_prompt(work: Path) -> None:
    """With text before it, it deletes a character; without, it leaves, and does not stop the turn."""
    async with studio(work, steps=[say("x")]) as one:
        await one.type("ab")
        await one.press("home", "ctrl+d")
        assert one.app.view.prompt.text == "b"
        await one.press("ctrl+d", "ctrl+d")
        await one.wait(lambda: one.app.left.is_set())


async def test_calls_are_a_tree_with_duration_and_exit_code(work: Path) -> None:
    """Calls that follow each other are branches of one tree; one is unfolded by a key."""
    (work / "a.txt").write_text("inside\n")
    steps = [
        calls(("readFile", {"path": "a.txt"}), ("run", {"command": "echo out; exit 3"})),
        say("Over."),
    ]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.see("├─ ▸ ✓ readFile path=a.txt", "└─ ▸ ✗ run echo out; exit 3", "exit 3 ·", "Over.")
        await one.press("ctrl+o")
        await one.see("▾ ✗ run", "│ out")


async def test_reading_further_up_never_jumps(work: Path) -> None:
    """While new lines come in below, and a text streams, the lines that are read stay; Ctrl+End follows again."""
    async with studio(work, steps=[say("x")]) as one:
        conversation, transcript = one.app.link.conversation, one.app.view.transcript
        for number in range(300):
            conversation.note(f"line {number} " + "word " * (number % 50), "")
        one.app.schedule_frame()
        await one.see("line 299")
        await one.press("pageup", "pageup", "pageup")
        await one.pilot.pause(0.2)

        def visible() -> list[str]:
            return [line[:78].rstrip() for line in one.screen.splitlines()[: transcript.size.height]]

        before = visible()
        assert not any("line 299" in line for line in before)
        state = one.app.link.session.state
        agent = state.agents[state.root_agent_id]
        for number in range(20):
            conversation.note(f"new {number}", "")
            agent.streaming["model"] = "streamed words " * number * 10
            one.app.schedule_frame()
            await one.pilot.pause(0.02)
            assert visible() == before
        await one.press("ctrl+end")
        await one.see("new 19")


async def test_another_size_keeps_the_text_that_is_read(work: Path) -> None:
    """In the middle of a long answer, however often the size changes: also where all of it fits, and right after scrolling."""
    text = " ".join(f"word{number}" for number in range(1_500))
    async with studio(work, steps=[say(f"{text}\n\n{text}")]) as one:
        await one.send("go")
        await one.see("tokens in", "ready")
        await one.press(*["pageup"] * 9)
        before = one.screen.splitlines()[0]
        first = before.split()[0]
        for size in [(50, 24), (120, 60), (30, 10), (200, 12)]:
            await one.pilot.resize_terminal(*size)
            height = size[1]
            await one.wait(lambda height=height: len(one.screen.splitlines()) == height)  # type: ignore[misc]  # a default is no inference
            assert first in one.screen.splitlines()[0].split()
        await one.pilot.resize_terminal(240, 200)
        await one.see("word0 ")
        await one.pilot.resize_terminal(80, 24)
        await one.wait(lambda: one.screen.splitlines()[:1] == [before])
        assert not one.app.view.transcript.following


async def test_a_step_in_a_long_answer_costs_no_more_than_in_a_short_one(work: Path) -> None:
    """What is kept for another size is not counted before there is one."""
    calls: list[int] = []
    code = "\n".join(f"line {number}" for number in range(3_000))
    async with studio(work, steps=[say(f"```\n{code}\n```")]) as one:
        await one.send("go")
        await one.see("tokens in", "ready")
        for _ in range(2):
            await one.press("pageup")
        gc.collect()  # what an earlier test has dropped calls its finalizers at any time
        sys.setprofile(lambda frame, event, _: calls.append(1) if event == "call" else None)
        try:
            one.app.view.transcript.scroll_by_user()
            one.app.view.transcript.scroll_relative(y=-3, animate=False, force=True, immediate=True)
        finally:
            sys.setprofile(None)
        assert 10 < len(calls) < 1_000


async def test_earlier_entries_are_loaded_at_the_top(work: Path) -> None:
    """A session with more entries than the state keeps: Home loads the earlier ones, in order, each once, and so does a
    search, as far as it needs."""
    async with studio(work, steps=[say(f"answer {number}.") for number in range(130)]) as one:
        for number in range(130):
            await one.app.link.send(f"message {number}.{' A needle.' if number == 3 else ''}")
            await one.wait(partial(lambda past: one.app.link.session.state.turns > past, number))
        name = one.app.link.session.id
    async with studio(work, "--session", name, steps=[say("x")]) as one:
        await one.see("answer 129.")
        conversation = one.app.link.conversation
        assert conversation.first_seq is not None
        await one.press("tab")
        while conversation.first_seq is not None:
            await one.press("home")
            await one.pilot.pause(0.05)
        await one.press("home")
        texts = [block.words for block in conversation.root.blocks if block.words.startswith("answer")]
        assert texts == [f"answer {number}." for number in range(130)]
        await one.see("message 0.")
    async with studio(work, "--session", name, steps=[say("x")]) as one:
        await one.see("answer 129.")
        await one.press("ctrl+f")
        await one.type("needle")
        await one.see("message 3. A needle.")
        await one.press("enter")
        await one.see("▌ message 3. A needle.", "answer 3.")
        assert one.app.screen is one.app.view
        await one.press("ctrl+f")
        await one.type("nowhere")
        await one.see("No part of the conversation has these words.")


async def test_a_search_shows_and_goes_to_the_words(work: Path) -> None:
    """In the middle of a long answer, and in the output of a folded call, which is unfolded."""
    text = "\n\n".join(f"paragraph {number}" for number in range(300)).replace("paragraph 150", "The needle.")
    steps = [call("run", command="seq 300 | sed s/^99$/hay''stack/"), say(text)]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.see("tokens in", "ready")
        for word, before, after in (
            ("needle", "paragraph 149", "paragraph 155"),
            ("haystack", " 98", "│ 103"),
        ):
            await one.press("ctrl+f")
            await one.type(word)
            await one.see(word, before)
            await one.press("enter")
            await one.see(word, after)
            assert one.app.screen is one.app.view


async def test_text_is_selected_with_the_mouse_and_copied(work: Path) -> None:
    """Dragging over the conversation selects it; Ctrl+C copies the selection and does not leave."""
    async with studio(work, steps=[say("alpha beta gamma\n\nsecond paragraph")]) as one:
        await one.send("go")
        await one.see("second paragraph", "tokens in")
        await one.rest()
        lines = one.screen.splitlines()
        row = next(number for number, line in enumerate(lines) if "alpha beta" in line)
        start = lines[row].index("beta")
        await one.pilot.mouse_down("#transcript", offset=(start, row))
        await one.pilot.hover("#transcript", offset=(start + 6, row + 1))
        await one.pilot.hover("#transcript", offset=(8, row + 2))
        await one.pilot.mouse_up("#transcript", offset=(8, row + 2))
        await one.pilot.pause(0.1)
        await one.press("ctrl+c")
        assert one.app.clipboard.startswith("beta gamma"), one.app.clipboard
        assert "second"[:6] in one.app.clipboard
        assert "Ctrl+C again leaves" not in one.status


async def test_a_click_unfolds_a_call(work: Path) -> None:
    """A click on the line of a call shows all of it, another one folds it."""
    async with studio(work, steps=[call("run", command="echo shown"), say("Over.")]) as one:
        await one.send("go")
        await one.see("Over.")
        await one.rest()
        row = next(number for number, line in enumerate(one.screen.splitlines()) if "✓ run" in line)
        await one.pilot.click("#transcript", offset=(20, row))
        await one.see("▾ ✓ run", "│ shown")
        row = next(number for number, line in enumerate(one.screen.splitlines()) if "✓ run" in line)
        await one.pilot.click("#transcript", offset=(20, row))
        await one.see("▸ ✓ run")


async def test_the_end_stays_visible_whatever_changes_its_size(work: Path) -> None:
    """Another theme, another size, a question that comes and goes: the newest line is followed; the wheel ends that."""
    async with studio(work, steps=[say("x")]) as one:
        for number in range(200):
            one.app.link.conversation.note(f"line {number} " + "word " * (number % 40), "")
        one.app.schedule_frame()
        await one.see("line 199")
        for theme in ("textual-light", "ansi-dark", "textual-dark"):
            one.app.theme = theme
            await one.pilot.pause(0.1)
            await one.see("line 199")
        for width, height in ((50, 20), (120, 40), (80, 24)):
            await one.pilot.resize_terminal(width, height)
            await one.pilot.pause(0.1)
            await one.see("line 199")
        for _ in range(5):
            one.app.view.transcript.post_message(
                events.MouseScrollUp(None, 10, 5, 0, -1, 0, False, False, False)
            )
        await one.wait(lambda: "line 199" not in one.screen)
        assert not one.app.view.transcript.following


async def test_the_progress_of_a_model_is_shown(work: Path) -> None:
    """While the embedded model reads its prompt, which takes minutes the first time, the status line shows how far it is."""
    async with studio(work, steps=[say("Hello.")]) as one:
        await one.see("ready")
        link = one.app.link
        state = link.session.state

        def take_progress(done: int) -> None:
            link._take(
                InitProgress(
                    session_id=state.session_id,
                    agent_id=state.root_agent_id,
                    seq=0,
                    step="reading the prompt",
                    done=done,
                    total=120,
                    unit="tokens",
                )
            )

        take_progress(30)
        link.changed()
        await one.see("reading the prompt 25 %")
        take_progress(120)
        await one.wait(lambda: "reading the prompt" not in one.status)
        await one.send("hi")
        await one.see("Hello.")
        await one.wait(lambda: "reading the prompt" not in one.status)


async def test_spinners_advance_slowly_while_a_question_waits_and_not_at_rest(work: Path) -> None:
    """Ten times a second at work, once while the user is waited for, never at rest."""
    steps = [
        call("run", command="touch made", need=["write"]),
        call("run", command="sleep 600"),
        say("Over."),
    ]
    async with studio(work, steps=steps) as one:
        await one.rest()
        await one.wait(lambda: one.app._ticks is None)
        await one.send("go")
        await one.see("May run run?")
        await one.wait(lambda: one.app._ticks is not None and one.app._ticks._interval == SLOW_TICK_S)
        await one.answer("y")
        await one.wait(lambda: one.app._ticks is not None and one.app._ticks._interval == TICK_S)
        await one.wait(lambda: not one.panel.display)
        await one.press("escape")
        await one.rest()
        await one.wait(lambda: one.app._ticks is None)


async def test_the_hint_follows_the_focus_at_rest(work: Path) -> None:
    """Tab to the conversation and back changes what the status line says of the keys."""
    async with studio(work, steps=[say("x")]) as one:
        await one.rest()
        await one.wait(lambda: one.app._ticks is None)
        await one.press("tab")
        await one.see("Enter unfolds, Tab back")
        await one.press("tab")
        await one.see("F1 keys")


async def test_what_is_typed_in_the_conversation_goes_into_the_prompt(work: Path) -> None:
    """After a click or Tab, characters and pastes are not lost; the keys of the conversation stay its own."""
    async with studio(work, steps=[say("x")]) as one:
        await one.rest()
        await one.press("tab")
        await one.wait(lambda: one.app.view.transcript.has_focus)
        await one.press("home", "space", "g", "o")
        assert one.app.view.prompt.text == "go"
        await one.wait(lambda: one.app.view.prompt.has_focus)
        await one.press("tab")
        await one.wait(lambda: one.app.view.transcript.has_focus)
        one.app.view.transcript.post_message(events.Paste(" on"))
        await one.wait(lambda: one.app.view.prompt.text == "go on")
        one.app.view.prompt.clear_message()


async def test_clients_that_come_and_leave_fill_no_screen(work: Path) -> None:
    """Of the lines about them the newest few are kept, until something else is shown."""
    async with studio(work, steps=[say("Hello.")]) as one:
        conversation = one.app.link.conversation
        for number in range(20):
            conversation.note_presence([f"c{number} joined", f"c{number} left"])
        one.app.schedule_frame()
        await one.see("c18 joined", "c18 left", "c19 joined", "c19 left")
        assert "c17" not in one.screen
        await one.send("hi")
        await one.see("Hello.")
        conversation.note_presence(["bea joined"])
        one.app.schedule_frame()
        await one.see("c19 left", "bea joined")


async def test_a_session_that_is_deleted_elsewhere_takes_no_message(work: Path) -> None:
    """The prompt and the status say so at once, what is typed stays there, and another session can be opened."""
    async with studio(work, steps=[say("First."), say("Second.")], size=(100, 24)) as one:
        await one.send("hello")
        await one.see("First.")
        await one.rest()
        link = one.app.link
        first = link.session
        await link.client.ask(SessionDelete(session_id=first.id))
        await one.see("The session was deleted · F3 opens another one", "deleted · scripted")
        await one.send("are you there?")
        await one.wait(lambda: one.app.view.prompt.message == "are you there?")
        one.app.view.prompt.clear_message()
        await one.send("/new")
        await one.wait(lambda: link.session is not first)
        await one.see("ready")
        await one.send("are you there?")
        await one.see("First.")
        assert "session was deleted" not in one.screen
