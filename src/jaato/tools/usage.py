"""Adds up what sessions have used, by day, session, agent, model and tool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import msgspec

from jaato.abc.store import Damaged, UsageRow
from jaato.errors import ConfigError
from jaato.protocol.messages import Usage
from jaato.protocol.usage import AgentBegan, CallUsed, ReplyUsed, SummaryUsed, TurnUsed, UsageRecord
from jaato.settings.budgets import format_count, price_text

Group = Literal["day", "session", "agent", "model", "tool"]
GROUPS: tuple[Group, ...] = get_args(Group)
DEFAULT_GROUPS: tuple[Group, ...] = ("day", "model")
CHARS_PER_TOKEN = 4
MODEL_ITSELF = "(model)"
"""The row of a table by tool that has the model calls."""
SHOWN_DAMAGED = 5


class Totals(msgspec.Struct):
    """What some calls have used; times in seconds. `result_tokens` is an estimate from the length of the results."""

    model_calls: int = 0
    summaries: int = 0
    """Of the model calls, those for summaries of compaction."""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0
    """The price of the calls whose price is known."""
    unpriced_calls: int = 0
    tool_calls: int = 0
    result_tokens: int = 0
    time_s: float = 0.0

    def add_call(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Add one model call."""
        used = usage or Usage()
        self.model_calls += 1
        self.input_tokens += used.input_tokens
        self.cached_input_tokens += used.cached_input_tokens
        self.cache_write_tokens += used.cache_write_tokens
        self.output_tokens += used.output_tokens
        self.reasoning_tokens += used.reasoning_tokens
        self.cost_usd += cost_usd or 0.0
        self.unpriced_calls += cost_usd is None

    @property
    def is_price_unknown(self) -> bool:
        """Whether no call has a known price."""
        return 0 < self.model_calls == self.unpriced_calls

    @property
    def document(self) -> dict[str, Any]:
        """The totals as data; `cost_usd` is None where no call has a known price."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data | {"cost_usd": None} if self.is_price_unknown else data

    @property
    def price_text(self) -> str:
        """The price for people; `at least` where that of some calls is unknown."""
        return price_text(
            None if self.is_price_unknown else self.cost_usd, is_partial=self.unpriced_calls > 0
        )


class UsageReport:
    """The totals of every group, and of all together. Its size is that of the table, whatever the history's.

    `since` and `until` are times in ISO 8601 UTC; empty: unlimited.
    """

    def __init__(self, by: Sequence[Group] = DEFAULT_GROUPS, *, since: str = "", until: str = "") -> None:
        self.by = tuple(dict.fromkeys(by))
        self.since, self.until = since, until
        self.rows: dict[tuple[str, ...], Totals] = {}
        self.total = Totals()
        self.damaged = 0
        self.first_damaged: list[Damaged] = []
        self._session = ""
        self._names: dict[str, str] = {}
        self._models: dict[str, str] = {}

    def add_all(self, records: Iterable[tuple[UsageRow, UsageRecord | Damaged]]) -> UsageReport:
        """Add every record."""
        for row, record in records:
            self.add(row, record)
        return self

    def add(self, row: UsageRow, record: UsageRecord | Damaged) -> None:
        """Add one record; those of a session come together and in order."""
        if row.session_id != self._session:
            self._session = row.session_id
            self._names, self._models = {}, {}
        if isinstance(record, Damaged):
            self.damaged += 1
            if len(self.first_damaged) < SHOWN_DAMAGED:
                self.first_damaged.append(record)
            return
        self._learn(record)
        if record.timestamp < self.since or (self.until and record.timestamp >= self.until):
            return
        if not self._is_counted(record):
            return
        for totals in (self._row(row, record), self.total):
            self._count(totals, record)

    def _learn(self, record: UsageRecord) -> None:
        """Note the name of an agent, and its present model."""
        match record:
            case AgentBegan():
                self._names[record.agent_id] = record.name
                self._models[record.agent_id] = f"{record.provider} {record.model}".strip()
            case ReplyUsed(message=message) if message.model:
                self._models[record.agent_id] = f"{message.provider or ''} {message.model}".strip()

    def _is_counted(self, record: UsageRecord) -> bool:
        """Whether a record belongs to a row. The time of a table by tool is that of the calls, else that of the turns."""
        match record:
            case ReplyUsed() | CallUsed():
                return True
            case SummaryUsed():
                return record.usage is not None
            case TurnUsed():
                return "tool" not in self.by
        return False

    def _row(self, row: UsageRow, record: UsageRecord) -> Totals:
        key = tuple([self._key_part(group, row, record) for group in self.by])
        found = self.rows.get(key)
        if found is None:
            found = self.rows[key] = Totals()
        return found

    def _key_part(self, group: Group, row: UsageRow, record: UsageRecord) -> str:
        match group:
            case "day":
                return record.timestamp[:10]
            case "session":
                return f"{row.session_id} {row.name or ''}".rstrip()
            case "agent":
                return self._names.get(record.agent_id) or "(unknown)"
            case "model":
                return self._models.get(record.agent_id) or "(unknown)"
        return record.tool if isinstance(record, CallUsed) else MODEL_ITSELF

    def _count(self, totals: Totals, record: UsageRecord) -> None:
        match record:
            case ReplyUsed():
                totals.add_call(record.usage, record.cost_usd)
            case SummaryUsed():
                totals.add_call(record.usage, record.cost_usd)
                totals.summaries += 1
            case CallUsed():
                totals.tool_calls += 1
                totals.result_tokens += record.result.chars // CHARS_PER_TOKEN
                totals.time_s += record.duration_s if "tool" in self.by else 0.0
            case TurnUsed():
                totals.time_s += record.duration_s

    @property
    def sorted_rows(self) -> list[tuple[tuple[str, ...], Totals]]:
        """The rows: by day, then the most expensive first."""
        days = self.by[:1] == ("day",)

        def place(item: tuple[tuple[str, ...], Totals]) -> tuple[Any, ...]:
            key, totals = item
            tokens = totals.input_tokens + totals.output_tokens + totals.result_tokens
            return (key[0] if days else "", -totals.cost_usd, -tokens, key)

        return sorted(self.rows.items(), key=place)

    @property
    def document(self) -> dict[str, Any]:
        """The report as data."""
        rows = [dict(zip(self.by, key, strict=True)) | totals.document for key, totals in self.sorted_rows]
        return {
            "by": list(self.by),
            "since": self.since or None,
            "until": self.until or None,
            "rows": rows,
            "total": self.total.document,
            "damaged": self.damaged,
        }

    @property
    def table(self) -> list[list[str]]:
        """The report as rows of text: headings, groups, and the sum of several."""
        heading = [*self.by, *HEADINGS]
        rows = [[*key, *format_totals(totals)] for key, totals in self.sorted_rows]
        total = [["total", *[""] * (len(self.by) - 1), *format_totals(self.total)]] if len(rows) > 1 else []
        return [[word.upper() for word in heading], *rows, *total] if rows else []

    @property
    def text(self) -> str:
        """The table in columns, and the notes."""
        table = self.table
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join([*lines, *self.notes])

    @property
    def notes(self) -> list[str]:
        """What the reader should know of the numbers."""
        found = []
        if self.total.summaries:
            found.append(f"{self.total.summaries:,} of the model calls made summaries for compaction.")
        if self.total.unpriced_calls:
            found.append(f"The price of {format_count(self.total.unpriced_calls, 'model call')} is unknown.")
        if self.damaged:
            places = ", ".join(f"event {one.seq} of {one.session_id}" for one in self.first_damaged)
            more = ", …" if self.damaged > len(self.first_damaged) else ""
            found.append(f"{self.damaged:,} damaged records were skipped: {places}{more}.")
        return found


HEADINGS = ("calls", "input", "cached", "output", "thinking", "tools", "~results", "time", "price")


def format_totals(totals: Totals) -> list[str]:
    """Totals as cells below `HEADINGS`; empty where nothing was counted."""
    tokens = (
        totals.input_tokens,
        totals.cached_input_tokens,
        totals.output_tokens,
        totals.reasoning_tokens,
    )
    return [
        f"{totals.model_calls:,}" if totals.model_calls else "",
        *[f"{count:,}" if totals.model_calls else "" for count in tokens],
        f"{totals.tool_calls:,}" if totals.tool_calls else "",
        f"~{totals.result_tokens:,}" if totals.tool_calls else "",
        format_duration(totals.time_s) if totals.time_s else "",
        totals.price_text if totals.model_calls else "",
    ]


def format_duration(seconds: float) -> str:
    """A duration for people."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"


def parse_groups(text: str) -> tuple[Group, ...]:
    """The groups of `day,model`. Raises `ConfigError`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known: dict[str, Group] = {group: group for group in GROUPS}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ConfigError(
            f"Usage is grouped by {', '.join(GROUPS)}, or several of them, as day,model; not {text!r:.80}."
        )
    return tuple(dict.fromkeys(known[name] for name in names))
