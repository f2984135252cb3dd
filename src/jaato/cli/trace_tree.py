"""Spans as the trees they are: a trace for each turn of the root, children below their parents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jaato.runtime.tracing.spans import Span

MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Row:
    """A span and how deep it stands."""

    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of one trace, in the order they were made."""

    trace_id: str
    spans: list[Span]

    @property
    def start_ns(self) -> int:
        """When the first began."""
        return min(span.start_ns for span in self.spans)

    @property
    def end_ns(self) -> int:
        """When the last thing known happened."""
        return max(span.end_ns if span.end_ns is not None else span.start_ns for span in self.spans)

    def rows(self) -> Iterator[Row]:
        """Every span once: parents before children, brothers and sisters by their beginning. One whose parent is not there
        stands at the top."""
        known = {span.span_id: span for span in self.spans}
        below: dict[str, list[Span]] = {}
        for span in known.values():
            parent = span.parent_id if span.parent_id in known and span.parent_id != span.span_id else ""
            below.setdefault(parent, []).append(span)
        left = dict(known)
        while left:
            tops = [span for span in below.get("", []) if span.span_id in left]
            tops = tops or [min(left.values(), key=order)]  # parents in a circle: a file can say anything
            waiting = [Row(span, 0) for span in sorted(tops, key=order, reverse=True)]
            while waiting:
                row = waiting.pop()
                if left.pop(row.span.span_id, None) is None:
                    continue
                yield row
                children = sorted(below.get(row.span.span_id, []), key=order, reverse=True)
                waiting += [Row(child, min(row.depth + 1, MAX_DEPTH)) for child in children]


def order(span: Span) -> tuple[int, int, str]:
    """Where a span stands among those beside it: by its beginning, a shorter one first, as what came before the other."""
    return (span.start_ns, span.end_ns or 2**63, span.span_id)


def traces_of(spans: Iterable[Span]) -> list[Trace]:
    """The traces of spans, the earliest first; a span that is there twice counts once, as it was told last."""
    found: dict[str, dict[str, Span]] = {}
    for span in spans:
        found.setdefault(span.trace_id, {})[span.span_id] = span
    traces = [Trace(trace_id, list(known.values())) for trace_id, known in found.items()]
    return sorted(traces, key=lambda trace: trace.start_ns)
