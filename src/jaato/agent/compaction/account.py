"""The account of a context: what it consists of, in tokens that add up to the provider's count."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from jaato.agent.compaction.chars import chars_of
from jaato.agent.compaction.window import ContextUsage, usage_fields
from jaato.agent.state import State
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult
from jaato.protocol.specs import ContextBlock, ToolSpec
from jaato.settings.budgets import format_count

CONVERSATION = ("user", "enrichment", "assistant", "thinking", "calls", "results", "notes")
"""The kinds of content that messages bring, as `ContextChars` counts them."""
TITLE_CHARS = 60
WIDTH, NAME_WIDTH, BAR_WIDTH = 80, 28, 30
MAX_LARGEST = 5
Instructions = Callable[[], Sequence[tuple[str, str]]]
"""Gives the instructions of each plugin, by its name."""


class Account(NamedTuple):
    """A context at one moment: its state, how full it is, the declared tools, and what plugins put into the prompt."""

    state: State
    usage: ContextUsage
    tools: Sequence[ToolSpec]
    instructions: Instructions

    def list_blocks(self) -> list[ContextBlock]:
        """The parts of the context; the tokens add up to its total. The cost does not grow with the history."""
        state = self.state
        parts = [*split_prompt(state.system_prompt, tuple(self.instructions()))]
        parts.append(("tools", "", sum(map(spec_chars, self.tools))))
        parts += [(kind, "", getattr(state.chars, kind)) for kind in CONVERSATION]
        sizes = allocate(self.usage.total_tokens, [chars for _, _, chars in parts])
        return [
            ContextBlock(kind, tokens, name)
            for (kind, name, _), tokens in zip(parts, sizes, strict=True)
            if tokens
        ]

    def list_messages(self) -> list[dict[str, Any]]:
        """Each message with its tokens, which add up to those of the conversation. The cost grows with the history."""
        messages = self.state.messages
        total = sum(block.tokens for block in self.list_blocks() if block.kind in CONVERSATION)
        sizes = allocate(total, [chars_of(message) for message in messages])
        return [
            {
                "id": message.id,
                "role": message.role,
                "source": message.source,
                "tokens": tokens,
                "title": title_of(message),
            }
            for message, tokens in zip(messages, sizes, strict=True)
        ]

    def summarize(self, threshold_percent: float | None) -> dict[str, Any]:
        """The account in the documented keys, without the messages. The cost does not grow with the history."""
        return {
            **usage_fields(self.state, self.usage),
            "threshold_percent": threshold_percent,
            "blocks": [msgspec.to_builtins(block) for block in self.list_blocks()],
        }

    def describe(self, threshold_percent: float | None) -> dict[str, Any]:
        """The whole account in the documented keys."""
        return self.summarize(threshold_percent) | {"messages": self.list_messages()}


@functools.lru_cache(maxsize=64)
def split_prompt(prompt: str, instructions: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str, int], ...]:
    """A system prompt as (kind, name, characters): what plugins have put into it, and the rest."""
    found = [
        ("instructions", name, len(text))
        for name, text in ((name, text.strip()) for name, text in instructions)
        if text and text in prompt
    ]
    rest = max(0, len(prompt) - sum(chars for _, _, chars in found))
    return (("system", "", rest), *found)


def count_fixed_chars(prompt: str, tools: Sequence[ToolSpec]) -> int:
    """About how many characters a system prompt and the declarations of tools take."""
    return len(prompt) + sum(map(spec_chars, tools))


def spec_chars(spec: ToolSpec) -> int:
    """About how many characters the declaration of a tool takes."""
    return len(spec.name) + len(spec.description) + len(msgspec.json.encode(spec.parameters))


def allocate(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to weights that add up to `total` (largest remainders first)."""
    whole = sum(weights)
    if not whole:
        return [total, *[0] * (len(weights) - 1)] if weights else []
    shares = [divmod(total * weight, whole) for weight in weights]
    sizes = [share for share, _ in shares]
    order = sorted(range(len(weights)), key=lambda position: -shares[position][1])
    for position in order[: total - sum(sizes)]:
        sizes[position] += 1
    return sizes


def title_of(message: Message) -> str:
    """The beginning of a message in one line, or the tools it calls."""
    calls = [part.name for part in message.parts if isinstance(part, ToolCall)]
    results = [part.name for part in message.parts if isinstance(part, ToolResult)]
    words = next((part.text for part in message.parts if isinstance(part, Text) and part.text.strip()), "")
    text = ", ".join(calls or results) or " ".join(words[: 4 * TITLE_CHARS].split())
    return text if len(text) <= TITLE_CHARS else text[: TITLE_CHARS - 1] + "…"


# --- as text -----------------------------------------------------------------------------------------------------


def account_lines(fields: dict[str, Any]) -> list[str]:
    """An account as bars that fit 80 columns; the largest messages stand at the end."""
    total, limit, threshold = fields["total_tokens"], fields["context_limit"], fields["threshold_percent"]
    lines = [
        f"{total:,} of {limit:,} tokens ({fields['percent_used']:.1f} %)",
        f"limit: {SOURCES[fields['context_limit_source']]}; free: {format_count(fields['tokens_remaining'], 'token')}",
        f"model: {fields['model']}"[:WIDTH],
        f"[{gauge(total, limit, threshold, WIDTH - 2)}]",
    ]
    if threshold is None:
        lines.append("compaction is off; the setting gc turns it on")
    else:
        left = max(0, int(limit * threshold / 100) - total)
        lines.append(f"compacted at {threshold:g} % (|), in {format_count(left, 'token')}")
    lines += [
        bar_line(block.get("name") or block["kind"], block["tokens"], total) for block in fields["blocks"]
    ]
    lines.append(bar_line("free", fields["tokens_remaining"], limit, "."))
    largest = sorted(fields["messages"], key=lambda row: -row["tokens"])[:MAX_LARGEST]
    if largest:
        lines.append("largest messages:")
        lines += [
            f"  {row['tokens']:>9,}  {row['role']:<9}  {row['title']}"[:WIDTH]
            for row in largest
            if row["tokens"]
        ]
    return lines


SOURCES = {
    "setting": "from the settings",
    "catalogue": "known of the model",
    "server": "from the model's server",
    "learned": "learned from a refused request",
    "assumed": "assumed, because nothing is known (setting context_limit)",
}


def gauge(total: int, limit: int, threshold: float | None, width: int) -> str:
    """A bar of the whole context, with the threshold marked."""
    used = min(width, round(width * total / limit))
    cells = list("#" * used + "." * (width - used))
    if threshold is not None:
        cells[min(width - 1, int(width * threshold / 100))] = "|"
    return "".join(cells)


def bar_line(name: str, tokens: int, total: int, sign: str = "#") -> str:
    """One part of the context: its name, its share as a bar, tokens, percent."""
    share = tokens / total if total else 0.0
    bar = sign * min(BAR_WIDTH, max(1 if tokens else 0, round(BAR_WIDTH * share)))
    label = name if len(name) < NAME_WIDTH else name[: NAME_WIDTH - 2] + "…"
    return f"{label:<{NAME_WIDTH}}{bar:<{BAR_WIDTH}}{tokens:>12,}{100 * share:>7.1f} %"
