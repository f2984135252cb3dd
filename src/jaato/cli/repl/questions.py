"""Ask the user at the terminal: permission requests, clarification questions, and confirmations."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from jaato.abc.asker import Answer
from jaato.cli.output.answers import other_answer_text
from jaato.cli.output.console import Console, Look, one_line, visible
from jaato.cli.output.printer import SubagentNames
from jaato.cli.output.wording import Line, indent_argument
from jaato.cli.repl.editor import NO_INPUT, PASTE, LineReader, get_typed_text
from jaato.errors import InvalidArguments, JaatoError
from jaato.protocol.commands import ClarificationResponse, Command, PermissionResponse
from jaato.protocol.events import (
    ClarificationQuestion,
    ClarificationResolved,
    Event,
    PermissionRequested,
    PermissionResolved,
)
from jaato.tools.permissions.access import access_lines

if TYPE_CHECKING:
    from jaato.agent.session import Session

WORDS = {"yes": "y", "no": "n", "always": "a", "turn": "t", "idle": "i", "edit": "e", "view": "v"}
IN_PREVIEW = {"content", "new_content", "old", "new", "prologue", "epilogue", "edits", "patch"}
"""Arguments that the diff of a call shows."""
DIFF_LOOKS: dict[str, Look] = {"+": "green", "-": "red", "@": "cyan"}
EDIT_PROMPT = "arguments as JSON (empty: cancel): "
PLAIN = {"y", "n", "a", "t", "i", "once", "never", "all"}
KEYS = "y yes · n no · a always · t this turn · i until idle · once · never · all pending · e edit · v view · c TEXT · ? help"
CALL_KEYS = "y yes · n no · never · e edit · v view · c TEXT · ? help"
HELP = """y      allow this call                 n      deny this call
a      always allow calls like this    never  always deny calls like this
t      allow them for this turn        i      allow them until the agent is idle
once   allow this call, as y does      all    allow all pending requests
e      edit the arguments first        c TEXT deny, with a comment for the agent
v      view the whole call first"""


class Responder(Protocol):
    """Receives answers: a session, or its server."""

    def respond(self, question_id: str, answer: Answer | list[str | None], /) -> object:
        """Answer a pending question."""
        ...


class Questions:
    """Asks the pending questions of a session, one at a time. Receives its events.

    `take` uses a line as the answer to `current`; `on_question` is called when a question arrives.
    """

    def __init__(self, responder: Responder, console: Console, names: SubagentNames | None = None) -> None:
        self._responder = responder
        self._console = console
        self._names = SubagentNames() if names is None else names
        self._pending: list[PermissionRequested | ClarificationQuestion] = []
        self._replies: list[str | None] = []
        self._editing = False
        self._prompt = ""
        """The prompt of the current question."""
        self._answered: set[str] = set()
        """The ids of the questions that were answered here."""
        self.on_question: Callable[[], object] = lambda: None

    @property
    def current(self) -> PermissionRequested | ClarificationQuestion | None:
        """The question that the next line answers."""
        return self._pending[0] if self._pending else None

    def __call__(self, event: Event) -> None:
        """Add or remove the question of an event."""
        match event:
            case PermissionRequested() | ClarificationQuestion():
                self._pending.append(event)
                self.on_question()
                if len(self._pending) == 1:
                    self._show()
            case PermissionResolved() | ClarificationResolved():
                first = self.current
                if event.question_id not in self._answered and event.by and first is not None:
                    self._console.note("")
                    self._console.note(other_answer_text(event), "yellow")
                self._answered.discard(event.question_id)
                self._pending = [one for one in self._pending if one.question_id != event.question_id]
                if first is not None and self._has_changed(first):
                    self._show()
                elif self.current is None:
                    self._console.end_prompt()

    def _has_changed(self, before: Event | None) -> bool:
        """Reset the reply if another question is current now; whether there is one to show."""
        if before is self.current:
            return False
        self._replies, self._editing = [], False
        return self.current is not None

    def restore(self, questions: list[PermissionRequested | ClarificationQuestion]) -> None:
        """Set the questions that are pending now, after a (re)connection; others were answered meanwhile."""
        pending = {question.question_id for question in questions}
        first = self.current
        self._pending = [one for one in self._pending if one.question_id in pending]
        known = {one.question_id for one in self._pending}
        self._pending += [question for question in questions if question.question_id not in known]
        if self._has_changed(first):
            self.on_question()
            self._show()

    def _answer(self, question_id: str, answer: Answer | list[str | None]) -> None:
        self._answered.add(question_id)
        try:
            self._responder.respond(question_id, answer)
        except JaatoError as error:
            self.refuse(question_id, error)

    def refuse(self, question_id: str, error: JaatoError) -> None:
        """Show why an answer was not taken, and ask again: for the arguments that were edited, or the whole question."""
        self._answered.discard(question_id)
        self._console.note(str(error), "red")
        question = self.current
        if question is None or question.question_id != question_id:
            return
        self._editing = isinstance(error, InvalidArguments)
        if self._editing:
            self._ask(EDIT_PROMPT)
        else:
            self._show()

    def _show(self) -> None:
        match self.current:
            case PermissionRequested() as question:
                self._show_call(question)
            case ClarificationQuestion() as question:
                if not self._replies and (question.context or self._prefix(question)):
                    self._console.note(f"{self._prefix(question)}{question.context}", "bold")
                if not self._replies and question.deadline:
                    self._console.note(f"defaults are used from {local_time(question.deadline)}", "dim")
                *lines, prompt = question_lines(question.questions[len(self._replies)])
                for number, line in enumerate(lines):
                    self._console.note(line, "" if number else "yellow")
                self._ask(prompt)

    def _ask(self, prompt: str) -> None:
        self._prompt = prompt
        self._console.prompt(prompt, stays=True)

    def redraw(self) -> None:
        """Show the prompt of the current question again, below other text."""
        if self.current is None:
            self._console.end_prompt()
        elif not self._console.in_text:
            subject = self._prompt
            if isinstance(self.current, PermissionRequested) and not self._editing:
                subject = f"{self._prefix(self.current)}May {self.current.tool} run? {self._prompt}"
            self._console.prompt(subject, stays=True)

    def _prefix(self, question: Event) -> str:
        """The prefix of a subagent's question; empty for the root agent."""
        name = self._names.name_of(question.agent_id)
        return f"[{name}] " if name else ""

    def _show_call(self, question: PermissionRequested) -> None:
        note = self._console.note
        note(f"{self._prefix(question)}May {question.tool} run?", "yellow")
        for line, look in [*argument_lines(question), *preview_lines(question), *condition_lines(question)]:
            note(line, look)
        note(KEYS if question.shape else CALL_KEYS, "dim")
        self._ask("allow? ")

    def _show_whole(self, question: PermissionRequested) -> None:
        """Show every argument of a call, and what 'always' would cover, unabridged, and ask again."""
        for name, value in question.arguments.items():
            self._console.note(indent_argument(name, value, whole=True))
        if question.shape:
            self._console.note(indent_argument("'always' would cover", question.shape, whole=True), "dim")
        self._ask(f"{self._prefix(question)}May {question.tool} run? allow? ")

    def take_line(self, reader: LineReader, line: str, begun: str = "") -> str:
        """Use a line as the answer, and return what is none: pasted lines, and a line that was `begun` before the question.
        Keys that are no characters are ignored."""
        lines = [get_typed_text(one) for one in reader.read_pasted(line)]
        if begun or len(lines) > 1 or PASTE in line:
            self._console.end_prompt()
            return "\n".join([begun + lines[0].strip(NO_INPUT), *(one.strip(NO_INPUT) for one in lines[1:])])
        if lines[0] == NO_INPUT:
            self._console.end_prompt()
            self.redraw()
        else:
            self.take(lines[0])
        return ""

    def refuse_paste(self) -> None:
        """Say that what was pasted is no answer, where it cannot be a message."""
        self._console.note("Pasted text is no answer; type it.", "yellow")
        self.redraw()

    def take(self, line: str) -> None:
        """Use a line as the answer to the current question."""
        self._console.end_prompt()
        match self.current:
            case PermissionRequested() as question:
                parse = self._parse_arguments if self._editing else self._parse_answer
                answer = parse(question, line)
                if answer is not None:
                    self._answer(question.question_id, answer)
            case ClarificationQuestion() as question:
                self._replies.append(parse_reply(question.questions[len(self._replies)], line))
                if len(self._replies) < len(question.questions):
                    self._show()
                else:
                    replies, self._replies = self._replies, []
                    self._answer(question.question_id, replies)

    def _parse_answer(self, question: PermissionRequested, line: str) -> Answer | None:
        word, _, rest = line.strip().partition(" ")
        word = WORDS.get(word.lower(), word.lower())
        if word in PLAIN and not rest:
            return Answer(answer=word, by="terminal")
        if word in ("c", "comment") and rest.strip():
            return Answer(answer="c", comment=rest.strip(), by="terminal")
        if word == "v" and not rest:
            self._show_whole(question)
            return None
        if word == "e" and not rest:
            self._editing = True
            self._console.note(json.dumps(question.arguments, ensure_ascii=False))
            self._ask(EDIT_PROMPT)
            return None
        if word not in ("", "?", "help", "/help"):
            self._console.note(f"{one_line(line, 60)!r} is no answer:", "yellow")
        self._console.note(HELP)
        self._ask("allow? ")
        return None

    def _parse_arguments(self, question: PermissionRequested, line: str) -> Answer | None:
        self._editing = False
        if not line.strip():
            self._show()
            return None
        try:
            arguments = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._console.note(f"Not valid JSON: {error}.", "red")
            arguments = None
        if isinstance(arguments, dict):
            return Answer(answer="e", arguments=arguments, by="terminal")
        if arguments is not None:
            self._console.note("The arguments must be a JSON object: {…}.", "red")
        self._editing = True
        self._ask(EDIT_PROMPT)
        return None

    def end(self) -> None:
        """Answer every pending question with no, as the input has ended."""
        self._console.end_prompt()
        for question in list(self._pending):
            match question:
                case PermissionRequested():
                    self._answer(
                        question.question_id, Answer(answer="n", comment="the input ended", by="terminal")
                    )
                case ClarificationQuestion():
                    self._answer(question.question_id, [None] * len(question.questions))


def argument_lines(question: PermissionRequested) -> Iterator[Line]:
    """The lines of a call's arguments, except those that its diff shows."""
    for name, value in question.arguments.items():
        if not question.preview or name not in IN_PREVIEW:
            yield indent_argument(name, value), ""


def preview_lines(question: PermissionRequested) -> Iterator[Line]:
    """The lines of the diff of what a call would change."""
    for line in visible(question.preview).splitlines():
        yield f"  {line}", diff_look(line)


def condition_lines(question: PermissionRequested) -> Iterator[Line]:
    """The lines that say what a yes opens, why the question is asked, what `always` covers, and when it ends."""
    if question.access is not None:
        look: Look = "red" if question.access.profile == "full" else "yellow"
        yield "  yes allows:", "yellow"
        for line in access_lines(question.access):
            yield f"    {line}", look
    yield f"  because {visible(question.reason)}", "dim"
    if question.shape:
        shapes = question.shape.replace("\n", "; ")
        yield f"  'always' would cover: {one_line(shapes, 300)}", "dim"
    else:
        yield "  the answer applies to this call only", "dim"
    if question.deadline:
        yield f"  denied at {local_time(question.deadline)} without an answer", "dim"


def diff_look(line: str) -> Look:
    """The colour of a line of a unified diff."""
    return DIFF_LOOKS.get(line[:1], "") if not line.startswith(("+++", "---")) else "bold"


def local_time(timestamp: str) -> str:
    """The local time of an ISO 8601 timestamp."""
    return datetime.fromisoformat(timestamp).astimezone().strftime("%H:%M:%S")


def question_lines(question: dict[str, Any]) -> list[str]:
    """The lines that ask a question: its text, its choices, and the prompt for the answer."""
    default, choices = question.get("default"), question.get("choices") or []
    hint = "number or text, " if choices else ""
    return [
        str(question.get("question", "")),
        *(f"  {number}. {choice}" for number, choice in enumerate(choices, 1)),
        f"answer ({hint}empty: {default or 'no answer'}): ",
    ]


def parse_reply(question: dict[str, Any], line: str) -> str | None:
    """The answer that a line gives: the choice of a number, the default when empty, else its text."""
    text = line.strip()
    choices = question.get("choices") or []
    if text.isdigit() and 1 <= int(text) <= len(choices):
        return str(choices[int(text) - 1])
    if not text:
        default = question.get("default")
        return str(default) if default else None
    return text


def answer_command(session_id: str, question_id: str, answer: Answer | list[str | None]) -> Command:
    """The command that answers a question."""
    if isinstance(answer, Answer):
        return PermissionResponse(
            session_id=session_id,
            question_id=question_id,
            answer=answer.answer,
            arguments=answer.arguments,
            comment=answer.comment,
        )
    return ClarificationResponse(session_id=session_id, question_id=question_id, answers=answer)


def attend_terminal(session: Session, console: Console) -> Callable[[], None]:
    """Answer a session's questions from this terminal, for a command that reads nothing else; returns the function that
    stops it."""
    import asyncio

    questions = Questions(session.questions, console)
    arrived = asyncio.Event()
    questions.on_question = arrived.set
    leave = session.questions.add_responder()
    unsubscribe = session.journal.bus.listen(questions)
    reader = LineReader()

    async def answer() -> None:
        while True:
            await arrived.wait()
            reader.discard()
            while questions.current is not None:
                line = await reader.read()
                if line is None:
                    stop_listening()
                    questions.end()
                    return
                if questions.current is None:
                    break  # it was resolved meanwhile
                if questions.take_line(reader, line):
                    questions.refuse_paste()
            arrived.clear()

    def stop_listening() -> None:
        unsubscribe()
        leave()

    task = asyncio.ensure_future(answer())

    def stop() -> None:
        task.cancel()
        stop_listening()

    return stop


async def confirm(console: Console, text: str) -> bool:
    """Whether the user confirms."""
    reader = LineReader()
    reader.discard()
    console.prompt(f"{text} [y/N] ")
    line = await reader.read()
    return line is not None and is_yes(line)


def confirm_now(question: str) -> bool | None:
    """Whether the user confirms, for a command without an event loop; None without a terminal."""
    if not sys.stdin.isatty():
        return None
    sys.stdout.flush()
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return is_yes(sys.stdin.buffer.readline().decode("utf-8", "replace"))


def is_yes(line: str) -> bool:
    """Whether a line is a yes."""
    return line.strip().lower() in ("y", "yes")
