"""Patterns of secrets: names that mean a secret value, authorization headers, keys of well-known services."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from jaato.lazy_pattern import lazy_pattern

WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[-_]?key|access[-_]?key|auth(?:orization)?|credentials?|private[-_]?key|"
    r"cookie|bearer|session[-_]?key"
)
"""For the options and headers of a command line, where a word too many hides only an argument."""

SECRET_NAME = lazy_pattern(
    r"(?i)(?:(?<![a-z])(?:pass|pwd|auth|pat)|password|passwd|passphrase|secret|token|credential|cookie|bearer|"
    r"authorization|api[-_.]?key|access[-_.]?key|private[-_.]?key|session[-_.]?key)s?(?![a-z])|(?<![a-z])keys?$"
)
"""A variable that says so in a word of its own: TOKENIZERS and AUTHOR are none."""

OF_SOMETHING_ELSE = lazy_pattern(
    r"(?i)[-_.](?:type|method|methods|mode|file|path|dir|directory|name|ttl|expiry|expires|lifetime|url|uri|endpoint|"
    r"host|hosts|port|domain|issuer|audience|provider|backend|limit|length|size|count|require|sock|socket|store|"
    r"enabled|disabled|algorithm|version|user|username|email|region|scopes?)$|public|publishable|^GPG_KEY$|^(?:OLD)?PWD$"
)
"""Names of variables that describe a secret, its place or its kind, and public values."""

LEAST_CHARS = 8
LONG_CHARS = 20


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return SECRET_NAME.search(name) is not None and OF_SOMETHING_ELSE.search(name) is None


def looks_like_secret(value: str) -> bool:
    """Whether a value may be a secret: long, or of two kinds of characters; no path, no address, no plain word."""
    if len(value) < LEAST_CHARS or value.startswith(("/", "~/", "./", "../")) or "://" in value[:20]:
        return False
    if value.replace(".", "").replace("-", "").isdigit() and len(value) < LONG_CHARS:
        return False
    word = value.lower() if value[1:].islower() and value.isalpha() else value
    kinds = (
        any(map(str.islower, word)),
        any(map(str.isupper, word)),
        any(map(str.isdigit, word)),
        not word.isalnum(),
    )
    return len(value) >= LONG_CHARS or sum(kinds) >= 2


WORD = lazy_pattern(r"[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})*|[A-Z]+|[0-9]{1,5}")
NUMBERED = lazy_pattern(r"[a-z]{3,}[0-9]{1,3}")
NOT_WORDS = lazy_pattern(r"[^A-Za-z0-9]+")
MAX_WORD_CHARS = 16
LEAST_INNER_CHARS = 5
"""A piece of fewer characters that is no word, such as `4o` and `x86`, may stand once between words."""
SCHEMES = ("bearer ", "basic ", "token ", "digest ", "apikey ", "negotiate ")


def is_evident(value: str) -> bool:
    """Whether a value that was configured beside secrets is evidently none: short, a number, a path, an address without a
    password, or made of words, as `us-east-1`, `localhost:8080`, `application/json` and `debug` are."""
    text = value.strip()
    if (
        len(text) < LEAST_CHARS
        or text.startswith(("/", "~", "./", "../", "[masked:"))
        or text[1:3] in (":\\", ":/")
    ):
        return True
    if "://" in text[:20]:
        return "@" not in text.partition("://")[2].partition("/")[0] and not like_query(text)
    pieces = [piece for piece in NOT_WORDS.split(text) if piece]
    if len(text) < LONG_CHARS and all(map(str.isdigit, pieces)):
        return True
    odd = [piece for piece in pieces if len(piece) > MAX_WORD_CHARS or WORD.fullmatch(piece) is None]
    if len(pieces) > 1:
        odd = [piece for piece in odd if NUMBERED.fullmatch(piece) is None]
    return not odd or (len(odd) == 1 < len(pieces) and len(odd[0]) < LEAST_INNER_CHARS)


def like_query(address: str) -> bool:
    """Whether an address names a secret in its query."""
    given = (part.partition("=") for part in address.partition("?")[2].split("&"))
    return any(is_secret_name(name) and not is_evident(value) for name, _, value in given)


def find_configured_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """What is secret of values that were configured for another program, whatever they are called: of a scheme and a token
    the token."""
    found: dict[str, str] = {}
    for name, value in values.items():
        text = value.strip()
        token = text.partition(" ")[2].strip() if text.lower().startswith(SCHEMES) else text
        is_named = is_secret_name(name) or name.lower() in ("authorization", "cookie", "proxy-authorization")
        if not is_evident(token) or (is_named and looks_like_secret(token)):
            found[name] = token
            if token != text and text.lower().startswith("basic ") and (password := password_in(token)):
                found[f"{name}.password"] = password
    return found


def password_in(pair: str) -> str:
    """The password of a user and a password in base64 (RFC 7617); empty where there is none worth hiding."""
    try:
        password = base64.b64decode(pair, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""
    return "" if is_evident(password) else password


NAMES = (
    "Authorization",
    "Api-Key",
    "Auth-Token",
    "Access-Token",
    "Private-Token",
    "Vault-Token",
    "Session-Token",
)
"""Ends of the names of headers whose values are credentials."""
CURL = "curl"


def casings(name: str) -> tuple[str, ...]:
    """A name as headers are written, the same in lower case, and in capitals."""
    return (name[1:], name.upper()) if name == "Authorization" else (name, name.lower(), name.upper())


HEADERS = tuple(one for name in NAMES for one in casings(name))
"""The names as they are searched; what may begin with a capital or not is looked for from its second letter on."""
LINK = r"""(?=[ \t]{0,4}[:=,"'\\%])(?:[\\"' \t:=,>+]|%(?:20|22|27|3[Aa]|3[Dd])|u00(?:22|27)){1,16}"""
"""The separator of a name and its value in headers, JSON, addresses and the source of programs."""
VALUE = r"[A-Za-z0-9._~+/:@%!*=-]"
GAP = r"(?:[ \t+]|%20)"
SCHEME = rf"(?:(?:Bearer|Basic|Token|ApiKey|Key|Negotiate){GAP}{{1,4}})?"
AFTER_NAME = lazy_pattern(
    rf"(?i:{'|'.join(sorted({re.escape(name.lower()) for name in HEADERS}, key=len, reverse=True))}){LINK}"
    rf"(?i:{SCHEME})({VALUE}{{{LEAST_CHARS},4096}})"
)
BEARER_SCHEMES = ("Bearer", "bearer", "BEARER")
AFTER_SCHEME = lazy_pattern(rf"(?:[Bb]earer|BEARER){GAP}{{1,4}}({VALUE}{{{LEAST_CHARS},4096}})")
REST = r"(?:(?!curl)(?:[^\n]|(?<=\\)\n)){0,1000}"
"""The rest of a command, matched in linear time."""
OPTION = r"""[\s"'](?:-[A-Za-z]{0,6}[uU]|--user|--proxy-user)[\s"',=\\]{0,8}"""
IN_CURL = lazy_pattern(
    rf"""curl(?=[\s"'.]){REST}?{OPTION}[^\s:"'\\]{{1,200}}:([^\s"'\\$<{{\[][^\s"'\\]{{3,200}})"""
)
OPEN = lazy_pattern(
    rf"(?:(?i:{'|'.join(re.escape(name.lower()) for name in NAMES)})(?:{LINK}(?i:{SCHEME})|[\"'\\ \t:=,>]{{0,16}}[A-Za-z]{{0,9}})"
    rf"|(?:[Bb]earer|BEARER){GAP}{{0,4}}){VALUE}{{0,4096}}\Z|curl(?![A-Za-z0-9]){REST}\Z"
)
"""The end of a text in the middle of such a header or option."""
OPEN_CHARS = 5_500


def like_credential(value: str) -> bool:
    """Whether the value of such a header may be a secret: no words, as documentation has in its place."""
    return not is_evident(value)


def like_bearer(value: str) -> bool:
    """Whether what stands behind the word Bearer, and no header's name before it, may be a secret: no words at all."""
    return not is_evident(value) and any(map(str.isdigit, value))


def like_password(value: str) -> bool:
    """Whether what stands for a password on a command line may be one."""
    return (
        value.lower() not in ("pass", "password", "passwd", "secret", "token", "xxxx", "****")
        and not value.isdigit()
    )


def find_open(text: str) -> int:
    """From where on a text ends in the middle of such a thing; its length where it does not."""
    since = max(0, len(text) - OPEN_CHARS)
    found = OPEN.search(text, since)
    return found.start() if found else len(text)


LONGEST_CHARS = 32_768
"""A key block or token that has not ended after so many characters is none."""


class Match(NamedTuple):
    """A secret in a text: from `start` to `end`, of this kind; `value` is what is secret of it."""

    start: int
    end: int
    kind: str


class Pattern(NamedTuple):
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


def make_pattern(kind: str, begins: str, rest: str, *, mixed: bool = True) -> Pattern:
    """A token: one of the beginnings (separated by spaces), then `rest`."""
    starts = tuple(begins.split())
    head = "|".join(map(re.escape, starts))
    return Pattern(kind, starts, lazy_pattern(f"(?:{head}){rest}"), is_mixed if mixed else None)


BLOCK = "-----BEGIN "
BLOCK_END = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z")
BLOCK_HEAD = lazy_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[\s\S]{0,400}?[A-Za-z0-9+/]{40})"
)
TOKEN_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+="  # noqa: S105 an alphabet
"""What a token is made of; more of one may come where a text ends in these."""
BODY_CHARS = TOKEN_CHARS + " \t\r\n:|\\"
LEAST_BODY_CHARS = 60
"""What the lines of a key are made of where its first line is cut off, their numbers included."""
CAPITALS = TOKEN_CHARS[:26] + "0123456789"
ADDRESS = lazy_pattern(r"://[^\s/@'\"<>]{0,400}@?\Z")
ADDRESS_CHARS = 500

SHAPES = (
    make_pattern("key", "sk-", r"(?=[\w-]{0,40}?[A-Za-z0-9]{16})[\w-]{20,}"),
    make_pattern("key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[A-Za-z0-9]{16,}"),
    make_pattern("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,}"),
    make_pattern("github", "github_pat_", r"\w{20,}"),
    make_pattern("gitlab", "glpat-", r"[\w-]{16,}"),
    make_pattern("slack", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxo-", r"[\w-]{10,}"),
    make_pattern("aws", "AKIA ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])", mixed=False),
    make_pattern("google", "AIza", r"[\w-]{35}(?![\w-])", mixed=False),
    make_pattern("google", "ya29.", r"[\w-]{20,}"),
    make_pattern("google", "GOCSPX-", r"[\w-]{20,}"),
    make_pattern("huggingface", "hf_", r"[A-Za-z0-9]{20,}"),
    make_pattern("groq", "gsk_", r"[A-Za-z0-9]{20,}"),
    make_pattern("npm", "npm_", r"[A-Za-z0-9]{30,}"),
    make_pattern("pypi", "pypi-", r"(?=[\w-]{0,80}?[A-Za-z0-9]{16})[\w-]{50,}"),
    make_pattern("sendgrid", "SG.", r"[\w-]{16,}\.[\w-]{16,}"),
    make_pattern("webhook", "whsec_", r"[\w+/=]{20,}"),
    make_pattern("webhook", "hooks.slack.com/services/", r"[\w/]{20,}"),
    make_pattern("jwt", "eyJ", r"[\w-]{10,1000}\.eyJ[\w-]{10,8000}\.[\w-]{10,}"),
    Pattern(
        "password",
        ("://",),
        lazy_pattern(r"://[^\s/:@?#'\"<>]{0,200}:([^\s/@'\"<>{}$*\[\]()|\\%]{8,200})@(?=[\w\[.-])"),
        is_mixed,
        token=False,
        secret=1,
    ),
    Pattern(
        "password",
        ("://",),
        lazy_pattern(r"://([A-Za-z0-9_.~+=-]{20,400})@(?=[\w\[.-])"),
        is_mixed,
        token=False,
        secret=1,
    ),
    Pattern("authorization", HEADERS, AFTER_NAME, like_credential, token=False, secret=1),
    Pattern("authorization", BEARER_SCHEMES, AFTER_SCHEME, like_bearer, token=False, secret=1),
    Pattern("password", (CURL,), IN_CURL, like_password, token=False, secret=1),
)

BEFORE = lazy_pattern(
    r"(?:[^A-Za-z0-9_]|\\[nrtbf]|\\u[0-9a-fA-F]{4}|(?:\x1b|\\u001b|\\x1b|\\033)\[[0-9;]{0,12}[A-Za-z]|%[0-9A-Fa-f]{2})\Z"
)
"""The context before a token: no letter, unless it belongs to an escape."""

BEGINNINGS = (*sorted({begin for one in SHAPES for begin in one.begins}), BLOCK, "-----END ")
MARKS = ("xox", "k_live_", "k_test_")
SIGNS = (*(one for one in BEGINNINGS if not any(mark in one for mark in MARKS)), *MARKS)
"""A text with none of these has no secret of a known shape."""


def is_word_start(text: str, at: int) -> bool:
    """Whether a word may begin here."""
    return at == 0 or BEFORE.search(text[max(0, at - 20) : at]) is not None


def find_starts(text: str, one: Pattern, since: int = 0) -> Iterator[int]:
    """The positions where this shape may begin, from `since` on."""
    for begin in one.begins:
        at = text.find(begin, since)
        while at >= 0:
            if not one.token or is_word_start(text, at):
                yield at
            at = text.find(begin, at + len(begin))


def find_secrets(text: str) -> list[Match]:
    """Every secret of a known shape, in no order; the time is linear in the length of any text."""
    found = list(find_key_blocks(text))
    for one in SHAPES:
        done = -1
        for at in sorted(find_starts(text, one)) if len(one.begins) > 1 else find_starts(text, one):
            match = one.whole.match(text, at) if at >= done else None
            if match is None:
                continue
            done = match.end()
            if one.judge is None or one.judge(match[one.secret]):
                found.append(Match(*match.span(one.secret), one.kind))
    return found


def find_key_blocks(text: str) -> Iterator[Match]:
    """Private keys, from their first line to their last, or from or to where a text is cut."""
    at = text.find(BLOCK)
    orphan = text.find("-----END ", 0, len(text) if at < 0 else at)
    if orphan >= 0 and (last := BLOCK_END.match(text, orphan)):
        start = len(text[:orphan].rstrip(BODY_CHARS))
        if orphan - start >= LEAST_BODY_CHARS:
            yield Match(start, last.end(), "private-key")
    while at >= 0:
        head = BLOCK_HEAD.match(text, at)
        end = head and BLOCK_END.search(text, head.end(), head.end() + LONGEST_CHARS)
        if end is not None and (end[0] or end.end() == len(text)):
            yield Match(at, end.end(), "private-key")
            at = end.end()
        at = text.find(BLOCK, at + 1)


def find_unfinished(text: str) -> int:
    """From where on a secret may have begun that is still being written; the length of the text when none has."""
    size = len(text)
    since = max(len(text.rstrip(TOKEN_CHARS)), size - LONGEST_CHARS)
    least = size
    for one in SHAPES:
        if one.token:
            least = min(least, next(find_starts(text, one, since), size))
    address = ADDRESS.search(text, max(0, size - ADDRESS_CHARS))
    block = text.rfind(BLOCK, max(0, size - LONGEST_CHARS))
    if block >= 0 and not (BLOCK_END.search(text, block) or [""])[0] and is_key_begun(text, block):
        least = min(least, block)
    return min(least, address.start() if address else size, find_open(text))


def is_key_begun(text: str, at: int) -> bool:
    """Whether this may be the first line of a private key, as far as it is there."""
    line = text[at : at + 80].partition("-----BEGIN ")[2].partition("-----")
    return "PRIVATE KEY" in line[0] if line[1] else not line[0].strip("-").replace(" ", "").strip(CAPITALS)
