"""The transcript without a session: Markdown that grows, positions that hold, text that does nothing."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.strip import Strip

from jaato.tui.transcript.blocks import NoteBlock, TextBlock, ThinkingBlock, UserBlock
from jaato.tui.transcript.diffs import lay_out_diff
from jaato.tui.transcript.layout import MAX_BLOCKS, MAX_LAID_OUT, Layout
from jaato.tui.transcript.lines import Lines, clean, count_plain, lay_out_plain
from jaato.tui.transcript.looks import Looks, make_ansi_looks, make_looks

LOOKS = make_ansi_looks(dark=True)
CODE = "\n".join(f"def f{number}(x):\n    return x + {number}" for number in range(200))
TEXTS = {
    "mixed": "# Title\n\nSome **bold** and `code`.\n\n* one\n* two\n  more\n\n> quoted\n> text\n\n---\n\nend",
    "code": f"Before\n\n```python\n{CODE}\n```\n\nAfter",
    "open code": "```\nline\n  indented\n",
    "tildes": "~~~ text\n``` inside\n~~~\nafter",
    "table": "| a | b |\n|---|---|\n| 1 | **2** |\n| 3 | 4 |\n\ndone",
    "numbered": "".join(f"{number}. item {number}\n" for number in range(1, 30)),
    "loose": "".join(f"* item {number}\n\n" for number in range(20)) + "end",
    "nested": "1. one\n   * two\n     ```\n     x = 1\n     ```\n2. three",
    "html": "<b>not bold</b> and <script>alert(1)</script>",
}


def lines_of(strips: Iterable[Strip]) -> list[str]:
    """Strips as text."""
    return [strip.text.rstrip() for strip in strips]


def grown(text: str, pieces: list[int], width: int) -> list[str]:
    """A text that has come in pieces, each laid out."""
    block, at = TextBlock(growing=True), 0
    for piece in pieces:
        at += piece
        block.grow(text[:at])
        block.strips(width, LOOKS)
    block.finish(text)
    return lines_of(block.strips(width, LOOKS))


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_grows_ends_as_the_whole_one(name: str) -> None:
    """However it was cut, the lines are those of the whole text."""
    text = TEXTS[name]
    whole = lines_of(TextBlock(text).strips(60, LOOKS))
    for size in (1, 7, 50):
        assert grown(text, [size] * (len(text) // size), 60) == whole


def test_long_blocks_keep_every_word() -> None:
    """A block that is too long to be laid out each time loses nothing, in every kind."""
    rng = random.Random(3)
    words = [f"w{number}" for number in range(2_000)]
    for text in (
        " ".join(words),
        "".join(f"> {word}\n" for word in words),
        "|a|\n|-|\n" + "".join(f"|{word}|\n" for word in words),
        "".join(f"- {word}\n" for word in words),
    ):
        pieces = [rng.randrange(1, 200) for _ in range(len(text) // 50)]
        found = " ".join(grown(text, pieces, 70)).split()
        assert set(words) - set(found) == set()


@given(st.text(max_size=300), st.integers(20, 100))
def test_any_text_fits_the_width(text: str, width: int) -> None:
    """No line is wider than it may be, and none has a character that a terminal acts on."""
    for block in (TextBlock(text), UserBlock(text), NoteBlock([(text, "red")]), ThinkingBlock(text)):
        block.folded = False
        for strip in block.strips(width, LOOKS):
            assert strip.cell_length <= width
            assert clean(strip.text) == strip.text


def test_markup_is_text() -> None:
    """What looks like markup of the libraries is shown as it is."""
    text = "[bold red]alarm[/] [@click=app.quit]x[/]"
    assert text in lines_of(TextBlock(text).strips(80, LOOKS))[1]
    assert text in lines_of(UserBlock(text).strips(80, LOOKS))[1]


def test_a_diff_is_shown_side_by_side_where_it_is_wide() -> None:
    """Old on the left, new on the right, numbered; narrower it is one column."""
    diff = "--- a\n+++ a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    narrow = lines_of(lay_out_diff(diff, 80, LOOKS))
    assert [line for line in narrow if line.startswith(("- ", "+ "))] == ["- two", "+ 2"]
    wide = lines_of(lay_out_diff(diff, 120, LOOKS))
    assert any("- two" in line and "+ 2" in line and line.startswith("2") for line in wide)
    assert all(len(line) <= 120 for line in wide)
    cjk = lay_out_diff(diff.replace("three", "世界" * 8), 120, LOOKS)
    assert {strip.text.count("│") for strip in cjk if "世" in strip.text} == {1}


def test_no_part_of_a_change_is_cut() -> None:
    """A line that is longer than its side: one column, in which it is broken and complete."""
    end = "os.remove(everything)"
    lines = lines_of(lay_out_diff(f"--- a\n+++ a\n@@ -1 +1 @@\n-one\n+{'x' * 200}{end}", 140, LOOKS))
    assert end in "".join(line.rstrip() for line in lines)
    assert all(len(line) <= 140 for line in lines)


def layout_of(count: int) -> Layout:
    """A layout of messages of different lengths."""
    layout = Layout()
    layout.set_width(60)
    for number in range(count):
        layout.append(UserBlock(f"message {number} " + "word " * (number % 40)))
    return layout


def visible(layout: Layout, top: int, height: int) -> list[str]:
    """The lines of a part."""
    return [layout.line(top + y, LOOKS)[0].text.rstrip() for y in range(height)]


@pytest.mark.parametrize("width", [80, 140])
def test_a_line_that_looks_like_a_head_is_shown_as_a_change(width: int) -> None:
    """Removing `-- x` and adding `++ x` in a hunk is not the head of a file, which would show one of both lines."""
    diff = "--- q.sql\n+++ q.sql\n@@ -1,2 +1,2 @@\n--- DELETE\n+++ DELETE\n SELECT\n"
    text = "\n".join(lines_of(lay_out_diff(diff, width, LOOKS)))
    assert "- -- DELETE" in text if width == 80 else "-- DELETE" in text
    assert "++ DELETE" in text
    assert text.count("q.sql") == 1


def test_after_an_abridged_part_nothing_is_left_out() -> None:
    """Where lines are missing, counts say nothing more: every line is shown."""
    diff = "--- a\n+++ a\n@@ -1,9 +1,9 @@\n-x\n… 7 lines …\n--- x\n+++ x\n"
    text = "\n".join(lines_of(lay_out_diff(diff, 80, LOOKS)))
    assert "--- x" in text
    assert "+++ x" in text


def test_what_is_read_stays_where_it_is() -> None:
    """Reading upwards, heights that were estimates move the view and not the text; new blocks change nothing."""
    layout = layout_of(300)
    layout.settle(0, 20, LOOKS, from_end=True)
    top = layout.height - 20
    before = visible(layout, top, 20)
    for _ in range(60):
        aim = max(0, top - 7)
        shown = visible(layout, top, 13)
        grown_by = layout.settle(aim, 20, LOOKS, from_end=False)
        top = aim + grown_by
        if aim:
            assert visible(layout, top + 7, 13) == shown
    layout.append(UserBlock("new"))
    layout.settle(top, 20, LOOKS, from_end=False)
    assert before != visible(layout, top, 20)
    again = visible(layout, top, 20)
    layout.append(UserBlock("newer " * 100))
    assert layout.settle(top, 20, LOOKS, from_end=False) == 0
    assert visible(layout, top, 20) == again


def test_memory_is_bounded() -> None:
    """Old blocks go, and the lines of those that were shown long ago."""
    layout = layout_of(MAX_BLOCKS + 500)
    for top in range(0, layout.height, 15):
        layout.settle(top, 20, LOOKS, from_end=False)
    assert sum(block.is_laid_out for block in layout.blocks) <= MAX_LAID_OUT
    removed = layout.trim()
    assert removed > 0
    assert len(layout.blocks) == MAX_BLOCKS
    assert layout.height == sum(len(block.strips(60, LOOKS)) for block in layout.blocks) or layout.height > 0


def test_text_can_be_read_in_every_theme() -> None:
    """Every kind of text has a contrast of 4.5 to its background, in the light and in the dark theme."""
    from textual.color import Color
    from textual.theme import BUILTIN_THEMES

    from jaato.tui.transcript.looks import compute_contrast

    for name in ("textual-dark", "textual-light", "nord", "solarized-light"):
        theme = BUILTIN_THEMES[name]
        variables = theme.to_color_system().generate()
        looks: Looks = make_looks(variables, dark=theme.dark, ansi=False)
        background = Color.parse(variables["background"])
        for field in (
            "text",
            "dim",
            "strong",
            "accent",
            "good",
            "bad",
            "warn",
            "heading",
            "link",
            "added",
            "removed",
        ):
            style = getattr(looks, field)
            own = Color.from_rich_color(style.bgcolor) if style.bgcolor else background
            assert compute_contrast(Color.from_rich_color(style.color), own) >= (
                4.0 if own is not background else 4.4
            ), (name, field)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.integers(2, 9))
def test_lines_are_counted_as_they_are_laid_out(line: str, width: int) -> None:
    """Wide, combining and empty characters among them: a text of which only the number of lines is known ends where it ends."""
    assert count_plain(line, width) == len(lay_out_plain(line, width, LOOKS.text))


def test_lines_are_those_of_their_texts() -> None:
    """Each by its number, and all in order, whatever made them."""
    lines, other = Lines([Strip.blank(1)]), Lines()
    lines.add_plain("abcdef\n\nü", 4, LOOKS.text)
    other.add_words("one two\nthree", 5, LOOKS.text)
    lines.join(other)
    texts = ["", "abcd", "ef", "", "ü", "one", "two", "three"]
    assert lines_of(lines) == texts
    assert lines_of([lines[at] for at in range(len(lines))]) == texts
    with pytest.raises(IndexError):
        lines[len(lines)]
