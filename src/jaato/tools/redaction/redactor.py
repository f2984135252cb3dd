"""Redact secrets in texts, streams and JSON, in all their encodings: each becomes a placeholder that names it.

Exact values (of the environment, of saved keys) and known shapes (keys of services, tokens, private keys) become
`[masked:NAME:xxxxxx]`; the digits tell two values apart and are different in every process.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets as randomness
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from jaato.lazy_pattern import lazy_pattern
from jaato.tools.redaction import patterns
from jaato.tools.redaction.patterns import LEAST_CHARS, Match

LINE = lazy_pattern(r"[A-Za-z0-9+/=_-]{24,}")
ESCAPES = lazy_pattern(r"%[0-9A-F]{2}")
LEAST_INNER_CHARS = 12
"""A value in the middle of something in base64 must be so long there, or ordinary text would be taken for it."""
PREFIX_CHARS = 64
"""So much of the beginning of a value is recognised at the end of an unfinished text."""
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
    import html  # with its table of entities, and `shlex`, only where there is a secret
    import shlex

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


PLACEHOLDER = lazy_pattern(r"\[masked:[A-Za-z0-9_.-]{1,64}:[0-9a-f]{6}\]")
WRITTEN = lazy_pattern(
    r"(?:\[|%5[Bb]|\\u005[Bb])masked(?::|%3[Aa])"
    r"(?:[A-Z][A-Z0-9_]{2,63}|[A-Za-z0-9_.-]{1,64}(?::|%3[Aa])"
    r"(?:[0-9A-Fa-f]{3,6}(?:…|\.{3})?|[0-9A-Fa-f]{0,2}(?:…|\.{3})))(?:\]|%5[Dd]|\\u005[Dd])"
)
"""A placeholder as a model may write it back: encoded for an address or for JSON, shortened, with other letters."""
NAME = lazy_pattern(r"[^A-Za-z0-9_.-]")
TOKEN_BYTES = patterns.TOKEN_CHARS.encode()
SIGN_BEGINNINGS = frozenset(
    text[:size] for text in patterns.BEGINNINGS for size in range(2, min(len(text), PREFIX_CHARS + 1))
)
"""Prefixes of secrets of a known shape."""
MOST_SIGN = max(map(len, SIGN_BEGINNINGS))

SIGN = lazy_pattern("|".join(map(re.escape, patterns.SIGNS)))
NOTHING = lazy_pattern("(?!)")
SHORT_CHARS = 2_000
"""A text that is shorter is looked through once for all signs; in a longer one each is found faster by itself."""

REMEMBERED, REMEMBERED_CHARS = 1000, 200
"""Short texts known to hold no secret: repeated reasons, names and arguments."""


class Redactor:
    """The secrets of one process and what they look like. Safe from any thread; `add` makes more known.

    `Redactor.none()` knows nothing and masks nothing.
    """

    def __init__(self, named: Mapping[str, str] | None = None, *, shapes: bool = True) -> None:
        self._shapes = shapes
        self._key = randomness.token_bytes(16)
        self._values = ValueIndex()
        self._signs = patterns.SIGNS if shapes else ()
        self._sign = SIGN.search if shapes else NOTHING.search
        self.clean: set[str] = set()
        """Texts that hold no secret, as far as it is known; another set when more is."""
        self.known = 0
        """Rises with every value that is made known."""
        self.active = True
        self._know({name: value for name, value in (named or {}).items() if value})

    @classmethod
    def none(cls) -> Redactor:
        """Nothing is secret, whatever is added."""
        made = cls(shapes=False)
        made.active = False
        return made

    def add(self, name: str, value: str) -> None:
        """Mask this value from now on, under this name; one of fewer than eight characters cannot be."""
        if self.active:
            self._know({name: value})

    def _know(self, named: Mapping[str, str]) -> None:
        self._values.add(
            (form, NAME.sub("_", name)[:64] or "secret")
            for name, value in named.items()
            for form in encode_all(value)
        )
        self.known += 1
        self.clean = set()

    @property
    def longest(self) -> int:
        """Characters of the longest value or beginning that is known."""
        return max(self._values.longest, *map(len, self._signs), 0)

    # --- whole texts -------------------------------------------------------------------------------------------

    def may_hold_secret(self, text: str) -> bool:
        """Whether a text may hold a secret; False is certain."""
        return len(text) >= LEAST_CHARS and self._holds(text)

    def _holds(self, text: str) -> bool:
        if self._sign(text) if len(text) < SHORT_CHARS else any(map(text.__contains__, self._signs)):
            return True
        few = self._values.few
        if few is not None:
            return any(map(text.__contains__, few))
        return next(self._values.present(text), None) is not None

    def mask(self, text: str) -> str:
        """The text with a placeholder for each secret."""
        clean = self.clean
        if len(text) < LEAST_CHARS or text in clean:
            return text
        if self._holds(text):
            return self._replace(text, self._spans(text))
        self._remember(clean, [text])
        return text

    def is_clean(self, texts: Collection[str], clean: set[str]) -> bool:
        """Whether certainly none of these texts holds a secret; they are looked at together. `clean` is what `clean` was
        before they were chosen."""
        if self._holds("\n".join(texts)):
            return False
        self._remember(clean, texts)
        return True

    def _remember(self, clean: set[str], texts: Collection[str]) -> None:
        """Note texts as clean where they were not known to be; what became secret meanwhile has made another set."""
        clean.update([text for text in texts if len(text) <= REMEMBERED_CHARS])
        if len(clean) >= REMEMBERED and clean is self.clean:
            self.clean = set()

    def mask_data(self, value: Any) -> Any:
        """Plain data with all text masked; only what changes is made anew."""
        if value.__class__ is str:
            return self.mask(value)
        match value:
            case str():
                return self.mask(value)
            case dict():
                return self._table(value)
            case list() | tuple():
                items = [self.mask_data(item) for item in value]
                same = all(new is old for new, old in zip(items, value, strict=True))
                return value if same else type(value)(items)
        return value

    def _table(self, table: dict[Any, Any]) -> dict[Any, Any]:
        masked = self.mask_data
        for key, item in table.items():
            if masked(key) is not key or masked(item) is not item:
                return {masked(key): masked(item) for key, item in table.items()}
        return table

    def _spans(self, text: str) -> list[Match]:
        found = patterns.find_secrets(text) if self._shapes else []
        for value in self._values.present(text):
            at = text.find(value)
            while at >= 0:
                found.append(Match(at, at + len(value), self._values.name(value)))
                at = text.find(value, at + len(value))
        found.sort(key=lambda span: (span.start, -span.end))
        return found

    def _replace(self, text: str, spans: list[Match]) -> str:
        parts: list[str] = []
        at = 0
        for group in merge_spans(spans):
            parts += [text[at : group.start], self._placeholder(text[group.start : group.end], group.kind)]
            at = group.end
        return "".join([*parts, text[at:]]) if parts else text

    def _placeholder(self, value: str, kind: str) -> str:
        digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=self._key, digest_size=3)
        return f"[masked:{kind}:{digest.hexdigest()}]"

    # --- texts that go on --------------------------------------------------------------------------------------

    def split(self, text: str, seen: int = 0) -> tuple[str, str]:
        """What can be shown of an unfinished text, masked, and its end, in which a secret may have begun. The first
        `seen` characters are shown already."""
        cut = len(text) - max(self._values.prefix_length(text), self._sign_prefix_length(text))
        found = self._holds(text)
        if not found and not self._long(text):
            cut = max(cut, seen)
            return text[seen:cut], text[cut:]
        cut = min(cut, patterns.find_unfinished(text) if self._shapes else cut, self._find_long_prefix(text))
        spans = merge_spans(self._spans(text)) if found else []
        for span in spans:
            if span.start < cut < span.end:
                cut = span.start if span.end == len(text) else span.end
        if cut <= seen:
            return "", text[seen:]
        shown = [span for span in spans if span.end <= cut]
        masked = self._replace(text[:cut], shown)
        return masked[0 if shown and shown[0].start < seen else seen :], text[cut:]

    def trim_ends(self, head: bytes, tail: bytes) -> tuple[bytes, bytes]:
        """The two ends of a text whose middle is left out, without half a secret where they were cut."""
        if not self.active:
            return head, tail
        rest = self.split(head.decode("utf-8", "surrogateescape"))[1]
        head = head[: len(head) - len(rest.encode("utf-8", "surrogateescape"))]
        start = tail[:PREFIX_CHARS].decode("utf-8", "surrogateescape")
        ended = self._values.suffix_length(start)
        if ended:
            return head, tail[len(start[:ended].encode("utf-8", "surrogateescape")) :]
        return head, tail if b"\n" in tail[:1024] else tail[:256].lstrip(TOKEN_BYTES) + tail[256:]

    def _sign_prefix_length(self, text: str) -> int:
        """How many of the last characters may be the beginning of a secret of a known shape."""
        if not self._shapes:
            return 0
        return next((n for n in range(min(MOST_SIGN, len(text)), 1, -1) if text[-n:] in SIGN_BEGINNINGS), 0)

    def _long(self, text: str) -> bool:
        return any(value[:PREFIX_CHARS] in text for value in self._values.long)

    def _find_long_prefix(self, text: str) -> int:
        """The position where an unfinished value longer than any prefix begins."""
        least = len(text)
        for value in self._values.long:
            at = text.find(value[:PREFIX_CHARS], max(0, len(text) - len(value) + 1))
            while 0 <= at < least:
                if value.startswith(text[at:]):
                    least = at
                at = text.find(value[:PREFIX_CHARS], at + 1)
        return least

    def stream(self) -> StreamRedactor:
        """Masks a text that comes in pieces."""
        return StreamRedactor(self)


class StreamRedactor:
    """A text in pieces, of which the end is held back while a secret may have begun in it."""

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = secrets
        self._held = ""
        self._last = ""

    def feed(self, text: str) -> str:
        """The masked text that can be shown now."""
        if not self._secrets.active:
            return text
        whole = f"{self._last}{self._held}{text}"
        shown, held = self._secrets.split(whole, len(self._last))
        if shown:
            self._last = "" if shown[-1] == "]" else shown[-1]
        self._held = held
        return shown

    def cut(self) -> None:
        """Discard what was held back, because the text was cut."""
        self._held = self._last = ""

    def end(self) -> str:
        """End the text: return what was held back, masked."""
        whole, seen = f"{self._last}{self._held}", len(self._last)
        self._held = self._last = ""
        if len(whole) == seen:
            return ""
        masked = self._secrets.mask(whole)
        return masked[seen:] if masked[:seen] == whole[:seen] else masked


def merge_spans(spans: list[Match]) -> list[Match]:
    """Spans in their order, those that overlap made one."""
    made: list[Match] = []
    for span in spans:
        if made and span.start < made[-1].end:
            made[-1] = made[-1]._replace(end=max(span.end, made[-1].end))
        else:
            made.append(span)
    return made


def placeholder_in(value: Any, path: str = "") -> str | None:
    """The JSON Pointer of a placeholder in plain data; None if there is none."""
    match value:
        case str():
            return path if "masked" in value and WRITTEN.search(value) else None
        case dict():
            items: Any = ((f"{path}/{key}", part) for key, item in value.items() for part in (key, item))
        case list() | tuple():
            items = ((f"{path}/{index}", item) for index, item in enumerate(value))
        case _:
            return None
    return next((found for at, item in items if (found := placeholder_in(item, at)) is not None), None)
