"""Text of strangers as a model or a user reads it: what cannot be seen, or turns the text round, is spelt out."""

from __future__ import annotations

import json
import re

UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
    "|\r(?!\n)|[\u200c\u200d\ufe00-\ufe0f]{3,}"
)
"""Controls, marks of direction, tags and fillers; joiners and variants in a row, which scripts and emoji have singly."""


def spelt_out(text: str) -> str:
    """The text with everything unseen as `\\uXXXX`; line ends, tabs and what scripts and emoji need stay."""
    if text.isascii() and text.isprintable():
        return text
    return UNSEEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(text: str, most: int) -> str:
    """A text in one line of bounded length, spelt out."""
    flat = " ".join(spelt_out(" ".join(text[: most * 4].split())).split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def quoted(text: str) -> str:
    """A text in quotation marks that it cannot end."""
    return json.dumps(spelt_out(text), ensure_ascii=False)
