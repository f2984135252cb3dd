"""One operation of the document: what is given, what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jaato.protocol.arp import ToolError, ToolResult

JSON = "application/json"


@dataclass(frozen=True)
class Parameter:
    """Something in the path, the query or a header; one in the path has to be there."""

    name: str
    where: Literal["path", "query", "header"]
    words: str
    schema: Mapping[str, Any]


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
KNOWN = Parameter(
    "If-None-Match", "header", "The ETag of what is known already: 304 where it is that.", {"type": "string"}
)
FAILURES: dict[int, str] = {
    400: "It cannot be read: `request.invalid_json`, `request.invalid_shape`, `request.invalid_http`.",
    401: "`auth.required`: there is no key, or not a right one.",
    403: "`auth.forbidden`: the key does not have the scope, or it is a page of another origin.",
    404: "`tool.not_found`: there is no such tool, or not in this version; `details.versions` has those there are.",
    408: "`request.timeout`: the body did not come in time.",
    413: "`request.too_large`: the request has too many bytes.",
    415: "`request.unsupported_encoding`: the body is compressed.",
    421: "`request.misdirected`: the server is not called so.",
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
    500: "`tool.execution_error`: the tool says why; `tool.handler_error`: it raised an exception, which the log has.",
    503: "`registry.unavailable` or `tool.cancelled`: later, as `Retry-After` says.",
    504: "`tool.timeout`: the tool did not finish in its time.",
}
"""What is said of a call beside that, in a whole result."""
HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Request-Id": ("The id of the request.", {"type": "string"}),
    "ETag": ("What tells this answer from others.", {"type": "string"}),
    "Cache-Control": ("Whether it may be kept.", {"type": "string"}),
    "X-Total-Count": ("How many tools there are on all pages.", {"type": "integer", "minimum": 0}),
    "Link": ('The next page, `rel="next"`; none after the last.', {"type": "string"}),
    "Retry-After": ("After how many seconds it may be tried again.", {"type": "integer", "minimum": 0}),
    "WWW-Authenticate": ("How a key is given.", {"type": "string"}),
    "Allow": ("The methods that are answered.", {"type": "string"}),
}
OPTIONAL = frozenset(("Link", "Retry-After", "WWW-Authenticate"))
"""Headers that are not always there."""
BESIDE: dict[int, tuple[str, ...]] = {
    401: ("WWW-Authenticate",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}
RESULT = ToolResult
