"""Session: one agent's conversation, its journal, and the parts that run its turns."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct, field

from jaato.abc.provider import Provider
from jaato.agent.active_tools import ActiveTools
from jaato.agent.background_tasks import BackgroundGroup
from jaato.agent.compaction.engine import CompactionEngine
from jaato.agent.compaction.setup import CompactionContext, CompactionSetup
from jaato.agent.compaction.window import ContextLimits
from jaato.agent.inbox import NO_AUTHOR, Author, Enrich, Inbox
from jaato.agent.journal import Journal
from jaato.agent.limits.repetition_guard import RepetitionGuard
from jaato.agent.limits.spending import Budget
from jaato.agent.model import ModelClient, ProviderOpener
from jaato.agent.questions import Questions
from jaato.agent.recovery import Recovery, RecoveryContext
from jaato.agent.retry import RetryPolicy
from jaato.agent.services import Pins, Plans, Waypoints
from jaato.agent.state import State, is_own_call
from jaato.agent.subagents.service import SubagentService
from jaato.agent.subagents.supervisor import SubagentFactory, Supervisor
from jaato.agent.tool_runner import MAX_CALLS_AT_ONCE, ToolContext, ToolRunner
from jaato.agent.turn import Limits, TurnBody, TurnContext, TurnRunner
from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.protocol.events import ToolsStatus, TurnCompleted
from jaato.protocol.messages import Media, Message, Source
from jaato.protocol.specs import ModelSettings
from jaato.tools.call import Call
from jaato.tools.catalog import Catalog
from jaato.tools.ledger import TokenLedger
from jaato.tools.permissions.gate import Gate
from jaato.tools.task_records import TaskRecords

if TYPE_CHECKING:
    from jaato.agent.limits.budget_account import BudgetAccount

CLOSING_S = 10.0
"""How long a closing session waits for tools that ignore their cancellation."""
CLOSED = "The session is closed; open it again to go on."
LOG = logger("session")


class SessionParts(Struct, frozen=True, kw_only=True):
    """The parts of one agent's session. A subagent's parts are those of its parent, restricted."""

    journal: Journal
    provider: Provider | ProviderOpener
    catalog: Catalog
    gate: Gate
    questions: Questions
    settings: ModelSettings = ModelSettings()
    limits: Limits = Limits()
    budget: Budget = Budget()
    """What the session may use; the account is the root's, for all its agents."""
    loop_detection: bool = True
    """Whether repeated steps are pointed out to the model, then to the user."""
    retry: RetryPolicy = RetryPolicy()
    ledger: TokenLedger = field(default_factory=TokenLedger)
    compaction: CompactionSetup | None = None
    """Compacts the context when it is full; None: no compaction."""
    context_limits: ContextLimits = ContextLimits()
    """The limits of models' contexts that the user has set."""
    instructions: Callable[[], Sequence[tuple[str, str]]] = tuple
    """Gives what each plugin has put into the system prompt, by its name."""
    max_parallel_calls: int = MAX_CALLS_AT_ONCE
    deferred_tools: bool = True
    core_tools: tuple[str, ...] | None = None
    """The tools declared from the start; None: those marked `core`."""
    enrich: Enrich | None = None
    enrich_result: Callable[[Call, Any], Awaitable[Any]] | None = None
    run_command: Callable[[Any, str, str], Awaitable[str | None]] | None = None
    """Runs a user command in a session, by its name on the rest of the line; None: there is no such command."""
    services: dict[str, Any] = field(default_factory=dict)
    """Further services that calls can look up in the session."""
    keep_interrupted_turns: bool = False
    """Whether an interrupted turn stays open to be resumed; else it is closed."""


class Session:
    """One agent's session, created and used on the event loop. Enter it (`async with`) before use.

    `post` sends it a message: it starts a turn and returns how that ended; while a turn runs, the message is queued in
    the inbox for the next model call and None is returned.
    """

    def __init__(
        self,
        parts: SessionParts,
        subagents: SubagentFactory | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        """`subagents` makes those of a root session; a subagent's own session is given the `supervisor` of its root."""
        self.parts = parts
        self.is_subagent = supervisor is not None
        journal = self.journal = parts.journal
        self.catalog, self.gate, self.questions = parts.catalog, parts.gate, parts.questions
        self.workspace = Path(journal.state.workspace)
        self._closed = False
        self.services = {**parts.services}
        self.group, self.tasks = BackgroundGroup(), TaskRecords()
        self.inbox = Inbox(journal, parts.enrich, self.services)
        self.active_tools = ActiveTools(
            journal, parts.catalog, deferred=parts.deferred_tools, core=parts.core_tools
        )
        self.budget = self._budget_account(supervisor)
        self.model = ModelClient(
            journal,
            parts.provider,
            self.active_tools,
            settings=parts.settings,
            retry=parts.retry,
            ledger=parts.ledger,
            budget=self.budget,
            limits=parts.context_limits,
            instructions=parts.instructions,
            of_subagent=self.is_subagent,
        )
        self.tools = self._tool_runner()
        self.compaction = self._compaction_engine(supervisor)
        self.recovery = Recovery(
            RecoveryContext(
                journal=journal,
                catalog=parts.catalog,
                questions=parts.questions,
                inbox=self.inbox,
                tasks=self.tasks,
                background=self.tools.background,
                keep_interrupted_turns=parts.keep_interrupted_turns,
            )
        )
        self.supervisor = supervisor or Supervisor(
            self, subagents, self.group, keep_interrupted_turns=parts.keep_interrupted_turns
        )
        self.turns = self._turn_runner()
        self.services |= {
            "session": self,
            "plans": Plans(journal),
            "pins": Pins(journal, self.inbox, self.model),
            "clarify": functools.partial(self.questions.clarify, agent_id=self.state.agent_id),
            "background": self,
            "subagents": SubagentService(self.supervisor),
        }
        self.services.setdefault("waypoints", Waypoints(journal))

    def _budget_account(self, supervisor: Supervisor | None) -> BudgetAccount | None:
        if supervisor is not None:
            return supervisor.root.budget
        budget = self.parts.budget
        if not budget.limits and not budget.more:
            return None
        from jaato.agent.limits.budget_account import BudgetAccount

        account = BudgetAccount(self.journal, self.parts.questions, budget)
        return None if account.is_empty else account

    def _tool_runner(self) -> ToolRunner:
        parts = self.parts
        return ToolRunner(
            ToolContext(
                journal=self.journal,
                catalog=parts.catalog,
                active_tools=self.active_tools,
                gate=parts.gate,
                inbox=self.inbox,
                group=self.group,
                tasks=self.tasks,
                workspace=self.workspace,
                services=self.services,
                enrich_result=parts.enrich_result,
                max_parallel_calls=parts.max_parallel_calls,
            )
        )

    def _compaction_engine(self, supervisor: Supervisor | None) -> CompactionEngine:
        context = CompactionContext(
            journal=self.journal,
            model=self.model,
            threads=self.tools.threads,
            keep=self.tools.results.keep,
        )
        above = supervisor.root.compaction if supervisor is not None else None
        return CompactionEngine(context, self.parts.compaction, above)

    def _turn_runner(self) -> TurnRunner:
        return TurnRunner(
            TurnContext(
                journal=self.journal,
                model=self.model,
                tools=self.tools,
                inbox=self.inbox,
                gate=self.gate,
                questions=self.questions,
                compaction=self.compaction,
                recovery=self.recovery,
                repetition=RepetitionGuard(
                    self.journal, self.inbox, self.questions, enabled=self.parts.loop_detection
                ),
                limits=self.parts.limits,
                resume_subagents=self.supervisor.take_up,
                start=self.group.start,
            )
        )

    @property
    def state(self) -> State:
        """The fold of the log."""
        return self.journal.state

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs."""
        return self.turns.is_busy

    async def __aenter__(self) -> Session:
        self.active_tools.restore()
        self.recovery.run()
        if not self.is_subagent:
            await self.supervisor.restore()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the turn and the background tasks and wait until they have ended; no message is accepted any more."""
        self._closed = True
        self.inbox.stop_enriching()
        self.stop()
        if not self.is_subagent:
            await self.supervisor.close()
        ours = is_own_call(self.state, of_a_subagent=self.is_subagent)
        if not ours:  # else a call of ours would wait for itself
            with anyio.move_on_after(CLOSING_S, shield=True) as scope:
                await self.turns.wait_idle()
                await self.group.close()
            if scope.cancelled_caught:
                LOG.warning("A tool of session %s does not heed its cancellation", self.state.session_id)
        self.tools.close()
        if not self.is_subagent:
            unfinished = self.parts.keep_interrupted_turns and self.journal.session_state.is_unfinished
            self.journal.store.release(self.state.session_id, unfinished=unfinished)

    # --- messages ----------------------------------------------------------------------------------------------

    async def post(
        self,
        text: str,
        attachments: Sequence[Media] = (),
        source: Source = "user",
        author: Author = NO_AUTHOR,
        *,
        queue: bool = False,
    ) -> TurnCompleted | None:
        """Send a message to the agent; see the class. With `queue` it waits for `run_queued`."""
        self._check_open()
        message, stopped = await self.inbox.compose(text, attachments, source, author)
        self._check_open()
        turns = self.turns
        while turns.is_busy or queue:
            if queue or not (turns.is_stopping or turns.is_compacting):
                self.inbox.queue(message)
                return None
            await turns.wait_idle()  # a message after a stop is not for that turn, and `compact` is no turn
        return await turns.occupy(lambda: self._begin_turn(message), stopped=stopped)

    async def run_queued(self) -> TurnCompleted | None:
        """Start a turn with the queued messages; None when there are none, or a turn runs."""
        if not self.inbox.messages or self.is_busy or self._closed:
            return None
        return await self.turns.occupy(lambda: self._begin_turn(self.inbox.messages[0]))

    async def run_turn(self, message: Message, body: TurnBody) -> TurnCompleted:
        """Run a turn with another body than the loop of model and tool calls."""
        return await self.turns.occupy(lambda: self.turns.run(message, body))

    def notify(self, text: str, source: Source = "system", author: Author = NO_AUTHOR) -> None:
        """Queue a message for the model without starting a turn."""
        self.inbox.notify(text, source, author=author)

    def stop(self) -> None:
        """Stop the running or starting turn and all subagents at once."""
        self.supervisor.stop_below(self.state.agent_id)
        if not self.is_busy:
            self.inbox.stop_enriching()
        self.turns.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise JaatoError(CLOSED)

    # --- a turn that was cut off -----------------------------------------------------------------------------------

    @property
    def is_interrupted(self) -> bool:
        """Whether its turn, or the task of a subagent, is interrupted and can be resumed."""
        return not self.is_busy and (self.state.open_turn is not None or bool(self.supervisor.suspended))

    async def resume(self, *, ask_outcomes: bool = False) -> TurnCompleted | None:
        """Resume what was interrupted; returns how the turn ended, None where only subagents were working. With
        `ask_outcomes` the user is asked about interrupted calls. Raises `ConfigError` when nothing is interrupted."""
        if not self.is_interrupted:
            raise ConfigError("No turn was cut off here; say something to begin one.")
        if ask_outcomes:
            self.recovery.ask_outcomes()  # the store failed, not the process
        else:
            self.recovery.close_interrupted_calls()
            self.questions.leave_open()
        if self.state.open_turn is None:
            await self.supervisor.take_up()
            return None

        async def work() -> TurnCompleted:
            await self.supervisor.take_up()
            return await self.turns.resume()

        return await self.turns.occupy(work)

    async def resume_task(self) -> TurnCompleted | None:
        """Resume the task of a subagent: its open turn, or the messages in its inbox."""
        if self.state.open_turn is not None:
            return await self.turns.occupy(self.turns.resume)
        return await self.run_queued()

    async def _begin_turn(self, message: Message) -> TurnCompleted:
        """Start a turn. An interrupted one is closed with its subagents' tasks; other subagents are resumed."""
        supervisor = self.supervisor
        if self.state.open_turn is not None or supervisor.subagents:
            if not self.is_subagent:
                for child in reversed(supervisor.awaited_by_root()):
                    supervisor.forsake(child, "interrupted", "The turn it worked for was given up.")
            if self.state.open_turn is not None:
                self.close_turn()  # or the store failed in it
            if not self.is_subagent:
                await supervisor.take_up()
        return await self.turns.run(message)

    def close_turn(self) -> None:
        """Close an interrupted turn. Raises `StoreError`."""
        self.recovery.close_turn()

    def abandon(self) -> None:
        """Close everything that is interrupted. Raises `StoreError`."""
        for child in reversed(self.supervisor.suspended):
            self.supervisor.forsake(child, "cancelled", "It was stopped.")
        if self.state.open_turn is not None:
            self.close_turn()

    def suspend(self) -> None:
        """Stop writing the log, as if the process had died now; the running turn can then be resumed."""
        try:
            self.journal.flush()
        except JaatoError:
            pass  # as if the process had died before
        self.journal.freeze()

    # --- the rest ------------------------------------------------------------------------------------------------

    def disable(self, names: Sequence[str], disabled: bool = True) -> None:
        """Switch tools off, or on again."""
        known = {found.tool.name for name in names if (found := self.catalog.find(name)) is not None}
        now_off = self.state.disabled | known if disabled else self.state.disabled - known
        self.journal.record(ToolsStatus(**self.journal.head(), disabled=sorted(now_off)))

    def activate(self, names: Sequence[str]) -> list[str]:
        """Declare discoverable tools to the model from now on; returns those that were not active."""
        return self.active_tools.activate(names)

    async def background(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run something that outlives the turn, not the session."""
        await self.group.start(body)

    async def run_command(self, name: str, arguments: str = "") -> str:
        """The output of a user command. Raises `ConfigError` when there is no such command."""
        run = self.parts.run_command
        output = await run(self, name, arguments) if run else None
        if output is None:
            raise ConfigError(f"There is no command /{name}.")
        return output

    async def compact(self, reason: str = "asked to", words: str = "") -> bool:
        """Compact the context, during a turn before its next call to the model; whether anything was freed. `words` say what
        the summary is to keep. Raises `ConfigError` without a strategy."""
        self._check_compactable()
        if self.is_busy and is_own_call(self.state, of_a_subagent=False):
            raise JaatoError(
                "A call cannot wait for the compaction that comes after it; use request_compaction."
            )
        return await self.turns.compact(reason, words)

    def request_compaction(self, reason: str = "asked to", words: str = "") -> None:
        """Have the running turn compact the context before its next call to the model, or when it ends; stopping the turn
        drops this. Raises `ConfigError` without a strategy."""
        self._check_compactable()
        self.turns.request_compaction(reason, words)

    def _check_compactable(self) -> None:
        self._check_open()
        self.compaction.require_setup()
