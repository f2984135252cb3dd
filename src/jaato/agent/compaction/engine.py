"""Context compaction: asks a strategy before each model call, and records what it removes and adds in the log."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getattr_static
from typing import Any, TypeGuard

import anyio
import msgspec
from msgspec import Struct

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult, SummarizingGCPlugin
from jaato.agent.compaction.history import settle_history
from jaato.agent.compaction.summary import note_of, truncate
from jaato.agent.journal import Journal
from jaato.agent.model import CHARS_PER_TOKEN, ModelAnswer, ModelClient, ModelCost, context_fields
from jaato.agent.state import chars_of
from jaato.agent.tool_threads import ToolThreads
from jaato.errors import ConfigError, PluginError
from jaato.log import logger
from jaato.protocol.events import GcCompleted, Placed
from jaato.protocol.messages import Message
from jaato.tools.call import safe_text

LOG = logger("gc")
ASKING_S, COLLECTING_S, MODEL_S = 5.0, 300.0, 180.0
"""How long a strategy may take to say whether, and to collect; and the model for its words, retries included."""
MIN_GROWTH_TOKENS = 2_000
"""How much the context grows before a strategy that freed nothing is tried again; more in a large context."""
MIN_FREED = 0.05
"""A collection that frees less than this part counts as one that freed nothing when it comes to the next."""


class CompactionSetup(Struct, frozen=True):
    """A strategy, its configuration, and how long it may take, in seconds."""

    strategy: GCPlugin
    config: GCConfig
    asking_s: float = ASKING_S
    collecting_s: float = COLLECTING_S
    model_s: float = MODEL_S


class CompactionContext(Struct, frozen=True):
    """What compaction uses of its session."""

    journal: Journal
    model: ModelClient
    threads: ToolThreads


class Compaction(Struct, frozen=True):
    """One compaction: its reason, the messages it is about, and what its summary cost."""

    reason: str
    before: list[Message]
    remark: str | None = None
    cost: ModelCost | None = None


class CompactionEngine:
    """Applies a compaction strategy in one session. A strategy that fails or hangs is disabled, with the reason in the log.

    A subagent's engine uses the strategy of the engine above it, unless it is given its own.
    """

    def __init__(
        self,
        context: CompactionContext,
        setup: CompactionSetup | None = None,
        above: CompactionEngine | None = None,
    ) -> None:
        self._context = context
        self._journal = context.journal
        self._own = setup
        self._above = above
        self._quiet_below = 0
        self._left_out: CompactionSetup | None = None
        self._cost: ModelCost | None = None

    @property
    def setup(self) -> CompactionSetup | None:
        """The strategy in use; None: no compaction."""
        return self._own or (self._above.setup if self._above is not None else None)

    def use(self, setup: CompactionSetup | None) -> None:
        """Use another strategy from now on."""
        self._own = setup
        self._quiet_below = 0
        self._left_out = None

    async def compact_if_needed(self) -> ModelCost | None:
        """Compact if the strategy wants to; the check costs the same for any length of the conversation. Returns the cost of
        a summary."""
        setup = self.setup
        if setup is None or setup is self._left_out or not setup.config.auto_trigger:
            return None
        if self._context.model.context_usage.total_tokens < self._quiet_below:
            return None
        usage = self._usage()
        try:
            wanted, reason = await self._ask(
                lambda: check_verdict(setup.strategy.should_collect(usage, setup.config)), setup.asking_s
            )
        except PluginError as error:
            self._leave_out(setup, Compaction("", []), str(error))
            return None
        self._cost = None
        if wanted:
            await self.compact(reason)
        return self._cost

    async def compact(self, reason: str) -> bool:
        """Compact now and record the result; whether anything was freed. Raises `ConfigError` without a strategy."""
        setup = self.setup
        if setup is None:
            raise ConfigError("No strategy makes room here; name one with set_gc_plugin() or the setting gc.")
        state = self._journal.state
        work = Compaction(reason, [message for message in state.messages if message.id != state.gc_note])
        usage = self._usage()
        copies = msgspec.json.decode(msgspec.json.encode(work.before), type=list[Message])
        try:
            answer = await self._answer(setup, copies, usage)
            if answer is not None:
                self._cost = answer.cost
                said = f"The model gave no summary: {answer.problem}" if answer.text is None else None
                work = Compaction(reason, work.before, said, answer.cost)
            after, result = await self._ask(
                lambda: collect_history(setup, work, copies, usage, answer), setup.collecting_s
            )
        except PluginError as error:
            self._leave_out(setup, work, str(error))
            return False
        if result.error or not result.success:
            problem = to_remark(result.error) or "without a reason"
            self._quiet(setup, work, f"{name_of(setup.strategy)} failed: {problem}")
            return False
        return self._record(setup, work, after, result)

    async def _answer(
        self, setup: CompactionSetup, copies: list[Message], usage: dict[str, Any]
    ) -> ModelAnswer | None:
        """The model's answer to the strategy's question; None where it has none."""
        strategy = setup.strategy
        if not is_summarizing(strategy):
            return None
        question = await self._ask(
            lambda: check_question(strategy.question(copies, usage, setup.config)), setup.asking_s
        )
        if question is None:
            return None
        return await self._context.model.ask(question, timeout_s=setup.model_s, purpose="gc")

    def _record(
        self, setup: CompactionSetup, work: Compaction, after: list[Message], result: GCResult
    ) -> bool:
        journal, state, before = self._journal, self._journal.state, work.before
        note = note_of(state, len(before) - len(after))
        left = [note, *after]
        old = sum(map(chars_of, state.messages))
        new = sum(map(chars_of, left))
        if new >= old:
            self._quiet(setup, work, f"{name_of(setup.strategy)} freed nothing")
            return False
        total = self._context.model.context_usage.total_tokens
        same = {id(message) for message in after} & {id(message) for message in before}
        journal.record(
            GcCompleted(
                **journal.head(),
                strategy=name_of(setup.strategy),
                reason=work.reason,
                tokens_before=total,
                tokens_after=max(0, total - (old - new) // CHARS_PER_TOKEN),
                dropped=[message.id for message in state.messages if id(message) not in same],
                added=placed_before(left, same),
                note=note.id,
                notification=work.remark or to_remark(result.notification),
                **cost_fields(work),
            )
        )
        self._quiet_below = 0 if old - new > MIN_FREED * old else self._next_try_tokens()
        return True

    def _next_try_tokens(self) -> int:
        context = self._context.model.context_usage
        return context.total_tokens + max(MIN_GROWTH_TOKENS, (context.context_limit or 0) // 20)

    def _quiet(self, setup: CompactionSetup, work: Compaction, problem: str) -> None:
        """Record that nothing was freed, and back off until the context has grown."""
        self._quiet_below = self._next_try_tokens()
        self._record_problem(setup, work, problem)

    def _leave_out(self, setup: CompactionSetup, work: Compaction, problem: str) -> None:
        self._left_out = setup
        name = name_of(setup.strategy)
        LOG.warning("The GC strategy %s is left out: %s", name, problem)
        self._record_problem(setup, work, f"{name} is left out from now on: {problem}")

    def _record_problem(self, setup: CompactionSetup, work: Compaction, problem: str) -> None:
        journal, total = self._journal, self._context.model.context_usage.total_tokens
        event = GcCompleted(
            **journal.head(),
            strategy=name_of(setup.strategy),
            reason=work.reason,
            tokens_before=total,
            tokens_after=total,
            problem=truncate(problem),
            notification=work.remark,
            **cost_fields(work),
        )
        journal.record(event)

    def _usage(self) -> dict[str, Any]:
        """How full the context is, as a strategy reads it."""
        return context_fields(self._journal.state, self._context.model.context_usage)

    async def _ask(self, work: Callable[[], Any], timeout_s: float) -> Any:
        """Call the strategy in a thread. Raises `PluginError` for any exception and for a timeout."""

        def attempt() -> Any:
            try:
                return work(), None
            except PluginError as error:
                return None, str(error)
            except BaseException as error:  # noqa: BLE001 a stranger's code; its thread is not ours to end
                return None, describe_error(error)

        with anyio.move_on_after(timeout_s):
            value, problem = await self._context.threads.run(attempt)
            if problem is None:
                return value
            raise PluginError(problem)
        raise PluginError(f"it has not answered for {timeout_s:g} seconds")


def collect_history(
    setup: CompactionSetup,
    work: Compaction,
    copies: list[Message],
    usage: dict[str, Any],
    answer: ModelAnswer | None,
) -> tuple[list[Message], GCResult]:
    """What remains, made whole, and what the strategy says of it."""
    strategy = setup.strategy
    if answer is not None and answer.text is not None and is_summarizing(strategy):
        given = strategy.collect_with(answer.text, copies, usage, setup.config, work.reason)
    else:
        given = strategy.collect(copies, usage, setup.config, work.reason)
    proposed, result = check_collected(given)
    return settle_history(work.before, proposed), result


def cost_fields(work: Compaction) -> dict[str, Any]:
    """What the model's words cost, as fields of the event."""
    return {} if work.cost is None else {"usage": work.cost.usage, "cost_usd": work.cost.cost_usd}


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


def check_verdict(given: object) -> tuple[bool, str]:
    """What `should_collect` said. Raises `PluginError` for anything but (bool, reason)."""
    match given:
        case (bool() as wanted, str() | None as reason):
            return wanted, truncate(reason or "")
    raise PluginError(f"should_collect() gives (bool, reason), not {short_repr(given)}")


def check_collected(given: object) -> tuple[object, GCResult]:
    """What `collect` gave. Raises `PluginError` for anything but (history, GCResult)."""
    match given:
        case (proposed, GCResult() as result):
            return proposed, result
    raise PluginError(f"collect() gives (history, GCResult), not {short_repr(given)}")


def check_question(given: object) -> str | None:
    """What `question` gave. Raises `PluginError` for anything but text and None."""
    if given is None or isinstance(given, str):
        return given
    raise PluginError(f"question() gives text or None, not {short_repr(given)}")


def is_summarizing(strategy: object) -> TypeGuard[SummarizingGCPlugin]:
    """Whether a strategy wants words of the model; none of its own code runs for that."""
    return all(callable(getattr_static(strategy, name, None)) for name in ("question", "collect_with"))


def name_of(strategy: object) -> str:
    """The strategy's name, as far as it has one."""
    try:
        name = getattr(strategy, "name", None)
    except BaseException:  # noqa: BLE001 even its name is a stranger's code
        name = None
    return truncate(name, 64) if isinstance(name, str) and name else type(strategy).__name__


def short_repr(value: object) -> str:
    """A value on a short line, whatever it is."""
    return safe_text(value)[:100]


def describe_error(error: BaseException) -> str:
    """What somebody's exception says."""
    return truncate(f"{type(error).__name__}: {safe_text(error, str)}")


def to_remark(value: object) -> str | None:
    """A remark of a strategy, whatever it made one of; None for none."""
    if value is None or value == "":
        return None
    return truncate(value if isinstance(value, str) else safe_text(value))
