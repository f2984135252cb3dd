"""Calls that are made once: who asks again with the same key is given the answer there was."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from enum import Enum

import msgspec

from jaato.errors import SessionNotFound, StoreError, ToolTimeout
from jaato.log import logger
from jaato.protocol.arp import Invocation
from jaato.protocol.events import ToolCallEnd, ToolCallStart
from jaato.server.registry.caller_sessions import Callers, done_by
from jaato.server.registry.course import UNKNOWN, How
from jaato.server.registry.heard import Heard
from jaato.server.registry.repeats import Key, Made
from jaato.server.registry.request import Who
from jaato.server.registry.responses import UNAVAILABLE, Answer, busy, error_for, error_of, failure, success
from jaato.server.registry.values import TooLarge
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
