"""The prompt with its completions: what is typed, completed, kept as a draft and sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import TextArea

from jaato.cli.arguments.values import Attachment
from jaato.cli.output.console import one_line
from jaato.cli.repl.slash_commands import ALIASES
from jaato.protocol.events import SessionInfo
from jaato.protocol.events.state import State
from jaato.tui.preferences import KeyNames
from jaato.tui.prompt.attachments import Attachments
from jaato.tui.prompt.choices import Choices
from jaato.tui.prompt.completion import complete_command, complete_file, list_files
from jaato.tui.prompt.drafts import Drafts
from jaato.tui.prompt.editor import Prompt
from jaato.tui.prompt.external_editor import take_saved
from jaato.tui.prompt.history import MAX_ENTRY_CHARS, History

SAVED = "What an editor has saved since its client was killed is the newest message of {app.history}."
UNKEPT = "The draft cannot be kept for the next start: {}."
DRAFT_S = 0.7
"""How long after the last key the draft is kept in its file."""
BUSY_TITLES = (
    " {prompt.send}: at the agent's next pause · {prompt.queue}: after the turn ",
    "{prompt.send}: next pause · {prompt.queue}: turn's end",
)
QUEUED_TITLES = (
    " {prompt.send}: at the agent's next pause · {prompt.take_back}: take the queued message back ",
    "{prompt.take_back}: take the queued one back",
)
DELETED_TITLES = (
    " The session was deleted · {app.sessions} opens another one ",
    "deleted; {app.sessions}: sessions",
)
"""What the border of the prompt says, and without one the empty prompt."""


class PromptArea(Vertical):
    """Completions above, the prompt below. `known` gives the session for completions, None while there is none."""

    DEFAULT_CSS = "PromptArea { height: auto; }"

    def __init__(
        self,
        state_dir: Path,
        draft_key: str,
        known: Callable[[], tuple[State, SessionInfo | None] | None],
        names: KeyNames,
    ) -> None:
        super().__init__(id="prompt-area")
        self.history = History(state_dir)
        self.attachments = Attachments()
        self._drafts = Drafts(state_dir)
        self._state_dir = state_dir
        self._is_unkept = False
        """Whether the last try to keep the draft has failed."""
        self.workspace: Path | None = None
        """Where the files for `@` are; None on another machine."""
        self.unsent: Callable[[], list[tuple[str, list[Attachment]]]] = list
        """The messages that were submitted and no server has, with their files; the draft begins with them."""
        self._draft_key = draft_key
        self._known = known
        self._names = names
        self._draft_timer: asyncio.TimerHandle | None = None
        self._closed_at = ""
        """The text with which the user has closed the completions."""
        self._files: list[str] | None = None
        self._stop_listing = threading.Event()
        self._listing: asyncio.Task[None] | None = None
        self._aside = ""
        """What Ctrl+C has removed from the prompt."""
        self._detached: list[Attachment] = []
        """What it has detached from an empty prompt."""

    def compose(self) -> ComposeResult:
        """The completions and the editor."""
        yield Choices(id="choices")
        prompt = Prompt(self.history, self.attachments, self._state_dir, id="prompt")
        prompt.take_choice = self._take_on_send
        yield prompt

    def on_mount(self) -> None:
        """Show the draft; a key that the user has bound is no longer the editor's."""
        self.prompt.release_keys(self._names.bound)
        draft, self.attachments.stored = self._drafts.open(self._draft_key)
        if draft:
            self.prompt.put(draft)
        if saved := [text for text in take_saved(self._state_dir) if text not in (draft, "")]:
            for text in saved:
                self.history.add(text)
                if len(text) > MAX_ENTRY_CHARS:  # its file has no such
                    self.prompt.put_back(text)
            self.notify(self._names.fill(SAVED), markup=False)

    def on_unmount(self) -> None:
        """Leave the draft to the next client."""
        self._drafts.close()

    @property
    def prompt(self) -> Prompt:
        """The editor."""
        return self.query_one(Prompt)

    @property
    def choices(self) -> Choices:
        """The completions."""
        return self.query_one(Choices)

    def set_busy(self, busy: bool, queued: bool) -> None:
        """Say what the keys do while the agent works; without room for a border, in the empty prompt."""
        prompt = self.prompt
        prompt.set_class(busy, "-working")
        if busy:
            self._set_title(*(QUEUED_TITLES if queued else BUSY_TITLES))
        else:
            self._set_title("", "")

    def set_deleted(self) -> None:
        """Say that the session takes no message any more."""
        self.prompt.set_class(True, "-working")
        self._set_title(*DELETED_TITLES)

    def _set_title(self, title: str, low_title: str) -> None:
        prompt, title = self.prompt, self._names.fill(title)
        if prompt.border_title != title:
            prompt.border_title = title
        prompt.placeholder = self._names.fill(low_title) if self.screen.has_class("-low") else ""

    def close(self) -> None:
        """Keep the draft, and stop what runs."""
        self._stop_listing.set()
        if self.is_mounted:
            self.keep_draft()

    def remember(self, text: str) -> None:
        """Remember a message that was taken out of the prompt."""
        self.history.add(text)
        self.choices.offer(None)
        self.keep_draft()

    def set_aside(self) -> bool:
        """Empty the prompt into the history, with what is attached; whether there was a text. An image alone is detached."""
        text, attachments = self.prompt.message, self.attachments
        self._aside, self._detached = text, []
        if text.strip():
            self.prompt.clear_message()
            attachments.set_aside(text)
            self.history.add(self.history.resume())
            self.remember(text)
        elif attachments.files:
            self._detached = attachments.take()
            names = one_line(", ".join(one.path.name for one in self._detached), 200)
            self.notify(f"{names} no longer attached", markup=False)
            self.keep_draft()
        return bool(text.strip())

    def restore(self) -> None:
        """Put back what was set aside, unless something was typed since."""
        if not self.prompt.text:
            self.prompt.recall(self._aside)
            self.attachments.put_back(self._detached)

    # --- drafts --------------------------------------------------------------------------------------------------

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Complete the word at the cursor, and keep the draft."""
        event.stop()
        self._complete()
        self.schedule_draft()

    def schedule_draft(self) -> None:
        """Keep the draft in its file after a moment."""
        if self._draft_timer is not None:
            self._draft_timer.cancel()
        self._draft_timer = asyncio.get_running_loop().call_later(DRAFT_S, self.keep_draft)

    def keep_draft(self) -> None:
        """Write the draft to its file, behind the messages that are not sent."""
        if self._draft_timer is not None:
            self._draft_timer.cancel()
            self._draft_timer = None
        shown, unsent, attachments = self.prompt.message, self.unsent(), self.attachments
        draft = self.history.unsent(shown)
        attached = attachments.files if draft == shown else attachments.list_typed()
        files = [one for _, given in [*unsent, (draft, attached)] for one in given]
        paths = [*attachments.stored, *(str(one.path) for one in files)]
        text = "\n".join(filter(None, [*(text for text, _ in unsent), draft]))
        problem = self._drafts.keep(text, paths)
        if problem and not self._is_unkept:
            self.notify(UNKEPT.format(problem), severity="warning", markup=False)
        self._is_unkept = bool(problem)

    # --- completions ---------------------------------------------------------------------------------------------

    def _complete(self) -> None:
        prompt, known, completion = self.prompt, self._known(), None
        row, column = prompt.cursor_location
        before = prompt.document.get_line(row)[:column]
        if known is not None:
            if row == 0 and prompt.document.line_count == 1:
                completion = complete_command(before, *known)
            if completion is None and "@" in before and self.workspace is not None:
                if self._files is None:
                    self._files = []
                    self._listing = asyncio.get_running_loop().create_task(self._list_files(self.workspace))
                completion = complete_file(before, self._files)
        self.choices.offer(completion)
        prompt.completing = self.choices.completion is not None

    async def _list_files(self, workspace: Path) -> None:
        """List the files of the workspace, which takes a moment, and complete again."""
        self._files = await asyncio.to_thread(list_files, workspace, self._stop_listing)
        if self.is_attached:
            self._complete()

    def on_prompt_moved(self, event: Prompt.Moved) -> None:
        """Move in the list of completions, take one, or close it."""
        event.stop()
        match event.key:
            case "up" | "down":
                self.choices.move(-1 if event.key == "up" else 1)
            case "take":
                self.on_choices_chosen()
            case "close":
                self.choices.offer(None)
                self.prompt.completing = False
                self._closed_at = self.prompt.text

    def _take_on_send(self) -> bool:
        """Take the completion that was marked with a key, or that of a command of which only the beginning is typed; whether
        there was one."""
        text = self.prompt.text
        if text == self._closed_at or not (self.prompt.completing or text.startswith("/")):
            return False
        self._complete()  # several keys may have come in one moment
        completion = self.choices.completion
        if completion is None:
            return False
        is_whole = text[1:] in ALIASES or any(choice.text == text for choice in completion.choices)
        is_begun = text.startswith("/") and completion.length == len(text) and not is_whole
        if is_taken := is_begun or self.choices.is_moved:
            self.on_choices_chosen()
        return is_taken

    def on_choices_chosen(self) -> None:
        """Take the completion that is marked."""
        completion, current, prompt = self.choices.completion, self.choices.current, self.prompt
        if completion is not None and current is not None:
            row, column = prompt.cursor_location
            prompt.replace(f"{current.text} ", (row, column - completion.length), (row, column))
            prompt.focus()
