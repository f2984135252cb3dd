"""Fields for text whose keys take effect in the order in which they were typed."""

from __future__ import annotations

from textual import events
from textual.widget import Widget
from textual.widgets import Input, TextArea


async def run_own_binding(field: Widget, event: events.Key) -> None:
    """Run a field's binding at once: by itself it would run after characters that come in the same moment."""
    bound = None if event.is_printable else field.screen.active_bindings.get(event.key)
    if bound is not None and bound.node is field:
        event.stop()
        event.prevent_default()
        await field.run_action(bound.binding.action)


class TextField(TextArea):
    """A field of several lines."""

    async def _on_key(self, event: events.Key) -> None:
        await run_own_binding(self, event)


class LineField(Input):
    """A field of one line."""

    async def _on_key(self, event: events.Key) -> None:
        await run_own_binding(self, event)
