"""What a call of the registry gives: its result as the contract has it, and results that are read again by their handle."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jaato.errors import JaatoError, StoreError
from jaato.protocol.arp import LIST_PATH, InvalidShape
from jaato.protocol.events import ToolCallEnd
from jaato.protocol.messages import Problem, Text, ToolResult
from jaato.server.registry.audit import is_audit, who_of
from jaato.server.registry.caller_sessions import Caller, Callers
from jaato.server.registry.limits import Places
from jaato.server.registry.query import once, parameters
from jaato.server.registry.requests import Headers, Request, Who
from jaato.server.registry.responses import NOT_STORED, Answer, refusal
from jaato.server.registry.streaming import Heard
from jaato.tools.call import Call

MAX_RESULT_BYTES = 8_000_000

Read = Callable[[str, int, int], bytes]


class TooLarge(JaatoError):
    """A result that is too large to be sent."""

    code = "tool.result_too_large"


def value_of(result: ToolResult, read: Read, *, text: bool) -> Any:
    """The data of a result, else its text; `read(handle, offset, limit)` gives what is kept apart, which is no data where
    it is `text`. Raises `TooLarge`, `StoreError`."""
    if result.structured is not None:
        return result.structured
    texts = [part.text for part in result.content if isinstance(part, Text)]
    if not texts:
        return [msgspec.to_builtins(part) for part in result.content] or None
    if result.handle is None:
        return "\n".join(texts)
    data = read(result.handle, 0, MAX_RESULT_BYTES + 1)
    if len(data) > MAX_RESULT_BYTES:
        raise TooLarge(
            f"The tool has run, and its result has more than {MAX_RESULT_BYTES:,} bytes, which are not sent. "
            "Ask for less at once."
        )
    try:
        return data.decode() if text else msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data.decode("utf-8", "replace")


NOT_BEGUN = Problem(code="cancelled", message="Cancelled before it began; nothing was done.")
UNKNOWN = (
    "The call has begun and may have been carried out, but how it ended is not recorded. "
    "Look at what it was to do before it is made again."
)


def had_begun(end: ToolCallEnd) -> bool:
    """Whether the tool was run, as far as the end of its call says: one that was cancelled keeps no permission, and has its
    origin itself where there is no start that has it, and its arguments where it ran all the same."""
    problem = end.result.error
    if problem is not None and problem.code == NOT_BEGUN.code:
        return end.origin is None or end.arguments is not None
    return end.permission is not None


class OutcomeUnknown(JaatoError):
    """A call that may have been carried out, and whose end is not in the log."""

    code = "tool.outcome_unknown"


class Done(NamedTuple):
    """How a call ended: its value, or the problem; in milliseconds. `begun`: the tool was run."""

    value: Any
    problem: Problem | None
    latency_ms: float
    begun: bool = True


@dataclass(frozen=True, slots=True)
class How:
    """What else there is to a call: who hears of it, the place it takes, and what is to be done before it may begin, with
    its session, its id and the last event before it."""

    heard: Heard
    places: Places | None = None
    claim: Callable[[str, str, int], None] | None = None


class Running(Struct, eq=False):
    """A call that is under way and the task it is in; who hears of it, and its end, once that is known. `stopped`: it was
    told to end."""

    task: asyncio.Task[Any] | None
    call: Call
    heard: Heard | None = None
    end: ToolCallEnd | None = None
    stopped: bool = False


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
