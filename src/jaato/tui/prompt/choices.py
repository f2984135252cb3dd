"""The list of completions above the prompt."""

from __future__ import annotations

from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from jaato.cli.output.console import one_line
from jaato.tui.prompt.completion import MAX_SHOWN, Choice, Completion
from jaato.tui.transcript.lines import cut_line

LOW_SHOWN = 3


class Choices(Widget):
    """Shows completions; `current` is the one that Tab takes."""

    DEFAULT_CSS = """
    Choices { display: none; height: auto; max-height: 8; padding: 0 1; background: $surface; }
    """

    class Chosen(Message):
        """A completion was clicked."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 as Textual names it
        super().__init__(id=id)
        self.completion: Completion | None = None
        self._at = 0
        self._first = 0
        self.is_moved = False
        """Whether the user has marked another one than the first."""

    @property
    def current(self) -> Choice | None:
        """The completion that is marked."""
        return self.completion.choices[self._at] if self.completion is not None else None

    @property
    def _shown(self) -> int:
        """How many are shown: few on a low terminal, beside the prompt and the status."""
        return LOW_SHOWN if self.screen.has_class("-low") else MAX_SHOWN

    def offer(self, completion: Completion | None) -> None:
        """Show completions, or nothing when there are none."""
        if completion is not None and not completion.choices:
            completion = None
        if completion == self.completion:
            return
        self.completion, self._at, self._first, self.is_moved = completion, 0, 0, False
        self.display = completion is not None
        self.refresh(layout=True)

    def move(self, by: int) -> None:
        """Mark another completion."""
        if self.completion is not None:
            self._at = (self._at + by) % len(self.completion.choices)
            self.is_moved = True
            self._first = min(max(self._first, self._at - self._shown + 1), self._at)
            self.refresh()

    def render(self) -> Text:
        """The completions, the marked one in reverse."""
        text = Text(no_wrap=True, end="")
        if self.completion is None:
            return text
        shown = self.completion.choices[self._first : self._first + self._shown]
        width = max(20, self.size.width)
        column = min(max(len(choice.text) for choice in shown), width // 2)
        for number, choice in enumerate(shown):
            line = f"{cut_line(choice.text, max(column, width - 2 if not choice.meaning else 0)):<{column}}"
            if choice.meaning:
                line += f"  {one_line(choice.meaning, max(4, width - len(line) - 4))}"
            marked = self._first + number == self._at
            text.append(line.ljust(width - 2), "reverse" if marked else "")
            text.append("\n" if number < len(shown) - 1 else "")
        return text

    def on_click(self, event: Click) -> None:
        """Take the completion that was clicked."""
        if self.completion is not None and self._first + event.y < len(self.completion.choices):
            self._at = self._first + event.y
            self.post_message(self.Chosen())
