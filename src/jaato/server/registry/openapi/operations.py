"""The operations of the document: what each method at each path is given and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jaato.protocol.arp import SPOKEN, BatchGot, Invocation, ToolDefinition, ToolError, ToolResult, ToolView
from jaato.server.registry.batch import MOST, BatchInvocation, Cancellation, Cancelled
from jaato.server.registry.listing import CURSOR, MAX_NAMES, BatchGet
from jaato.server.registry.metrics import Health, Version
from jaato.server.registry.registered.definition import MAX_DESCRIPTION_CHARS, MAX_TIMEOUT_S, Described
from jaato.server.registry.registered.definition import MAX_TAGS as MAX_TOOL_TAGS
from jaato.server.registry.registered.definition import VERSION as VERSION_FORM
from jaato.server.registry.requests import (
    KEY_PATTERN,
    MAX_LIMIT,
    MAX_TAG_CHARS,
    MAX_TAGS,
    MAX_TEXT_CHARS,
    Kind,
)
from jaato.server.registry.results import HANDLE, PIECE_BYTES

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


SAME = Answered("It is what `If-None-Match` names.", headers=("ETag", "Cache-Control"))
ASKED = (
    Parameter(
        "q",
        "query",
        "What the tool should do, in words: the list is what fits, the best first; 20 of them, unless limit says more.",
        {"type": "string", "maxLength": MAX_TEXT_CHARS},
    ),
    Parameter(
        "tag",
        "query",
        "A tag the tools have; several must all be had.",
        {
            "type": "array",
            "maxItems": MAX_TAGS,
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_TAG_CHARS},
        },
    ),
    Parameter("limit", "query", "How many at most.", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}),
    Parameter(
        "cursor",
        "query",
        "Where the page before ended: from its Link, with the same q and tags.",
        {"type": "string", "pattern": f"^{CURSOR.pattern}$"},
    ),
)

READING: dict[tuple[Kind, bytes], Operation] = {
    ("list", b"GET"): Operation(
        "listTools",
        "The tools by name and description, each name once: all of them, or those that are asked for, page by page.",
        {
            200: Answered(
                "The tools.", list[ToolView], headers=("ETag", "Cache-Control", "X-Total-Count", "Link")
            ),
            304: SAME,
        },
        (*ASKED, KNOWN),
    ),
    ("tool", b"GET"): Operation(
        "getTool",
        "One tool, whole: what it takes and what it gives.",
        {200: Answered("The tool.", ToolDefinition, headers=("ETag", "Cache-Control")), 304: SAME},
        (NAME, VERSION, KNOWN),
        fails=(404,),
    ),
    ("batchGet", b"POST"): Operation(
        "getTools",
        f"The definitions of several tools, at most {MAX_NAMES}, each found or not, in the order of their names.",
        {200: Answered("A result for each name.", BatchGot)},
        body=BatchGet,
    ),
    ("health", b"GET"): Operation(
        "getHealth",
        "Whether requests are answered. Needs no key.",
        {200: Answered("They are.", Health, headers=("Cache-Control",))},
        tag="registry",
    ),
    ("version", b"GET"): Operation(
        "getVersion",
        "Which registry this is. Needs no key.",
        {200: Answered("Its name and versions.", Version, headers=("Cache-Control",))},
        tag="registry",
    ),
    ("metrics", b"GET"): Operation(
        "getMetrics",
        "Requests by route and status, calls by tool and outcome, and how long they took, for Prometheus.",
        {200: Answered("The figures.", kinds=("text/plain",), headers=("Cache-Control",))},
        tag="registry",
    ),
    ("openapi", b"GET"): Operation(
        "getOpenapi",
        "This document.",
        {200: Answered("The document.", dict, headers=("ETag", "Cache-Control")), 304: SAME},
        (KNOWN,),
        tag="registry",
    ),
}


STREAMS = ("text/event-stream", "application/x-ndjson")
REPLAYED = ("Cache-Control", "Idempotent-Replayed")

CALLING: dict[tuple[Kind, bytes], Operation] = {
    ("invoke", b"POST"): Operation(
        "invokeTool",
        "Call a tool. Whatever happens, the answer is a whole result. By `Accept` it is streamed, once the call has begun: "
        'events `output` with `{"text": …}`, then `result`; or lines `{"type": "output", "text": …}`, then '
        '`{"type": "result", "result": …}`.',
        {
            200: Answered(
                "The call was made; `result` is what it gave.",
                RESULT,
                kinds=STREAMS,
                headers=(*REPLAYED, "Preference-Applied"),
            )
        },
        (NAME, VERSION, TRACEPARENT, IDEMPOTENCY_KEY, PREFER),
        body=Invocation,
        errors=RESULT,
        fails=(404, 409, 422, 500, 502, 504),
    ),
    ("batchInvoke", b"POST"): Operation(
        "invokeTools",
        f"Call several tools, at most {MOST}, at the same time. Each succeeds or fails for itself.",
        {200: Answered("A result for each call, in their order.", list[ToolResult], headers=REPLAYED)},
        (TRACEPARENT, IDEMPOTENCY_KEY, PREFER),
        body=BatchInvocation,
        errors=RESULT,
        fails=(409, 422),
    ),
    ("cancel", b"POST"): Operation(
        "cancelCalls",
        "End the calls of a request of the same caller that are under way, by its X-Request-Id. Each is answered with "
        "`tool.cancelled`.",
        {
            200: Answered("They end.", Cancelled, headers=("Cache-Control",)),
            404: Answered("`call.not_found`: none is under way.", ToolError),
        },
        body=Cancellation,
    ),
    ("result", b"GET"): Operation(
        "readResult",
        "What is behind a handle in a result of a call of the caller's own: long output, an image, the rest of a long message. At "
        f"most {PIECE_BYTES:,} bytes at once, whole characters where it is text; `Link` leads to the rest.",
        {
            200: Answered(
                "A piece of it.",
                kinds=("text/plain", "application/octet-stream"),
                headers=("Cache-Control", "Link"),
            ),
            404: Answered("`result.not_found`: the caller has no such result.", ToolError),
        },
        (
            Parameter(
                "handle",
                "query",
                "The handle.",
                {"type": "string", "pattern": f"^{HANDLE.pattern}$"},
                required=True,
            ),
            Parameter(
                "offset",
                "query",
                "From which byte on.",
                {"type": "integer", "minimum": 0, "maximum": 10**15 - 1},
            ),
        ),
    ),
}


MATCH = Parameter(
    "If-Match",
    "header",
    "Only where GET of the same address gives this ETag, or `*`, anything.",
    {"type": "string"},
)
NONE = Parameter("If-None-Match", "header", "`*`: only where there is none yet.", {"type": "string"})
PUT_HEADERS = ("ETag", "Cache-Control", "Content-Location")
FORBIDDEN = Answered(
    "`auth.forbidden`: the key does not have the scope tools:write, or is for other tools; `permission.denied`: the registry "
    "only reads; `tool.handler_forbidden`: its operator has not allowed such a handler.",
    ToolError,
)
FIXED = Answered(
    "`tool.fixed`: it is a tool of a domain or a plugin, which is not changed over HTTP.", ToolError
)
CHANGED = Answered(
    "`request.precondition_failed`: the tool is not what `If-Match` or `If-None-Match` wants.", ToolError
)
NOT_KEPT = Answered(
    "`registry.not_kept`: the disk refused, and nothing has changed; `registry.full`: there are as many as there may be.",
    ToolError,
)

TIME = {"timeout_s": {"exclusiveMinimum": 0, "maximum": MAX_TIMEOUT_S}}
PUT_FIELDS: dict[str, dict[str, Any]] = {
    "Described": {
        "description": {"minLength": 1, "maxLength": MAX_DESCRIPTION_CHARS},
        "version": {"pattern": f"^{VERSION_FORM.pattern}$"},
        "schema_version": {"pattern": f"^{SPOKEN.pattern}$"},
        "tags": {"maxItems": MAX_TOOL_TAGS, "uniqueItems": True},
    },
    "Webhook": TIME,
    "McpTool": TIME,
    "EntryPoint": TIME,
}
"""What is known of the fields of what is put beyond their types."""

WRITING: dict[tuple[Kind, bytes], Operation] = {
    ("tool", b"PUT"): Operation(
        "putTool",
        "Put a version of a tool, or another in its place: what it is, and who carries out its calls. It is called by these "
        "at once, and kept. Without `handler` that of the version which is replaced stays.",
        {
            200: Answered("It has taken the place of one.", ToolDefinition, headers=PUT_HEADERS),
            201: Answered("It is new.", ToolDefinition, headers=(*PUT_HEADERS, "Location")),
            400: Answered(
                "It cannot be read, or `tool.invalid_definition`: `details.issues` has every problem by its path.",
                ToolError,
            ),
            403: FORBIDDEN,
            409: FIXED,
            412: CHANGED,
            507: NOT_KEPT,
        },
        (NAME, VERSION, MATCH, NONE),
        body=Described,
    ),
    ("tool", b"DELETE"): Operation(
        "deleteTool",
        "Take a tool away that was put: the version that is named, else all of them. Calls under way end as they began.",
        {
            204: Answered("It is gone.", headers=("Cache-Control",)),
            403: FORBIDDEN,
            409: FIXED,
            412: CHANGED,
            507: NOT_KEPT,
        },
        (NAME, VERSION, MATCH),
        fails=(404,),
    ),
}
