"""Stored results: what is behind a handle of a call of the same caller, read in parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from jaato.errors import StoreError
from jaato.protocol.arp import LIST_PATH, InvalidShape
from jaato.server.registry.audit import is_audit, who_of
from jaato.server.registry.caller_sessions import Caller, Callers
from jaato.server.registry.requests import Headers, Principal, Request, parse_parameters, single_value
from jaato.server.registry.responses import NOT_STORED, Response, refusal
from jaato.tools.filesystem.text_encoding import decodable_prefix

PATH = f"{LIST_PATH}:result"
HANDLE = re.compile(r"(?:result:)?([0-9a-f]{64})")
OFFSET = re.compile(r"[0-9]{1,15}")
MAX_PART_BYTES = 1_000_000
MAX_SESSIONS = 100
"""The number of newest sessions of the store in which results are looked for."""
TEXT = (b"content-type", b"text/plain; charset=utf-8")
BYTES = (b"content-type", b"application/octet-stream")
NO_SNIFF = (b"x-content-type-options", b"nosniff")
NOT_FOUND = "There is no such result of a call of yours, or no longer."


def read_result(callers: Callers, who: Principal, request: Request) -> Response:
    """A part of a stored result, from an offset on; `Link` names the next part."""
    try:
        given = parse_parameters(request.query)
        handle = HANDLE.fullmatch(single_value(given, "handle") or "")
        offset = single_value(given, "offset") or "0"
        if handle is None:
            raise InvalidShape("handle= is that of a result: result: and 64 hex digits.")
        if OFFSET.fullmatch(offset) is None:
            raise InvalidShape("offset= is a whole number of bytes.")
    except InvalidShape as error:
        return refusal(error.code, str(error), NOT_STORED)
    start = int(offset)
    data = find_blob(callers, who, handle[1], start)
    if data is None:
        return refusal("result.not_found", NOT_FOUND, NOT_STORED)
    text = decodable_prefix(data[:MAX_PART_BYTES])
    part = data[:MAX_PART_BYTES] if text is None else text
    headers: Headers = [BYTES if text is None else TEXT, NO_SNIFF, NOT_STORED]
    if len(data) > len(part) > 0:
        following = f'<{PATH}?handle={quote(handle[0])}&offset={start + len(part)}>; rel="next"'
        headers.append((b"link", following.encode()))
    return Response(200, part, headers)


def find_blob(callers: Callers, who: Principal, digest: str, offset: int) -> bytes | None:
    """A blob of a session of the caller; one byte more than a part, if there is more."""
    for session_id in sessions_of(callers, who):
        try:
            return callers.store.get_blob(session_id, digest, offset, MAX_PART_BYTES + 1)
        except StoreError:
            continue
    return None


def sessions_of(callers: Callers, who: Principal) -> Iterator[str]:
    """The caller's sessions: the current one, those it replaced, and those of earlier processes."""
    caller = callers.get(who.key)
    while isinstance(caller, Caller):
        yield caller.session.state.session_id
        caller = caller.before
    for row in callers.store.sessions(limit=MAX_SESSIONS):
        if is_audit(row) and who_of(row) == who.name:
            yield row.id
