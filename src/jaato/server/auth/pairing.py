"""Pairs browsers with the server: one-time codes, exchanged for a token of which the browser keeps one half in a cookie.

A cookie is sent to every port of its host, and so to other servers on this machine; the other half stays in the page's
storage, which belongs to one port. Neither half is worth anything alone.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.protocol.frames import Role
from jaato.server.auth.cookies import COOKIE_CHARS, set_cookie
from jaato.server.auth.gate import Throttle, send_refusal, server_error
from jaato.server.auth.tokens import digest_of, generate_secret
from jaato.server.http.asgi import Receive, Refused, Scope, Send, header

LOG = logger("server")
PAIR = "/pair"
CODE_S = 300.0
"""How long a code is valid."""
MAX_CODES = 32
"""Codes that are valid at a time; a further one replaces the oldest."""
BROWSER_DAYS = 30


class Pairings:
    """The codes that were given out and not used yet. Only their hashes are kept, in memory."""

    def __init__(self) -> None:
        self._codes: dict[str, tuple[float, Role]] = {}

    def create(self, role: Role) -> str:
        """A new code, which gives one browser this role."""
        code = generate_secret()
        while len(self._codes) >= MAX_CODES:
            del self._codes[next(iter(self._codes))]
        self._codes[digest_of(code)] = (time.monotonic() + CODE_S, role)
        return code

    def redeem(self, code: str) -> Role | None:
        """The role that a code gives, once; None if it is unknown, used or too old. Its time does not depend on the code."""
        digest = digest_of(code)
        found = [known for known in self._codes if hmac.compare_digest(known, digest)]
        if not found:
            return None
        until, role = self._codes.pop(found[0])
        return role if time.monotonic() < until else None


class PairingEndpoint:
    """Exchanges a code (`Authorization: Pairing CODE`) for the two halves of a token: POST, from the page only."""

    def __init__(self, pairings: Pairings, add_browser: Callable[[Role, float], str]) -> None:
        self._pairings = pairings
        self._add_browser = add_browser
        self._throttle = Throttle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            token = await self._exchange(scope)
        except Refused as refused:
            await send_refusal(scope, send, refused, server_error)
            return
        body = json.dumps({"key": token[COOKIE_CHARS:]}).encode()
        named = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "cache-control": "no-store",
            "set-cookie": set_cookie(scope, token, BROWSER_DAYS * 86_400),
        }
        headers = [(name.encode(), value.encode()) for name, value in named.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _exchange(self, scope: Scope) -> str:
        if scope["method"] != "POST":
            raise Refused(405, "A code is exchanged with POST.", allow="POST")
        if header(scope, b"origin") is None:
            raise Refused(403, "Only the page exchanges a code: the request has no Origin.")
        kind, _, code = (header(scope, b"authorization") or "").partition(" ")
        role = self._pairings.redeem(code.strip()) if kind.lower() == "pairing" else None
        if role is None:
            peer = str((scope.get("client") or ("",))[0])
            await self._throttle.wait(peer)
            text = "This link was used already, or is too old. Run jaato web for a new one."
            raise Refused(401, text, **{"www-authenticate": "Pairing"})
        try:
            return self._add_browser(role, time.time() + BROWSER_DAYS * 86_400)
        except (ConfigError, OSError) as error:
            LOG.warning("A browser could not be paired: %s", error)
            raise Refused(503, f"The browser could not be paired: {error}") from None
