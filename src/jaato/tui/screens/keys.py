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
from jaato.tui.preferences import KeyNames
from jaato.tui.transcript.lines import add_prefix, lay_out_words
from jaato.tui.transcript.looks import Looks

KEYS: Mapping[str, Sequence[tuple[str, str]]] = {
    "Prompt": (
        ("{prompt.send}", "send; in mid-turn, at the agent's next pause"),
        ("{prompt.queue}", "send when the turn has ended"),
        ("{prompt.take_back}", "take a queued message back"),
        ("{prompt.newline}", "new line (also a backslash before Enter)"),
        ("{prompt.edit}", "write in the program that EDITOR names"),
        ("Up, Down", "messages sent before"),
        ("{app.history}", "search in messages sent before"),
        ("/", "commands; Tab completes"),
        ("@", "files; Tab completes"),
        ("{prompt.leave}", "to the question, or the conversation"),
    ),
    "Session": (
        ("{app.stop}", "stop the agent; the draft stays"),
        ("{app.interrupt}", "stop, or empty the prompt; twice leaves"),
        ("Ctrl+D", "leave (empty prompt); the turn continues"),
        ("{prompt.mode}", "next permission mode: ask, accept-edits, plan"),
        ("{app.next_agent}", "next agent"),
        ("{app.sessions}", "sessions"),
        ("{app.plans}", "the plans of all agents"),
        ("{app.tasks}", "background tasks, that of the marked call first"),
        ("{app.popup}", "show or hide the interactive session"),
        ("Ctrl+P", "all commands"),
        ("{app.keys}", "these keys"),
        ("{app.mouse}", "give the mouse to the terminal, or take it"),
    ),
    "Conversation": (
        ("{app.page_up}, {app.page_down}", "scroll"),
        ("{app.newest}", "newest line"),
        ("{app.unfold}", "fold or unfold the newest call or thought"),
        ("{app.search}", "search"),
        ("{transcript.previous}, {transcript.next}", "mark a call or thought (after Tab)"),
        ("{transcript.toggle}", "fold or unfold it"),
    ),
    "Question (after Tab)": (
        ("y n", "allow, deny"),
        ("a N", "always allow, never allow calls like this"),
        ("t i o", "for this turn, until the agent is idle, this call (as y)"),
        ("A", "allow all that wait"),
        ("e c", "edit the arguments, deny with a comment"),
        ("v", "view the whole call, unabridged"),
        ("Escape", "back to the prompt, without an answer"),
    ),
}
"""The keys by place: the key, or the ids of its bindings, and what it does."""
MOST = 2
"""How many keys of one binding are shown."""
NARROW = 50
"""Columns below which what a key does is below it."""


def lay_out_keys(names: KeyNames, width: int, looks: Looks) -> list[Strip]:
    """The keys, as the user has bound them."""
    found: list[Strip] = []
    for place, keys in KEYS.items():
        found += [*([Strip([], 0)] if found else []), *lay_out_words(place, width, looks.heading)]
        for key, text in keys:
            bound = names.fill(key, MOST)
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

    def __init__(self, names: KeyNames) -> None:
        super().__init__()
        self._names = names

    def compose(self) -> ComposeResult:
        """The keys in a box."""
        with Vertical() as box:
            box.border_title = Text("Keys")
            yield LinesView(id="keys")
            yield Static("Up, Down scroll · Esc back", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Fill the box."""
        view = self.query_one(LinesView)
        view.show(partial(lay_out_keys, self._names))
        view.focus()
