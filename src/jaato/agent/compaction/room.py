"""Before a model call a strategy is asked whether to make room; what it leaves out becomes part of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult
from jaato.agent.compaction.history import settled
from jaato.agent.state import chars_of
from jaato.agent.usage import CHARS_PER_TOKEN
from jaato.errors import PluginError
from jaato.log import logger
from jaato.protocol.events import GcCompleted, Placed
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Text

if TYPE_CHECKING:
    from jaato.agent.session import Session

LOG = logger("gc")
ASKING_S, COLLECTING_S = 5.0, 300.0
"""How long a strategy may take to say whether, and to collect, which may need a model."""
PATIENCE_TOKENS = 2_000
"""How much the context grows before a strategy that freed nothing is tried again; more in a large context."""
MAX_NOTE_CHARS, MAX_SAID_CHARS = 4_000, 500
SIGNS = {"completed": "x", "in_progress": ">", "failed": "!", "skipped": "-", "pending": " "}


@dataclass(eq=False, slots=True)
class Compaction:
    """A strategy at work in one session. One that fails or hangs is left out from then on, and the log says why."""

    strategy: GCPlugin
    config: GCConfig
    asking_s: float = ASKING_S
    collecting_s: float = COLLECTING_S
    _quiet_below: int = 0
    _over: bool = False

    async def before_call(self, session: Session) -> None:
        """Make room if the strategy says so; costs the same however long the conversation is."""
        if self._over or not self.config.auto_trigger:
            return
        if session.context().total_tokens < self._quiet_below:
            return
        usage = usage_of(session)
        try:
            wanted, reason = verdict(
                await self._ask(session, lambda: self.strategy.should_collect(usage, self.config))
            )
        except PluginError as error:
            self._give_up(session, "", str(error))
            return
        if wanted:
            await self.collect(session, reason)

    async def collect(self, session: Session, reason: str) -> bool:
        """Let the strategy collect now; whether that freed anything. What comes of it is recorded."""
        state = session.state
        before = [message for message in state.messages if message.id != state.gc_note]
        usage = usage_of(session)
        copies = msgspec.json.decode(msgspec.json.encode(before), type=list[Message])
        try:
            given = await self._ask(
                session,
                lambda: self.strategy.collect(copies, usage, self.config, reason),
                self.collecting_s,
            )
            proposed, result = parted(given)
            after = settled(before, proposed)
        except PluginError as error:
            self._give_up(session, reason, str(error))
            return False
        if result.error or not result.success:
            self._quiet(session, reason, f"{self.strategy.name} failed: {result.error or 'without a reason'}")
            return False
        return self._record(session, reason, before, after, result)

    def _record(
        self, session: Session, reason: str, before: list[Message], after: list[Message], result: GCResult
    ) -> bool:
        state, journal = session.state, session.journal
        note = note_of(session, len(before) - len(after))
        left = [note, *after]
        old = sum(map(chars_of, state.messages))
        new = sum(map(chars_of, left))
        if new >= old:
            self._quiet(session, reason, f"{self.strategy.name} freed nothing")
            return False
        total = session.context().total_tokens
        same = {id(message) for message in after} & {id(message) for message in before}
        journal.record(
            GcCompleted(
                **journal.head(),
                strategy=self.strategy.name,
                reason=reason,
                tokens_before=total,
                tokens_after=max(0, total - (old - new) // CHARS_PER_TOKEN),
                dropped=[message.id for message in state.messages if id(message) not in same],
                added=placed_before(left, same),
                note=note.id,
                notification=cut(result.notification) if result.notification else None,
            )
        )
        self._quiet_below = 0
        return True

    def _quiet(self, session: Session, reason: str, problem: str) -> None:
        """Say that nothing was freed, and do not ask again before the context has grown."""
        context = session.context()
        grown = max(PATIENCE_TOKENS, (context.context_limit or 0) // 20)
        self._quiet_below = context.total_tokens + grown
        self._tell(session, reason, problem)

    def _give_up(self, session: Session, reason: str, problem: str) -> None:
        self._over = True
        LOG.warning("The GC strategy %s is left out: %s", name_of(self.strategy), problem)
        self._tell(session, reason, f"{name_of(self.strategy)} is left out from now on: {problem}")

    def _tell(self, session: Session, reason: str, problem: str) -> None:
        journal, total = session.journal, session.context().total_tokens
        event = GcCompleted(
            **journal.head(),
            strategy=name_of(self.strategy),
            reason=reason,
            tokens_before=total,
            tokens_after=total,
            problem=cut(problem),
        )
        journal.record(event)

    async def _ask(self, session: Session, work: Callable[[], Any], seconds: float | None = None) -> Any:
        """What the strategy gives, from a thread of its own. Raises `PluginError` for whatever it raises, and for
        silence."""

        def attempt() -> Any:
            try:
                return work(), None
            except BaseException as error:  # noqa: BLE001 a stranger's code; its thread is not ours to end
                return None, error

        patience = self.asking_s if seconds is None else seconds
        with anyio.move_on_after(patience):
            value, error = await session.steps.workers.run(attempt)
            if error is None:
                return value
            raise PluginError(f"{type(error).__name__}: {error}") from None
        raise PluginError(f"it has not answered for {patience:g} seconds")


def name_of(strategy: object) -> str:
    """The strategy's name, as far as it has one."""
    name = getattr(strategy, "name", None)
    return name[:64] if isinstance(name, str) and name else type(strategy).__name__


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


def verdict(given: object) -> tuple[bool, str]:
    """What `should_collect` said. Raises `PluginError` for anything but (bool, reason)."""
    match given:
        case (bool() as wanted, str() | None as reason):
            return wanted, cut(reason or "")
    raise PluginError(f"should_collect() gives (bool, reason), not {given!r:.100}")


def parted(given: object) -> tuple[object, GCResult]:
    """What `collect` gave. Raises `PluginError` for anything but (history, GCResult)."""
    match given:
        case (proposed, GCResult() as result):
            return proposed, result
    raise PluginError(f"collect() gives (history, GCResult), not {given!r:.100}")


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


def note_of(session: Session, gone: int) -> Message:
    """What the model must still know: that something is missing, its open plan, the tasks that run."""
    lines = [f"[system] {gone} earlier messages were left out to make room."]
    plan = session.state.plan
    if plan is not None and plan.status in ("draft", "active"):
        lines.append(f"Your open plan {plan.id}: {plan.title}")
        lines += [f"[{SIGNS[step.status]}] {step.id}: {step.description}" for step in plan.steps]
    lines += [
        f"Background task {task.task_id} ({task.tool}) still runs."
        for task in session.state.tasks.values()
        if task.status == "running"
    ]
    return Message("user", [Text(cut("\n".join(lines), MAX_NOTE_CHARS))], id=new_id("m"), source="system")


def cut(text: str, limit: int = MAX_SAID_CHARS) -> str:
    """The text, cut where it is long."""
    from jaato.tools.call import clean

    return clean(text if len(text) <= limit else text[: limit - 1] + "…")
