"""`PUT` and `DELETE` of a tool: what they must be, under which condition they are carried out, what each is answered."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import UNSET

from jaato.errors import JaatoError, NotAllowed, PermissionDenied
from jaato.log import logger
from jaato.protocol.arp import LIST_PATH, InvalidJson, InvalidShape
from jaato.server.registry.query import version_of
from jaato.server.registry.registered.folder import Full
from jaato.server.registry.registered.noted import noted, where
from jaato.server.registry.registered.types import (
    Changed,
    Fixed,
    Forbidden,
    Invalid,
    Missing,
    decode_described,
)
from jaato.server.registry.request import Pending, Request, Who
from jaato.server.registry.responses import JSON, NOT_STORED, Answer, error_of, refusal, refusing

if TYPE_CHECKING:
    from jaato.server.registry.registered.changing import Registered
    from jaato.server.registry.shelf import Page

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
