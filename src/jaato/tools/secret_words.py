"""The words by which a name says that its value is secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[-_]?key|access[-_]?key|auth(?:orization)?|credentials?|private[-_]?key|"
    r"cookie|bearer|session[-_]?key"
)
"""For the options and headers of a command line, where a word too many hides only an argument."""

SECRET_NAME = re.compile(
    r"(?i)(?:(?<![a-z])(?:pass|pwd|auth|pat)|password|passwd|passphrase|secret|token|credential|cookie|bearer|"
    r"authorization|api[-_.]?key|access[-_.]?key|private[-_.]?key|session[-_.]?key)s?(?![a-z])|(?<![a-z])keys?$"
)
"""A variable that says so in a word of its own: TOKENIZERS and AUTHOR are none."""

OF_SOMETHING_ELSE = re.compile(
    r"(?i)[-_.](?:type|method|methods|mode|file|path|dir|directory|name|ttl|expiry|expires|lifetime|url|uri|endpoint|"
    r"host|hosts|port|domain|issuer|audience|provider|backend|limit|length|size|count|require|sock|socket|store|"
    r"enabled|disabled|algorithm|version|user|username|email|region|scopes?)$|public|publishable|^GPG_KEY$|^(?:OLD)?PWD$"
)
"""A variable that tells of a secret where it is or of what kind, and what is made to be shown."""

LEAST_CHARS = 8
LONG_CHARS = 20


def names_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return SECRET_NAME.search(name) is not None and OF_SOMETHING_ELSE.search(name) is None


def like_secret(value: str) -> bool:
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


WORD = re.compile(r"[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})*|[A-Z]+|[0-9]{1,5}")
NUMBERED = re.compile(r"[a-z]{3,}[0-9]{1,3}")
NOT_WORDS = re.compile(r"[^A-Za-z0-9]+")
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
    return any(names_secret(name) and not is_evident(value) for name, _, value in given)


def configured_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """What is secret of values that were configured for somebody else, whatever they are called: of a scheme and a token
    the token."""
    found: dict[str, str] = {}
    for name, value in values.items():
        text = value.strip()
        token = text.partition(" ")[2].strip() if text.lower().startswith(SCHEMES) else text
        said = names_secret(name) or name.lower() in ("authorization", "cookie", "proxy-authorization")
        if not is_evident(token) or (said and like_secret(token)):
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
