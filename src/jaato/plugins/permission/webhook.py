"""The channel `webhook`: a question is posted to an address, and its answer is what comes back, both signed."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from jaato.abc.asker import Answer, Question
from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.plugins.permission.written import in_a_thread, read_answer, written
from jaato.tools.address import Allowed, Url, parse_url
from jaato.tools.dial import Dialer, open_pool, request_to
from jaato.tools.route import is_loopback
from jaato.tools.signed import SIGNATURE, key_of, signature

if TYPE_CHECKING:
    import httpcore2

LOG = logger("permission")
KEY = "webhook-key"
MAX_ANSWER_BYTES = 65_536
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Reach:
    """How the network is reached: the environment's proxies and certificates, and the private addresses allowed."""

    environ: Mapping[str, str]
    allowed: Allowed = Allowed()


class WebhookChannel:
    """Posts each question to `endpoint` and waits for the answer in the response, at most `timeout_s` (60 s).

    Both bodies are signed with the key in `state_dir`/webhook-key; an answer names question, digest and nonce of its
    question, so none can be made up, moved to another call, or used again. Redirects are not followed; only https is
    used, but on this machine; private addresses only when the setting `allow_hosts` names them. Raises `ConfigError`.
    """

    def __init__(
        self, endpoint: str | None, timeout_s: float | None, *, state_dir: Path, reach: Reach
    ) -> None:
        if not endpoint:
            raise ConfigError('The permission channel "webhook" needs an endpoint: the address to post to.')
        try:
            self._url = parse_url(endpoint)
        except JaatoError as error:
            raise ConfigError(f"The endpoint of the permission channel: {error}") from None
        if self._url.scheme != "https" and not is_loopback(self._url.host):
            raise ConfigError(f"The permission channel posts to {self._url.host} over plain http; use https.")
        self._timeout_s = timeout_s or TIMEOUT_S
        self._state_dir = state_dir
        self._reach = reach

    def ask(self, question: Question) -> Answer | None:
        """The answer, waited for in this thread. Raises `TimeoutError` when the time is over."""
        return in_a_thread(lambda: self.asked(question))

    async def asked(self, question: Question) -> Answer | None:
        """The answer; None when none that counts comes. Raises `TimeoutError` when the time is over."""
        try:
            with anyio.fail_after(self._timeout_s):
                return await self._exchange(
                    question, await anyio.to_thread.run_sync(key_of, self._state_dir / KEY)
                )
        except TimeoutError:
            raise
        except (JaatoError, OSError) as error:
            LOG.warning("The permission webhook cannot be asked: %s", error)
            return None

    async def _exchange(self, question: Question, key: bytes) -> Answer | None:
        import httpcore2

        nonce = secrets.token_hex(16)
        sent = datetime.now(UTC).isoformat(timespec="milliseconds")
        body = written(question, nonce=nonce, sent=sent)
        dialer = Dialer(self._reach.allowed)
        pool, proxied = open_pool(self._url, dialer, self._reach.environ)
        if proxied:
            await dialer.check_proxied(self._url)
        headers = {"Content-Type": "application/json", SIGNATURE: signature(key, nonce, body)}
        try:
            async with pool:
                response = await pool.handle_async_request(request_of(self._url, headers, body))
                try:
                    data = await whole(response)
                finally:
                    await response.aclose()
        except (httpcore2.NetworkError, httpcore2.ProxyError, httpcore2.TimeoutException) as error:
            raise ConfigError(f"{self._url.authority} cannot be reached: {str(error)[:200]}") from None
        except httpcore2.ProtocolError:
            raise ConfigError(f"{self._url.authority} did not keep to HTTP.") from None
        given = dict(response.headers).get(SIGNATURE.lower().encode()) or next(
            (value for name, value in response.headers if name.lower() == SIGNATURE.lower().encode()), b""
        )
        if not hmac.compare_digest(given, signature(key, nonce, data).encode()):
            raise ConfigError(f"{self._url.authority} has not signed its answer with the key in {KEY}.")
        return read_answer(data, question, by=f"webhook {self._url.host}", nonce=nonce)


def request_of(url: Url, headers: Mapping[str, str], body: bytes) -> httpcore2.Request:
    """The request as it goes out; nothing packed is asked for, so nothing unfolds."""
    every = {**headers, "Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "jaato"}
    return request_to(url, "POST", (every | {"Content-Length": str(len(body))}).items(), body)


async def whole(response: httpcore2.Response) -> bytes:
    """The body of a good answer. Raises `ConfigError` for any other status, a redirect too, and for too much."""
    if response.status != 200:
        raise ConfigError(f"it answers with status {response.status}, and only 200 is an answer.")
    data = bytearray()
    async for chunk in response.aiter_stream():
        data += chunk
        if len(data) > MAX_ANSWER_BYTES:
            raise ConfigError(f"its answer is longer than {MAX_ANSWER_BYTES:,} bytes.")
    return bytes(data)
