"""One HTTP request and its redirects: to checked addresses, within bounds of time and of decompressed size."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from jaato.errors import ToolError, ToolTimeout
from jaato.tools.network.addresses import AllowedHosts, Url, parse_url
from jaato.tools.network.pinned_connect import (
    CONNECT_WITHIN_S,
    CheckedResolver,
    Resolve,
    exchange,
    read_bounded,
    request_to,
    system_resolve,
)

if TYPE_CHECKING:
    import httpcore2

MAX_CODINGS = 3
MAX_MEMBERS = 10_000
SLICE_BYTES = 16_384
"""How much is given to zlib at once: what it hands back at the end of a member is copied, so it stays small."""
MAX_REDIRECTS = 10
MAX_HEADERS = 50
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,8192}")
OURS = frozenset(
    "host content-length transfer-encoding connection upgrade te trailer expect keep-alive accept-encoding "
    "proxy-authorization proxy-connection".split()
)
"""Headers that belong to the connection, which no caller sets."""
HARMLESS = frozenset(("accept", "accept-language", "user-agent"))
"""Headers of a caller that may follow a redirect to another origin."""
REDIRECTS = frozenset((301, 302, 303, 307, 308))


class PackedWrong(ToolError):
    """The body is not packed as it says, or in a way that is not undone."""

    code = "web_failed"


def decode_body(raw: bytes, coding: str, most_bytes: int) -> tuple[bytes, bool]:
    """The body without its content codings, each of which may unfold to `most_bytes` and no further; whether there
    was more. Raises `PackedWrong`."""
    codings = [
        one.strip().lower() for one in coding.split(",") if one.strip().lower() not in ("", "identity")
    ]
    if len(codings) > MAX_CODINGS:
        raise PackedWrong("The body is packed more than three times; that is not unpacked.")
    cut = False
    for one in reversed(codings):
        if one not in ("gzip", "x-gzip", "deflate"):
            raise PackedWrong(
                f"The body is coded as {one[:40]!r}, which was not asked for. Use run with curl --compressed."
            )
        raw, more = decompress(raw, one, most_bytes)
        cut = cut or more
    return raw, cut


def decompress(raw: bytes, coding: str, most_bytes: int) -> tuple[bytes, bool]:
    """One coding undone, up to a bound; of a stream that was cut or breaks off, what there is."""
    found = bytearray()
    view = memoryview(raw)
    at = members = 0
    while at < len(raw):
        members += 1
        if members > MAX_MEMBERS:
            raise PackedWrong(f"The body is packed in more than {MAX_MEMBERS} pieces; that is not unpacked.")
        window = zlib.MAX_WBITS | 16
        if coding == "deflate":  # with zlib's header, as it should be, or without, as some servers send it
            with_header = len(raw) > 1 and raw[0] & 0x0F == 8 and (raw[0] << 8 | raw[1]) % 31 == 0
            window = zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS
        stream = zlib.decompressobj(window)
        before = len(found)
        try:
            while not stream.eof and at < len(raw):
                piece = view[at : at + SLICE_BYTES]
                found += stream.decompress(piece, most_bytes - len(found) + 1)
                at += len(piece)
                if len(found) > most_bytes:
                    return bytes(found[:most_bytes]), True
        except zlib.error as error:
            if not found:
                raise PackedWrong(f"The body cannot be unpacked: {error}") from None
            return bytes(found), len(found) > before  # what follows a whole stream is no part of it
        if not stream.eof or coding == "deflate":
            return bytes(found), not stream.eof
        at -= len(stream.unused_data)
    return bytes(found), False


Headers = tuple[tuple[str, str], ...]


class WebFailed(ToolError):
    """The other side could not be reached, or did not keep to HTTP."""

    code = "web_failed"
    retryable = True


@dataclass(frozen=True, slots=True)
class Request:
    """A request; headers are checked by `check_headers`."""

    url: Url
    method: str = "GET"
    headers: Headers = ()
    body: bytes | None = None


@dataclass(slots=True)
class HttpResponse:
    """The answer: `body` is decoded and at most as long as was wanted; `cut` says that there was more."""

    url: Url
    status: int
    headers: Headers
    body: bytes
    cut: bool = False
    notes: list[str] = field(default_factory=list)

    def header(self, name: str) -> str:
        """The first header of this name, or nothing."""
        return next((value for key, value in self.headers if key.lower() == name), "")


def check_headers(given: Mapping[str, str]) -> Headers:
    """A caller's headers; raises `ToolError` for one that could change what the request is."""
    if len(given) > MAX_HEADERS:
        raise ToolError(f"{len(given)} headers are too many; at most {MAX_HEADERS} are sent.")
    trimmed = {name: value.strip(" \t") for name, value in given.items()}
    for name, value in trimmed.items():
        if not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
            raise ToolError(f"The header {name[:60]!r} has characters no header can carry; correct it.")
        if name.lower() in OURS:
            raise ToolError(f"The header {name} belongs to the connection; leave it out.")
    return tuple(trimmed.items())


class Client:
    """Sends requests to hosts that may be reached."""

    def __init__(
        self, environ: Mapping[str, str], allowed: AllowedHosts, resolve: Resolve = system_resolve
    ) -> None:
        self.environ = environ
        self.dialer = CheckedResolver(allowed, resolve)

    async def send(
        self, ask: Request, *, most_bytes: int, within_s: float, follow: bool = True
    ) -> HttpResponse:
        """The answer to a request, redirects followed. Raises `AddressRefused`, `WebFailed`, `ToolTimeout`."""
        try:
            with anyio.fail_after(within_s):
                return await self._follow(ask, most_bytes, follow)
        except TimeoutError:
            raise ToolTimeout(
                f"{ask.url.authority} did not answer in full within {within_s:g} s. Try again, or allow more time."
            ) from None

    async def _follow(self, ask: Request, most_bytes: int, follow: bool) -> HttpResponse:
        notes: list[str] = []
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._once(ask, most_bytes, notes)
            place = reply.header("location")
            if reply.status not in REDIRECTS or not place or not follow:
                reply.notes = notes
                return reply
            url = redirect_target(place, ask.url)
            following = follow_redirect(ask, reply.status, url)
            if following is None:
                reply.notes = [*notes, f"It redirects to {url}, another host; the body was not sent there."]
                return reply
            ask = following
            notes.append(f"Redirected to {ask.url}")
        raise WebFailed(
            f"{ask.url.authority} redirects more than {MAX_REDIRECTS} times. Ask for the last place."
        )

    async def _once(self, ask: Request, most_bytes: int, notes: list[str]) -> HttpResponse:
        import httpcore2

        try:
            async with exchange(ask.url, make_request(ask), self.dialer, self.environ) as (response, note):
                raw, cut = await read_bounded(response, most_bytes)
        except httpcore2.ConnectTimeout:
            raise WebFailed(f"{ask.url.authority} did not answer within {CONNECT_WITHIN_S:g} s.") from None
        except (httpcore2.NetworkError, httpcore2.ProxyError) as error:
            raise WebFailed(unreachable_error(ask.url, error)) from None
        except (httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            raise WebFailed(f"{ask.url.authority} did not keep to HTTP: {str(error)[:200]}") from None
        if note and note not in notes:
            notes.append(note)
        headers = tuple((key.decode("latin-1"), value.decode("latin-1")) for key, value in response.headers)
        reply = HttpResponse(ask.url, response.status, headers, raw, cut)
        if ask.method != "HEAD":
            coding = ",".join(value for name, value in headers if name.lower() == "content-encoding")
            reply.body, more = await anyio.to_thread.run_sync(decode_body, raw, coding, most_bytes)
            reply.cut = cut or more
        return reply


def make_request(ask: Request) -> httpcore2.Request:
    """The request as it goes out."""
    names = {name.lower() for name, _ in ask.headers}
    headers = [*ask.headers, ("Accept-Encoding", "gzip, deflate")]
    if "user-agent" not in names:
        headers.append(("User-Agent", "jaato"))
    if "accept" not in names:
        headers.append(("Accept", "*/*"))
    if ask.body is not None or ask.method in ("POST", "PUT", "PATCH"):
        headers.append(("Content-Length", str(len(ask.body or b""))))
    return request_to(ask.url, ask.method, headers, ask.body)


def redirect_target(place: str, base: Url) -> Url:
    """Where a Location header leads. Raises `AddressRefused`."""
    try:
        text = place.encode("latin-1").decode("utf-8")
    except UnicodeError:
        text = place
    return parse_url(text.strip().replace(" ", "%20"), base)


def follow_redirect(ask: Request, status: int, url: Url) -> Request | None:
    """The request a redirect asks for: credentials stay with their origin, a body too; None where it would not."""
    method, body, headers = ask.method, ask.body, ask.headers
    if status == 303 or (status in (301, 302) and method == "POST"):
        method = "HEAD" if method == "HEAD" else "GET"
        body = None
        headers = tuple(one for one in headers if not one[0].lower().startswith("content-"))
    if url.origin != ask.url.origin:
        if method not in ("GET", "HEAD"):
            return None
        headers = tuple(one for one in headers if one[0].lower() in HARMLESS)
    return replace(ask, url=url, method=method, headers=headers, body=body)


def unreachable_error(url: Url, error: Exception) -> str:
    """Why a host could not be reached, in words."""
    import ssl

    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and len(chain) < 8:
        chain.append(cause)
    failed = next((one for one in chain if isinstance(one, ssl.SSLError)), None)
    if failed is not None:
        return f"The TLS connection to {url.authority} failed: {failed.reason or failed}. SSL_CERT_FILE can name a private authority."
    return f"{url.authority} cannot be reached: {str(error)[:200] or type(error).__name__}. Check the address and the network."
