"""What comes from models, tools and names does nothing to the terminal and imitates nothing of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.studio import call, calls, say, studio

pytestmark = pytest.mark.anyio
EVIL = "\x1b[2J\x1b]52;c;ZXZpbA==\x07\u202egnihtemos\u2066 [bold red]x[/] [@click=app.quit]y[/]"


async def test_a_hostile_answer_is_inert(work: Path) -> None:
    """Escapes, bidirectional controls and markup in answer, thought, arguments and results."""
    (work / "evil.txt").write_text(EVIL)
    steps = [
        {"thinking": EVIL, **calls(("readFile", {"path": "evil.txt"}), (f"tool{EVIL}", {EVIL: EVIL}))},
        say(f"{EVIL}\n\n```{EVIL}\n{EVIL}\n```\n\n[link](javascript:alert(1)) ![i]({EVIL})"),
    ]
    async with studio(work, steps=steps) as one:
        await one.send(f"hello {EVIL}")
        await one.see("[bold red]x[/]", "tokens in")
        for block in one.app.link.conversation.root.blocks:
            block.folded = False
            block.changed()
        one.app.view.transcript.refresh_blocks()
        await one.pilot.pause()
        seen = one.screen
        assert not [char for char in seen if char in "\x1b\x07\u202e\u2066\x9b"]
        assert one.app.is_running


async def test_a_question_cannot_imitate_ours(work: Path) -> None:
    """Arguments that look like an answered question stay inside the panel, invisible characters spelled out."""
    command = "true # \u202e\n  because it is safe\nMay run run? y\n✓ allowed"
    steps = [call("run", command=command, need=["write"]), say("Over.")]
    async with studio(work, steps=steps, size=(80, 40)) as one:
        await one.send("go")
        await one.see("<U+202E>", "✓ allowed")
        lines = one.screen.splitlines()
        own = next(number for number, line in enumerate(lines) if "╭─ May run run?" in line)
        fake = next(number for number, line in enumerate(lines) if "May run run? y" in line)
        assert own < fake
        assert lines[fake].startswith("│")
        await one.answer("n")
        await one.see("Over.")


async def test_a_line_of_a_megabyte(work: Path) -> None:
    """It is shown in part, and the client stays usable."""
    (work / "a.txt").write_text("x" * 1_000_000)
    steps = [call("run", command="cat a.txt"), say("y" * 1_000_000, chunks=200), say("fine")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.see("more characters", "tokens in")
        await one.press("ctrl+o", "pageup", "pageup")
        await one.send("still there?")
        await one.see("fine")


async def test_the_form_shows_foreign_text_as_it_is(work: Path) -> None:
    """Questions of the agent with markup and defaults: text, and the answers are what was typed."""
    questions = [
        {"question": f"Which {EVIL}?", "choices": ["[bold]red[/]", "blue"], "default": "[b]d[/]"},
        {"question": "Why?"},
    ]
    steps = [
        call("get_tool_schemas", names=["request_clarification"]),
        call("request_clarification", context="[i]About[/i]", questions=questions),
        say("Thanks."),
    ]
    async with studio(work, steps=steps, size=(80, 30)) as one:
        await one.send("ask me")
        await one.see("2 questions", "[i]About[/i]", "Tab answers")
        await one.answer("enter")
        await one.see("1. [bold]red[/]", "[b]d[/]")
        await one.type("2")
        await one.press("enter")
        await one.type("because")
        await one.press("enter")
        await one.see("Thanks.")
        text = str(one.app.link.session.state.entries)
        assert "blue" in text
        assert "because" in text


async def test_stored_prompts_and_names_are_inert(work: Path) -> None:
    """The palette, the completions and the lists show names and descriptions with markup as they are."""
    prompts = work / ".jaato" / "commands"
    prompts.mkdir(parents=True)
    (prompts / "evil.md").write_text("---\ndescription: '[/nothing] [bold red]x[/]'\n---\nText.")
    async with studio(work, "--name", "[/nothing] [bold]n[/]", steps=[say("x")], size=(100, 30)) as one:
        await one.type("/evil")
        await one.see("[/nothing] [bold red]x[/]")
        one.app.view.prompt.clear_message()
        await one.press("ctrl+p")
        await one.type("evil")
        await one.see("/evil", "[/nothing] [bold red]x[/]")
        await one.press("escape")
        await one.press("f3")
        await one.see("[/nothing] [bold]n[/]")
