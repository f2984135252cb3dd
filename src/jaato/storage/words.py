"""The words of a session that a search finds, what a search asks for, and the place where they stand."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from jaato.protocol.events import (
    Event,
    MessageModel,
    MessageUser,
    MidTurnQueued,
    SessionCreated,
    SessionUpdated,
    ToolCallEnd,
)
from jaato.protocol.messages import Media, Message, Refusal, Text, ToolCall

VERSION = 1
"""Goes up whenever `text_of` gives other words: an index of other words is made anew."""
MESSAGE_CHARS = 200_000
RESULT_CHARS = 4_000
ARGUMENT_CHARS = 1_000
MAX_ARGUMENTS = 50
MAX_QUERY_CHARS = 1_000
MAX_WORDS = 16
MAX_WORD_CHARS = 100
PREFIX_CHARS = 3
"""A word of so many characters is found as the beginning of a longer one, too."""
SNIPPET_CHARS = 160
BEFORE_CHARS = 50
QUOTED = re.compile(r'"([^"]*)"|(\S+)')


def text_of(event: Event) -> str:
    """What of an event can be searched: names, what was said, what tools were given and the beginning of what they gave."""
    match event:
        case SessionCreated(name=str(name)):
            return name
        case SessionUpdated():
            return "\n".join([text for text in (event.name, event.description) if text])
        case MessageUser() | MessageModel() | MidTurnQueued():
            return said(event.message)[:MESSAGE_CHARS]
        case ToolCallEnd(result=result):
            texts = [part.text for part in result.content if isinstance(part, Text)]
            return "\n".join([*texts, result.error.message if result.error else ""])[:RESULT_CHARS]
    return ""


def said(message: Message) -> str:
    """The words of a message, calls and the names of attachments included."""
    found: list[str] = []
    for part in message.parts:
        match part:
            case Text() | Refusal():
                found.append(part.text)
            case ToolCall():
                found.append(f"{part.name} {' '.join(values(part.arguments))}")
            case Media(name=str(name)):
                found.append(name)
    return "\n".join(found)


def values(arguments: dict[str, Any]) -> list[str]:
    """The texts among arguments."""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return [text[:ARGUMENT_CHARS] for text in texts[:MAX_ARGUMENTS]]


def terms_of(query: str) -> list[str]:
    """What a query asks for, as phrases for FTS5 that hold no operator of its language; empty for nothing to look for.

    Each word must be there, also as the beginning of a longer one; in double quotes, words in this order.
    """
    text = query[:MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
    terms: dict[str, None] = {}
    for quoted, word in QUOTED.findall(text):
        wanted = " ".join(plain(quoted or word).split())[:MAX_WORD_CHARS]
        if any(character.isalnum() for character in wanted):
            beginning = "" if quoted or len(wanted) < PREFIX_CHARS else " *"
            terms[f'"{wanted}"{beginning}'] = None
    return list(terms)[:MAX_WORDS]


def plain(text: str) -> str:
    """A text with nothing but letters, digits and marks in it; a blank for all else."""
    return "".join([sign if unicodedata.category(sign)[0] in "LNM" else " " for sign in text])


def snippet(text: str, terms: list[str]) -> str:
    """A line of the text around the first place where one of the terms stands."""
    words = [term.strip('" *').split()[0] for term in terms]
    shown = " ".join([part for part in unmarked(text).split() if part])
    at = -1
    folded = shown.casefold()
    for word in words:
        found = re.search(rf"(?<!\w){re.escape(word.casefold())}", folded)
        if found and (at < 0 or found.start() < at):
            at = found.start()
    begin = max(0, min(at, len(shown)) - BEFORE_CHARS)
    cut = shown[begin : begin + SNIPPET_CHARS]
    return f"{'…' if begin else ''}{cut}{'…' if begin + SNIPPET_CHARS < len(shown) else ''}"


def unmarked(text: str) -> str:
    """A text without what would steer a terminal."""
    return "".join([sign if sign.isprintable() else " " for sign in text])
