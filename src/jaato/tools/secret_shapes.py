"""What secrets look like whose value nobody has told us: the keys of well-known services, tokens, private keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from jaato.tools import secret_headers as headers

LONGEST_CHARS = 32_768
"""A key block or token that has not ended after so many characters is none."""


class Span(NamedTuple):
    """A secret in a text: from `start` to `end`, of this kind; `value` is what is secret of it."""

    start: int
    end: int
    kind: str


class Shape(NamedTuple):
    """One kind: how it begins and what it is from there on, `secret` being the group that is masked.

    `judge` says of what is masked whether it may be a secret; a `token` does not begin in the middle of a word.
    """

    kind: str
    begins: tuple[str, ...]
    whole: re.Pattern[str]
    judge: Callable[[str], bool] | None
    token: bool = True
    secret: int = 0


def is_mixed(value: str) -> bool:
    """Whether it is of two kinds of letters and digits: no plain words."""
    kinds = any(map(str.islower, value)), any(map(str.isupper, value)), any(map(str.isdigit, value))
    return sum(kinds) >= 2


def shape(kind: str, begins: str, rest: str, *, mixed: bool = True) -> Shape:
    """A token: one of the beginnings (separated by spaces), then `rest`."""
    starts = tuple(begins.split())
    head = "|".join(map(re.escape, starts))
    return Shape(kind, starts, re.compile(f"(?:{head}){rest}"), is_mixed if mixed else None)


BLOCK = "-----BEGIN "
BLOCK_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z")
BLOCK_HEAD = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[\s\S]{0,400}?[A-Za-z0-9+/]{40})"
)
TOKEN_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+="  # noqa: S105 an alphabet
"""What a token is made of; more of one may come where a text ends in these."""
BODY_CHARS = TOKEN_CHARS + " \t\r\n:|\\"
LEAST_BODY_CHARS = 60
"""What the lines of a key are made of where its first line is cut off, their numbers included."""
CAPITALS = TOKEN_CHARS[:26] + "0123456789"
ADDRESS = re.compile(r"://[^\s/@'\"<>]{0,400}@?\Z")
ADDRESS_CHARS = 500

SHAPES = (
    shape("key", "sk-", r"(?=[\w-]{0,40}?[A-Za-z0-9]{16})[\w-]{20,}"),
    shape("key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[A-Za-z0-9]{16,}"),
    shape("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,}"),
    shape("github", "github_pat_", r"\w{20,}"),
    shape("gitlab", "glpat-", r"[\w-]{16,}"),
    shape("slack", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxo-", r"[\w-]{10,}"),
    shape("aws", "AKIA ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])", mixed=False),
    shape("google", "AIza", r"[\w-]{35}(?![\w-])", mixed=False),
    shape("google", "ya29.", r"[\w-]{20,}"),
    shape("google", "GOCSPX-", r"[\w-]{20,}"),
    shape("huggingface", "hf_", r"[A-Za-z0-9]{20,}"),
    shape("groq", "gsk_", r"[A-Za-z0-9]{20,}"),
    shape("npm", "npm_", r"[A-Za-z0-9]{30,}"),
    shape("pypi", "pypi-", r"(?=[\w-]{0,80}?[A-Za-z0-9]{16})[\w-]{50,}"),
    shape("sendgrid", "SG.", r"[\w-]{16,}\.[\w-]{16,}"),
    shape("webhook", "whsec_", r"[\w+/=]{20,}"),
    shape("webhook", "hooks.slack.com/services/", r"[\w/]{20,}"),
    shape("jwt", "eyJ", r"[\w-]{10,1000}\.eyJ[\w-]{10,8000}\.[\w-]{10,}"),
    Shape(
        "password",
        ("://",),
        re.compile(r"://[^\s/:@?#'\"<>]{0,200}:([^\s/@'\"<>{}$*\[\]()|\\%]{8,200})@(?=[\w\[.-])"),
        is_mixed,
        token=False,
        secret=1,
    ),
    Shape(
        "password",
        ("://",),
        re.compile(r"://([A-Za-z0-9_.~+=-]{20,400})@(?=[\w\[.-])"),
        is_mixed,
        token=False,
        secret=1,
    ),
    Shape(
        "authorization", headers.HEADERS, headers.AFTER_NAME, headers.like_credential, token=False, secret=1
    ),
    Shape("authorization", headers.SCHEMES, headers.AFTER_SCHEME, headers.like_bearer, token=False, secret=1),
    Shape("password", (headers.CURL,), headers.IN_CURL, headers.like_password, token=False, secret=1),
)

BEFORE = re.compile(
    r"(?:[^A-Za-z0-9_]|\\[nrtbf]|\\u[0-9a-fA-F]{4}|(?:\x1b|\\u001b|\\x1b|\\033)\[[0-9;]{0,12}[A-Za-z]|%[0-9A-Fa-f]{2})\Z"
)
"""What may stand before a token: no letter, unless it belongs to an escape."""

BEGINNINGS = (*sorted({begin for one in SHAPES for begin in one.begins}), BLOCK, "-----END ")
MARKS = ("xox", "k_live_", "k_test_")
SIGNS = (*(one for one in BEGINNINGS if not any(mark in one for mark in MARKS)), *MARKS)
"""A text with none of these has no secret of a known shape."""


def free(text: str, at: int) -> bool:
    """Whether a word may begin here."""
    return at == 0 or BEFORE.search(text[max(0, at - 20) : at]) is not None


def places(text: str, one: Shape, since: int = 0) -> Iterator[int]:
    """Where this shape may begin, from `since` on."""
    for begin in one.begins:
        at = text.find(begin, since)
        while at >= 0:
            if not one.token or free(text, at):
                yield at
            at = text.find(begin, at + len(begin))


def spans(text: str) -> list[Span]:
    """Every secret of a known shape, in no order; the time is linear in the length of any text."""
    found = list(blocks(text))
    for one in SHAPES:
        done = -1
        for at in sorted(places(text, one)) if len(one.begins) > 1 else places(text, one):
            match = one.whole.match(text, at) if at >= done else None
            if match is None:
                continue
            done = match.end()
            if one.judge is None or one.judge(match[one.secret]):
                found.append(Span(*match.span(one.secret), one.kind))
    return found


def blocks(text: str) -> Iterator[Span]:
    """Private keys, from their first line to their last, or from or to where a text is cut."""
    at = text.find(BLOCK)
    orphan = text.find("-----END ", 0, len(text) if at < 0 else at)
    if orphan >= 0 and (last := BLOCK_END.match(text, orphan)):
        start = len(text[:orphan].rstrip(BODY_CHARS))
        if orphan - start >= LEAST_BODY_CHARS:
            yield Span(start, last.end(), "private-key")
    while at >= 0:
        head = BLOCK_HEAD.match(text, at)
        end = head and BLOCK_END.search(text, head.end(), head.end() + LONGEST_CHARS)
        if end is not None and (end[0] or end.end() == len(text)):
            yield Span(at, end.end(), "private-key")
            at = end.end()
        at = text.find(BLOCK, at + 1)


def unfinished(text: str) -> int:
    """From where on a secret may have begun that is still being written; the length of the text when none has."""
    size = len(text)
    since = max(len(text.rstrip(TOKEN_CHARS)), size - LONGEST_CHARS)
    least = size
    for one in SHAPES:
        if one.token:
            least = min(least, next(places(text, one, since), size))
    address = ADDRESS.search(text, max(0, size - ADDRESS_CHARS))
    block = text.rfind(BLOCK, max(0, size - LONGEST_CHARS))
    if block >= 0 and not (BLOCK_END.search(text, block) or [""])[0] and begun(text, block):
        least = min(least, block)
    return min(least, address.start() if address else size, headers.open_at(text))


def begun(text: str, at: int) -> bool:
    """Whether this may be the first line of a private key, as far as it is there."""
    line = text[at : at + 80].partition("-----BEGIN ")[2].partition("-----")
    return "PRIVATE KEY" in line[0] if line[1] else not line[0].strip("-").replace(" ", "").strip(CAPITALS)
