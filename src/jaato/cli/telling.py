"""What a run shows of its session, wherever that works: fed by events alone, from the first to the exit code."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from jaato.cli.ending import ERROR, INTERRUPTED, mute, say
from jaato.cli.kin import Kin
from jaato.cli.narrate import Narrator, closing_line
from jaato.cli.outcome import Outcome
from jaato.cli.run import ending_of
from jaato.cli.screen import Screen
from jaato.errors import JaatoError, MalformedReply
from jaato.protocol.events import BackgroundUpdated, Event, SessionInfo

SCHEMA_TRIES = 3
ENDED_EARLY = {
    "refusal": "The model refused to go on.",
    "length": "The answer was cut at its longest length.",
}


class Telling:
    """Listens to the session of a run: tells it, and knows in the end what came of it.

    `stop` is called when nobody reads the answer any more.
    """

    def __init__(self, args: Namespace, screen: Screen, schema: dict[str, Any] | None) -> None:
        self.args = args
        self.screen = screen
        self.schema = schema
        self.outcome = Outcome()
        self.kin = Kin()
        quiet = args.output != "text" or schema is not None
        self.narrator = Narrator(screen, verbose=args.verbose, quiet_text=quiet, kin=self.kin)
        self.stop: Callable[[], object] = lambda: None
        self.gone = False
        """Whether the reader of stdout has left."""
        self._validator: Any = None
        if schema is not None:
            from jaato.tools.schema import Validator

            self._validator = Validator(schema)
        self._tries = 0

    def chosen(self, provider: str, model: str, reason: str) -> None:
        """Say which model answers, and why."""
        self.screen.note(f"{provider} {model} ({reason})", "dim")

    def __call__(self, event: Event) -> None:
        """Tell one event."""
        if isinstance(event, SessionInfo):
            return
        self.outcome(event)
        if self.args.output == "events":
            self._event_line(event)
        try:
            self.narrator(event)
        except BrokenPipeError:
            self._reader_gone()

    def _event_line(self, event: Event) -> None:
        from jaato.protocol.codec import encode

        if self.gone:
            return
        try:
            sys.stdout.write(encode(event).decode() + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            self._reader_gone()

    def _reader_gone(self) -> None:
        """Nobody reads the answer any more: stop the work, keep what was done."""
        if self.gone:
            return
        self.gone = True
        mute()
        say("The reader of the output has gone; the turn was stopped and its history is kept.")
        self.stop()

    def running_tasks(self) -> list[BackgroundUpdated]:
        """The background tasks that still run, each said to be stopped now."""
        for task in self.outcome.tasks.values():
            self.screen.note(
                f"background task {task.task_id} ({task.tool}) still runs and is stopped now", "yellow"
            )
        return list(self.outcome.tasks.values())

    # --- the answer that was asked for ---

    def fitting(self) -> tuple[Any, str | None]:
        """After a turn: the value the answer is, or what to say to the model that has not given one.

        Raises `MalformedReply` when it was told often enough.
        """
        if self._validator is None or self.outcome.turns[-1].reason != "stop":
            return None, None
        value, problem = self._parsed()
        if problem is None:
            return value, None
        self._tries += 1
        if self._tries >= SCHEMA_TRIES:
            raise MalformedReply(f"After {SCHEMA_TRIES} tries the answer does not fit the schema: {problem}")
        self.screen.note(f"the answer does not fit the schema ({problem}); asking again", "yellow")
        return None, f"That was not the JSON asked for: {problem}. Give only the JSON."

    def _parsed(self) -> tuple[Any, str | None]:
        from jaato.runtime.result import parse

        try:
            value = parse(self.outcome.text, Any)
        except ValueError as error:
            return None, f"it is not JSON: {error}"
        issues = self._validator.issues(value)
        return value, "; ".join(f"{path or '/'} {text}" for path, text in issues[:5]) or None

    # --- the end ---

    def report(self, data: Any, *, interrupted: bool) -> int:
        """Print what is left to print, and the closing line; gives the exit code."""
        turn = self.outcome.turns[-1]
        problem: JaatoError | None = None
        code = ERROR
        try:
            code = ending_of(turn, denied_last=self.narrator.denied_last)
        except JaatoError as error:
            problem, code = error, error.exit_code
        if self.gone:
            code = ERROR
        elif interrupted:
            code = INTERRUPTED
        try:
            self._print(data, code, problem)
        except BrokenPipeError:
            self._reader_gone()
            code = ERROR
        if problem is not None:
            say(str(problem))
        elif code == INTERRUPTED:
            say("Interrupted; what was done is kept.")
        elif turn.reason in ENDED_EARLY:
            say(ENDED_EARLY[turn.reason])
        self.screen.note(closing_line(self.outcome.turns, self.outcome.session_id, self.outcome.below), "dim")
        return code

    def _print(self, data: Any, code: int, problem: JaatoError | None) -> None:
        if self.args.output == "json":
            from jaato.cli.report import document_of, print_json

            print_json(document_of(self.outcome, self.narrator.denied, data, code, problem))
        elif (
            self.schema is not None and self.args.output == "text" and self.outcome.turns[-1].reason == "stop"
        ):
            self.screen.text(json.dumps(data, ensure_ascii=False, indent=2) + "\n")
        self.screen.end_text()
