"""One prompt at work: session, signals, events, and the report at the end."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from jaato.agent.session import Session
from jaato.cli.ending import ERROR, INTERRUPTED, mute, say
from jaato.cli.narrate import Narrator, closing_line
from jaato.cli.options import blueprint_of, clean_text, workspace_of
from jaato.cli.report import document_of, print_json
from jaato.cli.run import ending_of
from jaato.cli.screen import Screen
from jaato.cli.signals import Interrupts, interruptible
from jaato.errors import CancelledException, JaatoError, MalformedReply
from jaato.protocol.events import Event, TurnCompleted
from jaato.protocol.messages import Media
from jaato.runtime.assemble import assemble
from jaato.runtime.choose import Choice
from jaato.tools.schema import Validator

SCHEMA_TRIES = 3


class Work:
    """A run from its arguments to its exit code. `turns` are those it took: more than one only with a schema."""

    def __init__(
        self,
        args: Namespace,
        screen: Screen,
        prompt: str,
        schema: dict[str, Any] | None,
        validator: Validator | None,
    ) -> None:
        self.args = args
        self.screen = screen
        self.prompt = prompt
        self.schema = schema
        self.validator = validator
        self.turns: list[TurnCompleted] = []
        self.below: list[TurnCompleted] = []
        """The turns of subagents."""
        self.narrator = Narrator(
            screen, verbose=args.verbose, quiet_text=args.output != "text" or schema is not None
        )
        self.session: Session | None = None
        self.gone = False
        """Whether the reader of stdout has left."""

    async def run(self) -> int:
        """Everything between start and exit code."""
        with interruptible() as interrupts:
            self.interrupts = interrupts
            try:
                return await self._run(interrupts)
            except asyncio.CancelledError:
                raise CancelledException("Interrupted.") from None

    async def _run(self, interrupts: Interrupts) -> int:
        blueprint = blueprint_of(
            self.args,
            chosen=self._chosen,
            progress=self.screen.progress,
            confirm=self._confirm(),
            schema=self.schema,
        )
        session, close = await assemble(blueprint)
        self.session = session
        self.narrator.family = session.journal.family
        try:
            interrupts.stop = session.stop
            leave = self._attend(session)
            session.journal.bus.listen(self._listen)
            self._opening(session)
            name = clean_text(self.args.name)
            if name and name != session.state.name:
                rename(session, name)
            try:
                data = await self._converse(session)
            finally:
                leave()
                await self._stop_tasks(session)
        finally:
            interrupts.stop = lambda: None
            await close()
        return self._report(session, data, interrupted=interrupts.count > 0)

    # --- before ---

    def _chosen(self, choice: Choice, model: str) -> None:
        self.screen.note(f"{choice.name} {model} ({choice.reason})", "dim")

    def _confirm(self) -> Any:
        if not self._asks():
            return None
        from jaato.cli.asking import confirm

        return lambda text: confirm(self.screen, text)

    def _asks(self) -> bool:
        """Whether somebody at a terminal can be asked."""
        return sys.stdin.isatty() and self.screen.err_is_terminal

    def _attend(self, session: Session) -> Any:
        if not self._asks():
            return lambda: None
        from jaato.cli.asking import attend_terminal

        return attend_terminal(session, self.screen)

    def _opening(self, session: Session) -> None:
        """What happened to the session before this run's prompt: shown, and in the stream of events."""
        for event in session.journal.store.read(session.state.session_id, session.journal.loaded_seq):
            if isinstance(event, Event):
                self._listen(event)
        if self.args.workspace and session.workspace != workspace_of(self.args):
            self.screen.note(f"this session works in {session.workspace}", "yellow")
        for damaged in session.journal.damaged:
            self.screen.note(f"event {damaged.seq} of this session is damaged: {damaged.reason}", "yellow")

    # --- during ---

    def _listen(self, event: Event) -> None:
        if self.args.output == "events":
            self._event_line(event)
        if (
            isinstance(event, TurnCompleted)
            and self.session
            and event.agent_id != self.session.state.agent_id
        ):
            self.below.append(event)
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
        if self.session is not None:
            self.session.stop()

    async def _converse(self, session: Session) -> Any:
        """The turn, and with a schema more of them until the answer fits. Gives the value the answer is."""
        from jaato.runtime.message import attach

        media: list[Media] = [attach(session, Path(image)) for image in self.args.image]
        text = self.prompt
        for attempt in range(1, SCHEMA_TRIES + 1):
            turn = await session.post(text, media)
            assert turn is not None
            self.turns.append(turn)
            while turn.reason == "stop" and await self._all_done(session):
                turn = await session.heed()
                assert turn is not None
                self.turns.append(turn)
            if self.validator is None or turn.reason != "stop":
                return None
            value, problem = self._parsed(session)
            if problem is None:
                return value
            if attempt < SCHEMA_TRIES:
                self.screen.note(f"the answer does not fit the schema ({problem}); asking again", "yellow")
            text, media = f"That was not the JSON asked for: {problem}. Give only the JSON.", []
        raise MalformedReply(f"After {SCHEMA_TRIES} tries the answer does not fit the schema: {problem}")

    async def _all_done(self, session: Session) -> bool:
        """Wait for subagents that still work, which end with the session; whether the agent has something to hear of
        them."""
        await session.crew.all_done()
        heard = any(message.source == "child" for message in session.inbox)
        return heard and not (self.gone or self.interrupts.count)

    def _parsed(self, session: Session) -> tuple[Any, str | None]:
        from jaato.runtime.result import last_text, parse

        assert self.validator is not None
        try:
            value = parse(last_text(session), Any)
        except ValueError as error:
            return None, f"it is not JSON: {error}"
        issues = self.validator.issues(value)
        return value, "; ".join(f"{path or '/'} {text}" for path, text in issues[:5]) or None

    async def _stop_tasks(self, session: Session) -> None:
        for task in session.tasks.running():
            self.screen.note(
                f"background task {task.id} ({task.tool}) still runs and is stopped now", "yellow"
            )
            task.cancel()

    # --- after ---

    def _report(self, session: Session, data: Any, *, interrupted: bool) -> int:
        """Print what is left to print, and the closing line; gives the exit code or raises what went wrong."""
        turn = self.turns[-1]
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
            if self.args.output == "json":
                print_json(
                    document_of(session, self.turns, self.below, self.narrator.denied, data, code, problem)
                )
            elif self.schema is not None and self.args.output == "text" and turn.reason == "stop":
                self.screen.text(json.dumps(data, ensure_ascii=False, indent=2) + "\n")
            self.screen.end_text()
        except BrokenPipeError:
            self._reader_gone()
            code = ERROR
        if problem is not None:
            say(str(problem))
        elif code == INTERRUPTED:
            say("Interrupted; what was done is kept.")
        elif turn.reason in ("refusal", "length"):
            say(
                {
                    "refusal": "The model refused to go on.",
                    "length": "The answer was cut at its longest length.",
                }[turn.reason]
            )
        self.screen.note(closing_line(self.turns, session.state.session_id, self.below), "dim")
        return code


def rename(session: Session, name: str) -> None:
    """Give a resumed session another name."""
    from jaato.protocol.events import SessionUpdated

    session.journal.record(SessionUpdated(**session.journal.head(), name=name))
