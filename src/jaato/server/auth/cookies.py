"""The cookie of a paired browser: one half of its token, of which the page keeps the other."""

from __future__ import annotations

import re

from jaato.server.http.asgi import Scope, header, values

COOKIE = "__Host-jaato-"
COOKIE_CHARS = 21
"""How much of the token the cookie has: 126 bits of 256."""
HALF = re.compile(r"[A-Za-z0-9_-]{21}")
PORT = re.compile(r":([0-9]{1,5})$")


def cookie_name(scope: Scope) -> str:
    """The name of the cookie for the port in `Host`: a browser keeps the cookies of all servers of one host together."""
    found = PORT.search(header(scope, b"host") or "")
    return COOKIE + (found[1] if found else "")


def set_cookie(scope: Scope, token: str, lifetime_s: int) -> str:
    """The value of `Set-Cookie` that gives a browser the first half of its token."""
    flags = f"Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={lifetime_s}"
    return f"{cookie_name(scope)}={token[:COOKIE_CHARS]}; {flags}"


def cookie_half(scope: Scope) -> str:
    """The half of a token that a browser's cookie has, for a request of the page itself (`Origin`); else empty."""
    if header(scope, b"origin") is None:
        return ""
    wanted = cookie_name(scope)
    pairs = [pair.strip().partition("=") for line in values(scope, b"cookie") for pair in line.split(";")]
    halves = [value for name, _, value in pairs if name == wanted]
    return halves[0] if len(halves) == 1 and HALF.fullmatch(halves[0]) else ""
