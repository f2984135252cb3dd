"""The screen of the keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Static

from jaato.tui.lines_view import LinesView
from jaato.tui.transcript.lines import add_prefix, lay_out_words
from jaato.tui.transcript.looks import Looks

KEYS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "Prompt": (
        ("", "Enter", "send; in mid-turn, at the agent's next pause"),
        ("prompt.queue", "Ctrl+T", "send when the turn has ended"),
        ("prompt.take_back", "Alt+Up", "take a queued message back"),
        ("prompt.newline", "Shift+Enter, Ctrl+J", "new line (also a backslash before Enter)"),
        ("", "Up, Down", "messages sent before"),
        ("app.history", "Ctrl+R", "search in messages sent before"),
        ("", "/", "commands; Tab completes"),
        ("", "@", "files; Tab completes"),
        ("prompt.leave", "Tab", "to the question, or the conversation"),
    ),
    "Session": (
        ("app.stop", "Escape", "stop the agent; the draft stays"),
        ("app.interrupt", "Ctrl+C", "stop, or empty the prompt; twice leaves"),
        ("", "Ctrl+D", "leave (empty prompt); the turn continues"),
        ("app.next_agent", "F2", "next agent"),
        ("app.sessions", "F3", "sessions"),
        ("app.plans", "F4", "the plans of all agents"),
        ("app.tasks", "F5", "background tasks, that of the marked call first"),
        ("app.popup", "F6", "show or hide the interactive session"),
        ("app.palette", "Ctrl+P", "all commands"),
        ("app.keys", "F1", "these keys"),
        ("app.mouse", "F9", "give the mouse to the terminal, or take it"),
    ),
    "Conversation": (
        ("app.page_up", "PageUp, PageDown", "scroll"),
        ("app.newest", "Ctrl+End", "newest line"),
        ("app.unfold", "Ctrl+O", "fold or unfold the newest call or thought"),
        ("app.search", "Ctrl+F", "search"),
        ("transcript.previous", "Up, Down", "mark a call or thought (after Tab)"),
        ("transcript.toggle", "Enter", "fold or unfold it"),
    ),
    "Question (after Tab)": (
        ("", "y n", "allow, deny"),
        ("", "a N", "always allow, never allow calls like this"),
        ("", "t i o", "for this turn, until the agent is idle, exactly this call once"),
        ("", "A", "allow all that wait"),
        ("", "e c", "edit the arguments, deny with a comment"),
        ("", "v", "view the whole call, unabridged"),
        ("", "Escape", "back to the prompt, without an answer"),
    ),
}
"""The keys by place: the id that rebinds one, the key, and what it does."""
NARROW = 50
"""Columns below which what a key does is below it."""


def lay_out_keys(keymap: Mapping[str, str], width: int, looks: Looks) -> list[Strip]:
    """The keys, as the user has bound them."""
    found: list[Strip] = []
    for place, keys in KEYS.items():
        found += [*([Strip([], 0)] if found else []), *lay_out_words(place, width, looks.heading)]
        for binding, key, text in keys:
            bound = keymap.get(binding, key)
            if width < NARROW:
                found += lay_out_words(bound, width, looks.strong)
                found += add_prefix(lay_out_words(text, width - 2, looks.text), "  ", "  ", looks.text)
                continue
            head = f"{bound:<21} "
            lines = lay_out_words(text, width - len(head), looks.text)
            found += add_prefix(lines, head, " " * len(head), looks.strong)
    note = "tui.json in the configuration directory binds other keys; the guide says how."
    return [*found, Strip([], 0), *lay_out_words(note, width, looks.dim)]


class KeysScreen(ModalScreen[None]):
    """Shows the keys."""

    CSS = """
    KeysScreen { align: center middle; background: $background 60%; }
    KeysScreen > Vertical { width: 90%; max-width: 90; height: auto; max-height: 94%; border: round $primary;
        background: $surface; padding: 0 1; border-title-color: $primary; border-title-style: bold; }
    KeysScreen LinesView { max-height: 100%; }
    KeysScreen .hint { color: $text-muted; height: 1; dock: bottom; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q", "dismiss(None)", "Back")]

    def __init__(self, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        """The keys in a box."""
        with Vertical() as box:
            box.border_title = Text("Keys")
            yield LinesView(id="keys")
            yield Static("Up, Down scroll · Esc back", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Fill the box."""
        view = self.query_one(LinesView)
        view.show(partial(lay_out_keys, self._keymap))
        view.focus()
