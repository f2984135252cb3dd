"""A trace for a terminal: one line a span, and a bar that says when it went on."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaato.cli.screen import one_line
from jaato.cli.trace_tree import Row, Trace
from jaato.runtime.tracing.spans import Span

WAITING = ("permission", "clarification")
"""Operations in which a person is waited for."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """What bars are drawn with."""

    work: str = "█"
    wait: str = "░"
    moment: str = "│"


def symbols(encoding: str | None) -> Symbols:
    """Those that an encoding has."""
    try:
        "█░│".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return Symbols("#", ".", "|")
    return Symbols()


def lines_of(trace: Trace, width: int, drawn: Symbols) -> Iterator[str]:
    """The lines of a trace, each at most `width` characters."""
    start_ns, end_ns = trace.start_ns, trace.end_ns
    rows = list(trace.rows())
    yield one_line(f"{moment(start_ns)}  trace {trace.trace_id}", width)
    labels = [label(row) for row in rows]
    room = min(max(map(len, labels)), max(20, width * 2 // 5))
    bar_chars = max(10, min(40, width - room - 30))
    for row, name in zip(rows, labels, strict=True):
        bar = bar_of(row.span, start_ns, end_ns, bar_chars, drawn)
        took = length(row.span)
        text = f"{name[:room]:<{room}} {bar} {took:>9}  {one_line(said(row.span), 200)}"
        yield text.rstrip() if len(text.rstrip()) <= width else f"{text[: width - 1]}…"
    yield ""


def label(row: Row) -> str:
    """A span's name, indented by its depth."""
    return "  " * row.depth + one_line(row.span.name, 60)


def bar_of(span: Span, start_ns: int, end_ns: int, chars: int, drawn: Symbols) -> str:
    """When a span went on within its trace."""
    whole = max(1, end_ns - start_ns)
    until = span.end_ns if span.end_ns is not None else end_ns
    first = min(chars - 1, (span.start_ns - start_ns) * chars // whole)
    last = min(chars, max(first + 1, -(-(until - start_ns) * chars // whole)))
    sign = drawn.wait if span.operation in WAITING else drawn.work
    if until == span.start_ns:
        sign = drawn.moment
    return f"[{' ' * first}{sign * (last - first)}{' ' * (chars - last)}]"


def length(span: Span) -> str:
    """How long it took."""
    if span.end_ns is None:
        return "goes on"
    seconds = (span.end_ns - span.start_ns) / 1e9
    if seconds < 0.001:
        return "< 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s"
    return str(datetime.timedelta(seconds=int(seconds))) if seconds < 1e9 else f"{seconds:.3g} s"


def moment(at_ns: int) -> str:
    """A time in UTC."""
    try:
        when = datetime.datetime.fromtimestamp(at_ns / 1e9, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return str(at_ns)
    return when.strftime("%Y-%m-%d %H:%M:%S")


def said(span: Span) -> str:
    """What there is to say of a span beside its name: tokens, price, how it ended."""
    known: dict[str, Any] = dict(span.attributes)
    words: list[str] = []
    given, made = known.get("gen_ai.usage.input_tokens"), known.get("gen_ai.usage.output_tokens")
    if isinstance(given, int) and isinstance(made, int) and (given or made):
        words.append(f"{given:,} + {made:,} tokens")
    cost = known.get("jaato.cost_usd")
    if isinstance(cost, int | float) and cost:
        words.append(f"${cost:.4f}")
    if span.operation == "permission":
        words += [str(known[key]) for key in ("jaato.permission.decision",) if key in known]
    if span.operation == "compact" and "jaato.compaction.tokens_after" in known:
        before, after = known.get("jaato.compaction.tokens_before"), known["jaato.compaction.tokens_after"]
        words.append(f"{before} to {after} tokens")
    if span.operation == "background" and "jaato.task.status" in known:
        words.append(str(known["jaato.task.status"]))
    reason = known.get("jaato.turn.reason")
    if span.problem:
        words.append(f"failed: {span.problem}")
    elif reason not in (None, "stop"):
        words.append(str(reason))
    return ", ".join(words)
