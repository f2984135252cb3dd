"""The operations that call tools."""

from __future__ import annotations

from jaato.protocol.arp import Invocation, ToolError, ToolResult
from jaato.server.registry.batch import MOST, BatchInvocation, Cancellation, Cancelled
from jaato.server.registry.behind import HANDLE, PIECE_BYTES
from jaato.server.registry.openapi.operation import (
    IDEMPOTENCY_KEY,
    NAME,
    PREFER,
    RESULT,
    TRACEPARENT,
    VERSION,
    Answered,
    Operation,
    Parameter,
)
from jaato.server.registry.request import Kind

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
