"""What goes out with a call: its arguments, in which session and flow it is made, and the ids it is told from others by."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from msgspec import UNSET

from jaato.errors import ToolError
from jaato.plugins.arp.http import Headers
from jaato.protocol.arp import SCHEMA_VERSION, Invocation
from jaato.protocol.ids import span_id, trace_id
from jaato.tools.call import Call
from jaato.tools.remote.refresh import INVOCATION

MAX_ARGUMENT_BYTES = 4_000_000
TRACE = "trace"
"""The service by which who has a call made says as what step of which flow."""


def body_of(arguments: dict[str, Any], call: Call) -> bytes:
    """The body of a call: what it is called with, in which session, as which step; where it is served on, as its caller
    has said. Raises `ToolError`."""
    given = call.services.get(INVOCATION)
    context: dict[str, Any] = {
        "session_id": call.session_id,
        "agent_id": call.agent_id,
        "turn_id": call.turn_id,
    }
    step_id = f"{call.turn_id}/{call.id}" if call.turn_id else call.id
    trace: dict[str, Any] = call.services.get(TRACE) or {"flow_id": call.session_id, "step_id": step_id}
    if isinstance(given, Invocation):
        context = context if given.context is UNSET else given.context
        trace = trace if given.trace is UNSET else given.trace
    body = msgspec.json.encode(
        Invocation(
            args=arguments,
            schema_version=SCHEMA_VERSION,
            context={key: value for key, value in context.items() if value not in (None, "")},
            trace={key: value for key, value in trace.items() if value not in (None, "")},
        )
    )
    if len(body) > MAX_ARGUMENT_BYTES:
        raise ToolError(f"The arguments have {len(body):,} bytes; at most {MAX_ARGUMENT_BYTES:,} are sent.")
    return body


def headers_of(call: Call) -> Headers:
    """By what a call is told from others: its id, for the registry's log and against doing it twice, and its trace."""
    found = [("traceparent", traceparent(call))]
    if call.id and call.id.isascii() and call.id.isprintable() and len(call.id) <= 200:
        found += [("X-Request-Id", call.id), ("Idempotency-Key", call.id)]
    return tuple(found)


def traceparent(call: Call) -> str:
    """The call in W3C Trace Context: the span of the program that it runs in, else the trace its caller is in, else the one
    our own traces give it."""
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is not None and tracing.get_current_span().get_span_context().is_valid:
        found: dict[str, str] = {}
        from opentelemetry.propagate import inject

        inject(found)
        if "traceparent" in found:
            return found["traceparent"]
    trace = (call.origin or {}).get("trace_id") or trace_id(call.session_id, call.turn_id or call.id)
    return f"00-{trace}-{span_id(call.session_id, 'execute_tool', call.id)}-01"
