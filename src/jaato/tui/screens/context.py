"""The screen of the context: what it consists of, as bars, and its largest messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jaato.cli.output.console import one_line
from jaato.settings.budgets import format_count
from jaato.tui.screens.list_screen import Line, LinkSubject, Row

MOST = 200
"""Messages that are listed."""
BAR_CHARS = 24


class ContextSubject(LinkSubject[dict[str, Any]]):
    """What the model's context consists of, as bars."""

    title = "Context"

    async def rows(self, _query: str) -> Sequence[Row[dict[str, Any]]]:
        """The whole, and the largest messages."""
        account = json.loads(await self._link.session.execute("context", "json"))
        largest = sorted(account["messages"], key=lambda message: -message["tokens"])
        rows = [
            Row(message["id"], f"{message['tokens']:>7,}  {message['role']:<9} {message['title']}", message)
            for message in largest
        ]
        return [Row("", "all of it", account), *rows[:MOST]]

    async def preview(self, row: Row[dict[str, Any]]) -> Sequence[Line]:
        """A bar for each part, or a message."""
        if row.id:
            tokens = format_count(row.item["tokens"], "token")
            return [(f"{row.item['role']}, {tokens}", "bold"), (row.item["title"], "")]
        account = row.item
        total, limit = account["total_tokens"], account["context_limit"]
        lines: list[Line] = [(f"{total:,} of {limit:,} tokens ({account['percent_used']:.1f}%)", "bold")]
        blocks = [(block.get("name") or block["kind"], block["tokens"]) for block in account["blocks"]]
        lines += [(format_bar(name, tokens, total), "") for name, tokens in blocks]
        lines += [
            ("Shares are of what is used.", "dim"),
            (f"free: {format_count(account['tokens_remaining'], 'token')}", "dim"),
        ]
        if (threshold := account["threshold_percent"]) is not None:
            lines.append((f"compacted at {threshold:g} %; /compact does it now", "dim"))
        return lines


def format_bar(name: str, tokens: int, total: int) -> str:
    """A part of the context: its name, a bar, its tokens and its share."""
    share = tokens / total if total else 0
    bar = "━" * round(share * BAR_CHARS) or "╸"
    return f"{one_line(name, 18):<18} {bar:<{BAR_CHARS}} {tokens:>9,} {share:>6.1%}"
