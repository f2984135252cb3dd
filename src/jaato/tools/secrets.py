"""Secrets out of sight: what is kept, shown and sent names them and does not say them.

Exact values (of the environment, of saved keys) and known shapes (keys of services, tokens, private keys) become
`[masked:NAME:xxxxxx]`; the digits tell two values apart and are different in every process.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets as randomness
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from jaato.tools import secret_shapes
from jaato.tools.secret_shapes import Span
from jaato.tools.secret_words import LEAST_CHARS

PLACEHOLDER = re.compile(r"\[masked:[A-Za-z0-9_.-]{1,64}:[0-9a-f]{6}\]")
NAME = re.compile(r"[^A-Za-z0-9_.-]")
LINE = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
TOKEN_BYTES = secret_shapes.TOKEN_CHARS.encode()
PREFIX_CHARS = 64
"""So much of the beginning of a value is recognised at the end of a text that goes on."""

REMEMBERED, REMEMBERED_CHARS = 1000, 200
"""Short texts known to hold no secret: reasons, names, arguments that are said again and again."""


class Secrets:
    """The secrets of one process and what they look like. Safe from any thread; `add` makes more known.

    `Secrets.none()` knows nothing and masks nothing.
    """

    def __init__(self, named: Mapping[str, str] | None = None, *, shapes: bool = True) -> None:
        self._shapes = shapes
        self._key = randomness.token_bytes(16)
        self._texts: dict[str, str] = {}
        self._ordered: tuple[str, ...] = ()
        self._prefixes: frozenset[str] = frozenset()
        self._quick: tuple[str, ...] = ()
        self._clean: set[str] = set()
        self.active = True
        self._know({name: value for name, value in (named or {}).items() if value})

    @classmethod
    def none(cls) -> Secrets:
        """Nothing is secret, whatever is added."""
        made = cls(shapes=False)
        made.active = False
        return made

    def add(self, name: str, value: str) -> None:
        """Mask this value from now on, under this name; one of fewer than eight characters cannot be."""
        if self.active:
            self._know({name: value})

    def _know(self, named: Mapping[str, str]) -> None:
        texts = dict(self._texts)
        for name, value in named.items():
            for form in forms(value):
                texts.setdefault(form, NAME.sub("_", name)[:64] or "secret")
        ordered = tuple(sorted(texts, key=len, reverse=True))
        begins = secret_shapes.BEGINNINGS if self._shapes else ()
        self._prefixes = frozenset(
            text[:size] for text in (*ordered, *begins) for size in range(1, min(len(text), PREFIX_CHARS + 1))
        )
        self._texts, self._ordered, self._clean = texts, ordered, set()
        self._quick = (*(secret_shapes.SIGNS if self._shapes else ()), *ordered)

    @property
    def longest(self) -> int:
        """Characters of the longest value or beginning that is known."""
        return max(map(len, self._quick), default=0)

    # --- whole texts -------------------------------------------------------------------------------------------

    def hit(self, text: str) -> bool:
        """Whether a text may hold a secret; False is certain."""
        return len(text) >= LEAST_CHARS and any(map(text.__contains__, self._quick))

    def mask(self, text: str) -> str:
        """The text with a placeholder for each secret."""
        size = len(text)
        if size < LEAST_CHARS or text in self._clean:
            return text
        if any(map(text.__contains__, self._quick)):
            return self._replaced(text, self._spans(text))
        if size <= REMEMBERED_CHARS:
            if len(self._clean) >= REMEMBERED:
                self._clean = set()
            self._clean.add(text)
        return text

    def masked(self, value: Any) -> Any:
        """Plain data with all text masked; only what changes is made anew."""
        match value:
            case str():
                return self.mask(value)
            case dict():
                return self._table(value)
            case list() | tuple():
                items = [self.masked(item) for item in value]
                same = all(new is old for new, old in zip(items, value, strict=True))
                return value if same else type(value)(items)
        return value

    def _table(self, table: dict[Any, Any]) -> dict[Any, Any]:
        changed = False
        made = {}
        for key, item in table.items():
            new_key, new = self.masked(key), self.masked(item)
            changed = changed or new is not item or new_key is not key
            made[new_key] = new
        return made if changed else table

    def _spans(self, text: str) -> list[Span]:
        found = secret_shapes.spans(text) if self._shapes else []
        for value in self._ordered:
            at = text.find(value)
            while at >= 0:
                found.append(Span(at, at + len(value), self._texts[value]))
                at = text.find(value, at + len(value))
        found.sort(key=lambda span: (span.start, -span.end))
        return found

    def _replaced(self, text: str, spans: list[Span]) -> str:
        parts: list[str] = []
        at = 0
        for group in joined(spans):
            parts += [text[at : group.start], self._placeholder(text[group.start : group.end], group.kind)]
            at = group.end
        return "".join([*parts, text[at:]]) if parts else text

    def _placeholder(self, value: str, kind: str) -> str:
        digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=self._key, digest_size=3)
        return f"[masked:{kind}:{digest.hexdigest()}]"

    # --- texts that go on --------------------------------------------------------------------------------------

    def split(self, text: str, seen: int = 0) -> tuple[str, str]:
        """What can be shown of a text that goes on, masked, and its end, in which a secret may have begun. The first
        `seen` characters are shown already. One character begins nothing: too many words end in it."""
        cut = len(text)
        for size in range(min(PREFIX_CHARS, cut), 1, -1):
            if text[-size:] in self._prefixes:
                cut -= size
                break
        found = any(map(text.__contains__, self._quick))
        if not found and not self._long(text):
            cut = max(cut, seen)
            return text[seen:cut], text[cut:]
        cut = min(cut, secret_shapes.unfinished(text) if self._shapes else cut, self._begun(text))
        spans = joined(self._spans(text)) if found else []
        for span in spans:
            if span.start < cut < span.end:
                cut = span.start if span.end == len(text) else span.end
        if cut <= seen:
            return "", text[seen:]
        shown = [span for span in spans if span.end <= cut]
        masked = self._replaced(text[:cut], shown)
        return masked[0 if shown and shown[0].start < seen else seen :], text[cut:]

    def trimmed(self, head: bytes, tail: bytes) -> tuple[bytes, bytes]:
        """The two ends of a text whose middle is left out, without half a secret where they were cut."""
        if not self.active:
            return head, tail
        rest = self.split(head.decode("utf-8", "surrogateescape"))[1]
        head = head[: len(head) - len(rest.encode("utf-8", "surrogateescape"))]
        start = tail[:PREFIX_CHARS].decode("utf-8", "surrogateescape")
        for value in self._ordered:
            for size in range(min(len(value) - 1, PREFIX_CHARS), LEAST_CHARS // 2, -1):
                if start.startswith(value[-size:]):
                    return head, tail[len(value[-size:].encode()) :]
        return head, tail if b"\n" in tail[:1024] else tail[:256].lstrip(TOKEN_BYTES) + tail[256:]

    def _long(self, text: str) -> bool:
        return any(len(value) > PREFIX_CHARS and value[:PREFIX_CHARS] in text for value in self._ordered)

    def _begun(self, text: str) -> int:
        """Where a value longer than any prefix has begun that the text does not end."""
        least = len(text)
        for value in self._ordered:
            if len(value) <= PREFIX_CHARS:
                break
            at = text.find(value[:PREFIX_CHARS], max(0, len(text) - len(value) + 1))
            while 0 <= at < least:
                if value.startswith(text[at:]):
                    least = at
                at = text.find(value[:PREFIX_CHARS], at + 1)
        return least

    def stream(self) -> Stream:
        """Masks a text that comes in pieces."""
        return Stream(self)


class Stream:
    """A text in pieces, of which the end is held back while a secret may have begun in it."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = ""
        self._last = ""

    def feed(self, text: str) -> str:
        """What can be shown by now."""
        if not self._secrets.active:
            return text
        whole = f"{self._last}{self._held}{text}"
        shown, held = self._secrets.split(whole, len(self._last))
        if shown:
            self._last = "" if shown[-1] == "]" else shown[-1]
        self._held = held
        return shown

    def cut(self) -> None:
        """The text does not go on where it was: what was held back is half of something."""
        self._held = self._last = ""

    def end(self) -> str:
        """What was held back; the text is over."""
        whole, seen = f"{self._last}{self._held}", len(self._last)
        self._held = self._last = ""
        if len(whole) == seen:
            return ""
        masked = self._secrets.mask(whole)
        return masked[seen:] if masked[:seen] == whole[:seen] else masked


def forms(value: str) -> list[str]:
    """A secret as it may stand in a text: as it is, inside JSON, in an address, in base64, and its lines."""
    whole = value.strip()
    encoded = whole.encode("utf-8", "surrogatepass")
    made = [whole, json.dumps(whole)[1:-1], json.dumps(whole, ensure_ascii=False)[1:-1]]
    made += [json.dumps(made[1])[1:-1], quote(encoded, safe="")]
    bare = base64.b64encode(encoded).decode().rstrip("=")
    made.append(bare[: len(encoded) * 4 // 3])
    if "\n" in whole:
        made += [line.strip() for line in whole.splitlines() if LINE.fullmatch(line.strip())]
    return [text for text in dict.fromkeys(made) if len(text) >= LEAST_CHARS]


def joined(spans: list[Span]) -> list[Span]:
    """Spans in their order, those that overlap made one."""
    made: list[Span] = []
    for span in spans:
        if made and span.start < made[-1].end:
            made[-1] = made[-1]._replace(end=max(span.end, made[-1].end))
        else:
            made.append(span)
    return made


def placeholder_in(value: Any, path: str = "") -> str | None:
    """Where in plain data a placeholder stands, as a JSON Pointer; None where none does."""
    match value:
        case str():
            return path if "[masked:" in value and PLACEHOLDER.search(value) else None
        case dict():
            items: Any = ((f"{path}/{key}", item) for key, item in value.items())
        case list() | tuple():
            items = ((f"{path}/{index}", item) for index, item in enumerate(value))
        case _:
            return None
    return next((found for at, item in items if (found := placeholder_in(item, at)) is not None), None)
