"""Fields for text whose keys take effect in the order in which they were typed, and that keep all that is pasted."""

from __future__ import annotations

from textual import events
from textual.widget import Widget
from textual.widgets import Input, TextArea

from jaato.cli.output.console import printable
from jaato.tools.invisible_text import JOINERS


def find_joiner(event: events.Key) -> str:
    """The character of a key that separates or joins letters or emojis, which fields do not take for a printable one; else
    nothing."""
    return event.character if event.character and event.character in JOINERS else ""


async def run_own_binding(field: Widget, event: events.Key) -> None:
    """Run a field's binding at once: by itself it would run after characters that come in the same moment."""
    bound = None if event.is_printable else field.screen.active_bindings.get(event.key)
    if bound is not None and bound.node is field:
        stop_event(event)
        await field.run_action(bound.binding.action)


def stop_event(event: events.Event) -> None:
    """Let no other handler have an event."""
    event.stop()
    event.prevent_default()


def clean_paste(text: str) -> str:
    """What is pasted, without control characters; terminals paste a carriage return for a new line."""
    return printable(text.replace("\r\n", "\n").replace("\r", "\n"))


class TextField(TextArea):
    """A field of several lines."""

    async def _on_key(self, event: events.Key) -> None:
        if joiner := find_joiner(event):
            stop_event(event)
            self.insert(joiner)
        await run_own_binding(self, event)

    async def _on_paste(self, event: events.Paste) -> None:
        stop_event(event)
        self.paste(clean_paste(event.text))

    def paste(self, text: str) -> None:
        """Insert a text in place of what is selected."""
        self.replace(text, *self.selection, maintain_selection_offset=False)


class LineField(Input):
    """A field of one line."""

    async def _on_key(self, event: events.Key) -> None:
        if joiner := find_joiner(event):
            stop_event(event)
            self.insert_text_at_cursor(joiner)
        await run_own_binding(self, event)

    def _on_paste(self, event: events.Paste) -> None:
        """Insert all lines of a paste as one; by itself a field takes the first."""
        stop_event(event)
        self.replace(" ".join(clean_paste(event.text).split("\n")), *self.selection)
