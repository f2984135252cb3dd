"""Every answer to a permission question, and what is shown around it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.tui.studio import call, calls, say, studio
from textual import events
from textual.widgets import TextArea

from jaato.client.state import apply
from jaato.protocol.commands import PermissionResponse
from jaato.protocol.events import PermissionRequested
from jaato.tui.lines_view import LinesView
from jaato.tui.questions import panel
from jaato.tui.questions.dialogs import ConfirmDialog
from jaato.tui.transcript.lines import shorten_path

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def make_question(number: int) -> PermissionRequested:
    """A question for permission."""
    return PermissionRequested(
        session_id="s",
        agent_id=f"a{number}",
        seq=1_000 + number,
        question_id=f"q{number}",
        call_id=f"c{number}",
        tool="run",
        arguments={"command": f"touch {number}"},
        digest="d",
        reason="r",
        options=["y", "n", "c"],
    )


async def test_edited_arguments_are_run(work: Path) -> None:
    """`e` opens the arguments as JSON; what is no object is refused, and what was typed stays after Escape."""
    steps = [call("run", command="touch one", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.answer("e")
        await one.see('"command": "touch one"', "Ctrl+S")
        area = one.app.screen.query_one("#arguments")
        area.load_text("[1]")  # type: ignore[attr-defined]
        await one.press("ctrl+s")
        await one.see("must be a JSON object")
        area.load_text('{"command": 3}')  # type: ignore[attr-defined]
        await one.press("ctrl+s")
        await one.see("/command", '"command": 3')
        area = one.app.screen.query_one("#arguments")
        area.load_text('{"command": "touch two", "need": ["write"]}')  # type: ignore[attr-defined]
        await one.press("escape")
        await one.see("May run run?")
        await one.answer("e")
        await one.see("touch two")
        await one.press("ctrl+s")
        await one.see("Over.")
    async with studio(work, "--continue", steps=[]) as one:
        await one.see("run touch two")
        assert "touch one" not in one.screen
    assert (work / "two").exists()
    assert not (work / "one").exists()


async def test_a_comment_reaches_the_agent(work: Path) -> None:
    """`c` denies with a comment, which Escape keeps."""
    steps = [call("run", command="touch made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.answer("c")
        await one.see("with a comment")
        await one.type("use a ")
        await one.press("escape")
        await one.wait(lambda: one.app.screen is one.app.view)
        await one.answer("c")
        await one.see("with a comment")
        await one.type("test")
        await one.press("enter")
        await one.see("Over.", "denied", "use a test")


async def test_an_answer_in_the_prompt_is_not_sent(work: Path) -> None:
    """`y` in the prompt answers nothing and is no message while a question waits: the way to the question is shown, and the
    text stays."""
    steps = [call("run", command="touch made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.see("May run run?")
        await one.type("y")
        await one.press("enter")
        await one.wait(
            lambda: any("Tab goes to the question" in note.message for note in one.app._notifications)
        )
        assert one.app.view.prompt.text == "y"
        assert not (work / "made").exists()
        await one.answer("y")
        assert not one.app._notifications, "it would cover the prompt"
        await one.see("Over.")
    assert (work / "made").exists()


async def test_a_stop_at_a_question(work: Path) -> None:
    """A call that is stopped while it waits for permission has done nothing, and its result says so."""
    steps = [call("run", command="touch made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.see("May run run?")
        await one.press("escape")
        await one.see("Cancelled before it started; it has done nothing.")
    assert not (work / "made").exists()


async def test_questions_are_asked_one_at_a_time(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is answered, and a key pressed at once does not answer the next; the panel keeps the keys."""
    made = [("run", {"command": f"touch {name}", "need": ["write"]}) for name in ("one", "two", "three")]
    async with studio(work, steps=[calls(*made), say("Over.")]) as one:
        await one.send("go")
        await one.see("command: touch one")
        await one.answer("y")
        with monkeypatch.context() as patch:
            patch.setattr(panel, "GUARD_S", 3_600)
            await one.see("command: touch two")
            await one.press("y", "y")
            assert not (work / "two").exists()
            assert one.panel.has_focus_within
        await one.answer("y")
        await one.see("command: touch three")
        await one.answer("n")
        await one.see("Over.")
        await one.wait(lambda: one.app.view.prompt.has_focus)
    assert (work / "two").exists()
    assert not (work / "three").exists()


async def test_what_is_typed_after_an_answer_is_no_answer(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever answers, and begins to type when the next question appears, types into the prompt."""
    made = [("run", {"command": f"touch {name}", "need": ["write"]}) for name in ("one", "two")]
    async with studio(work, steps=[calls(*made), say("Over.")]) as one:
        await one.send("go")
        await one.see("command: touch one")
        await one.answer("y")
        with monkeypatch.context() as patch:
            patch.setattr(panel, "GUARD_S", 3_600)
            await one.type("always all")
            await one.see("command: touch two")
        assert one.app.view.prompt.text == "always all"
        assert one.panel.current is not None
        assert not (work / "two").exists()
        await one.answer("n")
        await one.see("Over.")
    assert not (work / "two").exists()


async def test_questions_that_wait_are_counted(work: Path) -> None:
    """Of several questions the first one is shown, with how many wait."""
    async with studio(work, steps=[say("x")]) as one:
        asked = [make_question(number) for number in range(3)]
        state = one.app.link.session.state
        for question in asked:
            apply(state, question)
        one.app.schedule_frame()
        await one.see("1 of 3 · May run run?", "touch 0")
        state.questions.pop("q0")
        one.app.schedule_frame()
        await one.see("1 of 2 · May run run?", "touch 1")
        state.questions.clear()


@pytest.mark.parametrize(
    ("key", "answer"), [("a", "a"), ("t", "t"), ("i", "i"), ("o", "once"), ("N", "never")]
)
async def test_each_key_is_the_documented_answer(work: Path, key: str, answer: str) -> None:
    """The answer that is stored is the one of the key."""
    steps = [call("run", command="touch made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.answer(key)
        await one.see("Over.")
        page = one.app.link.session.state
        assert page.turns == 1
        granted = await one.app.link.session.execute("permissions")
        assert ("No lasting answers" in granted) == (answer in ("t", "i", "once")), granted
        assert (work / "made").exists() == (answer != "never")


async def test_answers_that_last_are_offered_where_they_can_last(work: Path) -> None:
    """A question that is about one call alone has no keys for more than that."""
    steps = [call("run", command="echo x > made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.see("the answer applies to this call only")
        await one.answer("a")
        await one.see("y  yes", "o  once")
        for meaning in ("always", "this turn", "until idle"):
            assert f" {meaning} " not in one.screen
        assert one.panel.current is not None
        await one.press("y")
        await one.see("Over.")


async def test_a_long_call_is_viewed_whole(work: Path) -> None:
    """Of a long argument the beginning and the end are shown; `v` shows all of it, and the question still waits."""
    command = "\n".join(f"echo line-{number}" for number in range(60))
    steps = [call("run", command=command, need=["write"]), say("Over.")]
    async with studio(work, steps=steps, size=(80, 40)) as one:
        await one.send("go")
        await one.see("May run run?")
        lines = one.panel.query_one(LinesView)
        assert "line-35" not in lines.text
        await one.answer("v")
        await one.wait(lambda: "line-35" in lines.text)
        assert one.panel.current is not None
        await one.press("n")
        await one.see("Over.")


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_the_changed_lines_of_an_edit_are_visible(work: Path, size: tuple[int, int]) -> None:
    """An edit of one place with three lines around it: all that changes, and its whole surroundings, without scrolling;
    the file is named once."""
    lines = [f"line {number}" for number in range(1, 21)]
    (work / "deep").mkdir()
    (work / "deep" / "a.txt").write_text("\n".join(lines))
    steps = [
        call("get_tool_schemas", names=["updateFile"]),
        call("updateFile", path="deep/a.txt", old="line 10\nline 11", new="ten\neleven"),
        say("Over."),
    ]
    async with studio(work, steps=steps, size=size) as one:
        await one.send("go")
        await one.see("May updateFile run?", "path: deep/a.txt", "- line 11", "+ eleven", "line 14")
        assert "+++" not in one.screen
        text = one.panel.query_one(LinesView).text
        assert text.index("line 14") < text.index("because") < text.index("'always' would cover")
        await one.answer("n")
        await one.see("Over.")


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (60, 12), (80, 24)])
async def test_a_question_can_be_read_and_answered_on_a_small_terminal(
    work: Path, size: tuple[int, int]
) -> None:
    """What is asked, and that there is more, is visible; scrolling shows every key; a draft of many lines hides none of it."""
    steps = [call("run", command="touch made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps, size=size) as one:
        await one.send("go")
        await one.see("May run run?", "command: touch", "Tab answers")
        one.app.view.prompt.insert("a\n" * 9)
        await one.pilot.pause(0.1)
        assert "May run run?" in one.screen
        assert "command: touch" in one.screen
        await one.press("tab")
        await one.wait(lambda: one.panel.has_focus_within)
        assert "↓ all" in one.screen or "no + comment" in one.screen
        seen = one.screen
        for _ in range(40):
            await one.press("down")
            seen += one.screen
        for words in ("always", "never", "no + comment", "view whole", "back"):
            assert words in seen
        await one.answer("y")
        await one.wait((work / "made").exists)
        await one.rest()
        assert one.app.view.prompt.text == "a\n" * 9


async def test_the_keys_are_shown_on_entering_the_panel_at_rest(work: Path) -> None:
    """Without a frame in between: Tab shows the keys of the answers, Escape how to get there."""
    async with studio(work, steps=[say("x")]) as one:
        apply(one.app.link.session.state, make_question(1))
        one.app.schedule_frame()
        await one.see("Tab answers")
        one.app.view.tick = lambda: False  # type: ignore[method-assign]
        await one.press("tab")
        await one.see("no + comment")
        await one.press("escape")
        await one.see("Tab answers")
        one.app.link.session.state.questions.clear()


async def test_the_marked_command_is_visible_on_a_low_terminal(work: Path) -> None:
    """The list of commands leaves the prompt and the status their place, and follows what is marked."""
    async with studio(work, steps=[say("x")], size=(40, 12)) as one:
        await one.type("/")
        await one.see("/help", "ready")
        await one.press("down", "down", "down", "down")
        marked = one.app.view.area.choices.current
        assert marked is not None
        await one.see(marked.text, "ready")
        assert "/help" not in one.screen


def test_a_path_below_the_home_directory_is_short() -> None:
    """Only whole names count, and a home that is the root shortens nothing."""
    assert shorten_path("/home/ana/shop", "/home/ana") == "~/shop"
    assert shorten_path("/home/ana", "/home/ana") == "~"
    assert shorten_path("/home/anabel", "/home/ana") == "/home/anabel"
    assert shorten_path("/srv", "/") == shorten_path("/srv", "") == "/srv"


async def test_keys_of_one_moment_after_a_dialog_are_no_answers(work: Path) -> None:
    """Whoever opens the comment, and types it before it is on the screen, answers nothing with it."""
    steps = [call("run", command="touch made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.answer("v")
        for key in "cac":
            one.app.post_message(events.Key(key, key))
        await one.see("with a comment")
        await one.press("x", "enter")
        await one.see("Over.", "denied")
        assert one.app.screen is one.app.view
    assert not (work / "made").exists()


async def test_keys_of_one_moment_fill_the_fields_of_a_form(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter, Down and Ctrl+S count for what was typed before them, however fast the keys come; a choice that does not exist
    is a text."""
    asked = [
        {"question": "Colour?", "choices": ["red", "green"]},
        {"question": "Name?"},
        {"question": "More?"},
    ]
    steps = [
        call("get_tool_schemas", names=["request_clarification"]),
        call("request_clarification", context="", questions=asked),
        say("Over."),
    ]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.answer("enter")
        await one.see("number or text")
        sent, send = [], one.app.view.link.answer

        def record(question: Any, answer: Any) -> Any:
            sent.append(answer)
            return send(question, answer)

        monkeypatch.setattr(one.app.link, "answer", record)
        for key in ("9", "enter", "a", "b", "down", "c", "ctrl+s"):
            one.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await one.see("Over.")
        await one.rest()
        assert sent == [["9", "ab", "c"]]


async def test_a_form_shows_the_question_of_its_field(work: Path) -> None:
    """On a small terminal the field with the focus is visible, its question above it, and the keys below."""
    asked = [{"question": f"Question {n}? {'words ' * 12 * n}", "choices": ["red", "blue"]} for n in range(4)]
    steps = [
        call("get_tool_schemas", names=["request_clarification"]),
        call("request_clarification", context="Why.", questions=asked),
        say("Over."),
    ]
    async with studio(work, steps=steps, size=(60, 16)) as one:
        await one.send("go")
        await one.answer("enter")
        for n in range(4):
            await one.type(f"reply{n}")
            await one.see(f"{n + 1}. Question {n}?", "red", f"reply{n}", "Ctrl+S sends all")
            await one.press("tab")
        await one.pilot.resize_terminal(30, 6)
        await one.see("reply0")
        await one.press("ctrl+s")
        await one.see("60 out", "ready")  # the conversation has its lines back


async def test_what_is_wrong_with_arguments_is_seen_on_a_small_terminal(work: Path) -> None:
    """Above arguments of many lines, with the keys below them."""
    command = "\n".join(f"echo {n}" for n in range(40))
    steps = [call("run", command=f"{command} > made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps, size=(50, 10)) as one:
        await one.send("go")
        await one.answer("e")
        await one.see("Ctrl+S runs the call")
        await one.type("x")
        await one.press("ctrl+s")
        await one.see("Not valid JSON", "Ctrl+S runs the call")


async def test_the_key_of_an_answer_is_typed_in_the_next_words(work: Path) -> None:
    """The answer's key is ignored while it repeats, and no longer: a message that is typed at once keeps each character."""
    steps = [call("run", command="touch made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.answer("v")
        for key in "yyany":
            one.app.post_message(events.Key(key, key))
        await one.see("Over.")
        await one.wait(lambda: one.app.view.prompt.text == "any")
        one.app.view.prompt.clear_message()


async def test_edited_arguments_have_all_keys_that_came_before(work: Path) -> None:
    """Ctrl+S in the same moment as the last character sends that, too."""
    steps = [call("run", command="touch one", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.answer("e")
        await one.see("Ctrl+S")
        area = one.app.screen.query_one("#arguments", TextArea)
        area.load_text('{"command": "touch two", "need": ["write"]')
        area.move_cursor(area.document.end)
        await one.pilot.pause()
        for key, character in (("right_curly_bracket", "}"), ("ctrl+s", None)):
            one.app.post_message(events.Key(key, character))
        await one.see("Over.")
    assert (work / "two").exists()


async def test_what_is_pasted_at_a_question_goes_into_the_prompt(work: Path) -> None:
    """It answers nothing, and is not lost."""
    steps = [call("run", command="touch made", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.answer("v")
        one.app.post_message(events.Paste("yes\nnow"))
        await one.wait(lambda: one.app.view.prompt.text == "yes\nnow")
        assert one.panel.current is not None
        one.app.view.prompt.clear_message()
        await one.answer("n")
        await one.see("Over.")


async def test_a_dialog_says_when_its_question_waits_no_longer(work: Path) -> None:
    """Another client answers while the arguments are edited: what is typed stays until the dialog is left, and runs nothing."""
    steps = [call("run", command="touch one", need=["write"]), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.answer("e")
        await one.see("Ctrl+S runs")
        await one.app.link.client.ask(
            PermissionResponse(
                session_id=one.app.link.session.id,
                question_id=one.app.link.questions[0].question_id,
                answer="n",
            )
        )
        await one.see("waits no longer")
        await one.press("ctrl+s")
        await one.see("already answered: no", "Over.")
    assert not (work / "one").exists()


async def test_what_is_typed_when_a_dialog_appears_confirms_nothing(work: Path) -> None:
    """A client that asks before a download, while a message is typed: the characters go into the prompt, until a pause."""
    async with studio(work, steps=[say("x")]) as one:
        asked = asyncio.create_task(one.app.confirm("Download 3 GB?"))
        await one.see("Download 3 GB?")
        dialog = one.app.screen
        assert isinstance(dialog, ConfirmDialog)
        dialog._since = time.monotonic() + 3_600
        for key in "yn":
            one.app.post_message(events.Key(key, key))
        await one.wait(lambda: one.app.view.prompt.text == "yn")
        assert not asked.done()
        dialog._since = 0.0
        await one.press("y")
        assert await asked
        one.app.view.prompt.clear_message()
