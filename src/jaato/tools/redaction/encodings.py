"""Secret values in all their encodings, and where one stands, begins or ends in a text."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import threading
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from jaato.tools.redaction.patterns import LEAST_CHARS

LINE = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
ESCAPES = re.compile(r"%[0-9A-F]{2}")
LEAST_INNER_CHARS = 12
"""A value in the middle of something in base64 must be so long there, or ordinary text would be taken for it."""
PREFIX_CHARS = 64
"""So much of the beginning of a value is recognised at the end of a text that goes on."""
FEW = 300
"""So many values are looked for one by one; more by the pieces of the text."""
GRAM, STEP, BLOCK_CHARS = 6, LEAST_CHARS - 5, 65_536
"""A text is looked through in pieces of six characters, one in three: each value has one of them at one of its first three places."""


class ValueIndex:
    """The forms of all values. Safe from any thread; what is looked up takes the same time for ten and ten thousand."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._begins: set[str] = set()
        self._ends: set[str] = set()
        self._heads: dict[str, tuple[str, ...]] = {}
        self._tails: dict[str, tuple[str, ...]] = {}
        self._grams: dict[str, tuple[str, ...]] = {}
        self.few: tuple[str, ...] | None = ()
        """All forms, while they are few."""
        self.long: tuple[str, ...] = ()
        """Forms longer than any prefix, the longest first."""
        self.longest = 0

    def add(self, texts: Iterable[tuple[str, str]]) -> None:
        """Know these forms, each with its name; one that is known keeps the name it has."""
        with self._lock:
            new = {text: name for text, name in texts if text not in self._names}
            for text in new:
                self._note(text)
            self._names |= new
            grown = [text for text in new if len(text) > PREFIX_CHARS]
            self.long = tuple(sorted((*self.long, *grown), key=len, reverse=True)) if grown else self.long
            self.longest = max(self.longest, *map(len, new), 0)
            self.few = tuple(self._names) if len(self._names) <= FEW else None

    def _note(self, text: str) -> None:
        for size in range(1, LEAST_CHARS):
            self._begins.add(text[:size])
            self._ends.add(text[-size:])
        put(self._heads, text[:LEAST_CHARS], text)
        put(self._tails, text[-LEAST_CHARS:], text)
        for at in range(STEP):
            put(self._grams, text[at : at + GRAM], text)

    def name(self, text: str) -> str:
        """The name of the secret of a form."""
        return self._names[text]

    def present(self, text: str) -> Iterator[str]:
        """Every form that stands in the text."""
        if self.few is not None:
            yield from (value for value in self.few if value in text)
            return
        seen: set[str] = set()
        grams = self._grams
        for start in range(0, len(text), BLOCK_CHARS):
            stop = min(start + BLOCK_CHARS, len(text) - GRAM + 1)
            pieces = {text[at : at + GRAM] for at in range(start + -start % STEP, stop, STEP)}
            for gram in pieces & grams.keys():
                for value in grams[gram]:
                    if value not in seen:
                        seen.add(value)
                        if value in text:
                            yield value

    def prefix_length(self, text: str) -> int:
        """How many of the last characters of a text may be the beginning of a value, of at most `PREFIX_CHARS`. One
        character begins nothing: too many words end in it."""
        size = len(text)
        for length in range(min(PREFIX_CHARS, size), LEAST_CHARS - 1, -1):
            end = text[size - length :]
            if any(len(v) > length and v.startswith(end) for v in self._heads.get(end[:LEAST_CHARS], ())):
                return length
        return next((n for n in range(min(LEAST_CHARS - 1, size), 1, -1) if text[-n:] in self._begins), 0)

    def suffix_length(self, text: str) -> int:
        """How many of the first characters of a text, at least five, are the end of a value that began before it."""
        for length in range(min(PREFIX_CHARS, len(text)), LEAST_CHARS - 1, -1):
            start = text[:length]
            if any(len(v) > length and v.endswith(start) for v in self._tails.get(start[-LEAST_CHARS:], ())):
                return length
        least = LEAST_CHARS // 2
        return next(
            (n for n in range(min(LEAST_CHARS - 1, len(text)), least, -1) if text[:n] in self._ends), 0
        )


def put(table: dict[str, tuple[str, ...]], key: str, text: str) -> None:
    """Note one text more under a key; who reads meanwhile sees the old or the new."""
    table[key] = (*table.get(key, ()), text)


def encode_all(value: str) -> list[str]:
    """A secret as it may stand in a text: as it is, quoted, inside JSON, in an address, in a page, in base64 wherever it
    begins there, and its lines."""
    whole = value.strip()
    encoded = whole.encode("utf-8", "surrogatepass")
    made = [whole, *in_json(whole), *in_addresses(encoded), *in_quotes(whole), *in_base64(encoded)]
    lines = whole.replace("\\r", "").replace("\\n", "\n").splitlines()
    if len(lines) > 1:
        made += [line.strip() for line in lines if LINE.fullmatch(line.strip())]
    return [text for text in dict.fromkeys(made) if len(text) >= LEAST_CHARS]


def in_json(whole: str) -> list[str]:
    """Inside JSON, inside JSON in JSON, and as those write it who escape slashes, or what a page must not have."""
    once, plain = json.dumps(whole)[1:-1], json.dumps(whole, ensure_ascii=False)[1:-1]
    page = plain.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return [once, plain, json.dumps(once)[1:-1], plain.replace("/", "\\/"), page]


def in_addresses(encoded: bytes) -> list[str]:
    """Percent-encoded: wholly, with slashes left, as browsers do it; with small letters, too."""
    quoted = [quote(encoded, safe=safe) for safe in ("", "/", "!'()*")]
    return [*quoted, *(ESCAPES.sub(lambda found: found[0].lower(), text) for text in quoted)]


def in_quotes(whole: str) -> list[str]:
    """Inside the quotation marks of a shell, of SQL and YAML, and in a page."""
    return [
        shlex.quote(f" {whole}")[2:-1],
        whole.replace("'", "''"),
        html.escape(whole),
        html.escape(whole, quote=False),
    ]


def in_base64(encoded: bytes) -> list[str]:
    """In base64 and its variant for addresses, at the beginning and after one or two bytes of something else."""
    made: list[str] = []
    for skipped, least in ((0, LEAST_CHARS), (1, LEAST_INNER_CHARS), (2, LEAST_INNER_CHARS)):
        size = (skipped + len(encoded)) * 4 // 3
        first = skipped + 1 if skipped else 0
        text = base64.b64encode(bytes(skipped) + encoded).decode()[first:size]
        if len(text) >= least:
            made += [text, text.replace("+", "-").replace("/", "_")]
    return made
