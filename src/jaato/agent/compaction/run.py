"""Carries out one compaction: clears results, asks the strategy, and makes the event that records what was removed."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import msgspec

from jaato.abc.compactor import GCResult
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
from jaato.agent.compaction.clearing import Cleared, clear_results, shorten_unseen
from jaato.agent.compaction.history import is_notice, room_chars, settle_history
from jaato.agent.compaction.record import RecordFold, hash_files
from jaato.agent.compaction.summary import Note, note_message, truncate
from jaato.agent.compaction.window import count_pin_chars
from jaato.agent.event_redaction import redact_event
from jaato.agent.model import ModelAnswer, ModelCost
from jaato.errors import PluginError
from jaato.protocol.events import GcCompleted, Placed
from jaato.protocol.messages import Message
from jaato.protocol.specs import ContextRecord
from jaato.typed_decoding import decode_json

if TYPE_CHECKING:
    from jaato.agent.compaction.setup import CompactionContext, CompactionSetup

MIN_FREED = 0.05
"""A collection that frees less than this part counts as one that freed nothing when it comes to the next."""
KEEP_RESULTS, ENOUGH, NOTE_PART = 0.25, 0.5, 0.2
"""Parts of the room for the conversation: newest results that are not cleared, below which clearing is enough, and what the
note may take."""
LEAST_NOTE_CHARS, MOST_NOTE_CHARS = 2_000, 24_000
MOST_OF_LIMIT = 0.95
"""Results that the model has not seen are cut where the context would be fuller than this."""
EVENTS_AT_ONCE = 64


class CompactionRun:
    """One compaction of the context as it is, for a reason; `usage` says how full it is, `learned_limit` what a refusal has
    taught. `cost` is that of the summary, once there was one."""

    def __init__(
        self,
        context: CompactionContext,
        setup: CompactionSetup,
        reason: str,
        usage: dict[str, Any],
        *,
        by_hand: bool = False,
        learned_limit: int | None = None,
    ) -> None:
        state = context.journal.state
        self._context = context
        self._journal = context.journal
        self.setup = setup
        self._reason = reason
        self._before: list[Message] = []
        self._chars = max(1, state.written_chars)
        self._room = room_chars(self._chars, usage, setup.config)
        self.usage = usage
        self._by_hand = by_hand
        self._learned_limit = learned_limit
        self._cleared = 0
        self._remark: str | None = None
        self.cost: ModelCost | None = None
        self.is_little = False
        """Whether so little was freed that the next one has to wait."""

    @property
    def strategy_name(self) -> str:
        """The name of the strategy."""
        return name_of(self.setup.strategy)

    @property
    def _conversation_tokens(self) -> int:
        """The tokens of everything but the system prompt and the tools."""
        return int(self.usage["total_tokens"]) - int(self.usage["fixed_tokens"])

    @property
    def _note_chars(self) -> int:
        """How long the record in the note may be."""
        most = MOST_NOTE_CHARS if self._room is None else NOTE_PART * self._room
        return int(min(MOST_NOTE_CHARS, max(LEAST_NOTE_CHARS, most)))

    def _tokens_of(self, chars: int) -> int:
        """The tokens of a context whose conversation has so many characters."""
        return int(self.usage["fixed_tokens"]) + self._conversation_tokens * chars // self._chars

    async def is_wanted(self) -> bool:
        """Whether the strategy wants to compact; its reason is that of the compaction. Raises `PluginError`."""
        setup = self.setup
        wanted, self._reason = await self._call(
            lambda: check_verdict(setup.strategy.should_collect(self.usage, setup.config)), setup.asking_s
        )
        return bool(wanted)

    async def carry_out(self) -> GcCompleted:
        """The event that compacts the context, to be recorded at once; its `problem` says why where nothing was freed. Raises
        `PluginError` for a strategy that cannot be used."""
        setup, room, state = self.setup, self._room, self._journal.state
        self.usage |= {"room_chars": room}
        self._before = [message for message in state.messages if message.id != state.gc_note]
        result, history = GCResult(), self._before
        if clears_results(setup.strategy) and room is not None:
            cleared = clear_results(history, KEEP_RESULTS * room, self._context.keep)
            history, self._cleared = cleared.messages, cleared.results
        if self._by_hand or not self._cleared or sum(map(chars_of, history)) > ENOUGH * (room or 0.0):
            history, result = await self._collect(history)
        if result.error or not result.success:
            problem = to_remark(result.error) or "without a reason"
            return self.make_problem(f"{self.strategy_name} failed: {problem}")
        after = self._cut_unseen(history).messages
        if len(after) == len(self._before) and all(map(operator.is_, after, self._before)):
            return self.make_problem(f"{self.strategy_name} freed nothing")
        return self._make_event(after, result, await self._record_of_log())

    async def _collect(self, history: list[Message]) -> tuple[list[Message], GCResult]:
        """What the strategy leaves of a history, made whole. Raises `PluginError`."""
        chars = sum(map(chars_of, history))
        usage = self.usage | {"total_tokens": self._tokens_of(chars)}
        copies = decode_json(msgspec.json.encode(history), list[Message])
        answer = await self._answer(copies, usage)
        if answer is not None:
            self.cost = answer.cost
            self._remark = f"The model gave no summary: {answer.problem}" if answer.text is None else None
        ask = functools.partial(collect_history, self.setup, self._reason, history, copies, usage, answer)
        settled: tuple[list[Message], GCResult] = await self._call(ask, self.setup.collecting_s)
        return settled

    def _cut_unseen(self, history: list[Message]) -> Cleared:
        """The history with results that the model has not seen cut, as far as the limit demands it."""
        tokens = self._tokens_of(sum(map(chars_of, history)) + self._note_chars)
        surplus = tokens - self.usage["context_limit"] * MOST_OF_LIMIT
        if surplus <= 0:
            return Cleared(history, 0)
        rate = max(0.01, self._conversation_tokens / self._chars)
        cut = shorten_unseen(history, surplus / rate, self._context.keep)
        self._cleared += cut.results
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

    async def _answer(self, copies: list[Message], usage: dict[str, Any]) -> ModelAnswer | None:
        """The model's answer to the strategy's question; None where it has none."""
        strategy = self.setup.strategy
        if not is_summarizing(strategy):
            return None
        question = await self._call(
            lambda: check_question(strategy.question(copies, usage, self.setup.config)), self.setup.asking_s
        )
        if question is None:
            return None
        return await self._context.model.ask(question, timeout_s=self.setup.model_s, purpose="gc")

    def _make_event(self, after: list[Message], result: GCResult, record: ContextRecord) -> GcCompleted:
        journal, state, before = self._journal, self._journal.state, self._before
        same = {id(message) for message in after} & {id(message) for message in before}
        rate = self._conversation_tokens / self._chars
        pins = count_pin_chars(self.usage["context_limit"], self.usage["fixed_tokens"], max(0.01, rate))
        removed_count = len(before) - len(after)
        note = note_message(state, Note(removed_count, self._cleared, record, self._note_chars, pins))
        left = [note, *after]
        old, new = self._chars, sum(map(chars_of, left))
        total = self.usage["total_tokens"]
        freed = total - self._tokens_of(new)
        removed = [message for message in before if id(message) not in same and not is_notice(message)]
        self.is_little = old - new <= MIN_FREED * old
        if freed <= 0 or (not removed and self.is_little):
            return self.make_problem(f"{self.strategy_name} freed nothing")
        return GcCompleted(
            **journal.head(),
            strategy=self.strategy_name,
            reason=self._reason,
            tokens_before=total,
            tokens_after=max(0, total - freed),
            dropped=[message.id for message in state.messages if id(message) not in same],
            added=placed_before(left, same),
            note=note.id,
            notification=self._remark or to_remark(result.notification),
            cleared=self._cleared,
            learned_limit=self._learned_limit,
            record=record,
            **self._cost_fields(),
        )

    def make_problem(self, problem: str) -> GcCompleted:
        """The event that says why nothing was freed."""
        total = self._context.model.context_usage.total_tokens
        return GcCompleted(
            **self._journal.head(),
            strategy=self.strategy_name,
            reason=self._reason,
            tokens_before=total,
            tokens_after=total,
            problem=truncate(problem),
            notification=self._remark,
            learned_limit=self._learned_limit,
            **self._cost_fields(),
        )

    def _cost_fields(self) -> dict[str, Any]:
        """What the model's words cost, as fields of the event."""
        return {} if self.cost is None else {"usage": self.cost.usage, "cost_usd": self.cost.cost_usd}

    async def _call(self, work: Callable[[], Any], timeout_s: float) -> Any:
        """Call a strategy in a thread. Raises `PluginError` for any exception and for a timeout."""

        def attempt() -> Any:
            try:
                return work(), None
            except PluginError as error:
                return None, str(error)
            except BaseException as error:  # noqa: BLE001 third-party code; its thread is not ours to end
                return None, describe_error(error)

        with anyio.move_on_after(timeout_s):
            value, problem = await self._context.threads.run(attempt)
            if problem is None:
                return value
            raise PluginError(problem)
        raise PluginError(f"it has not answered for {timeout_s:g} seconds")


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
