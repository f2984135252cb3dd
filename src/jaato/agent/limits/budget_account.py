"""The account of a root session: reserves what a model call may use, and asks the user when a budget is used up."""

from __future__ import annotations

import time
from typing import NoReturn

import anyio
import anyio.to_thread
from msgspec import Struct

from jaato.abc.asker import Clarification
from jaato.abc.store import Damaged, Store, UsageQuery
from jaato.agent.journal import Journal
from jaato.agent.limits.spending import DAY_CHARS, Amount, Budget, Key
from jaato.agent.questions import OF_TURN, Questions
from jaato.errors import LimitReached
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.events import BudgetUpdated, now
from jaato.protocol.ids import new_id
from jaato.protocol.usage import AgentBegan, ReplyUsed, SummaryUsed, TurnUsed, UsageRecord
from jaato.settings.budgets import MOST_AMOUNT_CHARS, format_amount, parse_amount

STOP = "stop"
NO = (STOP, "no", "n", "")
CONTINUE = ("continue", "more", "yes", "y")
MOST_QUESTIONS = 3
"""How often one is asked whose answers are not understood."""
PLAIN = lazy_pattern(r"\d+(?:\.\d+)?")


class Exceeded(Struct, frozen=True):
    """A limit that the next call would exceed."""

    key: Key
    limit: float
    used: float
    needed: float

    @property
    def text(self) -> str:
        """The limit and its use in words."""
        scope, unit = self.key
        limit, needed = format_amount(unit, self.limit), format_amount(unit, self.needed)
        if not self.used:
            return f"the budget of {limit} per {scope} does not allow the next model call, which needs about {needed}"
        call = f", and the next model call needs about {needed}" if self.needed else ""
        return (
            f"the budget of {limit} per {scope} is used up: {format_amount(unit, self.used)} are used{call}"
        )


class BudgetAccount:
    """Reserves model calls of all agents of one session within its budgets. Used on the loop.

    What was used is the fold of the log; a reservation is kept by agent until its call has ended.
    """

    def __init__(self, journal: Journal, questions: Questions, budget: Budget) -> None:
        self._journal = journal
        self._questions = questions
        self._spending = journal.session_state.spending
        self._limits = {key: limit for key, limit in budget.limits.items() if limit}
        self._steps = dict(self._limits)
        if budget.more:
            self._raise_limits()
        self._reserved: dict[str, Amount] = {}
        self._released = anyio.Event()
        self._asking = anyio.Lock()
        self._stopped: tuple[str, str] | None = None
        """The turn in which no more calls are made, and why."""
        self._clock = ("", 0.0)
        """An open turn, and when it began without the time of questions."""
        self._others = OtherSessions(journal.store, journal.state.session_id)

    def _raise_limits(self) -> None:
        """Give the budgets that were used up as much again."""
        for key, event in self._spending.budgets.items():
            if key[0] == "session" or (key[0] == "day" and event.timestamp[:DAY_CHARS] == get_today()):
                is_reached = event.status == "reached"
                limit = max(event.limit, event.used) + event.step if is_reached else event.limit
                self._limits[key] = max(self._limits.get(key, 0.0), limit)
                self._steps[key] = event.step

    @property
    def is_empty(self) -> bool:
        """Whether there is no budget."""
        return not self._limits

    @property
    def limits_money(self) -> bool:
        """Whether a budget is in money."""
        return any(unit == "usd" for _, unit in self._limits)

    # --- what is used --------------------------------------------------------------------------------------------

    def get_limit(self, key: Key) -> float | None:
        """The limit as it is now, with what the user has allowed beyond the setting."""
        base = self._limits.get(key)
        event = self._spending.budgets.get(key)
        if base is None or event is None or event.status != "extended":
            return base
        if key[0] == "day" and event.timestamp[:DAY_CHARS] != get_today():
            return base
        return max(base, event.limit)

    def get_used(self, key: Key) -> float:
        """What was used, with replies whose event is not recorded yet."""
        scope, unit = key
        spending = self._spending
        if unit == "s":
            return self._used_s(scope)
        total = sum(one.of(unit) for one in spending.unrecorded.values())
        if scope == "turn":
            return total + spending.turn.of(unit)
        if scope == "session":
            return total + spending.session.of(unit)
        return total + self._own_day.of(unit) + self._others.amount.of(unit)

    @property
    def _own_day(self) -> Amount:
        return self._spending.day if self._spending.date == get_today() else Amount()

    def _used_s(self, scope: str) -> float:
        """The time of turns, without the time in which a question was pending."""
        open_turn = self._journal.state.open_turn or ""
        if self._clock[0] != open_turn:
            self._clock = (open_turn, time.monotonic() - self._questions.waited_s)
        turn_s = time.monotonic() - self._questions.waited_s - self._clock[1] if open_turn else 0.0
        if scope == "turn":
            return turn_s + self._spending.turn.s
        if scope == "session":
            return turn_s + self._spending.session.s
        return turn_s + self._own_day.s + self._others.amount.s

    def _exceeded(self, need: Amount, *, with_reserved: bool) -> Exceeded | None:
        """The first limit a call would exceed, after what is used and, if asked, reserved."""
        for key in self._limits:
            limit, used, unit = self.get_limit(key) or 0.0, self.get_used(key), key[1]
            if unit == "s":
                if used >= limit:
                    return Exceeded(key, limit, used, 0.0)
                continue
            reserved = sum(one.of(unit) for one in self._reserved.values()) if with_reserved else 0.0
            if used + reserved + need.of(unit) > limit:
                return Exceeded(key, limit, used, need.of(unit))
        return None

    # --- reserving -----------------------------------------------------------------------------------------------

    async def reserve(self, agent_id: str, need: Amount, *, asks: bool = True) -> None:
        """Reserve a model call of an agent; waits for other calls where it fits after them, and for the user's answer where
        it does not. Without `asks` it waits for nothing. Raises `LimitReached`."""
        self._reserved.pop(agent_id, None)
        while True:
            if any(scope == "day" for scope, _ in self._limits):
                await self._others.read_new()
            if self._stopped is not None and self._stopped[0] == self._spending.turn_id:
                raise LimitReached(self._stopped[1])
            if self._exceeded(need, with_reserved=True) is None:
                self._reserved[agent_id] = need
                return
            exceeded = self._exceeded(need, with_reserved=False)
            if not asks:
                raise LimitReached("The budget does not allow it.")
            if exceeded is None:
                await self._released.wait()
            else:
                await self._ask(agent_id, need)

    def settle(self, agent_id: str, used: Amount | None) -> None:
        """End a reservation: the call has used this, None for nothing that is known."""
        self._reserved.pop(agent_id, None)
        if used is not None:
            self._spending.unrecorded.setdefault(agent_id, Amount()).add(used)
        self._released.set()
        self._released = anyio.Event()

    async def _ask(self, agent_id: str, need: Amount) -> None:
        """Ask the user for more. Raises `LimitReached` when there is none."""
        async with self._asking:
            exceeded = self._exceeded(need, with_reserved=False)
            if exceeded is None or (self._stopped is not None and self._stopped[0] == self._spending.turn_id):
                return  # the question of another agent has settled it
            step = self._steps[exceeded.key]
            self._record("reached", agent_id, exceeded, exceeded.limit)
            asked = make_question(exceeded, step)
            for _ in range(MOST_QUESTIONS):
                answers = await self._questions.clarify(asked, agent_id)
                allowed = parse_answer((answers or [None])[0], exceeded.key, step)
                if allowed is not None:
                    break
                asked = make_question(exceeded, step, (answers or [None])[0])
            if not allowed:
                self._stop(exceeded, asked=answers is not None)
            self._record("extended", agent_id, exceeded, max(exceeded.limit, exceeded.used) + allowed)

    def _record(self, status: str, agent_id: str, exceeded: Exceeded, limit: float) -> None:
        """Record that a budget is used up or extended, once."""
        journal, (scope, unit) = self._journal, exceeded.key
        last = self._spending.budgets.get(exceeded.key)
        if last is not None and (last.status, last.limit) == (status, limit):
            return
        journal.record(
            BudgetUpdated(
                **journal.head(agent_id),
                status="reached" if status == "reached" else "extended",
                scope=scope,
                unit=unit,
                limit=limit,
                used=round(exceeded.used, 6),
                step=self._steps[exceeded.key],
            )
        )

    def _stop(self, exceeded: Exceeded, *, asked: bool) -> NoReturn:
        """Make no more calls in this turn. Raises `LimitReached`."""
        scope, session_id = exceeded.key[0], self._journal.state.session_id
        who = "" if asked else " No one was there to ask."
        how = (
            "Another message begins a new turn."
            if scope == "turn"
            else f'`jaato run --session {session_id} --budget more "go on"` continues the session.'
        )
        text = f"Stopped before the next model call: {exceeded.text}.{who} {how}"
        self._stopped = (self._spending.turn_id, text)
        raise LimitReached(text)


class OtherSessions:
    """What the other sessions of the store have used today; each reading takes only what is new."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._query = UsageQuery()
        self._roots: set[str] = set()
        self._date = ""
        self.amount = Amount()
        self._reading = anyio.Lock()

    async def read_new(self) -> None:
        """Read what was recorded since the last time, in a thread. Raises `StoreError`."""
        async with self._reading:
            if self._date != get_today():
                self._date, self.amount, self._roots = get_today(), Amount(), set()
                self._query = UsageQuery(since=self._date, except_session=self._session_id)
            await anyio.to_thread.run_sync(self._read, self._query)

    def _read(self, query: UsageQuery) -> None:
        """Add what is new; in the thread, as a cancelled reading has taken place all the same."""
        for _, record in self._store.usage.read(query):
            if isinstance(record, AgentBegan) and record.parent_agent_id is None:
                self._roots.add(record.agent_id)
            elif not isinstance(record, Damaged) and record.timestamp >= query.since:
                self.amount.add(self._amount_of(record))

    def _amount_of(self, record: UsageRecord) -> Amount:
        match record:
            case ReplyUsed(usage=usage) | SummaryUsed(usage=usage) if usage is not None:
                return Amount(usage.input_tokens + usage.output_tokens, record.cost_usd or 0.0)
            case TurnUsed() if record.agent_id in self._roots:
                return Amount(s=record.duration_s)
        return Amount()


def make_question(exceeded: Exceeded, step: float, answer: str | None = None) -> Clarification:
    """The question for more; `answer` is one that was not understood."""
    scope, unit = exceeded.key
    example = format_amount(unit, step / 2)
    context = f"{exceeded.text[0].upper()}{exceeded.text[1:]}."
    if answer is not None:
        what = (
            "the amount has no unit" if PLAIN.fullmatch(answer.strip()) else "it is no amount of this budget"
        )
        context = f"{answer.strip()!r:.60} is not understood: {what}. Write one such as {example}. {context}"
    return Clarification(
        id=new_id("q"),
        call_id=f"{OF_TURN}{scope}:{unit}",
        context=context,
        questions=[
            {
                "question": f"Continue, or stop? Another amount can be given, such as {example}.",
                "choices": [f"continue with {format_amount(unit, step)} more", STOP],
                "default": STOP,
            }
        ],
    )


def parse_answer(answer: str | None, key: Key, step: float) -> float | None:
    """How much more an answer allows, 0 for nothing; None when it is not understood.

    A number without a unit has that of the budget; of time it has none, as it could be seconds or minutes.
    """
    word = (answer or "").strip().lower()
    if word in NO:
        return 0.0
    first, _, rest = word.partition(" ")
    if first in CONTINUE:
        word = rest.strip().removeprefix("with ").removesuffix(" more")
        if not word:
            return step
    amount = parse_amount(word)
    if amount is not None:
        return amount[1] if amount[0] == key[1] else None
    plain = word.replace(",", "").replace("_", "")
    if key[1] != "s" and len(plain) <= MOST_AMOUNT_CHARS and PLAIN.fullmatch(plain):
        return float(plain)
    return None


def get_today() -> str:
    """The day in UTC."""
    return now()[:DAY_CHARS]
