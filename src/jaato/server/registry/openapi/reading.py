"""The operations that only read."""

from __future__ import annotations

from jaato.protocol.arp import BatchGot, ToolDefinition, ToolView
from jaato.server.registry.listing import CURSOR
from jaato.server.registry.metrics import Health, Version
from jaato.server.registry.openapi.operation import KNOWN, NAME, VERSION, Answered, Operation, Parameter
from jaato.server.registry.query import MAX_LIMIT, MAX_TAG_CHARS, MAX_TAGS, MAX_TEXT_CHARS
from jaato.server.registry.request import Kind
from jaato.server.registry.several import MAX_NAMES, BatchGet

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
