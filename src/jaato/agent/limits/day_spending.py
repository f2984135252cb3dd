"""What the sessions of a store have used of a day's budget, and what they have reserved, whatever the clock shows."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread

from jaato.abc.store import BudgetDay, Damaged, UsageQuery
from jaato.agent.journal import Journal
from jaato.agent.limits.spending import DAY_CHARS, Amount
from jaato.errors import LimitReached, StoreError
from jaato.log import logger
from jaato.protocol.events import now
from jaato.protocol.usage import AgentBegan, ReplyUsed, SummaryUsed, TurnUsed, UsageRecord

LOG = logger("budget")
LOCK_TRIES, TRY_AGAIN_S = 3_000, 0.01


class DaySpending:
    """The other sessions' part of the day; each reading takes only what is new. Used on the loop.

    `date` is that of the clock, but never one before the newest record of the store: a clock that was set back hides
    nothing. What is recorded then counts for that day, in the order of the logs and not by its timestamps.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ledger = journal.store.day_ledger
        self._session_id = journal.state.session_id
        self._reading = anyio.Lock()
        self._clock = ""
        self._query = UsageQuery()
        self._late: dict[str, UsageQuery] = {}
        self._roots: set[str] = set()
        self.date = ""
        self.used = Amount()
        """What other sessions have used, and this one in an earlier process while its clock was late."""
        self.reserved = Amount()
        """What other sessions had reserved when the ledger was locked."""

    @property
    def own(self) -> Amount:
        """What this session has used in the day."""
        spending = self._journal.session_state.spending
        return spending.day if spending.date >= self.date else Amount()

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Keep other sessions from reserving, with all that was used and reserved up to now. Raises `StoreError`, and
        `LimitReached` where another process does not unlock the ledger."""
        await self._read(is_locked=False)  # so that little is read, and the lock is held briefly
        for _ in range(LOCK_TRIES):
            if (unlock := self._ledger.try_lock()) is not None:
                break
            await anyio.sleep(TRY_AGAIN_S)
        else:
            raise LimitReached(
                "The budget per day cannot be checked: another process does not release it. Try again."
            )
        try:
            await self._read(is_locked=True)
            yield
        finally:
            unlock()

    def reserve(self, amount: Amount) -> None:
        """Say what this session has reserved; more than before under the lock only. Raises `StoreError`."""
        self._ledger.reserve(self._session_id, amount.tokens, amount.usd)

    def release(self, amount: Amount) -> None:
        """Say that this session has reserved no more than this now."""
        try:
            self.reserve(amount)
        except StoreError as error:
            LOG.warning("The reservation of session %s is not released: %s", self._session_id, error)

    async def _read(self, *, is_locked: bool) -> None:
        async with self._reading:
            self._journal.flush()
            seq, spending = self._journal.state.seq, self._journal.session_state.spending
            await anyio.to_thread.run_sync(self._read_new, seq, spending.date, is_locked)
            spending.begin_day(self.date)

    def _read_new(self, seq: int, own_date: str, is_locked: bool) -> None:
        """Add what is new; in the thread, as a cancelled reading has taken place all the same."""
        saved, clock = self._ledger.load_day(), now()[:DAY_CHARS]
        self._begin_day(max(saved.date, self.date, clock, self._find_newest_date(clock)))
        known = saved if saved.date == self.date else BudgetDay(self.date)
        is_first = self._session_id not in self._late
        if is_locked:
            if clock < self.date and self._session_id not in known.late:
                known = BudgetDay(self.date, {**known.late, self._session_id: seq})
                is_first = False  # nothing of it is late yet
            if known != saved:
                self._ledger.save_day(known)
            self.reserved = Amount(*self._ledger.read_reserved(self._session_id))
        for _, record in self._journal.store.usage.read(self._query):
            if not isinstance(record, Damaged):
                self._add(record, is_today=record.timestamp >= self.date)
        for session_id, after in known.late.items():
            query = self._late.setdefault(session_id, UsageQuery(session_id=session_id))
            if session_id != self._session_id or (is_first and own_date < self.date):
                for _, record in self._journal.store.usage.read(query):
                    if not isinstance(record, Damaged):
                        self._add(record, is_today=record.seq > after and record.timestamp < self.date)

    def _find_newest_date(self, clock: str) -> str:
        """The day of the newest record, looked up once for each day of the clock."""
        if clock == self._clock:
            return ""
        self._clock = clock
        return max([row.updated_at[:DAY_CHARS] for row in self._journal.store.sessions(limit=1)], default="")

    def _begin_day(self, date: str) -> None:
        if date != self.date:
            self.date, self.used, self._roots, self._late = date, Amount(), set(), {}
            self._query = UsageQuery(since=date, except_session=self._session_id)

    def _add(self, record: UsageRecord, *, is_today: bool) -> None:
        if isinstance(record, AgentBegan):
            if record.parent_agent_id is None:
                self._roots.add(record.agent_id)
        elif is_today:
            self.used.add(self._amount_of(record))

    def _amount_of(self, record: UsageRecord) -> Amount:
        match record:
            case ReplyUsed(usage=usage) | SummaryUsed(usage=usage) if usage is not None:
                return Amount(usage.input_tokens + usage.output_tokens, record.cost_usd or 0.0)
            case ReplyUsed():
                return Amount(record.context_tokens, record.cost_usd or 0.0)
            case TurnUsed() if record.agent_id in self._roots:
                return Amount(s=record.duration_s)
        return Amount()
