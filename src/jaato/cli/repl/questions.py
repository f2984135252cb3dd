"""Questions to the person at the terminal: may this call run, and what the model wants to know."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from jaato.abc.asker import Answer
from jaato.cli.output.printer import Kin
from jaato.cli.output.renderers import indented
from jaato.cli.output.terminal import Look, Screen, one_line, visible
from jaato.cli.repl.terminal_input import Lines
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

WORDS = {"yes": "y", "no": "n", "always": "a", "turn": "t", "idle": "i", "edit": "e"}
PLAIN = {"y", "n", "a", "t", "i", "once", "never", "all"}
KEYS = "y this call · n no · a for good · t this turn · i until idle · once · never · all that wait · e edit · c TEXT · ? help"
CALL_KEYS = "y this call · n no · never · e edit · c TEXT · ? help"
HELP = """y      allow this call                 n      deny it
a      allow what is shown for good    never  never allow it again
t      allow it for this turn          i      allow it until the agent is idle
once   allow exactly this call, once   all    allow everything that waits now
e      edit the arguments first        c TEXT deny, and tell the agent why"""


class Responder(Protocol):
    """Who takes answers: the session itself, or the server it is at."""

    def respond(self, question_id: str, answer: Answer | list[str | None], /) -> object:
        """Answer a question, if it is still open."""
        ...


class Questions:
    """The open questions of a session, asked one at a time. Listens to its events.

    `take(line)` is what the user typed while `current` is open; `asked` is called when a question has come.
    """

    def __init__(self, responder: Responder, screen: Screen, kin: Kin | None = None) -> None:
        self._responder = responder
        self._screen = screen
        self._kin = Kin() if kin is None else kin
        self._waiting: list[PermissionRequested | ClarificationQuestion] = []
        self._replies: list[str | None] = []
        self._editing = False
        self._given: set[str] = set()
        """Questions that were answered here."""
        self.asked: Callable[[], object] = lambda: None

    @property
    def current(self) -> PermissionRequested | ClarificationQuestion | None:
        """The question the next line answers."""
        return self._waiting[0] if self._waiting else None

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        match event:
            case PermissionRequested() | ClarificationQuestion():
                self._waiting.append(event)
                self.asked()
                if len(self._waiting) == 1:
                    self._show()
            case PermissionResolved() | ClarificationResolved():
                first = self.current
                if event.question_id not in self._given and event.by and first is not None:
                    self._elsewhere(event)
                self._given.discard(event.question_id)
                self._waiting = [one for one in self._waiting if one.question_id != event.question_id]
                if first is not None and first is not self.current:
                    self._replies, self._editing = [], False
                    if self.current is not None:
                        self._show()

    def _elsewhere(self, event: PermissionResolved | ClarificationResolved) -> None:
        """Somebody else was faster."""
        said = event.answer if isinstance(event, PermissionResolved) else answers_text(event)
        self._screen.note("")
        self._screen.note(f"{one_line(event.by, 80)} has answered: {one_line(said, 300)}", "yellow")

    def restore(self, questions: list[PermissionRequested | ClarificationQuestion]) -> None:
        """What is open now, as a client that has just come is told: what is not among it was settled meanwhile."""
        open_now = {question.question_id for question in questions}
        first = self.current
        self._waiting = [one for one in self._waiting if one.question_id in open_now]
        known = {one.question_id for one in self._waiting}
        self._waiting += [question for question in questions if question.question_id not in known]
        if first is not self.current:
            self._replies, self._editing = [], False
            if self.current is not None:
                self.asked()
                self._show()

    def _answer(self, question_id: str, answer: Answer | list[str | None]) -> None:
        self._given.add(question_id)
        self._responder.respond(question_id, answer)

    def _show(self) -> None:
        match self.current:
            case PermissionRequested() as question:
                self._show_call(question)
            case ClarificationQuestion() as asked:
                if not self._replies and (asked.context or self._asker(asked)):
                    self._screen.note(f"{self._asker(asked)}{asked.context}", "bold")
                if not self._replies and asked.deadline:
                    self._screen.note(f"the defaults count from {clock_of(asked.deadline)}", "dim")
                self._show_question(asked.questions[len(self._replies)])

    def _asker(self, question: Event) -> str:
        """Which subagent asks, as it is put before the question; nothing for the agent itself."""
        name = self._kin.name_of(question.agent_id)
        return f"[{name}] " if name else ""

    def _show_call(self, question: PermissionRequested) -> None:
        note = self._screen.note
        note(f"{self._asker(question)}May {question.tool} run?", "yellow")
        for name, value in question.arguments.items():
            note(indented(name, value))
        if question.access is not None:
            look: Look = "red" if question.access.profile == "full" else "yellow"
            note("  a yes opens:", "yellow")
            for line in access_lines(question.access):
                note(f"    {line}", look)
        note(f"  because {visible(question.reason)}", "dim")
        if question.shape:
            shapes = question.shape.replace("\n", "; ")
            note(f"  'always' would cover: {one_line(shapes, 300)}", "dim")
        else:
            note("  whatever is answered counts for this call only", "dim")
        if question.deadline:
            note(f"  denied at {clock_of(question.deadline)} if nobody has answered", "dim")
        note(KEYS if question.shape else CALL_KEYS, "dim")
        self._screen.prompt("allow? ")

    def _show_question(self, question: dict[str, Any]) -> None:
        self._screen.note(str(question.get("question", "")), "yellow")
        for number, choice in enumerate(question.get("choices") or [], 1):
            self._screen.note(f"  {number}. {choice}")
        default = question.get("default")
        self._screen.prompt(f"answer [{default}]: " if default else "answer (empty: no answer): ")

    def take(self, line: str) -> None:
        """Use a line as the answer to the current question."""
        match self.current:
            case PermissionRequested() as question:
                answer = self._edited(question, line) if self._editing else self._permission(question, line)
                if answer is not None:
                    self._answer(question.question_id, answer)
            case ClarificationQuestion() as asked:
                self._replies.append(reply_to(asked.questions[len(self._replies)], line))
                if len(self._replies) < len(asked.questions):
                    self._show()
                else:
                    replies, self._replies = self._replies, []
                    self._answer(asked.question_id, replies)

    def _permission(self, question: PermissionRequested, line: str) -> Answer | None:
        word, _, rest = line.strip().partition(" ")
        word = WORDS.get(word.lower(), word.lower())
        if word in PLAIN and not rest:
            return Answer(answer=word, by="terminal")
        if word in ("c", "comment") and rest.strip():
            return Answer(answer="c", comment=rest.strip(), by="terminal")
        if word == "e" and not rest:
            self._editing = True
            self._screen.note(json.dumps(question.arguments, ensure_ascii=False))
            self._screen.prompt("arguments as JSON (empty: back): ")
            return None
        self._screen.note(HELP)
        self._screen.prompt("allow? ")
        return None

    def _edited(self, question: PermissionRequested, line: str) -> Answer | None:
        self._editing = False
        if not line.strip():
            self._show()
            return None
        try:
            arguments = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._screen.note(f"That is not JSON: {error}.", "red")
            arguments = None
        if isinstance(arguments, dict):
            return Answer(answer="e", arguments=arguments, by="terminal")
        if arguments is not None:
            self._screen.note("The arguments are a JSON object: {…}.", "red")
        self._editing = True
        self._screen.prompt("arguments as JSON (empty: back): ")
        return None

    def end(self) -> None:
        """Nobody will answer any more: every open question is answered no."""
        for question in list(self._waiting):
            match question:
                case PermissionRequested():
                    self._answer(
                        question.question_id, Answer(answer="n", comment="the input ended", by="terminal")
                    )
                case ClarificationQuestion():
                    self._answer(question.question_id, [None] * len(question.questions))


def clock_of(moment: str) -> str:
    """A moment as this machine's clock shows it."""
    return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")


def reply_to(question: dict[str, Any], line: str) -> str | None:
    """What a line means: the number of a choice, the default when empty, else its text."""
    text = line.strip()
    choices = question.get("choices") or []
    if text.isdigit() and 1 <= int(text) <= len(choices):
        return str(choices[int(text) - 1])
    if not text:
        default = question.get("default")
        return str(default) if default else None
    return text


def answers_text(event: ClarificationResolved) -> str:
    """What somebody has answered, on one line."""
    return "; ".join("(no answer)" if answer is None else answer for _, answer in event.qa_pairs)


def attend(session: Session, questions: Questions) -> Callable[[], None]:
    """Be there to answer a session of this process from now on; returns the function that leaves."""
    leave = session.questions.add_responder()
    silence = session.journal.bus.listen(questions)

    def stop() -> None:
        silence()
        leave()

    return stop


def attend_terminal(session: Session, screen: Screen, kin: Kin) -> Callable[[], None]:
    """Answer the session's questions from this terminal, for a command that reads nothing else."""
    import asyncio

    questions = Questions(session.questions, screen, kin)
    asked = asyncio.Event()
    questions.asked = asked.set
    leave = attend(session, questions)
    lines = Lines()

    async def answer() -> None:
        while True:
            await asked.wait()
            lines.forget()
            while questions.current is not None:
                line = await lines.read()
                if line is None:
                    leave()
                    questions.end()
                    return
                if questions.current is not None:
                    questions.take(line)
            asked.clear()

    task = asyncio.ensure_future(answer())

    def stop() -> None:
        task.cancel()
        leave()

    return stop


async def confirm(screen: Screen, text: str) -> bool:
    """Whether the person at the terminal says yes."""
    screen.prompt(f"{text} [y/N] ")
    line = await Lines().read()
    return line is not None and line.strip().lower() in ("y", "yes")
