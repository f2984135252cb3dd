"""Routes of registered tools: PUT and DELETE, and the audit of changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

from msgspec import UNSET

from jaato.errors import JaatoError, NotAllowed, PermissionDenied, StoreError
from jaato.log import logger
from jaato.protocol.arp import LIST_PATH, InvalidJson, InvalidShape, decode_error
from jaato.protocol.events import ToolCallEnd, ToolCallStart
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Problem, ToolResult
from jaato.server.registry.audit import ACTION
from jaato.server.registry.registered.definition import (
    EntryPoint,
    Handler,
    HandlerForbidden,
    InvalidDefinition,
    McpTool,
    NotRegistered,
    NotReplaceable,
    PreconditionFailed,
    Webhook,
    decode_registration,
)
from jaato.server.registry.registered.store import RegistryFull
from jaato.server.registry.requests import (
    PendingRequest,
    Principal,
    Request,
    parse_trace_id,
    parse_version,
)
from jaato.server.registry.responses import JSON, NOT_STORED, Response, error_of, error_response, refusal

if TYPE_CHECKING:
    from jaato.agent.journal import Journal
    from jaato.server.registry.caller_sessions import Callers
    from jaato.server.registry.catalog import Page
    from jaato.server.registry.registered.registration import RegisteredTools

Action = Literal["put", "delete"]
LOG = logger("server.registry")
UNKEPT = "The change could not be kept in the log; nothing has changed. The registry's log says more."
MAX_NAME_CHARS = 200


async def audit_change(
    callers: Callers,
    pending: PendingRequest,
    action: Action,
    details: dict[str, Any],
    work: Callable[[], Awaitable[Response]],
) -> Response:
    """The answer to a change, whose start and end are in the log; `details` is what there is to say of it, once the work is
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
        id_, f"{action}_tool", not answer.code, structured=details or None, error=problem_of(answer)
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


def start_of(journal: Journal, id_: str, pending: PendingRequest, action: str) -> ToolCallStart:
    """A change of a tool is about to begin."""
    origin = {"request_id": pending.id.decode("ascii"), ACTION: action}
    trace = parse_trace_id(pending.request.header(b"traceparent"))
    return ToolCallStart(
        **journal.head(),
        call_id=id_,
        tool=f"{action}_tool",
        arguments={"name": pending.route.name[:MAX_NAME_CHARS]},
        origin=origin if trace is None else {**origin, "trace_id": trace},
    )


def problem_of(answer: Response) -> Problem | None:
    """Why nothing was changed; None where something was."""
    if not answer.code:
        return None
    message = answer.code
    with suppress(JaatoError):
        message = decode_error(answer.body).message
    return Problem(code=answer.code, message=message)


def describe_handler(handler: Handler) -> str:
    """What carries out the calls, in a few words; of a URL only the host, since the rest may contain a key."""
    match handler:
        case Webhook(url=url):
            parts = urlsplit(url)
            return f"webhook {parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        case McpTool(server=server, tool=tool):
            return f"mcp {server}/{tool}"
        case EntryPoint(target=target):
            return f"entry_point {target}"


async def put_tool(registered: RegisteredTools, pending: PendingRequest, body: bytes) -> Response:
    """The answer to a PUT: the definition as GET gives it from now on."""
    details: dict[str, Any] = {}
    work = partial(put_registration, registered, pending, body, details)
    change = audit_change(
        registered.callers, pending, "put", details, lambda: respond_to_errors(pending, work())
    )
    return await registered.run_to_end(change)


async def delete_tool(registered: RegisteredTools, pending: PendingRequest) -> Response:
    """The answer to a DELETE."""
    details: dict[str, Any] = {}
    work = partial(delete_registration, registered, pending, details)
    change = audit_change(
        registered.callers, pending, "delete", details, lambda: respond_to_errors(pending, work())
    )
    return await registered.run_to_end(change)


async def put_registration(
    registered: RegisteredTools, pending: PendingRequest, body: bytes, details: dict[str, Any]
) -> Response:
    """Carry out a PUT; what there is to say of it is `details`. Raises `JaatoError`s, OSError."""
    registered.served.refuse_read_only()
    name, asked = pending.route.name, parse_version(pending.request.query)
    if not is_visible(pending.who, name):
        raise NotAllowed(f"This key is for other tools than {name[:80]!r}.")
    given = decode_registration(body)
    details["version"] = given.version
    if given.handler is not UNSET:
        details["handler"] = describe_handler(given.handler)
    if asked is not None and asked != given.version:
        raise InvalidDefinition([("/version", "is another than that of the address")])
    condition = Condition(pending.request)
    tool, created = await registered.put(name, given, condition.check, asked=asked, by=pending.who.name)
    page = registered.served.page(tool)
    LOG.info("Request %s: %s put %s %s", pending.id.decode(), pending.who.name, name, tool.version)
    place = f"{LIST_PATH}/{quote(name, safe='')}?version={quote(tool.version, safe='')}".encode()
    headers = [JSON, NOT_STORED, (b"etag", page.etag), (b"content-location", place)]
    return Response(
        201 if created else 200, page.body, [*headers, (b"location", place)] if created else headers
    )


async def delete_registration(
    registered: RegisteredTools, pending: PendingRequest, details: dict[str, Any]
) -> Response:
    """Carry out a DELETE; what there is to say of it is `details`. Raises `JaatoError`s, OSError."""
    registered.served.refuse_read_only()
    name, asked = pending.route.name, parse_version(pending.request.query)
    if not is_visible(pending.who, name):
        raise NotRegistered(f"There is no tool {name[:80]!r} here; GET /v1/tools lists them.")
    gone = await registered.delete(name, asked, Condition(pending.request).check)
    details["version"] = ", ".join(gone)
    LOG.info("Request %s: %s deleted %s %s", pending.id.decode(), pending.who.name, name, asked or "")
    return Response(204, b"", [NOT_STORED])


async def respond_to_errors(pending: PendingRequest, work: Awaitable[Response]) -> Response:
    """What comes of it; every way to fail in the contract's words."""
    name = pending.route.name
    try:
        return await work
    except InvalidDefinition as error:
        issues = [{"path": path, "message": text} for path, text in error.issues]
        return error_response(error_of(error.code, str(error), {"issues": issues}, tool=name), NOT_STORED)
    except NotAllowed as error:
        return refusal("auth.forbidden", str(error), NOT_STORED)
    except PermissionDenied as error:
        return refusal("permission.denied", str(error), NOT_STORED)
    except (
        InvalidJson,
        InvalidShape,
        NotReplaceable,
        NotRegistered,
        HandlerForbidden,
        PreconditionFailed,
        RegistryFull,
    ) as error:
        return error_response(error_of(error.code, str(error), tool=name), NOT_STORED)
    except (OSError, JaatoError) as error:
        LOG.exception("Request %s: %s could not be changed", pending.id.decode(), name)
        why = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        words = f"The change could not be kept{why}; nothing has changed. The registry's log says more."
        return refusal("registry.not_kept", words, NOT_STORED, (b"retry-after", b"5"))


def is_visible(who: Principal, name: str) -> bool:
    """Whether there is such a tool for who calls."""
    return who.visibility is None or who.visibility.has(name)


class Condition:
    """What a request wants to be so before it is carried out (RFC 9110, 13.1): about what GET of its address gives."""

    def __init__(self, request: Request) -> None:
        self._match = tags_of(request, b"if-match")
        self._none = tags_of(request, b"if-none-match")

    def check(self, page: Page | None) -> None:
        """Raise `PreconditionFailed` where it is not so."""
        tags = () if page is None else (page.etag, page.gzipped_etag)
        if self._match is not None and not (tags if b"*" in self._match else self._match.intersection(tags)):
            now = f"is now {page.etag.decode()}" if page is not None else "is not there"
            raise PreconditionFailed(f"The tool {now}: look at it again before it is changed.")
        if self._none is not None and (tags if b"*" in self._none else self._none.intersection(tags)):
            raise PreconditionFailed("There is such a tool already; to replace it, name it by If-Match.")


def tags_of(request: Request, name: bytes) -> frozenset[bytes] | None:
    """The entity tags of a header, of all headers of its name; None without one."""
    given = [value for key, value in request.headers if key == name]
    return frozenset(tag.strip() for value in given for tag in value.split(b",")) if given else None
