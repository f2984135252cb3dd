"""The lines of a question: what is left out, and when they are laid out."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import FrameType

import pytest
from msgspec import structs
from tests.tui.studio import say, studio
from tests.tui.test_answers import make_question
from textual.strip import Strip

from jaato.client.state import apply
from jaato.tui.lines_view import LinesView
from jaato.tui.questions.lines import drop_heads, lay_out_question, lay_out_whole
from jaato.tui.transcript.lines import Lines, lay_out_plain
from jaato.tui.transcript.looks import Looks, make_ansi_looks


@pytest.mark.slow
@pytest.mark.anyio
async def test_only_the_visible_lines_of_a_question_are_laid_out(work: Path) -> None:
    """Of thousands no more than are drawn, wherever it is scrolled to."""
    made: set[int] = set()

    def lay_out(width: int, looks: Looks) -> Lines:
        lines = Lines()

        def make(number: int) -> list[Strip]:
            made.add(number)
            return lay_out_plain(f"line {number}", width, looks.text)

        for number in range(3_000):
            lines.add(1, partial(make, number))
        return lines

    async with studio(work, steps=[say("x")]) as one:
        apply(one.app.link.session.state, make_question(1))
        one.app.schedule_frame()
        await one.see("May run run?")
        view = one.panel.query_one(LinesView)
        view.show(lay_out)
        await one.see("line 0")
        view.scroll_end(animate=False)
        await one.see("line 2999")
        assert len(made) < 200
        one.app.link.session.state.questions.clear()


@pytest.mark.parametrize("width", [76, 140])
def test_the_lines_of_a_question_are_counted_before_they_are_laid_out(width: int) -> None:
    """Of its diff, side by side too, and of all its arguments none is made until it is asked for."""
    hunk = "@@ -0,0 +1,3000 @@\n" + "".join(f"+line {number}\n" for number in range(3_000))
    asked = structs.replace(make_question(1), arguments={"text": "word\n" * 3_000}, preview=hunk)
    looks, made = make_ansi_looks(dark=True), 0

    def count(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal made
        made += event == "call" and frame.f_code is Strip.__init__.__code__

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        question, whole = lay_out_question(asked, width, looks), lay_out_whole(asked, width, looks)
    finally:
        sys.setprofile(before)
    assert min(len(question), len(whole)) > 3_000
    assert made < 20
    assert question[2_500].text.split()[-2:] == ["line", "2468"]


def test_only_the_lines_of_the_named_file_are_dropped() -> None:
    """Another path, several files and a new file keep what says so."""

    def heads(diff: str, **arguments: str) -> list[str]:
        question = structs.replace(make_question(1), arguments=arguments, preview=diff)
        return [line for line in drop_heads(diff, question).splitlines() if line.startswith(("--- ", "+++ "))]

    hunk = "@@ -1 +1 @@\n-a\n+b\n"
    assert heads(f"--- x\n+++ x\n{hunk}", path="x") == []
    assert heads(f"--- x\n+++ x\n{hunk}", path="y") == ["--- x", "+++ x"]
    assert heads(f"--- x\n+++ x\n{hunk}", patch="…") == ["--- x", "+++ x"]
    assert len(heads(f"--- x\n+++ x\n{hunk}--- y\n+++ y\n{hunk}", path="x")) == 4
    assert heads(f"--- /dev/null\n+++ x\n{hunk}", path="x") == ["--- /dev/null"]
