"""Invoke: a call of a tool, validated, in a session of its caller, once for each Idempotency-Key."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, structs

from jaato.errors import ConfigError, JaatoError, Overloaded, SessionNotFound, StoreError, ToolTimeout
from jaato.log import logger
from jaato.protocol.arp import InvalidJson, InvalidShape, Invocation, decode_invocation
from jaato.protocol.events import ToolCallEnd, ToolCallStart
from jaato.server.registry.call_result import UNKNOWN, Done, How, OutcomeUnknown, TooLarge
from jaato.server.registry.caller_sessions import Callers, done_by
from jaato.server.registry.catalog import Kept, Shelf
from jaato.server.registry.idempotency import Key, Made, Taken
from jaato.server.registry.limits import Places
from jaato.server.registry.listing import looked_up
from jaato.server.registry.requests import (
    CONTENT_TYPES,
    NONE,
    Form,
    Pending,
    Who,
    Wishes,
    trace_id,
    wishes_of,
)
from jaato.server.registry.responses import (
    NOT_STORED,
    RETRY,
    STORE,
    TOLD_INSIDE,
    UNAVAILABLE,
    Answer,
    busy,
    error_for,
    error_of,
    failure,
    success,
)
from jaato.server.registry.streaming import Heard, Streamed
from jaato.tools.tool import Tool

LOG = logger("server.registry")
REPLAYED = (b"idempotent-replayed", b"true")
UNDER_WAY = "The call of this Idempotency-Key is under way; ask again with the same key for its answer."
CUT_OFF = frozenset(("cancelled", ToolTimeout.code))
"""How calls end that could as well not have been made, where they only read."""
OTHER = "Another request was made with this Idempotency-Key; a new request takes a new key."


class Ask(msgspec.Struct, frozen=True):
    """A call that is asked for: by whom, of which tool, with what, where it comes from, and how long it may take."""

    who: Who
    tool: Tool
    invocation: Invocation
    origin: dict[str, str]
    within_s: float | None = None

    def digest(self) -> str:
        """What is asked for, in a few characters: the same for the same JSON, however it is written."""
        return digest_of([self.tool.name, self.tool.version, self.invocation])


Make = Callable[[Ask, How], Awaitable[Answer]]


class Fate(Enum):
    """What the log says of a call that has no end there."""

    NEVER_BEGUN = "it never began"
    ELSEWHERE = "another process makes it"
    UNKNOWN = "it began, and nobody knows how it ended"


class Once:
    """Makes calls that have a key, and remembers them."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._under_way: dict[tuple[str, str], tuple[str, asyncio.Future[Answer]]] = {}

    async def answer(self, ask: Ask, key: str, digest: str, heard: Heard, make: Make) -> Answer:
        """The answer to a call with a key. It is made to its end also when nobody waits for it any more."""
        whole = Key(self._callers.repeats.scope(ask.who.key), key)
        refused = self.refused(whole, digest)
        if refused is not None:
            return refused
        return await self.kept(whole, digest, self.one(ask, whole, digest, heard, make))

    def refused(self, key: Key, digest: str) -> Answer | None:
        """Why nothing can be done with this key now, if so."""
        try:
            under_way = self._under_way.get((key.scope, key.key))
            known = under_way[0] if under_way is not None else self._callers.repeats.digest(key)
        except StoreError as error:
            return unavailable(error)
        if known is not None and known != digest:
            return failure(error_of("request.idempotency_mismatch", OTHER))
        if under_way is not None:
            return busy("request.idempotency_under_way", UNDER_WAY)
        return None

    async def kept(self, key: Key, digest: str, work: Awaitable[Answer]) -> Answer:
        """The answer of some work under a key, which goes on when nobody waits for it."""
        task = asyncio.ensure_future(work)
        self._under_way[key.scope, key.key] = digest, task
        task.add_done_callback(lambda _over: self._under_way.pop((key.scope, key.key)))
        return await asyncio.shield(task)

    async def one(self, ask: Ask, key: Key, digest: str, heard: Heard, make: Make) -> Answer:
        """The answer to one call with a key that nobody else has now: the one it has had, else the one it gets."""
        repeats = self._callers.repeats
        try:
            before = repeats.find(key)
            found = None if before is None else self._looked_up(before, ask.tool)
        except StoreError as error:
            return unavailable(error)
        if before is not None and found is Fate.ELSEWHERE:
            return busy("request.idempotency_under_way", UNDER_WAY)
        if before is not None and found is Fate.UNKNOWN:
            return failure(error_of("tool.outcome_unknown", UNKNOWN))
        if before is not None and isinstance(found, ToolCallEnd):
            heard.begun = True  # it had
            return self._again(before, found, ask.tool)
        return await self._anew(ask, key, digest, heard, make, before)

    async def _anew(
        self, ask: Ask, key: Key, digest: str, heard: Heard, make: Make, before: Made | None
    ) -> Answer:
        repeats = self._callers.repeats
        mine: list[Made] = []

        def claim(session_id: str, call_id: str, after_seq: int) -> None:
            made = Made(digest, session_id, call_id, after_seq, ask.origin["request_id"])
            repeats.claim(key, made, before)
            mine.append(made)

        origin = {**ask.origin, "idempotency_key": key.key}
        answer = await make(msgspec.structs.replace(ask, origin=origin), How(heard, claim=claim))
        try:
            for made in mine:
                if heard.begun and heard.end_seq and heard.apart:  # the end of others is soon found
                    repeats.ended(made, heard.end_seq, text=heard.text)
                elif not heard.begun:
                    repeats.forget(made)
        except StoreError as error:
            LOG.warning("Where the call of a key ended was not noted: %s", error)  # it is looked for then
        return answer

    def _looked_up(self, made: Made, tool: Tool) -> ToolCallEnd | Fate:
        """What the log says of a call. Raises `StoreError`."""
        store = self._callers.store
        begun = bool(made.end_seq)
        try:
            for event in store.read(made.session_id, made.end_seq - 1 if made.end_seq else made.after_seq):
                if isinstance(event, ToolCallStart) and event.call_id == made.call_id:
                    begun = True
                elif isinstance(event, ToolCallEnd) and event.call_id == made.call_id:
                    ended = event.result.error
                    harmless = tool.spec.access == "read" and ended is not None and ended.code in CUT_OFF
                    return event if begun and not harmless else Fate.NEVER_BEGUN
        except SessionNotFound:  # removed, because of its age or size
            begun = True
        holder = None if made.end_seq else store.holder(made.session_id)
        if holder is not None and holder.pid != os.getpid():
            return Fate.ELSEWHERE
        return Fate.UNKNOWN if begun and tool.spec.access != "read" else Fate.NEVER_BEGUN

    def _again(self, made: Made, end: ToolCallEnd, tool: Tool) -> Answer:
        """The answer there was."""
        store = self._callers.store

        def read(handle: str, offset: int, limit: int) -> bytes:
            return store.get_blob(made.session_id, handle.removeprefix("result:"), offset, limit)

        try:
            done = done_by(end, read, text=made.text)
        except TooLarge as error:
            return failure(error_of(error.code, str(error)), 0.0, REPLAYED)
        except StoreError as error:
            return unavailable(error)
        if done.problem is not None:
            access = tool.spec.access
            told = error_for(done.problem, made.request_id, begun=done.begun, access=access)
            return failure(told, done.latency_ms, REPLAYED)
        answer = success(done.value, done.latency_ms)
        answer.headers.append(REPLAYED)
        return answer


def digest_of(value: object) -> str:
    """A digest of a value as JSON with its names in order."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:32]


def unavailable(error: StoreError) -> Answer:
    """What is to be known first cannot be read."""
    LOG.warning("A call with a key could not be looked up: %s", error)
    return busy("registry.unavailable", UNAVAILABLE)


LOG = logger("server.registry")
MAX_ID_CHARS = 200


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a call may run whose tool does not say, in seconds, and how many of one tool may run at once, by its name."""

    within_s: float | None = None
    at_once: Mapping[str, int] = field(default_factory=dict)


class Calls:
    """Makes the calls of everybody."""

    def __init__(self, callers: Callers, bounds: Bounds, count: Callable[[str, str], None]) -> None:
        self.callers = callers
        self._count = count
        self.within_s = bounds.within_s
        self.places = Places(bounds.at_once) if bounds.at_once else None
        self.once = Once(callers)

    async def invoke(self, shelf: Shelf, pending: Pending, body: bytes) -> Answer:
        """The answer to a call."""
        request = pending.request
        found = looked_up(shelf, pending.route.name, request.query)
        if not isinstance(found, Kept):
            answer = failure(found)
        else:
            try:
                invocation = decode_invocation(body)
                wishes = wishes_of(request.headers)
            except (InvalidJson, InvalidShape) as error:
                answer = failure(error_of(error.code, str(error)))
                self._count(found.tool.name, error.code)
            else:
                origin = origin_of(pending.id, request.header(b"traceparent"), invocation)
                ask = Ask(pending.who, found.tool, invocation, origin)
                plain = wishes is NONE and self.places is None
                answer = await (self.made(ask) if plain else self.wished(ask, wishes))
        answer.headers.append(NOT_STORED)
        return answer

    async def made(self, ask: Ask, how: How | None = None) -> Answer:
        """The answer to a call that can be made."""
        try:
            caller = await self.callers.caller(ask.who.key, ask.who.name)
            done = await caller.call(ask.tool, ask.invocation, ask.origin, self.bound_s(ask), how)
            answer = answer_to(ask, done)
        except JaatoError as error:
            answer = unmade(ask, error)
        self._count(ask.tool.name, answer.code)
        return answer

    async def wished(self, ask: Ask, wishes: Wishes) -> Answer:
        """The answer to a call that something more is asked for."""
        wait_s = wishes.wait_s
        ask = structs.replace(ask, within_s=self.limit_s(wishes))
        heard = Heard(listens=wishes.form is not None)
        work: Coroutine[Any, Any, Answer]
        if wishes.key:
            work = self.once.answer(ask, wishes.key, ask.digest(), heard, self.made_as)
        else:
            work = self.made_as(ask, How(heard, self.places))
        answer = await (work if wishes.form is None else streamed(wishes.form, heard, work))
        if wait_s is not None and wait_s == least(ask.tool.timeout_s, ask.within_s):
            answer.headers.append((b"preference-applied", b"wait=%d" % int(wait_s)))
        return answer

    def limit_s(self, wishes: Wishes) -> float | None:
        """How long a call may take, where less is asked for than it may take anyhow."""
        return None if wishes.wait_s is None else least(wishes.wait_s, self.within_s)

    def bound_s(self, ask: Ask) -> float | None:
        """How long a call has beside its tool's own time; what is to go on in the background is only bounded by that."""
        goes_on = ask.tool.background_after_s is not None and ask.invocation.args.get("background") is True
        return (
            ask.within_s if ask.tool.timeout_s is not None or goes_on else least(ask.within_s, self.within_s)
        )

    async def made_as(self, ask: Ask, how: How) -> Answer:
        """The answer to a call that takes its place among those of its tool."""
        return await self.made(ask, replace(how, places=self.places))


async def streamed(form: Form, heard: Heard, work: Coroutine[Any, Any, Answer]) -> Answer:
    """A call's answer as a stream, once it has begun; what is known before is answered plainly."""
    call = asyncio.create_task(work)
    call.add_done_callback(heard.wake)
    try:
        while not (heard.begun or call.done()):
            await heard.news()
    except BaseException:
        call.cancel()
        await asyncio.wait((call,))
        raise
    if not heard.begun:
        return call.result()
    headers = [] if not call.done() else [one for one in call.result().headers if one[0] != b"content-type"]
    return Answer(
        200, b"", [(b"content-type", CONTENT_TYPES[form]), *headers], stream=Streamed(form, heard, call)
    )


def unmade(ask: Ask, error: JaatoError) -> Answer:
    """What is answered to a call that could not be made, or whose end is not known."""
    match error:
        case Overloaded() | ConfigError():
            return busy("request.too_many", str(error))
        case ToolTimeout():
            return failure(error_of("tool.timeout", str(error)))
        case TooLarge():
            return failure(error_of(error.code, str(error)))
        case OutcomeUnknown():
            words = "Request %s: how %s ended is not recorded"
            LOG.error(words, ask.origin["request_id"], ask.tool.name, exc_info=error)
            return failure(error_of(error.code, str(error)))
        case Taken():
            return busy(error.code, UNDER_WAY)
    LOG.error("Request %s: %s could not be called", ask.origin["request_id"], ask.tool.name, exc_info=error)
    return busy("registry.unavailable", UNAVAILABLE)


def answer_to(ask: Ask, done: Done) -> Answer:
    """What a call is answered that has ended so."""
    request_id = ask.origin["request_id"]
    if done.problem is None:
        return success(done.value, done.latency_ms)
    if done.problem.code == "tool_raised" or done.problem.code in STORE | TOLD_INSIDE:
        why = done.problem.traceback or done.problem.message
        LOG.error("Request %s: %s failed: %s", request_id, ask.tool.name, why)
    error = error_for(done.problem, request_id, begun=done.begun, access=ask.tool.spec.access)
    return failure(error, done.latency_ms, *([RETRY] if error.code == "registry.unavailable" else []))


def least(*limits_s: float | None) -> float | None:
    """The least of these limits, of those there are."""
    return min((one for one in limits_s if one is not None), default=None)


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
