"""The input of the terminal: bytes that are no text, and pastes that look like keys."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.cli.environment import CliEnvironment, say
from tests.tui.terminal import expect_all, leave, terminal
from textual.events import Paste

from jaato.tui.driver import PASTE_BEGINS, PASTE_ENDS, InputParser, PasteFilter

PARTS = st.lists(st.sampled_from(["a", "\x1b", "[", "2", "0", "1", "~", "\r", PASTE_BEGINS, PASTE_ENDS]))


@given(PARTS, st.lists(st.integers(0, 60)))
def test_a_paste_has_no_escape_however_it_is_read(parts: list[str], cuts: list[int]) -> None:
    """What is outside of pastes comes as it was, at once; inside of one there is no Escape."""
    text = "".join(parts)
    ends = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    filters = PasteFilter(), PasteFilter()
    whole = filters[0].filter(text)
    assert "".join(filters[1].filter(text[a:b]) for a, b in itertools.pairwise(ends)) == whole
    outside, begins, rest = text.partition(PASTE_BEGINS)
    assert whole.startswith(outside + begins)
    if not begins:
        assert whole == text
    elif PASTE_ENDS in rest:
        inside = rest.partition(PASTE_ENDS)[0].replace("\x1b", "")
        assert whole.startswith(f"{outside}{begins}{inside}{PASTE_ENDS}")


def test_bytes_may_come_one_at_a_time() -> None:
    """A part of a character, and of the mark after a paste, is no end of the input: the rest of it is read."""
    parser = InputParser(False)
    data = f"ü{PASTE_BEGINS}\x1b€{PASTE_ENDS}x".encode()
    found = [event for byte in data for event in parser.parse(bytes([byte]))]
    assert [
        event.text if isinstance(event, Paste) else getattr(event, "character", None) for event in found
    ] == [
        "ü",
        "€",
        "x",
    ]


def test_no_byte_and_no_paste_is_read_as_a_key_it_is_not(tmp_path: Path) -> None:
    """A byte that is no UTF-8 is a character like any other; colours in a paste send none of its lines."""
    desk = CliEnvironment(tmp_path)
    with terminal(desk, "tui", "--no-daemon", *desk.script(say("Answer."))) as child:
        child.expect("ready")
        os.write(child.child_fd, b"\xff\xfe|")
        child.expect("\ufffd\ufffd|")
        child.send(f"{PASTE_BEGINS}one \x1b[31mred\r two\x1b\r three{PASTE_ENDS}")
        expect_all(child, "one [31mred", " two", " three")
        child.send("\r")
        expect_all(child, "Answer.", "tokens in", "ready")
        leave(child)
    (session,) = desk.sessions()
    sent = [
        one["message"]["parts"][0]["text"]
        for one in desk.events(session["id"])
        if one["type"] == "message.user"
    ]
    assert sent == ["\ufffd\ufffd|one [31mred\n two\n three"]
