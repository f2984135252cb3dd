"""Calls: what their bodies must be, how they are made, and what each is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import UNSET, structs

from jaato.errors import ConfigError, JaatoError, Overloaded, ToolTimeout
from jaato.log import logger
from jaato.protocol.arp import InvalidJson, InvalidShape, Invocation, decode_invocation
from jaato.server.registry.caller_sessions import Callers
from jaato.server.registry.course import Done, How, OutcomeUnknown
from jaato.server.registry.heard import Heard, Streamed
from jaato.server.registry.limits import Places
from jaato.server.registry.listing import looked_up
from jaato.server.registry.once import UNDER_WAY, Ask, Once
from jaato.server.registry.repeats import Taken
from jaato.server.registry.request import Pending, trace_id
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
from jaato.server.registry.shelf import Kept, Shelf
from jaato.server.registry.values import TooLarge
from jaato.server.registry.wishes import CONTENT_TYPES, NONE, Form, Wishes, wishes_of

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
