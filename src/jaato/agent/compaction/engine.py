"""Context compaction: asks a strategy before each model call, records what it removes and adds, and backs off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.agent.compaction.setup import CompactionContext, CompactionSetup
from jaato.agent.compaction.strategies import OWN_STRATEGIES
from jaato.agent.compaction.window import LEAST_TOKENS, usage_fields
from jaato.agent.model import ModelCost
from jaato.errors import ConfigError, ContextOverflow, PluginError
from jaato.log import logger
from jaato.protocol.events import GcCompleted

if TYPE_CHECKING:
    from jaato.agent.compaction.run import CompactionRun

LOG = logger("gc")
MIN_GROWTH_TOKENS = 2_000
"""How much the context grows before a strategy that freed nothing is tried again; more in a large context."""
REFUSED_PART = 0.9
"""The part of a refused request that is taken for the limit where the refusal does not name it."""
LIKELY_PART = 0.5
"""A refusal that names no limit teaches one only where the known one was nearer than this: else a single attachment may
have been too large."""


class CompactionEngine:
    """Applies a compaction strategy in one session. A strategy that fails or hangs is disabled, with the reason in the log.

    A subagent's engine uses the strategy of the engine above it, unless it is given its own. `last` is the event of the
    newest compaction.
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
        self.last: GcCompleted | None = None

    @property
    def setup(self) -> CompactionSetup | None:
        """The strategy in use; None: no compaction."""
        return self._own or (self._above.setup if self._above is not None else None)

    def require_setup(self) -> CompactionSetup:
        """The strategy in use. Raises `ConfigError` without one."""
        if (setup := self.setup) is None:
            raise ConfigError(
                "No strategy makes room here: compaction is off. Turn it on with the setting gc, or set_gc_plugin()."
            )
        return setup

    @property
    def threshold_percent(self) -> float | None:
        """How full the context is when it is compacted; None: that does not happen by itself."""
        setup = self.setup
        if setup is None or setup is self._left_out or not setup.config.auto_trigger:
            return None
        return setup.config.threshold_percent

    def use(self, setup: CompactionSetup | None) -> None:
        """Use another strategy from now on."""
        self._own = setup
        self._quiet_below = 0
        self._left_out = None

    async def compact_if_needed(self) -> ModelCost | None:
        """Compact if the strategy wants to; the check costs the same for any length of the conversation. Returns the cost of
        a summary."""
        setup = self.setup
        self._cost = None
        if setup is None or self.threshold_percent is None:
            return None
        measured = self._context.model.context_usage
        if measured.total_tokens < self._quiet_below:
            return None
        if type(setup.strategy) in OWN_STRATEGIES and measured.percent_used < setup.config.threshold_percent:
            return None  # as it would say itself, without a thread
        run = self._prepare(setup, "")
        try:
            wanted = await run.is_wanted()
        except PluginError as error:
            self._leave_out(run, str(error))
            return None
        if wanted:
            await self._compact(run)
        return self._cost

    async def compact(self, reason: str, words: str = "") -> bool:
        """Compact now and record the result; whether anything was freed. `words` say what the summary is to keep. Raises
        `ConfigError` without a strategy."""
        setup = self.require_setup()
        turns = min(1, setup.config.preserve_recent_turns)
        config = replace(setup.config, preserve_recent_turns=turns, instructions=words)
        setup = msgspec.structs.replace(setup, config=config)
        return await self._compact(self._prepare(setup, reason, by_hand=True))

    def take_cost(self) -> ModelCost | None:
        """The cost of the newest summary, once."""
        cost, self._cost = self._cost, None
        return cost

    async def recover(self, error: ContextOverflow) -> None:
        """Learn the limit from a refused request, and compact. Raises the error again, with what can be done, where nothing
        was freed."""
        setup = self.setup
        if setup is None or self.threshold_percent is None:
            raise with_advice(
                error, "Compaction is off here: turn it on (setting gc), or begin a new session."
            )
        measured, limit = self._context.model.context_usage, error.limit
        total = max(error.tokens or 0, measured.total_tokens)
        if is_named := limit is not None and limit >= LEAST_TOKENS:
            total = max(total, limit + 1)
        else:
            limit = max(LEAST_TOKENS, int(min(measured.limit.tokens, total) * REFUSED_PART))
        usage = usage_fields(self._journal.state, measured)
        usage["fixed_tokens"] = usage["fixed_tokens"] * total // max(1, usage["total_tokens"])
        usage |= {"context_limit": limit, "context_limit_source": "learned", "total_tokens": total}
        usage |= {"percent_used": 100 * total / limit, "tokens_remaining": max(0, limit - total)}
        is_likely = measured.limit.source == "assumed" or total >= measured.limit.tokens * LIKELY_PART
        learned = limit if is_named or is_likely else None
        reason = "the provider refused the request as too long"
        if not await self._compact(self._prepare(setup, reason, usage, learned_limit=learned)):
            raise with_advice(error, TOO_LARGE.format(limit=limit))

    def _prepare(
        self, setup: CompactionSetup, reason: str, usage: dict[str, Any] | None = None, **more: Any
    ) -> CompactionRun:
        """A compaction of the context as it is, or as full as `usage` says; its code is imported by the first one."""
        from jaato.agent.compaction.run import CompactionRun

        given = usage or usage_fields(self._journal.state, self._context.model.context_usage)
        return CompactionRun(self._context, setup, reason, given, **more)

    async def _compact(self, run: CompactionRun) -> bool:
        try:
            event = await run.carry_out()
        except PluginError as error:
            self._leave_out(run, str(error))
            return False
        finally:
            self._cost = run.cost
        self._publish(event)
        is_freed = event.problem is None
        most = run.usage["context_limit"] * run.setup.config.threshold_percent / 100
        is_enough = is_freed and not run.is_little and event.tokens_after < most
        self._quiet_below = 0 if is_enough else self._next_try_tokens()
        return is_freed

    def _publish(self, event: GcCompleted) -> None:
        self._journal.record(event)
        self.last = event

    def _next_try_tokens(self) -> int:
        usage = self._context.model.context_usage
        return usage.total_tokens + min(
            usage.limit.tokens // 4, max(MIN_GROWTH_TOKENS, usage.limit.tokens // 20)
        )

    def _leave_out(self, run: CompactionRun, problem: str) -> None:
        self._left_out = self.setup
        LOG.warning("The GC strategy %s is left out: %s", run.strategy_name, problem)
        self._publish(run.make_problem(f"{run.strategy_name} is left out from now on: {problem}"))


TOO_LARGE = (
    "Nothing more can be removed to fit {limit:,} tokens: shorten the last message, attach less, use a model with a "
    "larger context, or begin a new session."
)


def with_advice(error: ContextOverflow, advice: str) -> ContextOverflow:
    """The error, whose message says what can be done."""
    text = str(error)
    error.args = (f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {advice}",)
    return error
