"""Traces as a page for a browser, complete in itself: no script, nothing loaded."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from jaato.cli.screen import visible
from jaato.cli.trace_lines import WAITING, length, moment, said
from jaato.cli.trace_tree import Row, Trace

STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
h1 { font-size: 18px } h2 { font-size: 14px; color: #555; margin: 2em 0 .5em }
table { border-collapse: collapse; width: 100% }
td { padding: 1px 8px; white-space: nowrap } td.line { width: 55%; background: #f6f6f6; position: relative }
td.length, td.said { color: #555; font-variant-numeric: tabular-nums }
i { position: absolute; top: 3px; bottom: 3px; min-width: 2px; background: #4b7bec }
i.chat { background: #8854d0 } i.execute_tool { background: #20bf6b } i.failed { background: #eb3b5a }
i.waits { background: repeating-linear-gradient(90deg, #f7b731 0 4px, #fff 4px 6px) }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } td.line { background: #242424 } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
KNOWN = ("chat", "execute_tool")


def page(title: str, traces: list[Trace]) -> str:
    """The page of these traces."""
    name = escape(visible(title))
    head = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{STYLE}</style></head>'
    )
    body = "\n".join(line for trace in traces for line in table(trace))
    return f"{head}\n<body><h1>{name}</h1>\n{body}\n</body></html>\n"


def table(trace: Trace) -> Iterator[str]:
    """One trace."""
    yield f"<h2>{escape(moment(trace.start_ns))} &middot; {escape(visible(trace.trace_id))}</h2><table>"
    for row in trace.rows():
        yield line(row, trace.start_ns, max(1, trace.end_ns - trace.start_ns))
    yield "</table>"


def line(row: Row, start_ns: int, whole: int) -> str:
    """One span: its name, its bar, its length and what else there is to say; its attributes when it is pointed at."""
    span = row.span
    until = span.end_ns if span.end_ns is not None else start_ns + whole
    left, wide = 100 * (span.start_ns - start_ns) / whole, 100 * (until - span.start_ns) / whole
    look = "waits" if span.operation in WAITING else span.operation if span.operation in KNOWN else ""
    look = "failed" if span.problem else look
    known = "\n".join(f"{key}: {value}" for key, value in span.attributes.items())
    return (
        f'<tr title="{escape(visible(known))}"><td style="padding-left:{row.depth * 18 + 8}px">'
        f'{escape(visible(span.name))}</td><td class="line">'
        f'<i class="{look}" style="left:{min(left, 99.8):.3f}%;width:{min(wide, 100 - left):.3f}%"></i></td>'
        f'<td class="length">{length(span)}</td><td class="said">{escape(visible(said(span)))}</td></tr>'
    )
