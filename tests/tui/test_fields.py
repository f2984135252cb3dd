"""Fields for text: keys that come in one moment take effect in their order, and all that is pasted is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Input, TextArea

from jaato.tui.fields import LineField, TextField
from jaato.tui.prompt.attachments import Attachments
from jaato.tui.prompt.editor import Prompt
from jaato.tui.prompt.history import History

pytestmark = pytest.mark.anyio
TYPED = [("a", "a"), ("b", "b"), ("backspace", "\x7f"), ("c", "c"), ("home", None), ("d", "d")]


class OneField(App[None]):
    """A program that is one field."""

    def __init__(self, field: TextArea | Input) -> None:
        super().__init__()
        self.given = field

    def compose(self) -> ComposeResult:
        """The field."""
        yield self.given


def make_field(kind: type[TextArea | Input], directory: Path) -> TextArea | Input:
    """A field of a kind."""
    return Prompt(History(directory), Attachments(), directory) if kind is Prompt else kind()


@pytest.mark.parametrize("kind", [TextField, LineField, Prompt])
async def test_keys_of_one_moment_keep_their_order(kind: type[TextArea | Input], tmp_path: Path) -> None:
    """A key that removes or moves does so before the characters that were typed after it."""
    app = OneField(make_field(kind, tmp_path))
    async with app.run_test() as pilot:
        app.given.focus()
        await pilot.pause()
        for key, character in TYPED:
            app.post_message(events.Key(key, character))
        await pilot.pause(0.1)
        field = app.given
        assert (field.text if isinstance(field, TextArea) else field.value) == "dac"


@pytest.mark.parametrize("kind", [TextField, LineField, Prompt])
async def test_all_lines_of_a_paste_are_kept(kind: type[TextArea | Input], tmp_path: Path) -> None:
    """They take the place of what is selected, joined in a field of one line; what moves a cursor is left out."""
    app = OneField(make_field(kind, tmp_path))
    async with app.run_test() as pilot:
        app.given.focus()
        for key in "abc":
            app.post_message(events.Key(key, key))
        for key in ("shift+left", "shift+left"):
            app.post_message(events.Key(key, None))
        app.post_message(events.Paste("one\rtwo\x1b[2J\r\nthree"))
        app.post_message(events.Key("d", "d"))
        await pilot.pause(0.1)
        field, joined = app.given, "aone\ntwo[2J\nthreed"
        assert (field.text if isinstance(field, TextArea) else field.value.replace(" ", "\n")) == joined


@pytest.mark.parametrize("kind", [TextField, LineField, Prompt])
async def test_joined_characters_are_typed(kind: type[TextArea | Input], tmp_path: Path) -> None:
    """An emoji of several characters, and words of some scripts, have the invisible ones that join and separate them."""
    typed = "👩\u200d💻 می\u200cکنم"
    app = OneField(make_field(kind, tmp_path))
    async with app.run_test() as pilot:
        app.given.focus()
        for character in typed:
            app.post_message(events.Key(character, character))
        await pilot.pause(0.1)
        field = app.given
        assert (field.text if isinstance(field, TextArea) else field.value) == typed
