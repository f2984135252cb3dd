"""A session: one agent's conversation, its log, and what it may use."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from jaato.abc.provider import ModelRequest, Provider
from jaato.agent.calls import SessionSteps
from jaato.agent.compaction.room import Compaction
from jaato.agent.compose import NOBODY, Author, Composer, Enrich, said, urgency
from jaato.agent.crew import Crew, Recruiter
from jaato.agent.crew_desk import CrewDesk
from jaato.agent.declared import Declared
from jaato.agent.dispatch import carry_out
from jaato.agent.group import Group
from jaato.agent.journal import Journal
from jaato.agent.plans import Plans
from jaato.agent.questions import Desk
from jaato.agent.recovery import make_good, recover
from jaato.agent.reply import ReplyStream
from jaato.agent.retry import RetryPolicy
from jaato.agent.state import State, own_call
from jaato.agent.suspension import begin
from jaato.agent.turn import Limits
from jaato.agent.usage import Context, context_of, price_of
from jaato.agent.waypoints import Waypoints
from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.protocol.commands import Command
from jaato.protocol.events import Event, MidTurnQueued, ToolsStatus, TurnCompleted
from jaato.protocol.messages import Media, Message, Source, Usage
from jaato.protocol.specs import ModelInfo, ModelSettings
from jaato.tools.background import Tasks
from jaato.tools.call import Call
from jaato.tools.catalog import Catalog
from jaato.tools.ledger import TokenLedger
from jaato.tools.permissions import Gate
from jaato.tools.tool import Tool

CLOSING_S = 10.0
"""How long a closing session waits for tools that do not heed their cancellation."""
CLOSED = "The session is closed; open it again to go on."
LOG = logger("session")


@dataclass(eq=False)
class Session:
    """One agent at work. Enter it (`async with`) before use; everything here happens on the loop.

    `post` gives it a message: alone it opens a turn and returns how that ended; while a turn runs it waits in the
    inbox for the next pause and returns None.
    """

    journal: Journal
    provider: Provider
    catalog: Catalog
    gate: Gate
    desk: Desk
    settings: ModelSettings = ModelSettings()
    limits: Limits = Limits()
    retry: RetryPolicy = RetryPolicy()
    ledger: TokenLedger = field(default_factory=TokenLedger)
    parallel: int = 8
    deferred: bool = True
    core: tuple[str, ...] | None = None
    """The tools declared from the start; None: those that say so themselves."""
    enrich: Enrich | None = None
    enrich_result: Callable[[Call, Any], Awaitable[Any]] | None = None
    execute: Callable[[Session, str, str], Awaitable[str | None]] | None = None
    """Runs a user command by its name on the rest of the line; gives its output, None when there is no such command."""
    services: dict[str, Any] = field(default_factory=dict)
    recruiter: Recruiter | None = None
    """Makes the sessions of subagents; None: it can have none."""
    member_of: Crew | None = None
    """Whose agent a subagent is; None: this is the root of its log."""
    compaction: Compaction | None = None
    """Makes room when the context is full; None: nobody does."""
    resumable: bool = False
    """Whether a turn that was cut off stays open, to be gone on with (see `suspension`); else it is closed."""
    crew: Crew = field(init=False)
    reply: ReplyStream = field(init=False)
    steps: SessionSteps = field(init=False)
    tasks: Tasks = field(init=False, default_factory=Tasks)
    scope: anyio.CancelScope | None = field(init=False, default=None)
    encoded: dict[Any, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.reply = ReplyStream(self.journal, self.retry)
        self._declared = Declared(self.journal, self.catalog, deferred=self.deferred, core=self.core)
        self._info: ModelInfo | None = None
        self._inbox: list[Message] = sorted(self.state.queued.values(), key=urgency)
        self._group = Group()
        self._composer = Composer(self.enrich, self.services)
        self._busy = self._closed = self._making_room = False
        self._idle = anyio.Event()
        self.crew = self.member_of or Crew(self)
        self.services |= {
            "session": self,
            "plans": Plans(self.journal),
            "waypoints": self.crew.root.services.get("waypoints") or Waypoints(self.journal),
            "clarify": functools.partial(self.desk.clarify, agent_id=self.state.agent_id),
            "background": self,
            "crew": CrewDesk(self.crew),
        }

    @property
    def state(self) -> State:
        """The fold of the log."""
        return self.journal.state

    @functools.cached_property
    def workspace(self) -> Path:
        """The directory the tools work in."""
        return Path(self.state.workspace)

    @property
    def inbox(self) -> list[Message]:
        """Messages that wait for the next pause, the most important first."""
        return self._inbox

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._busy

    async def __aenter__(self) -> Session:
        self.steps = SessionSteps(self, self.parallel)
        self._declared.restore()
        recover(self)
        if self.member_of is None:
            await self.crew.restore()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the turn and the background tasks, wait until they have ended, and take no message any more."""
        self._closed = True
        self._composer.stop()
        self.stop()
        if self.member_of is None:
            await self.crew.close()
        ours = own_call(self.state, of_a_subagent=self.member_of is not None)
        if not ours:  # else a call of ours would wait for itself
            with anyio.move_on_after(CLOSING_S, shield=True) as patience:
                if self._busy:
                    await self._idle.wait()
                await self._group.close()
            if patience.cancelled_caught:
                LOG.warning("A tool of session %s does not heed its cancellation", self.state.session_id)
        self.steps.close()
        if self.member_of is None:
            unfinished = self.resumable and self.journal.family.unfinished
            self.journal.store.release(self.state.session_id, unfinished=unfinished)

    # --- messages ----------------------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """Whether the turn that runs was told to stop."""
        return self._busy and self.reply.stopped

    async def post(
        self,
        text: str,
        attachments: Sequence[Media] = (),
        source: Source = "user",
        by: Author = NOBODY,
        later: bool = False,
    ) -> TurnCompleted | None:
        """Say something to the agent; see the class. `by` is whose it is; `later`, it is for `heed`."""
        if self._closed:
            raise JaatoError(CLOSED)
        message, stopped = await self._composer.message(text, attachments, source, by)
        if self._closed:
            raise JaatoError(CLOSED)
        while self._busy or later:
            if later or (not self.stopping and not self._making_room):
                self._queue(message)
                return None
            await self._idle.wait()  # what is said after a stop is not for that turn, and `compact` is none
        return await self.occupied(lambda: begin(self, message), stopped)

    async def heed(self) -> TurnCompleted | None:
        """Open a turn with what waits in the inbox; None when nothing does, or a turn runs."""
        may = self._inbox and not (self._busy or self._closed)
        return await self.occupied(lambda: begin(self, self._inbox[0])) if may else None

    async def occupied(
        self, work: Callable[[], Awaitable[TurnCompleted]], stopped: bool = False
    ) -> TurnCompleted:
        """Do the work of a turn while nothing else begins."""
        make_good(self)
        self._busy, self._idle, self.reply.stopped = True, anyio.Event(), stopped
        try:
            return await work()
        finally:
            self._busy = self.reply.stopped = False
            self._idle.set()
            self.gate.go_idle()

    def _queue(self, message: Message, *before: Event) -> None:
        self.journal.record(*before, MidTurnQueued(**self.journal.head(), message=message))
        self._inbox.append(message)
        self._inbox.sort(key=urgency)

    def notice(self, text: str, source: Source = "system", *before: Event, by: Author = NOBODY) -> None:
        """Tell the model something at the next pause; nobody is woken for it. Events that are given share its commit."""
        self._queue(said(text, "", (), source, by), *before)

    def heard(self, message: Message) -> None:
        """This message has joined the conversation and waits no longer."""
        self._inbox = [waiting for waiting in self._inbox if waiting is not message]

    def stop(self) -> None:
        """Stop the turn that runs or is about to, and all subagents, at once; the model is not asked."""
        self.crew.stop_below(self.state.agent_id)
        if self._busy:
            self.reply.stopped = True
        else:
            self._composer.stop()
        if self.scope is not None:
            self.scope.cancel()

    async def dispatch(self, command: Command) -> Any:
        """Carry out what a client asks; raises `JaatoError` when it cannot be."""
        return await carry_out(self, command)

    # --- tools -------------------------------------------------------------------------------------------------

    def is_active(self, tool: Tool) -> bool:
        """Whether the model may call it."""
        return tool.name in self._declared

    def activate(self, names: Sequence[str]) -> list[str]:
        """Declare discoverable tools to the model from now on; gives those that were not active."""
        return self._declared.activate(names)

    def disable(self, names: Sequence[str], disabled: bool = True) -> None:
        """Switch tools off, or on again."""
        known = {found.tool.name for name in names if (found := self.catalog.find(name)) is not None}
        now_off = self.state.disabled | known if disabled else self.state.disabled - known
        self.journal.record(ToolsStatus(**self.journal.head(), disabled=sorted(now_off)))

    async def background(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run something that outlives the turn, not the session."""
        await self._group.start(body)

    # --- the model ---------------------------------------------------------------------------------------------

    def request(self) -> ModelRequest:
        """What the model is sent now; nothing here depends on the length of the history."""
        state = self.state
        return ModelRequest(
            model=state.model,
            messages=state.messages,
            system=state.system_prompt,
            tools=self._declared.specs,
            settings=self.settings,
            conversation_id=state.session_id if self.member_of is None else state.agent_id,
            read_blob=functools.partial(self.journal.store.get_blob, state.session_id),
            encoded=self.encoded,
        )

    def model_info(self) -> ModelInfo:
        """What is known of the model in use."""
        known = self._info
        if known is None or known.id != self.state.model or known.context_limit is None:
            known = self._info = self.provider.model_info(self.state.model)
        return known

    def price(self, usage: Usage | None) -> float | None:
        """What this many tokens cost in US dollars; None when unknown."""
        return price_of(usage, self.model_info())

    async def compact(self, reason: str = "asked to") -> bool:
        """Make room now, between turns; whether anything was freed. Raises `ConfigError` without a strategy."""
        if self.compaction is None:
            raise ConfigError("No strategy makes room here; name one with set_gc_plugin() or the setting gc.")
        if self._closed:
            raise JaatoError(CLOSED)
        if self._busy:
            raise JaatoError("The agent is at work; make room when its turn is over.")
        self._busy, self._idle, self._making_room = True, anyio.Event(), True
        try:
            with anyio.CancelScope() as self.scope:
                return await self.compaction.collect(self, reason)
            return False
        finally:
            self.scope = None
            self._busy = self._making_room = self.reply.stopped = False
            self._idle.set()

    def context(self) -> Context:
        """How full the context is, by the provider's last count and the text since, else estimated from the text."""
        return context_of(self.state, self.model_info().context_limit)
