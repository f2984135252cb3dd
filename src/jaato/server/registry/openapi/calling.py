"""The operations that call tools."""

from __future__ import annotations

from jaato.protocol.arp import Invocation
from jaato.server.registry.openapi.operation import (
    NAME,
    RESULT,
    TRACEPARENT,
    VERSION,
    Answered,
    Operation,
)
from jaato.server.registry.request import Kind

CALLING: dict[tuple[Kind, bytes], Operation] = {
    ("invoke", b"POST"): Operation(
        "invokeTool",
        "Call a tool. Whatever happens, the answer is a whole result.",
        {200: Answered("The call was made; `result` is what it gave.", RESULT, headers=("Cache-Control",))},
        (NAME, VERSION, TRACEPARENT),
        body=Invocation,
        errors=RESULT,
        fails=(404, 500, 504),
    ),
}
