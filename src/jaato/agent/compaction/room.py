"""Before a model call a strategy is asked whether to make room; what it leaves out becomes part of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult
from jaato.agent.compaction.answers import asked, cut, name_of, parted, remark, summarising, told, verdict
from jaato.agent.compaction.history import settled
from jaato.agent.compaction.note import note_of
from jaato.agent.compaction.words import ASKED_S, Answer, Spent, answer_to
from jaato.agent.state import chars_of
from jaato.agent.usage import CHARS_PER_TOKEN
from jaato.errors import PluginError
from jaato.log import logger
from jaato.protocol.events import GcCompleted, Placed
from jaato.protocol.messages import Message

if TYPE_CHECKING:
    from jaato.agent.session import Session

LOG = logger("gc")
ASKING_S, COLLECTING_S = 5.0, 300.0
"""How long a strategy may take to say whether, and to collect."""
PATIENCE_TOKENS = 2_000
"""How much the context grows before a strategy that freed nothing is tried again; more in a large context."""
LEAST_FREED = 0.05
"""A collection that frees less than this part counts as one that freed nothing when it comes to the next."""


@dataclass(frozen=True, slots=True)
class Work:
    """One collection: why, what of the conversation it is about, and what the model was paid for it."""

    reason: str
    before: list[Message]
    remark: str | None = None
    spent: Spent | None = None


@dataclass(eq=False, slots=True)
class Compaction:
    """A strategy at work in one session. One that fails or hangs is left out from then on, and the log says why."""

    strategy: GCPlugin
    config: GCConfig
    asking_s: float = ASKING_S
    collecting_s: float = COLLECTING_S
    model_s: float = ASKED_S
    _quiet_below: int = 0
    _over: bool = False
    _spent: Spent | None = None

    async def before_call(self, session: Session) -> Spent | None:
        """Make room if the strategy says so; costs the same however long the conversation is. Gives what was paid for
        the words of a model."""
        if self._over or not self.config.auto_trigger:
            return None
        if session.context().total_tokens < self._quiet_below:
            return None
        usage = usage_of(session)
        try:
            wanted, reason = await self._ask(
                session, lambda: verdict(self.strategy.should_collect(usage, self.config))
            )
        except PluginError as error:
            self._give_up(session, Work("", []), str(error))
            return None
        self._spent = None
        if wanted:
            await self.collect(session, reason)
        return self._spent

    async def collect(self, session: Session, reason: str) -> bool:
        """Let the strategy collect now; whether that freed anything. What comes of it is recorded."""
        state = session.state
        work = Work(reason, [message for message in state.messages if message.id != state.gc_note])
        usage = usage_of(session)
        copies = msgspec.json.decode(msgspec.json.encode(work.before), type=list[Message])
        try:
            answer = await self._answer(session, copies, usage)
            if answer is not None:
                self._spent = answer.spent
                said = f"The model gave no summary: {answer.problem}" if answer.text is None else None
                work = Work(reason, work.before, said, answer.spent)
            after, result = await self._ask(
                session,
                lambda: self._collected(work.before, copies, usage, reason, answer),
                self.collecting_s,
            )
        except PluginError as error:
            self._give_up(session, work, str(error))
            return False
        if result.error or not result.success:
            problem = remark(result.error) or "without a reason"
            self._quiet(session, work, f"{name_of(self.strategy)} failed: {problem}")
            return False
        return self._record(session, work, after, result)

    async def _answer(self, session: Session, copies: list[Message], usage: dict[str, Any]) -> Answer | None:
        """What the model says to the strategy's question; None where it has none."""
        strategy = self.strategy
        if not summarising(strategy):
            return None
        question = await self._ask(session, lambda: asked(strategy.question(copies, usage, self.config)))
        return None if question is None else await answer_to(question, session, self.model_s)

    def _collected(
        self,
        before: list[Message],
        copies: list[Message],
        usage: dict[str, Any],
        reason: str,
        answer: Answer | None,
    ) -> tuple[list[Message], GCResult]:
        """What remains, made whole, and what the strategy says of it."""
        strategy = self.strategy
        if answer is not None and answer.text is not None and summarising(strategy):
            given = strategy.collect_with(answer.text, copies, usage, self.config, reason)
        else:
            given = strategy.collect(copies, usage, self.config, reason)
        proposed, result = parted(given)
        return settled(before, proposed), result

    def _record(self, session: Session, work: Work, after: list[Message], result: GCResult) -> bool:
        state, journal, before = session.state, session.journal, work.before
        note = note_of(session, len(before) - len(after))
        left = [note, *after]
        old = sum(map(chars_of, state.messages))
        new = sum(map(chars_of, left))
        if new >= old:
            self._quiet(session, work, f"{name_of(self.strategy)} freed nothing")
            return False
        total = session.context().total_tokens
        same = {id(message) for message in after} & {id(message) for message in before}
        journal.record(
            GcCompleted(
                **journal.head(),
                strategy=name_of(self.strategy),
                reason=work.reason,
                tokens_before=total,
                tokens_after=max(0, total - (old - new) // CHARS_PER_TOKEN),
                dropped=[message.id for message in state.messages if id(message) not in same],
                added=placed_before(left, same),
                note=note.id,
                notification=work.remark or remark(result.notification),
                **paid(work),
            )
        )
        self._quiet_below = 0 if old - new > LEAST_FREED * old else self._patient(session)
        return True

    def _patient(self, session: Session) -> int:
        context = session.context()
        return context.total_tokens + max(PATIENCE_TOKENS, (context.context_limit or 0) // 20)

    def _quiet(self, session: Session, work: Work, problem: str) -> None:
        """Say that nothing was freed, and do not ask again before the context has grown."""
        self._quiet_below = self._patient(session)
        self._tell(session, work, problem)

    def _give_up(self, session: Session, work: Work, problem: str) -> None:
        self._over = True
        name = name_of(self.strategy)
        LOG.warning("The GC strategy %s is left out: %s", name, problem)
        self._tell(session, work, f"{name} is left out from now on: {problem}")

    def _tell(self, session: Session, work: Work, problem: str) -> None:
        journal, total = session.journal, session.context().total_tokens
        event = GcCompleted(
            **journal.head(),
            strategy=name_of(self.strategy),
            reason=work.reason,
            tokens_before=total,
            tokens_after=total,
            problem=cut(problem),
            notification=work.remark,
            **paid(work),
        )
        journal.record(event)

    async def _ask(self, session: Session, work: Callable[[], Any], seconds: float | None = None) -> Any:
        """What the strategy gives, from a thread of its own. Raises `PluginError` for whatever it raises, and for
        silence."""

        def attempt() -> Any:
            try:
                return work(), None
            except PluginError as error:
                return None, str(error)
            except BaseException as error:  # noqa: BLE001 a stranger's code; its thread is not ours to end
                return None, told(error)

        patience = self.asking_s if seconds is None else seconds
        with anyio.move_on_after(patience):
            value, problem = await session.steps.workers.run(attempt)
            if problem is None:
                return value
            raise PluginError(problem)
        raise PluginError(f"it has not answered for {patience:g} seconds")


def paid(work: Work) -> dict[str, Any]:
    """What the model's words cost, as fields of the event."""
    return {} if work.spent is None else {"usage": work.spent.usage, "cost_usd": work.spent.cost_usd}


def usage_of(session: Session) -> dict[str, Any]:
    """How full the context is, as a strategy reads it."""
    context = session.context()
    limit = context.context_limit
    return {
        "model": session.state.model,
        "context_limit": limit,
        "total_tokens": context.total_tokens,
        "percent_used": context.percent_used if context.percent_used is not None else 0.0,
        "tokens_remaining": None if limit is None else max(0, limit - context.total_tokens),
        "turns": session.state.turns,
    }


def placed_before(left: list[Message], same: set[int]) -> list[Placed]:
    """The new messages, each with the id of the old one it stands before."""
    added: list[Placed] = []
    before = ""
    for message in reversed(left):
        if id(message) in same:
            before = message.id
        else:
            added.append(Placed(message, before))
    return added[::-1]
