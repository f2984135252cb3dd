"""One prompt at work in this process: session, signals, events, and the report at the end."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from jaato.agent.session import Session
from jaato.cli.kin import Kin
from jaato.cli.options import blueprint_of, clean_text, workspace_of
from jaato.cli.screen import Screen
from jaato.cli.signals import Interrupts, interruptible
from jaato.cli.telling import Telling
from jaato.errors import CancelledException
from jaato.protocol.events import Event
from jaato.protocol.messages import Media
from jaato.runtime.assemble import assemble
from jaato.runtime.choose import Choice
from jaato.runtime.namesakes import namesakes


class Work:
    """A run from its arguments to its exit code."""

    def __init__(self, args: Namespace, screen: Screen, prompt: str, telling: Telling) -> None:
        self.args = args
        self.screen = screen
        self.prompt = prompt
        self.telling = telling

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
            schema=self.telling.schema,
        )
        session, close = await assemble(blueprint)
        try:
            state = session.state
            restore(self.telling.kin, session)
            self.telling.outcome.open(state.session_id, state.agent_id, state.provider, state.model)
            interrupts.stop = self.telling.stop = session.stop
            leave = self._attend(session)
            session.journal.bus.listen(self.telling)
            self._opening(session)
            name = clean_text(self.args.name)
            if name and name != session.state.name:
                rename(session, name)
            if name and (notice := namesakes(session.journal.store, state.session_id, session.state.name)):
                self.screen.note(notice, "yellow")
            try:
                data = await self._converse(session)
            finally:
                leave()
                await self._stop_tasks(session)
        finally:
            interrupts.stop = self.telling.stop = lambda: None
            await close()
        return self.telling.report(data, interrupted=interrupts.count > 0)

    # --- before ---

    def _chosen(self, choice: Choice, model: str) -> None:
        self.telling.chosen(choice.name, model, choice.reason)

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

        return attend_terminal(session, self.screen, self.telling.kin)

    def _opening(self, session: Session) -> None:
        """What happened to the session before this run's prompt: shown, and in the stream of events."""
        for event in session.journal.store.read(session.state.session_id, session.journal.loaded_seq):
            if isinstance(event, Event):
                self.telling(event)
        if self.args.workspace and session.workspace != workspace_of(self.args):
            self.screen.note(f"this session works in {session.workspace}", "yellow")
        for damaged in session.journal.damaged:
            self.screen.note(f"event {damaged.seq} of this session is damaged: {damaged.reason}", "yellow")

    # --- during ---

    async def _converse(self, session: Session) -> Any:
        """The turn, and with a schema more of them until the answer fits. Gives the value the answer is."""
        from jaato.runtime.message import attach

        media: list[Media] = [attach(session, Path(image)) for image in self.args.image]
        text: str | None = self.prompt
        self.telling.outcome.began = True
        data: Any = None
        while text is not None:
            await session.post(text, media)
            while self.telling.outcome.turns[-1].reason == "stop" and await self._all_done(session):
                await session.run_queued()
            data, text = self.telling.fitting()
            media = []
        return data

    async def _all_done(self, session: Session) -> bool:
        """Wait for subagents that still work, which end with the session; whether the agent has something to hear of
        them."""
        await session.supervisor.all_done()
        heard = any(message.source == "child" for message in session.inbox.messages)
        return heard and not (self.telling.gone or self.interrupts.count)

    async def _stop_tasks(self, session: Session) -> None:
        self.telling.running_tasks()
        for task in session.tasks.running():
            task.cancel()


def restore(kin: Kin, session: Session) -> None:
    """The subagents a stored session has had."""
    for member in session.journal.family.members.values():
        if member.created is not None:
            kin(member.created)


def rename(session: Session, name: str) -> None:
    """Give a resumed session another name."""
    from jaato.protocol.events import SessionUpdated

    session.journal.record(SessionUpdated(**session.journal.head(), name=name))
