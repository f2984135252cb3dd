"""Context compaction: asks a strategy before each model call, and records what it removes and adds in the log."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from msgspec import Struct

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult
from jaato.abc.store import Damaged
from jaato.agent.compaction.chars import chars_of
from jaato.agent.compaction.checks import (
    check_collected,
    check_question,
    check_verdict,
    clears_results,
    describe_error,
    is_summarizing,
    name_of,
    to_remark,
)
from jaato.agent.compaction.clearing import Cleared, Keep, clear_results, shorten_unseen
from jaato.agent.compaction.history import is_notice, room_chars, settle_history
from jaato.agent.compaction.record import RecordFold, hash_files
from jaato.agent.compaction.strategies import OWN_STRATEGIES
from jaato.agent.compaction.summary import Note, note_message, truncate
from jaato.agent.compaction.window import LEAST_TOKENS, usage_fields
from jaato.agent.event_redaction import redact_event
from jaato.agent.journal import Journal
from jaato.agent.model import ModelAnswer, ModelClient, ModelCost
from jaato.agent.tool_threads import ToolThreads
from jaato.errors import ConfigError, ContextOverflow, PluginError
from jaato.log import logger
from jaato.protocol.events import GcCompleted, Placed
from jaato.protocol.messages import Message
from jaato.protocol.specs import ContextRecord

LOG = logger("gc")
ASKING_S, COLLECTING_S, MODEL_S = 5.0, 300.0, 180.0
"""How long a strategy may take to say whether, and to collect; and the model for its words, retries included."""
MIN_GROWTH_TOKENS = 2_000
"""How much the context grows before a strategy that freed nothing is tried again; more in a large context."""
MIN_FREED = 0.05
"""A collection that frees less than this part counts as one that freed nothing when it comes to the next."""
KEEP_RESULTS, ENOUGH, NOTE_PART = 0.25, 0.5, 0.2
"""Parts of the room for the conversation: newest results that are not cleared, below which clearing is enough, and what the
note may take."""
LEAST_NOTE_CHARS, MOST_NOTE_CHARS = 2_000, 24_000
MOST_OF_LIMIT = 0.95
"""Results that the model has not seen are cut where the context would be fuller than this."""
REFUSED_PART = 0.9
"""The part of a refused request that is taken for the limit where the refusal does not name it."""
LIKELY_PART = 0.5
"""A refusal that names no limit teaches one only where the known one was nearer than this: else a single attachment may
have been too large."""
EVENTS_AT_ONCE = 64


class CompactionSetup(Struct, frozen=True):
    """A strategy, its configuration, and how long it may take, in seconds."""

    strategy: GCPlugin
    config: GCConfig
    asking_s: float = ASKING_S
    collecting_s: float = COLLECTING_S
    model_s: float = MODEL_S


class CompactionContext(Struct, frozen=True):
    """What compaction uses of its session; `keep` stores bytes and gives their handle."""

    journal: Journal
    model: ModelClient
    threads: ToolThreads
    keep: Keep


class Compaction(Struct):
    """One compaction: its reason, the messages it is about, how full the context is, the characters of its conversation, and
    what its summary cost."""

    reason: str
    before: list[Message]
    usage: dict[str, Any]
    chars: int = 1
    by_hand: bool = False
    learned_limit: int | None = None
    cleared: int = 0
    remark: str | None = None
    cost: ModelCost | None = None

    @property
    def fixed_tokens(self) -> int:
        """The tokens of the system prompt and the tools."""
        return int(self.usage["fixed_tokens"])

    @property
    def conversation_tokens(self) -> int:
        """The tokens of everything else."""
        return int(self.usage["total_tokens"]) - self.fixed_tokens

    @property
    def note_chars(self) -> int:
        """How long the record in the note may be."""
        room = self.usage["room_chars"]
        most = MOST_NOTE_CHARS if room is None else NOTE_PART * room
        return int(min(MOST_NOTE_CHARS, max(LEAST_NOTE_CHARS, most)))

    def tokens_of(self, chars: int) -> int:
        """The tokens of a context whose conversation has so many characters."""
        return self.fixed_tokens + self.conversation_tokens * chars // self.chars


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
        usage = usage_fields(self._journal.state, measured)
        try:
            wanted, reason = await self._ask(
                lambda: check_verdict(setup.strategy.should_collect(usage, setup.config)), setup.asking_s
            )
        except PluginError as error:
            self._leave_out(setup, Compaction("", [], usage), str(error))
            return None
        if wanted:
            await self._compact(setup, self._begin(setup, reason))
        return self._cost

    async def compact(self, reason: str, words: str = "") -> bool:
        """Compact now and record the result; whether anything was freed. `words` say what the summary is to keep. Raises
        `ConfigError` without a strategy."""
        setup = self.require_setup()
        turns = min(1, setup.config.preserve_recent_turns)
        config = replace(setup.config, preserve_recent_turns=turns, instructions=words)
        setup = msgspec.structs.replace(setup, config=config)
        work = self._begin(setup, reason)
        work.by_hand = True
        return await self._compact(setup, work)

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
        usage, limit = self._context.model.context_usage, error.limit
        total = max(error.tokens or 0, usage.total_tokens)
        if is_named := limit is not None and limit >= LEAST_TOKENS:
            total = max(total, limit + 1)
        else:
            limit = max(LEAST_TOKENS, int(min(usage.limit.tokens, total) * REFUSED_PART))
        work = self._begin(setup, "the provider refused the request as too long", limit, total)
        is_likely = usage.limit.source == "assumed" or total >= usage.limit.tokens * LIKELY_PART
        work.learned_limit = limit if is_named or is_likely else None
        if not await self._compact(setup, work):
            raise with_advice(error, TOO_LARGE.format(limit=limit))

    def _begin(
        self, setup: CompactionSetup, reason: str, limit: int | None = None, total: int | None = None
    ) -> Compaction:
        """A compaction of the context as it is, or as large and with the limit as a refusal says."""
        state = self._journal.state
        before = [message for message in state.messages if message.id != state.gc_note]
        usage = self._usage()
        if limit is not None and total is not None:
            known = max(1, usage["total_tokens"])
            usage["fixed_tokens"] = usage["fixed_tokens"] * total // known
            usage |= {"context_limit": limit, "context_limit_source": "learned", "total_tokens": total}
            usage |= {"percent_used": 100 * total / limit, "tokens_remaining": max(0, limit - total)}
        chars = max(1, state.written_chars)
        usage["room_chars"] = room_chars(chars, usage, setup.config)
        return Compaction(reason, before, usage, chars)

    async def _compact(self, setup: CompactionSetup, work: Compaction) -> bool:
        room = work.usage["room_chars"]
        result, history = GCResult(), work.before
        if clears_results(setup.strategy) and room is not None:
            cleared = clear_results(history, KEEP_RESULTS * room, self._context.keep)
            history, work.cleared = cleared.messages, cleared.results
        try:
            if work.by_hand or not work.cleared or sum(map(chars_of, history)) > ENOUGH * room:
                history, result = await self._collect(setup, work, history)
        except PluginError as error:
            self._leave_out(setup, work, str(error))
            return False
        if result.error or not result.success:
            problem = to_remark(result.error) or "without a reason"
            self._quiet(setup, work, f"{name_of(setup.strategy)} failed: {problem}")
            return False
        after = self._cut_unseen(work, history).messages
        if len(after) == len(work.before) and all(map(operator.is_, after, work.before)):
            self._quiet(setup, work, f"{name_of(setup.strategy)} freed nothing")
            return False
        return self._record(setup, work, after, result, await self._record_of_log())

    async def _collect(
        self, setup: CompactionSetup, work: Compaction, history: list[Message]
    ) -> tuple[list[Message], GCResult]:
        """What the strategy leaves of a history, made whole. Raises `PluginError`."""
        chars = sum(map(chars_of, history))
        usage = work.usage | {"total_tokens": work.tokens_of(chars)}
        copies = msgspec.json.decode(msgspec.json.encode(history), type=list[Message])
        answer = await self._answer(setup, copies, usage)
        if answer is not None:
            self._cost = work.cost = answer.cost
            work.remark = f"The model gave no summary: {answer.problem}" if answer.text is None else None
        ask = functools.partial(collect_history, setup, work.reason, history, copies, usage, answer)
        settled: tuple[list[Message], GCResult] = await self._ask(ask, setup.collecting_s)
        return settled

    def _cut_unseen(self, work: Compaction, history: list[Message]) -> Cleared:
        """The history with results that the model has not seen cut, as far as the limit demands it."""
        tokens = work.tokens_of(sum(map(chars_of, history)) + work.note_chars)
        surplus = tokens - work.usage["context_limit"] * MOST_OF_LIMIT
        if surplus <= 0:
            return Cleared(history, 0)
        rate = max(0.01, work.conversation_tokens / work.chars)
        cut = shorten_unseen(history, surplus / rate, self._context.keep)
        work.cleared += cut.results
        return cut

    async def _record_of_log(self) -> ContextRecord:
        """The record of the conversation up to now: that of the compaction before, and the events since."""
        journal, state = self._journal, self._journal.state
        journal.flush()
        fold = RecordFold(state.record)
        events = journal.store.read(state.session_id, state.record_seq)
        for number, event in enumerate(events, 1):
            if not isinstance(event, Damaged) and event.agent_id == state.agent_id:
                fold.take(redact_event(event, journal.secrets))
            if number % EVENTS_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
        workspace, paths = Path(state.workspace), fold.paths_to_hash()
        hashes = await self._context.threads.run(lambda: hash_files(workspace, paths))
        return fold.finish(hashes)

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
        self,
        setup: CompactionSetup,
        work: Compaction,
        after: list[Message],
        result: GCResult,
        record: ContextRecord,
    ) -> bool:
        journal, state, before = self._journal, self._journal.state, work.before
        same = {id(message) for message in after} & {id(message) for message in before}
        note = note_message(state, Note(len(before) - len(after), work.cleared, record, work.note_chars))
        left = [note, *after]
        old, new = work.chars, sum(map(chars_of, left))
        total = work.usage["total_tokens"]
        freed = total - work.tokens_of(new)
        removed = [message for message in before if id(message) not in same and not is_notice(message)]
        if freed <= 0 or (not removed and old - new <= MIN_FREED * old):
            self._quiet(setup, work, f"{name_of(setup.strategy)} freed nothing")
            return False
        self._publish(
            GcCompleted(
                **journal.head(),
                strategy=name_of(setup.strategy),
                reason=work.reason,
                tokens_before=total,
                tokens_after=max(0, total - freed),
                dropped=[message.id for message in state.messages if id(message) not in same],
                added=placed_before(left, same),
                note=note.id,
                notification=work.remark or to_remark(result.notification),
                cleared=work.cleared,
                learned_limit=work.learned_limit,
                record=record,
                **cost_fields(work),
            )
        )
        still_full = total - freed >= work.usage["context_limit"] * setup.config.threshold_percent / 100
        little = old - new <= MIN_FREED * old
        self._quiet_below = self._next_try_tokens() if still_full or little else 0
        return True

    def _publish(self, event: GcCompleted) -> None:
        self._journal.record(event)
        self.last = event

    def _next_try_tokens(self) -> int:
        usage = self._context.model.context_usage
        return usage.total_tokens + min(
            usage.limit.tokens // 4, max(MIN_GROWTH_TOKENS, usage.limit.tokens // 20)
        )

    def _quiet(self, setup: CompactionSetup, work: Compaction, problem: str) -> None:
        """Record that nothing was freed, and back off until the context has grown."""
        self._record_problem(setup, work, problem)
        self._quiet_below = self._next_try_tokens()

    def _leave_out(self, setup: CompactionSetup, work: Compaction, problem: str) -> None:
        self._left_out = self.setup
        name = name_of(setup.strategy)
        LOG.warning("The GC strategy %s is left out: %s", name, problem)
        self._record_problem(setup, work, f"{name} is left out from now on: {problem}")

    def _record_problem(self, setup: CompactionSetup, work: Compaction, problem: str) -> None:
        total = self._context.model.context_usage.total_tokens
        self._publish(
            GcCompleted(
                **self._journal.head(),
                strategy=name_of(setup.strategy),
                reason=work.reason,
                tokens_before=total,
                tokens_after=total,
                problem=truncate(problem),
                notification=work.remark,
                learned_limit=work.learned_limit,
                **cost_fields(work),
            )
        )

    def _usage(self) -> dict[str, Any]:
        """How full the context is, as a strategy reads it."""
        return usage_fields(self._journal.state, self._context.model.context_usage)

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


TOO_LARGE = (
    "Nothing more can be removed to fit {limit:,} tokens: shorten the last message, attach less, use a model with a "
    "larger context, or begin a new session."
)


def with_advice(error: ContextOverflow, advice: str) -> ContextOverflow:
    """The error, whose message says what can be done."""
    text = str(error)
    error.args = (f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {advice}",)
    return error


def collect_history(
    setup: CompactionSetup,
    reason: str,
    history: list[Message],
    copies: list[Message],
    usage: dict[str, Any],
    answer: ModelAnswer | None,
) -> tuple[list[Message], GCResult]:
    """What remains, made whole, and what the strategy says of it."""
    strategy = setup.strategy
    if answer is not None and answer.text is not None and is_summarizing(strategy):
        given = strategy.collect_with(answer.text, copies, usage, setup.config, reason)
    else:
        given = strategy.collect(copies, usage, setup.config, reason)
    proposed, result = check_collected(given)
    return settle_history(history, proposed), result


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
