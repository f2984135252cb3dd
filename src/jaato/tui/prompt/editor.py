"""The editor of the prompt: Enter sends, Shift+Enter and Ctrl+J begin a line, long pastes are folded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.widgets import TextArea

from jaato.cli.arguments.values import strip_message
from jaato.cli.output.console import one_line
from jaato.errors import ConfigError
from jaato.tui.fields import TextField, clean_paste, stop_event
from jaato.tui.prompt.attachments import Attachments
from jaato.tui.prompt.external_editor import ExternalEditor
from jaato.tui.prompt.history import History
from jaato.tui.prompt.pastes import Pastes, find_image, find_last_fold

UNCHANGED = (
    "The editor has changed nothing. One that returns at once needs an option to wait: EDITOR='code --wait'."
)


class Prompt(TextField):
    """A message as it is written. A fold stands for a paste until the message is sent."""

    DEFAULT_CSS = """
    Prompt { height: auto; min-height: 3; max-height: 12; border: none; border-top: solid $primary 60%;
             border-bottom: solid $primary 60%; padding: 0 1; background: $background; scrollbar-size-vertical: 1; }
    Prompt:focus { border: none; border-top: solid $primary; border-bottom: solid $primary; }
    Prompt.-working { border-top: solid $text-warning; border-bottom: solid $text-warning; border-title-color: $foreground; }
    """
    BINDINGS = [
        Binding("enter", "send", "Send", show=False, id="prompt.send"),
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", show=False, id="prompt.newline"),
        Binding("pageup", "app.scroll(-1)", "Scroll up", show=False),
        Binding("pagedown", "app.scroll(1)", "Scroll down", show=False),
        Binding("tab", "app.answer", "To the question, or the conversation", show=False, id="prompt.leave"),
        Binding("ctrl+t", "submit(True)", "Queue until the turn's end", show=False, id="prompt.queue"),
        Binding("shift+tab", "screen.next_mode", "Next permission mode", show=False, id="prompt.mode"),
        Binding("ctrl+g", "edit", "Write in your editor", show=False, id="prompt.edit"),
        Binding("alt+up", "app.take_back", "Take a queued one back", show=False, id="prompt.take_back"),
    ]

    class Submitted(Message):
        """The message is complete, and no longer in the prompt; with `queue` it is for the end of the turn."""

        def __init__(self, text: str, *, queue: bool) -> None:
            super().__init__()
            self.text = text
            self.queue = queue

    class ImagePasted(Message):
        """The path of an image was pasted."""

        def __init__(self, path: Path) -> None:
            super().__init__()
            self.path = path

    class Moved(Message):
        """A key for the list of completions: `up`, `down`, `take`, `close`."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(
        self,
        history: History,
        attachments: Attachments,
        state_dir: Path,
        *,
        id: str | None = None,  # noqa: A002 as Textual names it
    ) -> None:
        super().__init__(
            id=id, soft_wrap=True, show_line_numbers=False, tab_behavior="focus", highlight_cursor_line=False
        )
        self.set_reactive(
            TextArea.cursor_blink, False
        )  # each time it would blink, a client at rest would draw
        self.message_history = history
        self.attachments = attachments
        self._state_dir = state_dir
        self.completing = False
        """Whether completions are shown, which some keys move."""
        self.take_choice: Callable[[], bool] = lambda: False
        """Takes the marked completion where the key that sends does; returns whether it has."""
        self._pastes = Pastes()
        self._editor: ExternalEditor | None = None
        """The user's own editor, while the message is in it."""
        self._edited = asyncio.Event()
        self._edited.set()

    # --- the message ---------------------------------------------------------------------------------------------

    @property
    def message(self) -> str:
        """The text with what its folds stand for."""
        return self._pastes.unfold(self.text)

    def put_back(self, text: str) -> None:
        """Put a message that was not sent before what was typed since."""
        if text:
            self.put("\n".join(filter(None, [text, self.message])))

    def replace_message(self, before: str, text: str) -> None:
        """Replace a message that was edited elsewhere; what was put before it meanwhile stays."""
        arrived = self.message.removesuffix(before).removesuffix("\n")
        self.put("\n".join(filter(None, [arrived, text])))

    def put(self, text: str) -> None:
        """Replace the message; a long one is folded."""
        self.load_text(self._pastes.fold(text))
        self.move_cursor(self.document.end)

    def begin(self, text: str) -> None:
        """Begin another message; what was typed comes back when that is sent."""
        self.message_history.interrupt(self.message, text)
        self.recall(text)

    def recall(self, text: str) -> None:
        """Show an earlier message, with what was attached to it if it was put aside."""
        if names := ", ".join(one.path.name for one in self.attachments.recall(text)):
            self.notify(f"{one_line(names, 200)} attached again", markup=False)
        self.put(text)

    def clear_message(self) -> None:
        """Empty the prompt."""
        self._pastes.clear()
        self.load_text("")

    def release_keys(self, keys: Iterable[str]) -> None:
        """Leave keys that the editor has by itself to what the user has bound them to."""
        for key in keys:
            own = self._bindings.key_to_bindings.get(key, [])
            if not any(binding.id for binding in own):
                self._bindings.key_to_bindings.pop(key, None)

    # --- keys ----------------------------------------------------------------------------------------------------

    async def _on_paste(self, event: events.Paste) -> None:
        """Insert a paste, a long one as its fold."""
        stop_event(event)
        text = clean_paste(event.text)
        if (path := find_image(text)) is not None:
            self.post_message(self.ImagePasted(path))
            return
        self.paste(self._pastes.fold(text))

    async def _on_key(self, event: events.Key) -> None:
        """Send, complete, and go through the history."""
        moves = {"up": "up", "down": "down", "tab": "take", "escape": "close"}
        if self.completing and event.key in moves:
            stop_event(event)
            self.post_message(self.Moved(moves[event.key]))
            return
        match event.key:
            case "up" if self.cursor_at_first_line and not self.selected_text:
                self._recall(event, self.message_history.earlier(self.message))
            case "down" if self.cursor_at_last_line and not self.selected_text:
                self._recall(event, self.message_history.later())
            case "backspace" if self._remove_fold():
                stop_event(event)
            case "ctrl+d" if not self.text:
                stop_event(event)
                await self.run_action("app.quit")

    def action_send(self) -> None:
        """Send the message; after a backslash begin a line, and take a completion that is chosen."""
        if self.take_choice():
            return
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if line[:column].endswith("\\"):
            self.replace("\n", (row, column - 1), (row, column))
            return
        self.action_submit()

    def action_submit(self, queue: bool = False) -> None:
        """Pass the message on, and empty the prompt before another key comes; what was typed before it comes back."""
        if text := strip_message(self.message):
            self.clear_message()
            self.put(self.message_history.resume())
            self.post_message(self.Submitted(text, queue=queue))

    def action_newline(self) -> None:
        """Begin a line."""
        self.insert("\n")

    def action_edit(self) -> None:
        """Have the user write the message in an editor of theirs."""
        if self._editor is None and not self.app.is_headless:
            self._editor = ExternalEditor(self.app, self._leave, self._state_dir)
            self._edited.clear()
            self.app.run_worker(self._edit(self._editor))

    async def _edit(self, editor: ExternalEditor) -> None:
        before = self.message
        try:
            text = await editor.edit(before)
        except (ConfigError, OSError) as error:
            self.app.notify(str(error), severity="error", markup=False)
        else:
            self.replace_message(before, text)
            if text == before:
                self.app.notify(UNCHANGED, markup=False)
        finally:
            self._editor = None
            self._edited.set()
            if editor.is_stopped:
                self._leave()

    def _leave(self) -> None:
        self.app.call_later(self.app.run_action, "app.quit")

    def stop_editor(self) -> bool:
        """End the user's editor, and leave when what it has saved is in the prompt; whether there is one."""
        if self._editor is not None:
            self._editor.stop()
        return self._editor is not None

    async def wait_for_editor(self) -> None:
        """Wait until the message is in no other editor."""
        await self._edited.wait()

    def _recall(self, event: events.Key, text: str | None) -> None:
        stop_event(event)
        if text is not None:
            self.recall(text)

    def _remove_fold(self) -> bool:
        """Remove the fold before the cursor; whether there is one."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        start = find_last_fold(before)
        if start is None or self.selected_text:
            return False
        self.delete((row, start), (row, column))
        return True
