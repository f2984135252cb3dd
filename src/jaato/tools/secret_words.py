"""The words by which a name says that its value is secret."""

from __future__ import annotations

import re

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
