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
    Changed,
    EntryPoint,
    Fixed,
    Forbidden,
    Handler,
    Invalid,
    McpTool,
    Missing,
    Webhook,
    decode_described,
)
from jaato.server.registry.registered.store import Full
from jaato.server.registry.requests import Pending, Request, Who, trace_id, version_of
from jaato.server.registry.responses import JSON, NOT_STORED, Answer, error_of, refusal, refusing

if TYPE_CHECKING:
    from jaato.agent.journal import Journal
    from jaato.server.registry.caller_sessions import Callers
    from jaato.server.registry.catalog import Page
    from jaato.server.registry.registered.registration import Registered

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


LOG = logger("server.registry")


async def put(registered: Registered, pending: Pending, body: bytes) -> Answer:
    """The answer to a PUT: the definition as GET gives it from now on."""
    told: dict[str, Any] = {}
    work = partial(putting, registered, pending, body, told)
    change = noted(registered.callers, pending, "put", told, lambda: answered(pending, work()))
    return await registered.through(change)


async def delete(registered: Registered, pending: Pending, _body: bytes) -> Answer:
    """The answer to a DELETE."""
    told: dict[str, Any] = {}
    work = partial(deleting, registered, pending, told)
    change = noted(registered.callers, pending, "delete", told, lambda: answered(pending, work()))
    return await registered.through(change)


async def putting(registered: Registered, pending: Pending, body: bytes, told: dict[str, Any]) -> Answer:
    """Carry out a PUT; what there is to say of it is `told`. Raises `JaatoError`s, OSError."""
    registered.served.refuse_read_only()
    name, asked = pending.route.name, version_of(pending.request.query)
    if not sees(pending.who, name):
        raise NotAllowed(f"This key is for other tools than {name[:80]!r}.")
    given = decode_described(body)
    told["version"] = given.version
    if given.handler is not UNSET:
        told["handler"] = where(given.handler)
    if asked is not None and asked != given.version:
        raise Invalid([("/version", "is another than that of the address")])
    condition = Condition(pending.request)
    tool, created = await registered.put(name, given, condition.check, asked=asked, by=pending.who.name)
    page = registered.served.page(tool)
    LOG.info("Request %s: %s put %s %s", pending.id.decode(), pending.who.name, name, tool.version)
    place = f"{LIST_PATH}/{quote(name, safe='')}?version={quote(tool.version, safe='')}".encode()
    headers = [JSON, NOT_STORED, (b"etag", page.etag), (b"content-location", place)]
    return Answer(
        201 if created else 200, page.body, [*headers, (b"location", place)] if created else headers
    )


async def deleting(registered: Registered, pending: Pending, told: dict[str, Any]) -> Answer:
    """Carry out a DELETE; what there is to say of it is `told`. Raises `JaatoError`s, OSError."""
    registered.served.refuse_read_only()
    name, asked = pending.route.name, version_of(pending.request.query)
    if not sees(pending.who, name):
        raise Missing(f"There is no tool {name[:80]!r} here; GET /v1/tools lists them.")
    gone = await registered.delete(name, asked, Condition(pending.request).check)
    told["version"] = ", ".join(gone)
    LOG.info("Request %s: %s deleted %s %s", pending.id.decode(), pending.who.name, name, asked or "")
    return Answer(204, b"", [NOT_STORED])


async def answered(pending: Pending, work: Awaitable[Answer]) -> Answer:
    """What comes of it; every way to fail in the contract's words."""
    try:
        return await work
    except Invalid as error:
        issues = [{"path": path, "message": text} for path, text in error.issues]
        return refusing(error_of(error.code, str(error), {"issues": issues}), NOT_STORED)
    except NotAllowed as error:
        return refusal("auth.forbidden", str(error), NOT_STORED)
    except PermissionDenied as error:
        return refusal("permission.denied", str(error), NOT_STORED)
    except (InvalidJson, InvalidShape, Fixed, Missing, Forbidden, Changed, Full) as error:
        return refusing(error_of(error.code, str(error)), NOT_STORED)
    except (OSError, JaatoError) as error:
        LOG.exception("Request %s: %s could not be changed", pending.id.decode(), pending.route.name)
        why = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        words = f"The change could not be kept{why}; nothing has changed. The registry's log says more."
        return refusal("registry.not_kept", words, NOT_STORED, (b"retry-after", b"5"))


def sees(who: Who, name: str) -> bool:
    """Whether there is such a tool for who calls."""
    return who.sight is None or who.sight.has(name)


class Condition:
    """What a request wants to be so before it is carried out (RFC 9110, 13.1): about what GET of its address gives."""

    def __init__(self, request: Request) -> None:
        self._match = tags_of(request, b"if-match")
        self._none = tags_of(request, b"if-none-match")

    def check(self, page: Page | None) -> None:
        """Raise `Changed` where it is not so."""
        tags = () if page is None else (page.etag, page.gzipped_etag)
        if self._match is not None and not (tags if b"*" in self._match else self._match.intersection(tags)):
            now = f"is now {page.etag.decode()}" if page is not None else "is not there"
            raise Changed(f"The tool {now}: look at it again before it is changed.")
        if self._none is not None and (tags if b"*" in self._none else self._none.intersection(tags)):
            raise Changed("There is such a tool already; to replace it, name it by If-Match.")


def tags_of(request: Request, name: bytes) -> frozenset[bytes] | None:
    """The entity tags of a header, of all headers of its name; None without one."""
    given = [value for key, value in request.headers if key == name]
    return frozenset(tag.strip() for value in given for tag in value.split(b",")) if given else None
