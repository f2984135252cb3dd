"""The operations of the later generation."""

from __future__ import annotations

from jaato.protocol.arp_next import (
    ErrorEnvelope,
    InvocationRequest,
    InvocationResult,
    LaterHealth,
    LaterTool,
    VersionInfo,
)
from jaato.server.registry.openapi.operation import (
    IDEMPOTENCY_KEY,
    KNOWN,
    NAME,
    PREFER,
    TRACEPARENT,
    VERSION,
    Answered,
    Operation,
)
from jaato.server.registry.request import Kind

SAME = Answered("It is what `If-None-Match` names.", headers=("ETag", "Cache-Control"))

LATER: dict[tuple[Kind, bytes], Operation] = {
    ("next_list", b"GET"): Operation(
        "laterListTools",
        "The tools, whole, in the newest version of each.",
        {200: Answered("The tools.", list[LaterTool], headers=("ETag", "Cache-Control")), 304: SAME},
        (KNOWN,),
        errors=ErrorEnvelope,
        tag="later",
    ),
    ("next_tool", b"GET"): Operation(
        "laterGetTool",
        "One tool, whole.",
        {200: Answered("The tool.", LaterTool, headers=("ETag", "Cache-Control")), 304: SAME},
        (NAME, VERSION, KNOWN),
        errors=ErrorEnvelope,
        fails=(404,),
        tag="later",
    ),
    ("next_invoke", b"POST"): Operation(
        "laterInvokeTool",
        "Call a tool. A call that was made is answered with 200 whether it succeeded or not; `ok` says which. A result that is "
        "no object is one with the name `value`.",
        {
            200: Answered(
                "The call was made.",
                InvocationResult,
                headers=("Cache-Control", "Idempotent-Replayed", "Preference-Applied"),
            )
        },
        (VERSION, TRACEPARENT, IDEMPOTENCY_KEY, PREFER),
        body=InvocationRequest,
        errors=ErrorEnvelope,
        fails=(404, 409, 422),
        tag="later",
    ),
    ("next_health", b"GET"): Operation(
        "laterGetHealth",
        "Whether requests are answered. Needs no key.",
        {200: Answered("They are.", LaterHealth, headers=("Cache-Control",))},
        errors=ErrorEnvelope,
        tag="later",
    ),
    ("next_version", b"GET"): Operation(
        "laterGetVersion",
        "Which registry this is. Needs no key.",
        {200: Answered("Its name and versions.", VersionInfo, headers=("Cache-Control",))},
        errors=ErrorEnvelope,
        tag="later",
    ),
}
