"""What stands behind a handle of a result: given to who made the call, piece by piece."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from jaato.errors import StoreError
from jaato.protocol.arp import LIST_PATH, InvalidShape
from jaato.server.registry.audit import is_audit, who_of
from jaato.server.registry.caller_sessions import Caller, Callers
from jaato.server.registry.requests import Headers, Request, Who, once, parameters
from jaato.server.registry.responses import NOT_STORED, Answer, refusal

PATH = f"{LIST_PATH}:result"
HANDLE = re.compile(r"(?:result:)?([0-9a-f]{64})")
OFFSET = re.compile(r"[0-9]{1,15}")
PIECE_BYTES = 1_000_000
SESSIONS = 100
"""As many of the newest sessions are looked at for those of who asks."""
TEXT = (b"content-type", b"text/plain; charset=utf-8")
BYTES = (b"content-type", b"application/octet-stream")
UNTOUCHED = (b"x-content-type-options", b"nosniff")
GONE = "There is no such result of a call of yours, or no longer."


def read(callers: Callers, who: Who, request: Request) -> Answer:
    """A piece of what is behind a handle, from a byte on; a `Link` leads to the next one."""
    try:
        given = parameters(request.query)
        handle = HANDLE.fullmatch(once(given, "handle") or "")
        offset = once(given, "offset") or "0"
        if handle is None:
            raise InvalidShape("handle= is that of a result: result: and 64 hex digits.")
        if OFFSET.fullmatch(offset) is None:
            raise InvalidShape("offset= is a whole number of bytes.")
    except InvalidShape as error:
        return refusal(error.code, str(error), NOT_STORED)
    start = int(offset)
    data = found(callers, who, handle[1], start)
    if data is None:
        return refusal("result.not_found", GONE, NOT_STORED)
    whole = whole_text(data[:PIECE_BYTES])
    piece = data[:PIECE_BYTES] if whole is None else whole
    headers: Headers = [BYTES if whole is None else TEXT, UNTOUCHED, NOT_STORED]
    if len(data) > len(piece) > 0:
        following = f'<{PATH}?handle={quote(handle[0])}&offset={start + len(piece)}>; rel="next"'
        headers.append((b"link", following.encode()))
    return Answer(200, piece, headers)


def found(callers: Callers, who: Who, digest: str, offset: int) -> bytes | None:
    """Bytes that a session of the caller has kept, one more than is sent at once."""
    for session_id in sessions_of(callers, who):
        try:
            return callers.store.get_blob(session_id, digest, offset, PIECE_BYTES + 1)
        except StoreError:
            continue
    return None


def sessions_of(callers: Callers, who: Who) -> Iterator[str]:
    """The caller's sessions: the one it has now, those that gave way, those of a registry before this one."""
    visit = callers.visiting(who.key)
    while isinstance(visit, Caller):
        yield visit.session.state.session_id
        visit = visit.before
    for row in callers.store.sessions(limit=SESSIONS):
        if is_audit(row) and who_of(row) == who.name:
            yield row.id


def whole_text(data: bytes) -> bytes | None:
    """Text as far as its last whole character; None for what is none."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        cut = error.start > 0 and error.start >= len(data) - 3 and error.reason == "unexpected end of data"
        return data[: error.start] if cut else None
    return data
