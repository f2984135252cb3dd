"""The tokens on requests: attached to one server's own origin alone, renewed and widened as it asks, a few times."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import httpx2

from jaato.errors import JaatoError
from jaato.plugins.mcp.oauth_data import OAuthFault, Tokens, plain
from jaato.plugins.mcp.oauth_discovery import Challenge, challenge_of
from jaato.plugins.mcp.oauth_login import Login
from jaato.plugins.mcp.oauth_wire import is_loopback
from jaato.tools.address import AddressRefused, parse_url

MAX_ROUNDS = 6
MAX_WIDENED = 2


class Bearer(httpx2.Auth):
    """Logs in to one server; `failure` is why the last request could not be, for those who only see it fail."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.failure: JaatoError | None = None
        self._let_in = False

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Not used: logging in waits for others, which only the asynchronous client does."""
        raise TypeError("Logging in needs the asynchronous client.")

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with what is granted; answer a 401 or a 403 that asks for more."""
        if "authorization" in request.headers or not self._is_for(request):
            yield request
            return
        turn = Turn(self.login)
        try:
            tokens = await self.login.current() if self._is_safe() else None
            for _ in range(MAX_ROUNDS):
                if tokens is not None:
                    request.headers["Authorization"] = f"Bearer {tokens.access}"
                response = yield request
                challenge = asked(response, tokens)
                if challenge is None:
                    self.failure = None
                    await self._is_let_in()
                    return
                await drop(response)
                tokens = await turn.next(response.status_code, challenge, tokens)
            raise OAuthFault(
                f"{plain(self.login.server_name)} keeps asking for another login; it was given up."
            )
        except JaatoError as error:
            self.failure = error
            self._let_in = False
            raise

    async def _is_let_in(self) -> None:
        """A login that was once needed is needed no more, since the server answers."""
        if not self._let_in:
            self._let_in = True
            await self.login.store.note(self.login.name, needed=False)

    def _is_for(self, request: httpx2.Request) -> bool:
        try:
            return parse_url(str(request.url)).origin == self.login.server.origin
        except AddressRefused:
            return False

    def _is_safe(self) -> bool:
        return self.login.server.scheme == "https" or is_loopback(self.login.server.host)


class Turn:
    """What was tried for one request, so that nothing is tried twice."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.renewed = False
        self.granted = False
        self.widened = 0

    async def next(self, status: int, challenge: Challenge, tokens: Tokens | None) -> Tokens:
        """The tokens to try next. Raises `OAuthFault` when there is nothing left to try."""
        used = tokens.access if tokens else ""
        if status == 403:
            if self.widened >= MAX_WIDENED or (
                self.widened and tokens is not None and {*challenge.scope} <= {*tokens.scope}
            ):
                raise self.login.too_narrow(challenge)
            self.widened += 1
            return await self.login.widened(challenge, used)
        if self.granted:
            raise OAuthFault(f"{plain(self.login.server_name)} refuses the token it was just granted.")
        got, self.granted = await self.login.challenged(challenge, used, not self.renewed)
        self.renewed = self.renewed or used != ""
        return got


def asked(response: httpx2.Response, tokens: Tokens | None) -> Challenge | None:
    """What the server asks for, None when the answer is to be taken as it is."""
    if response.status_code not in (401, 403):
        return None
    challenge = challenge_of(response.headers.get_list("www-authenticate"))
    if response.status_code == 401:
        return challenge or Challenge()
    if challenge is None or tokens is None:
        return None
    missing = not {*challenge.scope} <= {*tokens.scope}
    wants_more = challenge.error == "insufficient_scope" or (not challenge.error and missing)
    return challenge if wants_more else None


async def drop(response: httpx2.Response) -> None:
    """Let go of an answer unread, however long it is; the client reads what is left, which is nothing."""
    if isinstance(response.stream, httpx2.AsyncByteStream):
        await response.stream.aclose()
    response.headers.pop("content-encoding", None)
    response.stream = httpx2.ByteStream(b"")
