"""One operation of the document: what is given, what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jaato.protocol.arp import ToolError, ToolResult
from jaato.server.registry.wishes import KEY_PATTERN

JSON = "application/json"


@dataclass(frozen=True)
class Parameter:
    """Something in the path, the query or a header; one in the path has to be there, and so has one that is `required`."""

    name: str
    where: Literal["path", "query", "header"]
    words: str
    schema: Mapping[str, Any]
    required: bool = False


@dataclass(frozen=True)
class Answered:
    """What one status means; its body is JSON of a type, else of these kinds of content, None for no body."""

    words: str
    body: Any = None
    kinds: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """What one method does at one path. `body` is the type of what is sent; `errors` that of what is answered to what fails."""

    id: str
    words: str
    answers: Mapping[int, Answered]
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    errors: Any = ToolError
    fails: tuple[int, ...] = ()
    tag: str = "tools"
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else the document says of it."""


NAME = Parameter(
    "name", "path", "The tool's name.", {"type": "string", "minLength": 1, "pattern": "^[A-Za-z0-9_-]{1,64}$"}
)
VERSION = Parameter(
    "version",
    "query",
    "One of several versions of the tool; without it the newest.",
    {"type": "string", "minLength": 1},
)
REQUEST_ID = Parameter(
    "X-Request-Id",
    "header",
    "An id of the request, which comes back and is in the log; without it one is made.",
    {"type": "string"},
)
TRACEPARENT = Parameter(
    "traceparent", "header", "The trace the request belongs to (W3C Trace Context).", {"type": "string"}
)
IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "header",
    "A key of the caller's own for this request: whoever repeats both is given the same answer, and nothing is done twice. "
    "It is remembered for a day.",
    {"type": "string", "pattern": KEY_PATTERN},
)
PREFER = Parameter(
    "Prefer",
    "header",
    "`wait=5`: the call has 5 seconds, if its tool does not allow less (RFC 7240).",
    {"type": "string"},
)
KNOWN = Parameter(
    "If-None-Match", "header", "The ETag of what is known already: 304 where it is that.", {"type": "string"}
)
FAILURES: dict[int, str] = {
    400: "It cannot be read: `request.invalid_json`, `request.invalid_shape`, `request.invalid_http`.",
    401: "`auth.required`: there is no key, or not a right one.",
    403: "`auth.forbidden`: the key does not have the scope, or it is a page of another origin.",
    404: "`tool.not_found`: there is no such tool, or not in this version; `details.versions` has those there are.",
    408: "`request.timeout`: the body did not come in time.",
    409: "`request.idempotency_under_way`: the call of this key is being made; ask again with the same key.",
    413: "`request.too_large`: the request has too many bytes.",
    415: "`request.unsupported_encoding`: the body is compressed.",
    421: "`request.misdirected`: the server is not called so.",
    422: "`request.idempotency_mismatch`: the key was used for another request.",
    429: "`request.too_many`: later, as `Retry-After` says.",
    503: "`registry.unavailable`: later, as `Retry-After` says.",
}
"""What each status says that any operation may have."""
ALWAYS = (400, 401, 403, 421, 429, 503)
"""What any request may be answered: it is said before its route counts."""
WITH_BODY = (408, 413, 415)
CALL_FAILURES: dict[int, str] = {
    400: "It cannot be read, or `tool.invalid_args`: `details.issues` has every problem of the arguments by its path.",
    403: "`permission.denied` by a rule, or `auth.forbidden`.",
    500: "`tool.execution_error`: the tool says why; `tool.handler_error`: it raised an exception, which the log has; "
    "`tool.result_too_large`; `tool.outcome_unknown`: it may have been carried out, look before it is repeated.",
    502: "`tool.unreachable`: who carries out the calls of the tool cannot be reached; the call was not made.",
    503: "`registry.unavailable` or `tool.cancelled`: later, as `Retry-After` says.",
    504: "`tool.timeout`: the tool did not finish in its time.",
}
"""What is said of a call beside that, in a whole result."""
TEXT = {"type": "string"}
HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Request-Id": ("The id of the request.", {"type": "string"}),
    "ETag": ("What tells this answer from others.", {"type": "string"}),
    "Cache-Control": ("Whether it may be kept.", {"type": "string"}),
    "X-Total-Count": ("How many tools there are on all pages.", {"type": "integer", "minimum": 0}),
    "Location": ("Where it is.", {"type": "string"}),
    "Content-Location": ("Where this very version is.", {"type": "string"}),
    "Link": ('The next page, `rel="next"`; none after the last.', {"type": "string"}),
    "Retry-After": ("After how many seconds it may be tried again.", {"type": "integer", "minimum": 0}),
    "WWW-Authenticate": ("How a key is given.", {"type": "string"}),
    "Idempotent-Replayed": ("`true`: this is the answer the key has had before.", {"const": "true"}),
    "Preference-Applied": ("The time that was asked for is what counted.", {"type": "string"}),
    "RateLimit": (
        "What is left of the key's or the address's rate, and in how many seconds there is all of it.",
        TEXT,
    ),
    "RateLimit-Policy": ("The rate: how often in how many seconds.", TEXT),
    "Allow": ("The methods that are answered.", {"type": "string"}),
}
OPTIONAL = frozenset(
    "Link Retry-After WWW-Authenticate Idempotent-Replayed Preference-Applied RateLimit RateLimit-Policy".split()
)
"""Headers that are not always there."""
BESIDE: dict[int, tuple[str, ...]] = {
    401: ("WWW-Authenticate",),
    403: ("WWW-Authenticate",),
    409: ("Retry-After",),
    429: ("Retry-After", "RateLimit", "RateLimit-Policy"),
    503: ("Retry-After",),
}
RESULT = ToolResult
