"""Calls: what their bodies must be, how they are made, and what each is answered."""

from __future__ import annotations

from msgspec import UNSET

from jaato.errors import ConfigError, JaatoError, Overloaded
from jaato.log import logger
from jaato.protocol.arp import InvalidJson, InvalidShape, Invocation, ToolError, decode_invocation
from jaato.server.registry.answers import Answer, error_for, error_of, failure, success
from jaato.server.registry.callers import Callers
from jaato.server.registry.pages import looked_up
from jaato.server.registry.request import Pending, trace_id
from jaato.server.registry.shelf import Shelf
from jaato.tools.tool import Tool

LOG = logger("server.registry")
STORED = (b"cache-control", b"no-store")
MAX_ID_CHARS = 200


async def invoke(shelf: Shelf, callers: Callers, pending: Pending, body: bytes) -> Answer:
    """The answer to a call."""
    found = looked_up(shelf, pending.route.name, pending.request.query)
    if isinstance(found, ToolError):
        answer = failure(found)
    else:
        try:
            invocation = decode_invocation(body)
        except (InvalidJson, InvalidShape) as error:
            answer = failure(error_of(error.code, str(error)))
        else:
            answer = await called(callers, pending, found.tool, invocation)
    answer.headers.append(STORED)
    return answer


async def called(callers: Callers, pending: Pending, tool: Tool, invocation: Invocation) -> Answer:
    """The answer to a call that can be made."""
    request = pending.request
    origin = origin_of(pending.id, request.header(b"traceparent"), invocation)
    try:
        caller = await callers.caller(pending.who.key, pending.who.name)
        done = await caller.call(tool, invocation, origin)
    except (Overloaded, ConfigError) as error:
        busy = error_of("request.too_many", str(error))
        return failure(busy, 0.0, (b"retry-after", b"1"))
    except JaatoError:
        LOG.exception("Request %s: the call of %s could not be made", origin["request_id"], tool.name)
        words = "The registry cannot make this call now; its log says why."
        return failure(error_of("registry.unavailable", words), 0.0, (b"retry-after", b"1"))
    if done.problem is None:
        return success(done.value, done.latency_ms)
    if done.problem.code == "tool_raised":
        why = done.problem.traceback or done.problem.message
        LOG.error("Request %s: %s failed: %s", origin["request_id"], tool.name, why)
    return failure(error_for(done.problem, origin["request_id"]), done.latency_ms)


def origin_of(id_: bytes, traceparent: bytes | None, invocation: Invocation) -> dict[str, str]:
    """Where a call comes from, by the ids that others know it by."""
    origin = {"request_id": id_.decode("ascii")}
    trace = trace_id(traceparent)
    if trace is not None:
        origin["trace_id"] = trace
    if invocation.trace is not UNSET:
        for name in ("flow_id", "step_id"):
            value = invocation.trace.get(name)
            if isinstance(value, str):
                origin[name] = value[:MAX_ID_CHARS]
    return origin
