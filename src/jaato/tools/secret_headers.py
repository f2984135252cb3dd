"""Secrets by what stands before them: headers of authorization, and the user and password of a curl command."""

from __future__ import annotations

import re

from jaato.tools.secret_words import LEAST_CHARS, is_evident

NAMES = (
    "Authorization",
    "Api-Key",
    "Auth-Token",
    "Access-Token",
    "Private-Token",
    "Vault-Token",
    "Session-Token",
)
"""Ends of the names of headers whose values let somebody in."""
CURL = "curl"


def casings(name: str) -> tuple[str, ...]:
    """A name as headers are written, the same in lower case, and in capitals."""
    return (name[1:], name.upper()) if name == "Authorization" else (name, name.lower(), name.upper())


HEADERS = tuple(one for name in NAMES for one in casings(name))
"""How they are looked for; what may begin with a capital or not is looked for from its second letter on."""
LINK = r"""(?=[ \t]{0,4}[:=,"'\\%])(?:[\\"' \t:=,>+]|%(?:20|22|27|3[Aa]|3[Dd])|u00(?:22|27)){1,16}"""
"""What stands between a name and its value in headers, JSON, addresses and the source of programs."""
VALUE = r"[A-Za-z0-9._~+/:@%!*=-]"
GAP = r"(?:[ \t+]|%20)"
SCHEME = rf"(?:(?:Bearer|Basic|Token|ApiKey|Key|Negotiate){GAP}{{1,4}})?"
AFTER_NAME = re.compile(
    rf"(?i:{'|'.join(sorted({re.escape(name.lower()) for name in HEADERS}, key=len, reverse=True))}){LINK}"
    rf"(?i:{SCHEME})({VALUE}{{{LEAST_CHARS},4096}})"
)
SCHEMES = ("Bearer", "bearer", "BEARER")
AFTER_SCHEME = re.compile(rf"(?:[Bb]earer|BEARER){GAP}{{1,4}}({VALUE}{{{LEAST_CHARS},4096}})")
REST = r"(?:(?!curl)(?:[^\n]|(?<=\\)\n)){0,1000}"
"""What follows in a command: nothing is looked at twice, however many there are in a line."""
OPTION = r"""[\s"'](?:-[A-Za-z]{0,6}[uU]|--user|--proxy-user)[\s"',=\\]{0,8}"""
IN_CURL = re.compile(
    rf"""curl(?=[\s"'.]){REST}?{OPTION}[^\s:"'\\]{{1,200}}:([^\s"'\\$<{{\[][^\s"'\\]{{3,200}})"""
)
OPEN = re.compile(
    rf"(?:(?i:{'|'.join(re.escape(name.lower()) for name in NAMES)})(?:{LINK}(?i:{SCHEME})|[\"'\\ \t:=,>]{{0,16}}[A-Za-z]{{0,9}})"
    rf"|(?:[Bb]earer|BEARER){GAP}{{0,4}}){VALUE}{{0,4096}}\Z|curl(?![A-Za-z0-9]){REST}\Z"
)
"""Where a text ends in the middle of such a thing."""
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


def open_at(text: str) -> int:
    """From where on a text ends in the middle of such a thing; its length where it does not."""
    since = max(0, len(text) - OPEN_CHARS)
    found = OPEN.search(text, since)
    return found.start() if found else len(text)
