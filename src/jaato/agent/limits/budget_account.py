"""The account of a root session: reserves what a model call may use, and asks the user when a budget is used up."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import NoReturn

import anyio
from msgspec import Struct

from jaato.abc.asker import Clarification
from jaato.agent.journal import Journal
from jaato.agent.limits.day_spending import DaySpending
from jaato.agent.limits.spending import DAY_CHARS, Amount, Budget, Key
from jaato.agent.questions import OF_TURN, Questions
from jaato.errors import LimitReached
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.events import BudgetUpdated, Event, GcCompleted, MessageModel, now
from jaato.protocol.ids import new_id
from jaato.settings.budgets import MOST_AMOUNT_CHARS, format_amount, parse_amount

LOOK_S = 0.25
"""How often the reservations of other processes are looked at while a call waits for them."""
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
    day: str = ""
    """The day that is meant, where the clock shows an earlier one."""

    @property
    def text(self) -> str:
        """The limit and its use in words."""
        name, unit = self.key
        scope: str = name
        limit, needed = format_amount(unit, self.limit), format_amount(unit, self.needed)
        if self.day:
            scope = f"{scope} ({self.day}, that of the newest record; the clock shows an earlier one)"
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
        self._day: DaySpending | None = None
        if any(scope == "day" for scope, _ in self._limits):
            self._day = DaySpending(journal)
            journal.bus.listen(self._release_recorded)

    def _raise_limits(self) -> None:
        """Give the budgets that were used up as much again."""
        for key, event in self._spending.budgets.items():
            if key[0] == "session" or (key[0] == "day" and is_of_today(event)):
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
        if key[0] == "day" and not is_of_today(event):
            return base
        return max(base, event.limit)

    def get_used(self, key: Key) -> float:
        """What was used, with replies whose event is not recorded yet."""
        scope, unit = key
        spending = self._spending
        now_used = self._open_turn_s() if unit == "s" else total_of(spending.unrecorded).of(unit)
        if scope == "turn":
            return now_used + spending.turn.of(unit)
        if scope == "session":
            return now_used + spending.session.of(unit)
        day = self._day
        return now_used + (0.0 if day is None else day.own.of(unit) + day.used.of(unit))

    def _open_turn_s(self) -> float:
        """The time of the open turn, without the time in which a question was pending."""
        open_turn = self._journal.state.open_turn or ""
        if self._clock[0] != open_turn:
            self._clock = (open_turn, time.monotonic() - self._questions.waited_s)
        return time.monotonic() - self._questions.waited_s - self._clock[1] if open_turn else 0.0

    def _find_exceeded(self, need: Amount, *, with_reserved: bool) -> Exceeded | None:
        """The first limit a call would exceed, after what is used and, if asked, reserved."""
        for key in self._limits:
            limit, used, unit = self.get_limit(key) or 0.0, self.get_used(key), key[1]
            needed = need.of(unit)
            reserved = self._get_reserved(key) if with_reserved else 0.0
            if used >= limit if unit == "s" else used + reserved + needed > limit:
                late = self._day.date if self._day is not None and key[0] == "day" else ""
                return Exceeded(key, limit, used, needed, late if late > now()[:DAY_CHARS] else "")
        return None

    def _get_reserved(self, key: Key) -> float:
        """What running calls have reserved; of a day's budget also those of other sessions."""
        scope, unit = key
        others = self._day.reserved.of(unit) if self._day is not None and scope == "day" else 0.0
        return others + total_of(self._reserved).of(unit)

    # --- reserving -----------------------------------------------------------------------------------------------

    async def reserve(
        self, agent_id: str, least: Amount, most: Amount | None = None, *, asks: bool = True
    ) -> float:
        """Reserve a model call of an agent, at least `least`, at most `most`; returns how much of what lies between them, from
        0 to 1. Waits for other calls where it fits after them, and for the user's answer where it does not. Without `asks` it
        waits for nothing. Raises `LimitReached`."""
        self._reserved.pop(agent_id, None)
        while True:
            async with contextlib.nullcontext() if self._day is None else self._day.lock():
                if self._stopped is not None and self._stopped[0] == self._spending.turn_id:
                    raise LimitReached(self._stopped[1])
                if self._find_exceeded(least, with_reserved=True) is None:
                    return self._grant(agent_id, least, most or least)
            exceeded = self._find_exceeded(least, with_reserved=False)
            if not asks:
                raise LimitReached("The budget does not allow it.")
            if exceeded is not None:
                await self._ask(agent_id, least)
                continue
            look_s = None if self._day is None else LOOK_S
            with anyio.move_on_after(look_s):
                await self._released.wait()

    def _grant(self, agent_id: str, least: Amount, most: Amount) -> float:
        """Reserve as much as there is, without taking from other agents at work their part of it."""
        subagents = self._journal.session_state.subagents.values()
        agents = 1 + sum(one.completed is None for one in subagents)
        share = 1.0
        for key in self._limits:
            unit = key[1]
            extra = most.of(unit) - least.of(unit)
            if unit != "s" and extra > 0:
                left = (self.get_limit(key) or 0.0) - self.get_used(key)
                free = min(left - self._get_reserved(key), left / agents)
                share = min(share, max(0.0, free - least.of(unit)) / extra)
        reserved = {**self._reserved, agent_id: least.grown(most, share)}
        if self._day is not None:
            self._day.reserve(total_of(reserved, self._spending.unrecorded))
        self._reserved = reserved
        return share

    @property
    def _pending(self) -> Amount:
        """What running calls have reserved, and what replies have used that are not recorded yet."""
        return total_of(self._reserved, self._spending.unrecorded)

    def settle(self, agent_id: str, used: Amount | None) -> None:
        """End a reservation: the call has used this, None for nothing that is known."""
        self._reserved.pop(agent_id, None)
        if used is not None:
            self._spending.unrecorded.setdefault(agent_id, Amount()).add(used)
        if self._day is not None:
            self._day.release(self._pending)
        self._released.set()
        self._released = anyio.Event()

    def _release_recorded(self, event: Event) -> None:
        """Release for other sessions what they can read in the log now."""
        if self._day is not None and isinstance(event, MessageModel | GcCompleted):
            self._day.release(self._pending)

    async def _ask(self, agent_id: str, need: Amount) -> None:
        """Ask the user for more. Raises `LimitReached` when there is none."""
        async with self._asking:
            exceeded = self._find_exceeded(need, with_reserved=False)
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


def total_of(*amounts: Mapping[str, Amount]) -> Amount:
    """The sum of amounts by agent."""
    total = Amount()
    for by_agent in amounts:
        for one in by_agent.values():
            total.add(one)
    return total


def is_of_today(event: BudgetUpdated) -> bool:
    """Whether a day's budget was used up or extended today, or at a time that the clock has not reached again."""
    return event.timestamp[:DAY_CHARS] >= now()[:DAY_CHARS]
