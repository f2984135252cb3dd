"""Who put or took away which tool, in the log beside the calls: its start is there before anything changes, its end is what
came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from jaato.errors import JaatoError, StoreError
from jaato.log import logger
from jaato.protocol.arp import decode_error
from jaato.protocol.events import ToolCallEnd, ToolCallStart
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Problem, ToolResult
from jaato.server.registry.audit import ACTION
from jaato.server.registry.registered.types import EntryPoint, Handler, McpTool, Webhook
from jaato.server.registry.request import Pending, trace_id
from jaato.server.registry.responses import NOT_STORED, Answer, refusal

if TYPE_CHECKING:
    from jaato.agent.journal import Journal
    from jaato.server.registry.caller_sessions import Callers

Action = Literal["put", "delete"]
LOG = logger("server.registry")
UNKEPT = "The change could not be kept in the log; nothing has changed. The registry's log says more."
MAX_NAME_CHARS = 200


async def noted(
    callers: Callers,
    pending: Pending,
    action: Action,
    told: dict[str, Any],
    work: Callable[[], Awaitable[Answer]],
) -> Answer:
    """The answer to a change, whose start and end are in the log; `told` is what there is to say of it, once the work is
    done."""
    begun, id_ = perf_counter(), new_id("c")
    try:
        caller = await callers.caller(pending.who.key, pending.who.name)
        journal = caller.session.journal
        journal.record(start_of(journal, id_, pending, action))
    except JaatoError:
        LOG.exception("Request %s: %s could not be noted", pending.id.decode(), pending.route.name)
        return refusal("registry.not_kept", UNKEPT, NOT_STORED, (b"retry-after", b"5"))
    answer = await work()
    result = ToolResult(
        id_, f"{action}_tool", not answer.code, structured=told or None, error=problem_of(answer)
    )
    end = ToolCallEnd(
        **journal.head(),
        call_id=id_,
        tool=f"{action}_tool",
        result=result,
        duration_s=round(perf_counter() - begun, 6),
    )
    try:
        journal.record(end)
    except StoreError:
        LOG.exception("Request %s: what came of it could not be noted", pending.id.decode())
    return answer


def start_of(journal: Journal, id_: str, pending: Pending, action: str) -> ToolCallStart:
    """That somebody is about to change a tool."""
    origin = {"request_id": pending.id.decode("ascii"), ACTION: action}
    trace = trace_id(pending.request.header(b"traceparent"))
    return ToolCallStart(
        **journal.head(),
        call_id=id_,
        tool=f"{action}_tool",
        arguments={"name": pending.route.name[:MAX_NAME_CHARS]},
        origin=origin if trace is None else {**origin, "trace_id": trace},
    )


def problem_of(answer: Answer) -> Problem | None:
    """Why nothing was changed; None where something was."""
    if not answer.code:
        return None
    message = answer.code
    with suppress(JaatoError):
        message = decode_error(answer.body).message
    return Problem(code=answer.code, message=message)


def where(handler: Handler) -> str:
    """Who carries out the calls, in a few words: of an address only which host it is of, for the rest may be a key."""
    match handler:
        case Webhook(url=url):
            parts = urlsplit(url)
            return f"webhook {parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        case McpTool(server=server, tool=tool):
            return f"mcp {server}/{tool}"
        case EntryPoint(target=target):
            return f"entry_point {target}"
