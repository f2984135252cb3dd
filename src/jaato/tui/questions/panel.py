"""The panel of the question that is answered next. It takes keys only after it was entered with Tab or a click."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from jaato.abc.asker import Answer
from jaato.protocol.events import ClarificationQuestion, PermissionRequested
from jaato.tui.lines_view import LinesView
from jaato.tui.preferences import KeyNames
from jaato.tui.questions.dialogs import (
    GUARD_S,
    AnswerDialog,
    ArgumentsDialog,
    ClarificationForm,
    CommentDialog,
    Typed,
)
from jaato.tui.questions.lines import Question, format_title, lay_out_question, lay_out_whole, list_answers
from jaato.tui.transcript.lines import Lines, make_strip
from jaato.tui.transcript.looks import Looks

BOLD = Style(bold=True)
OTHER_LINES = 11
"""Lines of a small terminal for all but the question: its border and keys, the prompt, the status, some conversation."""
OTHER_LINES_LOW = 4
"""Those of a low one: title and keys, a line of the prompt, the status."""
GRACE_S = 0.4
"""How long the panel keeps the keys after an answer, as the next question often comes at once."""


class QuestionPanel(Vertical):
    """Shows the first pending question, and how many wait."""

    DEFAULT_CSS = """
    QuestionPanel { display: none; height: auto; border: round $text-warning; padding: 0 1;
                    border-title-color: $text-warning; border-title-style: bold; }
    QuestionPanel:focus-within { border: heavy $text-warning; }
    .-low QuestionPanel, .-low QuestionPanel:focus-within { border: none; border-top: solid $text-warning; padding: 0; }
    .-low QuestionPanel:focus-within { border-top: heavy $text-warning; }
    .-low QuestionPanel #answers { height: 1; }
    QuestionPanel #answers { height: auto; }
    """

    class Answered(Message):
        """The answer to a question."""

        def __init__(self, question: Question, answer: Answer | list[str | None]) -> None:
            super().__init__()
            self.question = question
            self.answer = answer

    def __init__(self, names: KeyNames, *, id: str | None = None) -> None:  # noqa: A002 as Textual names it
        super().__init__(id=id)
        self._hint = names.fill("{prompt.leave} answers")
        self._grace: Timer | None = None
        self._last_key = ""
        self.pending: list[Question] = []
        self._shown: Question | None = None
        self._since = 0.0
        self._argument_drafts: dict[str, str] = {}
        self._comment_drafts: dict[str, str] = {}
        self._form_drafts: dict[str, list[str]] = {}

    def compose(self) -> ComposeResult:
        """The question, and the keys of its answers."""
        yield QuestionLines(self, id="question")
        yield Static(id="answers")

    @property
    def current(self) -> Question | None:
        """The question that is answered next."""
        return self.pending[0] if self.pending else None

    def ask(self, pending: list[Question], name_of: Callable[[str], str]) -> None:
        """Show the first of the pending questions; nothing without any."""
        known = {one.question_id for one in pending}
        if isinstance(dialog := self.app.screen, AnswerDialog) and dialog.question_id not in known:
            dialog.show_settled()
        kept = [one for one in self.pending if one.question_id in known]
        held = {one.question_id for one in kept}
        self.pending = kept + [one for one in pending if one.question_id not in held]
        self._show_or_hide()
        question = self.current
        if question is None:
            self._shown = None
            return
        if self._grace is not None:
            self._grace.stop()
            self._grace = None
        self.border_title = Text(
            format_title(question, name_of(question.agent_id), len(self.pending)),
            self.query_one(LinesView).looks.warn + BOLD,
        )
        if self._shown is None or self._shown.question_id != question.question_id:
            self._shown, self._since = question, time.monotonic()
        self.show_keys()
        self._fit()

    def _show_or_hide(self) -> None:
        """Show the panel while a question waits, and for a moment after an answer from here."""
        if self.pending:
            self.display = True
        elif self.display and self._grace is None:
            if self.has_focus_within:
                self._grace = self.set_timer(GRACE_S, self.leave)
            else:
                self.display = False

    def leave(self) -> None:
        """Give the keys back to the prompt, and hide without a question."""
        self._grace = None
        self.display = bool(self.pending)
        self.app.call_later(self.app.run_action, "app.focus_prompt")

    def on_resize(self) -> None:
        """Leave room for the keys."""
        self._fit()

    def _fit(self) -> None:
        """Bound the lines of the question, which scroll, so that the keys below stay visible."""
        height = self.app.size.height
        room = (
            height - OTHER_LINES_LOW - (not self.screen.has_class("-tiny"))
            if self.is_low
            else max(3, min(height * 6 // 10, height - OTHER_LINES))
        )
        lines = self.query_one(LinesView)
        lines.styles.max_height = max(1, room)
        if self._shown is not None:
            lines.show_if_new((self._shown.question_id, self.is_low), self._lay_out_lines)

    @property
    def is_low(self) -> bool:
        """Whether the terminal has no room for the keys of all answers, which are then below the question."""
        return self.screen.has_class("-low")

    def _lay_out_lines(self, width: int, looks: Looks) -> Lines:
        """The lines of the question; on a low terminal those of its keys, too."""
        lines = lay_out_question(self._shown, width, looks) if self._shown is not None else Lines()
        if self.is_low:
            lines.extend(map(make_strip, self._keys(width).split()))
        return lines

    def _keys(self, width: int) -> Text:
        """The keys of the answers in lines of a width."""
        question = self._shown
        if not isinstance(question, PermissionRequested):
            return format_keys([("Enter", "answer"), ("Esc", "back to the prompt")], width)
        keys = [(key, meaning) for key, _, meaning in list_answers(question)]
        return format_keys([*keys, ("v", "view whole"), ("Esc", "back")], width)

    def show_keys(self) -> None:
        """Show the keys of the answers, or how to get to them."""
        if self.current is None:
            return
        lines = self.query_one(LinesView)
        if self.is_low:
            first = "y yes · n no" if isinstance(self.current, PermissionRequested) else "Enter answers"
            text = Text(f"{first if lines.has_focus else self._hint} ↓ all", "dim")
        elif not lines.has_focus:
            more = " · more below" if lines.max_scroll_y else ""
            text = Text(f"{self._hint}; what you type stays in the prompt{more}", "dim")
        else:
            text = self._keys(self.size.width - 4)
        self.query_one("#answers", Static).update(text)

    def press(self, key: str) -> bool:
        """Use a key as an answer; whether it was used. One that comes too soon is typed into the prompt."""
        if self.app.screen is not self.screen:  # a dialog was opened by a key of the same moment
            return True
        question = self.current
        if question is None or time.monotonic() - self._since < GUARD_S:
            is_text = len(key) == 1 and key.isprintable()
            if is_text and key != self._last_key:
                self._last_key = ""
                self.post_message(Typed(key))
                self.leave()
            return is_text
        self._last_key = key
        if isinstance(question, ClarificationQuestion):
            if key == "enter":
                self.app.push_screen(
                    ClarificationForm(question, self._form_drafts), partial(self._send, question)
                )
            return key == "enter"
        if key == "v":
            self.query_one(LinesView).show(partial(lay_out_whole, question))
            return True
        answer = next((one for known, one, _ in list_answers(question) if key == known), None)
        match answer:
            case None:
                return False
            case "e":
                self._edit(question)
            case "c":
                self.app.push_screen(
                    CommentDialog(question, self._comment_drafts), partial(self._comment, question)
                )
            case _:
                self._send(question, Answer(answer=answer))
        return True

    def refuse_edit(self, question: Question, problem: str) -> bool:
        """Open the edited arguments of the current question again, with what is wrong; False while the keys go elsewhere."""
        if not (self.app.screen is self.screen and self.query_one(LinesView).has_focus):
            return False
        if not isinstance(question, PermissionRequested) or question is not self.current:
            return False
        self._edit(question, problem)
        return True

    def _edit(self, question: PermissionRequested, problem: str = "") -> None:
        def send(arguments: dict[str, Any] | None) -> None:
            self._send(question, None if arguments is None else Answer(answer="e", arguments=arguments))

        self.app.push_screen(ArgumentsDialog(question, self._argument_drafts, problem), send)

    def _comment(self, question: Question, text: str | None) -> None:
        self._send(question, Answer(answer="c", comment=text) if text else None)

    def _send(self, question: Question, answer: Answer | list[str | None] | None) -> None:
        if answer is not None:
            self._since = time.monotonic()  # what is typed until the answer has arrived is no other one
            self.post_message(self.Answered(question, answer))


def format_keys(keys: Sequence[tuple[str, str]], width: int) -> Text:
    """Keys and their meaning in lines of a width, no pair broken."""
    text, used = Text(), 0
    for key, meaning in keys:
        size = len(key) + len(meaning) + 5
        if used and used + size - 2 > width:
            text.append("\n")
            used = 0
        text.append(f" {key} ", "reverse")
        text.append(f" {meaning}  ")
        used += size
    return text


class QuestionLines(LinesView):
    """The lines of the question, which take the keys of the answers."""

    BINDINGS = [Binding("escape,tab", "app.focus_prompt", "Back to the prompt", show=False)]

    def __init__(self, panel: QuestionPanel, *, id: str | None = None) -> None:  # noqa: A002 as Textual names it
        super().__init__(id=id)
        self._panel = panel

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Show the keys, or how to get here."""
        super().watch_has_focus(_has_focus)
        self._panel.show_keys()

    def on_key(self, event: events.Key) -> None:
        """Answer."""
        if self._panel.press(event.character or event.key if event.key != "enter" else "enter"):
            event.stop()
            event.prevent_default()
