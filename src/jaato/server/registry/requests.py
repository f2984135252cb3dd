"""Requests: routes, scopes, visibility, ids, queries, and the options in headers (Idempotency-Key, Prefer, Accept)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes, urlencode

from msgspec import Struct, field

from jaato.protocol.arp import INVOKE, LIST_PATH, InvalidShape
from jaato.protocol.ids import random_bytes

REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Visibility:
    """Visible tools, as case-sensitive name patterns with `*`, `?` and `[…]`."""

    patterns: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Whether a tool of this name is visible."""
        return compile_patterns(self.patterns).match(name) is not None


@lru_cache(REMEMBERED)
def compile_patterns(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """The patterns as one regular expression; it is matched with every tool whenever the tools change."""
    return re.compile("|".join(map(translate, patterns)) or "(?!)")  # none match nothing


REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
"""W3C Trace Context: version, trace id, parent id, flags; later versions may add to it."""
BELOW = f"{LIST_PATH}/".encode()
LIST = LIST_PATH.encode()
ACTIONS: dict[bytes, RouteKind] = {
    b":batchGet": "batchGet",
    b":batchInvoke": "batchInvoke",
    b":cancel": "cancel",
    b":metrics": "metrics",
    b":openapi": "openapi",
    b":result": "result",
}
"""Routes of all tools, by their suffix to the path of the list."""
BESIDE: dict[bytes, RouteKind] = {
    b"/health": "health",
    b"/healthz": "health",
    b"/metrics": "metrics",
    b"/openapi.json": "openapi",
    b"/version": "version",
}
"""Routes outside the path of the list; a server that mounts the registry has its own."""
ENCODED_COLON = re.compile(rb"%3a", re.IGNORECASE)
CALL = INVOKE.encode()
PERCENT, SLASH = b"%/"
"""As numbers: searching for a single byte as bytes raises and handles an exception internally."""
ENCODED_INVOKE = re.compile(rb"%3a(invoke)$", re.IGNORECASE)

Headers = list[tuple[bytes, bytes]]
Spend = Callable[[int], tuple[float, Headers]]
"""Counts further calls against the rate limit; the seconds to wait instead, and the rate limit headers."""
RouteKind = Literal[
    "list",
    "tool",
    "invoke",
    "batchGet",
    "batchInvoke",
    "cancel",
    "result",
    "health",
    "version",
    "metrics",
    "openapi",
]
Scope = Literal["tools:read", "tools:invoke", "tools:write"]
SCOPES: dict[tuple[RouteKind, bytes], Scope | None] = {
    ("list", b"GET"): "tools:read",
    ("tool", b"GET"): "tools:read",
    ("tool", b"PUT"): "tools:write",
    ("tool", b"DELETE"): "tools:write",
    ("invoke", b"POST"): "tools:invoke",
    ("batchInvoke", b"POST"): "tools:invoke",
    ("cancel", b"POST"): "tools:invoke",
    ("result", b"GET"): "tools:invoke",
    ("batchGet", b"POST"): "tools:read",
    ("health", b"GET"): None,
    ("version", b"GET"): None,
    ("metrics", b"GET"): "tools:read",
    ("openapi", b"GET"): "tools:read",
}
SCOPES |= {(kind, b"HEAD"): scope for (kind, method), scope in SCOPES.items() if method == b"GET"}
"""The methods of each kind of route, and the scope a key needs for it; None needs no key."""
METHODS: dict[RouteKind, tuple[bytes, ...]] = {
    kind: tuple(method for (other, method) in SCOPES if other == kind) for kind, _ in SCOPES
}
ANONYMOUS_SCOPES = frozenset[Scope](("tools:read", "tools:invoke"))
"""The scopes of a caller without a key, if none is required."""
ANONYMOUS_METHODS = {
    kind: tuple(one for one in methods if SCOPES[kind, one] in (None, *ANONYMOUS_SCOPES))
    for kind, methods in METHODS.items()
}

OWNER_SCOPES = frozenset[Scope](("tools:read", "tools:invoke", "tools:write"))
"""The scopes of the owner."""


class Principal(Struct, frozen=True):
    """Who calls: the key of its session, the name in the log, its scopes, and the tools it can see (None: all)."""

    key: str = ""
    name: str = "anyone"
    scopes: frozenset[Scope] = ANONYMOUS_SCOPES
    visibility: Visibility | None = None


class Route(Struct, frozen=True):
    """The route of a path, and the name of its tool; empty if that cannot be decoded."""

    kind: RouteKind
    name: str = ""


class Request(Struct):
    """What the registry reads of a request; `path` is as it was sent, without the query. Header names are in lower case. `told` are
    headers that every answer to it has; `spend` counts what it asks for beyond one thing, where there is a rate."""

    method: bytes
    path: bytes
    headers: Headers
    query: bytes = b""
    rate_headers: Sequence[tuple[bytes, bytes]] = ()
    spend: Spend | None = None
    _first: dict[bytes, bytes] | None = None

    def header(self, name: bytes) -> bytes | None:
        """The first header of this name."""
        if self._first is None:
            self._first = dict(reversed(self.headers))
        return self._first.get(name)

    def joined_header(self, name: bytes) -> bytes:
        """All headers of this name as one list (RFC 9110, 5.3)."""
        return b",".join([value for key, value in self.headers if key == name])

    def replace_headers(self, headers: Headers) -> None:
        """Replace all headers."""
        self.headers, self._first = headers, None


class PendingRequest(Struct):
    """A request whose body has not been received: its caller, route and id."""

    route: Route
    request: Request
    id: bytes
    who: Principal = field(default_factory=Principal)


def is_open(path: bytes, method: str) -> bool:
    """Whether a request needs no key."""
    kind = BESIDE.get(path)
    return kind is not None and SCOPES.get((kind, method.encode()), "") is None


def route_of(path: bytes) -> Route | None:
    """The route of a path; None if there is none."""
    if path == LIST:
        return Route("list")
    if not path.startswith(BELOW):
        action = ENCODED_COLON.sub(b":", path[len(LIST) :]) if path.startswith(LIST) else b""
        found = ACTIONS.get(action) or BESIDE.get(path)
        return None if found is None else Route(found)
    raw = path[len(BELOW) :]
    encoded = PERCENT in raw
    if encoded:
        raw = ENCODED_INVOKE.sub(rb":\1", raw)
    kind: RouteKind = "tool"
    if raw.endswith(CALL):
        kind, raw = "invoke", raw[: -len(CALL)]
    if not raw or SLASH in raw:
        return None
    try:
        return Route(kind, (unquote_to_bytes(raw) if encoded else raw).decode())
    except UnicodeDecodeError:
        return Route(kind)


def request_id(given: bytes | None) -> bytes:
    """The id of the request: the caller's own if it is valid, else a new one."""
    if given is not None and REQUEST_ID.fullmatch(given):
        return given
    return b"req-" + random_bytes().hex()[:24].encode()


def parse_trace_id(traceparent: bytes | None) -> str | None:
    """The trace id of a valid W3C `traceparent`."""
    match = TRACEPARENT.fullmatch(traceparent) if traceparent is not None else None
    if match is None or match[1] == b"ff" or (match[1] == b"00" and match[4]):
        return None
    if not match[2].strip(b"0") or not match[3].strip(b"0"):
        return None
    return match[2].decode()


def matches_etag(header: bytes, tags: tuple[bytes, ...]) -> bool:
    """Whether `If-None-Match` names one of these tags; the comparison is the weak one (RFC 9110, 13.1.2)."""
    if header.strip() == b"*":
        return True
    return any(one.strip().removeprefix(b"W/") in tags for one in header.split(b","))


StreamFormat = Literal["sse", "ndjson"]
WISHES = frozenset((b"accept", b"idempotency-key", b"prefer"))
USUAL = frozenset(((b"accept", b"*/*"), (b"accept", b"application/json")))
"""Headers that many clients always send, and that express no preference."""
FORMS: dict[bytes, StreamFormat] = {
    b"text/event-stream": "sse",
    b"application/x-ndjson": "ndjson",
    b"application/ndjson": "ndjson",
}
CONTENT_TYPES: dict[StreamFormat, bytes] = {"sse": b"text/event-stream", "ndjson": b"application/x-ndjson"}
KEY = re.compile(rb'"([\x20\x21\x23-\x5b\x5d-\x7e]{1,255})"|([\x21\x23-\x2b\x2d-\x3a\x3c-\x7e]{1,255})')
"""A string of structured fields (RFC 9651), or the same without its quotes, as most send it."""
WAIT = re.compile(rb'wait\s*=\s*"?([0-9]{1,9})"?', re.IGNORECASE)
QUALITY = re.compile(rb"q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Preferences:
    """The preferences of a call: its idempotency key, the format of a stream, and a timeout."""

    key: str = ""
    form: StreamFormat | None = None
    wait_s: float | None = None


NO_PREFERENCES = Preferences()


def parse_preferences(headers: Headers) -> Preferences:
    """The preferences in headers. Raises `InvalidShape` for an invalid key, or more than one."""
    found = [one for one in headers if one[0] in WISHES]
    if not found or (len(found) == 1 and found[0] in USUAL):
        return NO_PREFERENCES
    found = [one for one in found if one not in USUAL]
    if not found:
        return NO_PREFERENCES
    keys = [value for name, value in found if name == b"idempotency-key"]
    accepted = b",".join([value for name, value in found if name == b"accept"])
    preferred = b",".join([value for name, value in found if name == b"prefer"])
    key, form, wait_s = parse_key(keys), parse_form(accepted) if accepted else None, parse_wait(preferred)
    return Preferences(key, form, wait_s) if key or form is not None or wait_s is not None else NO_PREFERENCES


def parse_key(values: list[bytes]) -> str:
    """The idempotency key, empty if there is none. Raises `InvalidShape`."""
    if not values:
        return ""
    match = KEY.fullmatch(values[0].strip()) if len(values) == 1 else None
    if match is None:
        raise InvalidShape(
            'Idempotency-Key is one string of 1 to 255 visible ASCII characters: Idempotency-Key: "8e03978e".'
        )
    return (match[1] or match[2]).decode("ascii")


def parse_form(accept: bytes) -> StreamFormat | None:
    """The preferred stream format; None if a plain response is named with the same or a higher preference."""
    streams: dict[StreamFormat, float] = {}
    plain: dict[bytes, float] = {}
    for part in accept.lower().split(b","):
        kind, *parameters = [one.strip() for one in part.split(b";")]
        quality = parse_quality(parameters)
        if kind in FORMS:
            streams.setdefault(FORMS[kind], quality)
        else:
            plain[kind] = quality
    best = max(streams, key=lambda form: streams[form], default=None)
    if best is None or not streams[best]:
        return None
    if b"application/json" in plain:
        return best if streams[best] > plain[b"application/json"] else None
    return best if streams[best] >= max(plain.get(b"application/*", 0.0), plain.get(b"*/*", 0.0)) else None


def parse_quality(parameters: list[bytes]) -> float:
    """The quality value from 0 to 1 (RFC 9110, 12.4.2); 0 if it is invalid."""
    for parameter in parameters:
        if parameter.startswith(b"q"):
            match = QUALITY.fullmatch(parameter)
            return 0.0 if match is None else float(match[1])
    return 1.0


def parse_wait(prefer: bytes) -> float | None:
    """The first `wait` preference, in seconds (RFC 7240, 4.3)."""
    for part in prefer.split(b","):
        match = WAIT.fullmatch(part.partition(b";")[0].strip())
        if match is not None:
            return float(match[1])
    return None


MAX_PARAMETERS = 100
MAX_TEXT_CHARS = 1_000
MAX_TAGS = 16
MAX_TAG_CHARS = 100
MAX_LIMIT = 1_000
LIMIT = re.compile(r"[1-9][0-9]{0,3}")


def parse_parameters(query: bytes) -> dict[str, list[str]]:
    """The values of each parameter in order. Raises `InvalidShape` for invalid UTF-8, or too many parameters."""
    try:
        pairs = parse_qsl(
            query.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
        )
    except UnicodeDecodeError:
        raise InvalidShape("The query is not UTF-8, percent-encoded.") from None
    except ValueError:
        raise InvalidShape(f"A query has at most {MAX_PARAMETERS} parameters.") from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def single_value(given: dict[str, list[str]], name: str) -> str | None:
    """The value of a parameter, None without it. Raises `InvalidShape` if it is repeated or empty."""
    values = given.get(name)
    if values is None:
        return None
    if len(values) > 1:
        raise InvalidShape(f"{name}= stands {len(values)} times; give it once.")
    if not values[0]:
        raise InvalidShape(f"{name}= is empty; leave it out, or give a value.")
    return values[0]


def parse_version(query: bytes) -> str | None:
    """The requested version of a tool, None for the newest. Raises `InvalidShape`."""
    return single_value(parse_parameters(query), "version") if query else None


class ListQuery(NamedTuple):
    """What of the list is asked for: `text` is search_tools for, all `tags` must hold, `limit` 0 is no limit."""

    text: str
    tags: tuple[str, ...]
    limit: int
    cursor: str

    def page(self, cursor: str) -> str:
        """The URL of another page."""
        given = [("q", self.text)] if self.text else []
        given += [("tag", tag) for tag in self.tags]
        given += [("limit", str(self.limit))] if self.limit else []
        return f"{LIST_PATH}?{urlencode([*given, ('cursor', cursor)])}"


def parse_list_query(query: bytes) -> ListQuery:
    """Parse a query of the list. Raises `InvalidShape`."""
    given = parse_parameters(query)
    texts = given.get("q", [""])
    if len(texts) > 1:
        raise InvalidShape(f"q= stands {len(texts)} times; give it once.")
    text = texts[0].strip()
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidShape(f"q= has {len(text):,} characters, and may have {MAX_TEXT_CHARS:,}.")
    tags = tuple(given.get("tag", ()))
    if len(tags) > MAX_TAGS or not all(0 < len(tag) <= MAX_TAG_CHARS for tag in tags):
        raise InvalidShape(
            f"tag= may stand {MAX_TAGS} times, each with a tag of 1 to {MAX_TAG_CHARS} characters."
        )
    limit = single_value(given, "limit")
    if limit is not None and not (LIMIT.fullmatch(limit) and int(limit) <= MAX_LIMIT):
        raise InvalidShape(f"limit= is a whole number from 1 to {MAX_LIMIT:,}.")
    return ListQuery(text, tuple(dict.fromkeys(tags)), int(limit or 0), single_value(given, "cursor") or "")
