"""`discover_service`, `list_endpoints` and `call_service`: HTTP services by their OpenAPI documents."""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from typing import Annotated, Any, ClassVar

import anyio.to_thread
import msgspec

from jaato.abc.plugin import Host, Plugin
from jaato.errors import ConfigError, ToolError
from jaato.plugins.web.calling import request, with_key
from jaato.plugins.web.client import Ask
from jaato.plugins.web.openapi import Operation, Service, parsed, service
from jaato.plugins.web.plugin import Chars, Seconds, chosen, client_for, plainly
from jaato.plugins.web.schemas import DocumentInvalid
from jaato.tools.address import Url, parse_url
from jaato.tools.call import Call, Output
from jaato.tools.reach import environ_of, roots_of
from jaato.tools.schema import complain
from jaato.tools.tool import tool

MAX_DOCUMENT_BYTES = 10_000_000
MAX_SERVICES = 20
MAX_SESSIONS = 200
MAX_TEXT = 2_000
NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")


class ServicesPlugin(Plugin):
    """Services a session has discovered. Keys go only to the host the user granted them for."""

    name: ClassVar[str] = "services"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._sessions: OrderedDict[str, dict[str, Service]] = OrderedDict()

    @tool(category="web", access="network")
    async def discover_service(
        self,
        source: Annotated[str, "URL, or file of the workspace, of an OpenAPI 3 document in JSON or YAML"],
        name: Annotated[str | None, "how to call it here"] = None,
        base_url: Annotated[str | None, "where the service is, when the document does not say"] = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Read the OpenAPI document of an HTTP service, so that list_endpoints and call_service can use it in this
        session. Returns its name, base URL and number of operations."""
        url: Url | None = None
        if "://" in source:
            ask = Ask(parse_url(source))
            reply = await client_for(self.host).send(ask, most_bytes=MAX_DOCUMENT_BYTES, within_s=30.0)
            if reply.status != 200 or reply.cut:
                raise ToolError(
                    f"{source[:200]} answered {reply.status}{' with too much' * reply.cut}; check the URL."
                )
            url, data = reply.url, reply.body
        else:
            data = await anyio.to_thread.run_sync(self._file, source)
        document = await parsed(data)
        about = document.get("info")
        title = str(about.get("title") or "") if isinstance(about, dict) else ""
        short = name or re.sub(r"[^A-Za-z0-9_.-]+", "-", title)[:40].strip("-").lower() or "service"
        if not NAME.fullmatch(short):
            raise ToolError(f"{short[:60]!r} is no name for a service; use letters, digits, _ . and -.")
        made = await anyio.to_thread.run_sync(service, short, document, url, base_url)
        known = self._known(call)
        if short not in known and len(known) >= MAX_SERVICES:
            raise ToolError(
                f"{MAX_SERVICES} services are known already; discover one again under the name of another."
            )
        known[short] = made
        found: dict[str, Any] = {"service": short, "title": title[:200], "base_url": str(made.base)}
        keys = [variable for variable, host in self._grants() if host in places_of(made.base)]
        return found | {"operations": len(made.operations)} | ({"keys": keys} if keys else {})

    @tool(category="web", access="read")
    async def list_endpoints(
        self,
        service: str,
        query: Annotated[str | None, "words of the path, id or summary"] = None,
        operation: Annotated[str | None, "show this one in full, with the schema of its arguments"] = None,
        limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50,
        cursor: str | None = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """The operations of a discovered service: id, method, path, summary. Give one as operation to see its
        arguments before call_service."""
        known = self._service(service, call)
        if operation is not None:
            return await anyio.to_thread.run_sync(in_full, known, known.find(operation))
        words = (query or "").lower().split()
        rows = [
            one for one in known.operations.values()
            if all(word in f"{one.id} {one.method} {one.path} {one.summary}".lower() for word in words)
        ]  # fmt: skip
        start = int(cursor) if cursor is not None and cursor.isdecimal() and len(cursor) < 8 else 0
        shown = [
            {"operation": one.id, "method": one.method, "path": one.path}
            | ({"summary": one.summary} if one.summary else {})
            for one in rows[start : start + limit]
        ]
        found: dict[str, Any] = {"endpoints": shown, "total": len(rows)}
        return found | ({"next_cursor": str(start + limit)} if start + limit < len(rows) else {})

    @tool(
        category="web",
        access="network",
        examples=({"service": "pets", "operation": "GET /pets/{id}", "parameters": {"id": 7}},),
    )
    async def call_service(
        self,
        service: str,
        operation: Annotated[str, "its id, or METHOD /path"],
        parameters: Annotated[
            dict[str, Any] | None, "path, query, header and cookie parameters by name"
        ] = None,
        body: Any = None,
        auth: Annotated[
            str | None, "environment variable with the key; the user must have granted it to the host"
        ] = None,
        max_chars: Chars = 30_000,
        timeout_s: Seconds = 60.0,
        *,
        call: Call,
    ) -> Output:
        """Call an operation of a discovered service; arguments are checked against its document first. Returns status,
        headers and body."""
        known = self._service(service, call)
        wanted = known.find(operation)
        given: dict[str, Any] = {"parameters": parameters or {}} | (
            {"body": body} if body is not None else {}
        )
        issues = await anyio.to_thread.run_sync(known.problems, wanted, given)
        if issues:
            raise complain(f"{known.name} {wanted.id}", issues)
        ask = request(known, wanted, parameters or {}, body)
        if auth is not None:
            ask = with_key(known, wanted, ask, self._key(auth, known))
        reply = await client_for(self.host).send(ask, most_bytes=5_000_000, within_s=timeout_s)
        if auth is not None:
            reply.url = reply.url._replace(target=reply.url.target.partition("?")[0])  # the key may be in it
            reply.notes = [note.partition("?")[0] for note in reply.notes]
        return await plainly(reply, max_chars)

    def _known(self, call: Call) -> dict[str, Service]:
        """The services of the call's session, which becomes the one used last."""
        found = self._sessions.setdefault(call.session_id, {})
        self._sessions.move_to_end(call.session_id)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return found

    def _service(self, name: str, call: Call) -> Service:
        known = self._known(call)
        if name not in known:
            names = ", ".join(known) or "none yet"
            raise ToolError(f"No service {name[:60]!r} is known here ({names}); use discover_service first.")
        return known[name]

    def _grants(self) -> list[tuple[str, str]]:
        """Which variable may go to which host. Raises `ConfigError`."""
        found = []
        for entry in chosen(self.host, "service_keys", ()):
            variable, mark, host = entry.partition("=")
            if not mark or not variable.strip() or not host.strip():
                raise ConfigError(f"service_keys: {entry!r} is none; write VARIABLE=host.")
            found.append((variable.strip(), host.strip().lower()))
        return found

    def _key(self, variable: str, known: Service) -> str:
        """The value of a variable the user granted to the service's host. Raises `ToolError`."""
        base = known.base
        hosts = [host for name, host in self._grants() if name == variable]
        if not any(host in places_of(base) for host in hosts):
            raise ToolError(
                f"{variable[:60]} may not be sent to {base.authority}. The user can allow it: the setting service_keys "
                f"with {variable[:60]}={base.authority}."
            )
        if known.source is not None and known.source.host != base.host:
            raise ToolError(
                f"The document came from {known.source.authority} and its service is at {base.authority}; a key is sent "
                "only where both are the same host."
            )
        exact = f"{base.host}:{base.port}"
        if base.scheme != "https" and exact not in hosts:
            raise ToolError(f"{base} is not https. To send a key there all the same, grant it to {exact}.")
        value = environ_of(self.host).get(variable, "")
        if not value:
            raise ToolError(
                f"The environment has no {variable[:60]}; the user must set it before jaato starts."
            )
        return value

    def _file(self, path: str) -> bytes:
        with roots_of(self.host).open_file(path) as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise ToolError(
                f"{path!r} has more than {MAX_DOCUMENT_BYTES} bytes; that is no document to read."
            )
        return data


def places_of(base: Url) -> tuple[str, str]:
    """How a grant may name the host of a service."""
    return base.host, f"{base.host}:{base.port}"


def in_full(known: Service, operation: Operation) -> dict[str, Any]:
    """An operation with the schema of its arguments and the places of its parameters."""
    found: dict[str, Any] = {"operation": operation.id, "method": operation.method, "path": operation.path}
    about = str(operation.raw.get("description") or operation.summary)
    found |= {"description": about[:2000]} if about else {}
    found["arguments"] = spelled(known, known.schema(operation), 0, Budget(20_000))
    places = {one.name: one.place for one in known.parameters(operation)}
    return found | ({"places": places} if places else {})


class Budget:
    """How much may still be written."""

    def __init__(self, left: int) -> None:
        self.left = left


def spelled(known: Service, value: Any, depth: int, budget: Budget) -> Any:
    """A schema with its references written out, as far as there is room."""
    budget.left -= 1
    if isinstance(value, dict):
        reference = {"$ref": str(value["$ref"])[:MAX_TEXT]} if "$ref" in value else {}
        if depth > 12 or budget.left < 0:
            return reference
        try:
            resolved = known.resolve(value)
        except DocumentInvalid:
            return reference
        if not isinstance(resolved, dict):
            return reference
        some = itertools.islice(resolved.items(), max(0, budget.left))
        return {str(key)[:MAX_TEXT]: spelled(known, one, depth + 1, budget) for key, one in some}
    if isinstance(value, list):
        return [spelled(known, one, depth + 1, budget) for one in value[: max(0, budget.left)]]
    if isinstance(value, str):
        budget.left -= len(value) // 100
        return value[:MAX_TEXT]
    return value
