"""The operations that put tools, and take them away."""

from __future__ import annotations

from typing import Any

from jaato.protocol.arp import SPOKEN, ToolDefinition, ToolError
from jaato.server.registry.openapi.operation import NAME, VERSION, Answered, Operation, Parameter
from jaato.server.registry.registered.checked import MAX_DESCRIPTION_CHARS, MAX_TAGS, MAX_TIMEOUT_S
from jaato.server.registry.registered.checked import VERSION as VERSION_FORM
from jaato.server.registry.registered.types import Described
from jaato.server.registry.request import Kind

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
        "tags": {"maxItems": MAX_TAGS, "uniqueItems": True},
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
