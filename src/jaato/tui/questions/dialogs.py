"""Dialogs for answers that need text: edited arguments, a comment, and the agent's questions as a form."""

from __future__ import annotations

import json
import time
from typing import Any, TypeVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from jaato.cli.output.console import HIDDEN, escape_json, one_line, visible
from jaato.cli.repl.questions import parse_reply, question_lines
from jaato.protocol.events import ClarificationQuestion, PermissionRequested
from jaato.tui.fields import LineField, TextField
from jaato.tui.transcript.lines import clean

Reply = TypeVar("Reply")
GUARD_S = 0.5
"""How long a question is visible before a key answers it: a key that comes sooner was meant for the prompt, or for the
question before."""
DIALOG_CSS = """
{name} {{ align: center middle; background: $background 60%; }}
{name} > Vertical {{ width: 90%; max-width: 110; height: auto; max-height: 90%; border: round $primary;
    background: $surface; padding: 0 1; border-title-color: $primary; border-title-style: bold;
    border-subtitle-color: $text-muted; border-subtitle-align: left; }}
{name} Input {{ border: none; height: 1; padding: 0 1; background: $boost; }}
{name} Input:focus {{ border: none; background: $primary 25%; }}
{name} .error {{ color: $error; height: auto; }}
"""


class Typed(Message):
    """A character that is no answer, and belongs into the prompt."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ConfirmDialog(ModalScreen[bool]):
    """Asks for a yes or no. It may appear while a message is typed: characters that come in the first half second, or as soon
    after such a one, are no answer."""

    CSS = DIALOG_CSS.format(name="ConfirmDialog")
    BINDINGS = [Binding("escape", "dismiss(False)", "No")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._since = time.monotonic()
        """When it has appeared, or the last character came that is no answer."""

    def compose(self) -> ComposeResult:
        """What is asked."""
        with Vertical() as box:
            box.border_subtitle = "y yes · n no"
            yield Static(Text(clean(visible(self._text))))

    def on_key(self, event: events.Key) -> None:
        """Answer, or pass on what is typed."""
        is_answer = time.monotonic() - self._since >= GUARD_S
        if is_answer and event.key in ("y", "n"):
            self.dismiss(event.key == "y")
        elif event.is_printable and not is_answer:
            self._since = time.monotonic()
            self.post_message(Typed(event.character or ""))


class AnswerDialog(ModalScreen[Reply | None]):
    """Takes the answer to a question; None when it is left."""

    BINDINGS = [Binding("escape", "leave", "Back")]

    def __init__(self, question_id: str) -> None:
        super().__init__()
        self.question_id = question_id

    def action_leave(self) -> None:
        """Go back to the question."""
        self.dismiss(None)

    def show_settled(self) -> None:
        """Say that the question waits no longer, for who has not finished the answer."""
        for box in self.query(Vertical):
            box.border_subtitle = "The question waits no longer · Esc back"


class CommentDialog(AnswerDialog[str]):
    """Asks for the comment of a denial. What was typed is kept in `drafts`."""

    CSS = DIALOG_CSS.format(name="CommentDialog")

    def __init__(self, question: PermissionRequested, drafts: dict[str, str]) -> None:
        super().__init__(question.question_id)
        self._question = question
        self._drafts = drafts

    def compose(self) -> ComposeResult:
        """A line to write in."""
        with Vertical() as box:
            box.border_title = Text(f"Deny {one_line(self._question.tool, 60)}, with a comment for the agent")
            box.border_subtitle = "Enter denies · Esc back to the question"
            typed = self._drafts.get(self.question_id, "")
            hint = "why not, or what to do instead"
            yield LineField(typed, placeholder=hint, id="comment", select_on_focus=False)

    def action_leave(self) -> None:
        """Keep what was typed, and go back."""
        self._drafts[self.question_id] = self.query_one(Input).value
        self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Deny."""
        if event.value.strip():
            self.dismiss(event.value.strip())


class ArgumentsDialog(AnswerDialog[dict[str, Any]]):
    """Edits the arguments of a call as JSON. What was typed is kept in `drafts`, also when it was sent: the server may
    refuse it with a `problem`."""

    CSS = (
        DIALOG_CSS.format(name="ArgumentsDialog")
        + "ArgumentsDialog TextArea { height: auto; min-height: 1; max-height: 65vh; border: none; }"
    )
    BINDINGS = [Binding("ctrl+s,f10", "send", "Run with these", priority=True)]

    def __init__(self, question: PermissionRequested, drafts: dict[str, str], problem: str = "") -> None:
        super().__init__(question.question_id)
        self._question = question
        self._drafts = drafts
        self._problem = problem

    def compose(self) -> ComposeResult:
        """What is wrong with the arguments, where it is seen on a small terminal, and the arguments."""
        text = self._drafts.get(self.question_id) or format_arguments(self._question.arguments)
        with Vertical() as box:
            box.border_title = Text(f"Arguments of {one_line(self._question.tool, 60)}")
            box.border_subtitle = "Ctrl+S runs the call with these · Esc back"
            problem = Static(Text(self._problem), classes="error", id="problem", markup=False)
            problem.display = bool(self._problem)
            yield problem
            yield TextField(text, soft_wrap=True, tab_behavior="focus", id="arguments")

    def action_leave(self) -> None:
        """Keep what was typed, and go back."""
        self._drafts[self.question_id] = self.query_one(TextArea).text
        self.dismiss(None)

    def action_send(self) -> None:
        """Take the arguments once the editor has the keys that came before."""
        self.query_one(TextArea).call_later(self._send)

    def _send(self) -> None:
        """Take the arguments, if they are a JSON object."""
        text = self._drafts[self.question_id] = self.query_one(TextArea).text
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._show_problem(f"Not valid JSON: {error}.")
            return
        if not isinstance(arguments, dict):
            self._show_problem("The arguments must be a JSON object: {…}.")
            return
        self.dismiss(arguments)

    def _show_problem(self, text: str) -> None:
        problem = self.query_one("#problem", Static)
        problem.display = True
        problem.update(Text(text))


def format_arguments(arguments: dict[str, Any]) -> str:
    """Arguments as JSON for an editor; control and invisible characters as escapes."""
    return HIDDEN.sub(
        lambda found: found[0] if found[0] == "\n" else escape_json(found),
        json.dumps(arguments, ensure_ascii=False, indent=2),
    )


class ClarificationForm(AnswerDialog[list[str | None]]):
    """The agent's questions, a field for each. What was typed is kept in `drafts`."""

    CSS = (
        DIALOG_CSS.format(name="ClarificationForm")
        + "ClarificationForm VerticalScroll { height: auto; max-height: 100%; }"
        + "ClarificationForm .question { height: auto; margin-top: 1; }"
    )
    BINDINGS = [
        Binding("ctrl+s,f10", "send", "Send", priority=True),
        Binding("enter", "next", "Next", show=False, priority=True),
        Binding("down,tab", "app.focus_next", "Next", show=False, priority=True),
        Binding("up,shift+tab", "app.focus_previous", "Previous", show=False, priority=True),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
    ]

    def __init__(self, question: ClarificationQuestion, drafts: dict[str, list[str]]) -> None:
        super().__init__(question.question_id)
        self._question = question
        self._drafts = drafts

    def compose(self) -> ComposeResult:
        """Each question with its choices and a field."""
        typed = self._drafts.get(self.question_id, [])
        with Vertical() as box:
            box.border_title = Text("The agent asks")
            box.border_subtitle = "Enter next · Ctrl+S sends all · Esc back"
            with VerticalScroll(can_focus=False):
                if self._question.context:
                    yield Static(Text(clean(visible(self._question.context)), "bold"))
                for number, one in enumerate(self._question.questions):
                    first, *choices, _prompt = question_lines(one)
                    text = Text(f"{number + 1}. {clean(visible(first))}")
                    for choice in choices:
                        text.append(f"\n {clean(visible(choice))}", "dim")
                    yield Static(text, classes="question")
                    default = one.get("default")
                    hint = f"empty: {one_line(str(default), 60)}" if default else "empty: no answer"
                    if choices:
                        hint = f"number or text, {hint}"
                    value = typed[number] if number < len(typed) else ""
                    yield LineField(value, placeholder=hint, id=f"answer{number}", select_on_focus=False)

    def on_mount(self) -> None:
        """Begin with the first question."""
        self.query(Input).first().focus(scroll_visible=False)

    def on_descendant_focus(self) -> None:
        """Show the question of the field that has the focus."""
        self.call_after_refresh(self._show_field)

    def on_resize(self) -> None:
        """Keep the field that has the focus in view."""
        self.call_after_refresh(self._show_field)

    def _show_field(self) -> None:
        """Scroll to the field that has the focus, with as much of its question above it as there is room for."""
        field, view = self.focused, self.query_one(VerticalScroll)
        if field is None or not field.is_attached:
            return
        question = view.children[view.children.index(field) - 1]
        top, height = round(view.scroll_y), view.size.height
        first, end = question.virtual_region.y, field.virtual_region.bottom
        view.scroll_to(y=max(end - height, min(top, first)), animate=False)

    def action_page(self, by: int) -> None:
        """Scroll the questions by a page."""
        view = self.query_one(VerticalScroll)
        view.scroll_relative(y=by * max(1, view.size.height - 1), animate=False)

    def action_next(self) -> None:
        """Go to the next question at once, as keys may follow in the same moment; after the last one send the answers."""
        if self.focused is self.query(Input).last():
            self.action_send()
        else:
            self.focus_next()

    def action_leave(self) -> None:
        """Keep what was typed, and go back."""
        self._drafts[self.question_id] = [field.value for field in self.query(Input)]
        self.dismiss(None)

    def action_send(self) -> None:
        """Send the answers once each field has the keys that came before."""
        self._send_after(list(self.query(Input)))

    def _send_after(self, fields: list[Input]) -> None:
        if fields:
            fields[0].call_later(self._send_after, fields[1:])
        else:
            self._send()

    def _send(self) -> None:
        self._drafts.pop(self.question_id, None)
        replies = [
            parse_reply(one, field.value)
            for one, field in zip(self._question.questions, self.query(Input), strict=True)
        ]
        self.dismiss(replies)
