"""One configured registry at work: what is known of it, asked anew when that is old, left alone for a while when it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread
import msgspec

from jaato.errors import JaatoError, ToolError
from jaato.log import logger
from jaato.plugins.arp.checked import usable_views
from jaato.plugins.arp.config import RegistryConfig
from jaato.plugins.arp.faults import CallLost, RegistryFault, RegistryRefusal
from jaato.plugins.arp.http import Answer, Ask, Headers, Way
from jaato.plugins.arp.kept import KeptDefinitions, KeptList, load_list, save
from jaato.plugins.arp.results import refusal_of
from jaato.protocol.arp import INVOKE, LIST_PATH, decode_views
from jaato.protocol.messages import Problem
from jaato.tools.names import shown_name
from jaato.tools.unseen import one_line

LOG = logger("registries")
MAX_LIST_BYTES = 8_000_000
MAX_DEFINITION_BYTES = 1_000_000
MAX_RESULT_BYTES = 16_000_000
BIG_BYTES = 100_000
"""Longer bodies are read in a thread, so that the loop goes on."""
ASK_WITHIN_S = 10.0
CANCEL_WITHIN_S = 1.0
SOON_S = 5.0
"""How long a search waits for a list of which an older one is known."""
LIST_FRESH_S = 300.0
DEFINITION_FRESH_S = 60.0
WHOLE_AFTER_S = 86_400.0
"""After so long a list is asked for without a condition: a registry may be wrong about what has not changed."""
FIRST_WAIT_S = 1.0
MOST_WAIT_S = 300.0
SHORT_S = 1.5
"""A wait no longer than this is not kept to."""
MAX_TOLD = 200

T = TypeVar("T")


class Ways(Protocol):
    """Says how registries are reached, and which may be. Both raise `RegistryUnusable`."""

    def check(self, config: RegistryConfig) -> None: ...

    def open_way(self, config: RegistryConfig) -> Way: ...


class Source:
    """One registry."""

    def __init__(
        self,
        config: RegistryConfig,
        cache_dir: Path,
        ways: Ways,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.kept = load_list(cache_dir, config.digest)
        self.failure = ""
        self._cache_dir = cache_dir
        self._ways = ways
        self._clock = clock
        self._way: Way | None = None
        self._failures = 0
        self._not_before = 0.0
        self._told: set[str] = set()
        self._underway: dict[int, anyio.Event] = {}

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.config.name

    @property
    def state(self) -> str:
        """Where it stands: configured (never asked), known, unreachable."""
        if self.failure:
            return "unreachable"
        return "known" if self.kept.at else "configured"

    @property
    def wait_s(self) -> float:
        """How long it is left alone; 0 when it can be asked."""
        return max(0.0, self._not_before - self._clock())

    async def freshen(self) -> bool:
        """Ask for the list where what is known is old, and it is not left alone; whether the list is another now.

        Never raises; how it failed is in `failure`.
        """
        if 0 <= time.time() - self.kept.at < LIST_FRESH_S or self.wait_s > 0:
            return False
        loop = id(asyncio.get_running_loop())
        if (other := self._underway.get(loop)) is not None:
            await other.wait()
            return False
        self._underway[loop] = done = anyio.Event()
        try:
            return await self.ask_list(within_s=SOON_S if self.kept.at else ASK_WITHIN_S)
        except JaatoError:
            return False
        finally:
            del self._underway[loop]
            done.set()

    async def ask_list(self, within_s: float = ASK_WITHIN_S) -> bool:
        """Ask for the list now; whether it is another. Raises `ToolError`s."""
        kept, now = self.kept, time.time()
        known = kept.etag and 0 <= now - kept.asked_whole < WHOLE_AFTER_S
        condition: Headers = (("If-None-Match", kept.etag),) if known else ()
        ask = Ask("GET", LIST_PATH, MAX_LIST_BYTES, min(within_s, self.config.timeout_s), headers=condition)
        try:
            answer = await self._send(ask)
            if answer.status == 304 and condition:
                self.kept = msgspec.structs.replace(kept, at=now)
                self._answered()
                return False
            self._expect(answer, "its list of tools")
            views = await self.read(decode_views, answer, "The list of tools")
        except JaatoError as error:
            self._failed(error)
            raise
        usable, dropped = usable_views(views)
        self.kept = msgspec.structs.replace(
            kept, views=usable, at=now, asked_whole=now, etag=answer.header("etag"), dropped=dropped
        )
        self._answered()
        for text in dropped:
            self.tell(f"left out {text}")
        await self.keep(self.kept)
        return usable != kept.views or dropped != kept.dropped

    async def keep(self, what: KeptList | KeptDefinitions) -> None:
        """Keep something for the next process; nothing of a registry that is only named on a command line."""
        if self.config.scope != "argument":
            await anyio.to_thread.run_sync(save, self._cache_dir, what)

    async def ask_definition(self, name: str, etag: str) -> Answer:
        """What the registry answers to who asks for a definition; 304 where it is still what `etag` stands for. Raises
        `ToolError`s."""
        self.refuse_left_alone()
        condition: Headers = (("If-None-Match", etag),) if etag else ()
        within_s = min(ASK_WITHIN_S, self.config.timeout_s)
        ask = Ask("GET", path_of(name), MAX_DEFINITION_BYTES, within_s, headers=condition)
        try:
            answer = await self._send(ask)
            if answer.status == 304 and condition:
                self._answered()
                return answer
            if answer.status == 404:
                self._answered()
                raise RegistryRefusal(
                    Problem(
                        code="tool.not_found",
                        message=f"The registry {self.name!r} has no tool {shown_name(name)!r}.",
                    )
                )
            self._expect(answer, f"the definition of {shown_name(name)!r}")
        except RegistryFault as error:
            self._failed(error)
            raise
        self._answered()
        return answer

    async def invoke(self, name: str, body: bytes, headers: Headers) -> Answer:
        """What the registry answers to a call. Raises `ToolError`s; `CallLost` where it was sent and is not answered."""
        self.refuse_left_alone()
        ask = Ask("POST", f"{path_of(name)}{INVOKE}", MAX_RESULT_BYTES, self.config.timeout_s, body, headers)
        try:
            answer = await self._send(ask)
        except CallLost:
            raise  # a slow tool says nothing about its registry
        except RegistryFault as error:
            self._failed(error)
            raise
        except anyio.get_cancelled_exc_class():
            await self._cancel(dict(headers).get("X-Request-Id", ""))
            raise
        self._answered()
        return answer

    async def _cancel(self, request_id: str) -> None:
        """Tell the registry that nobody waits for a call any more: one with a key may go on without its client."""
        if request_id:
            body = msgspec.json.encode({"request_id": request_id})
            ask = Ask("POST", f"{LIST_PATH}:cancel", MAX_DEFINITION_BYTES, CANCEL_WITHIN_S, body)
            with anyio.CancelScope(shield=True), suppress(ToolError):
                await self._send(ask)

    def refuse_left_alone(self) -> None:
        """Raise `RegistryFault` while the registry is left alone because it fails."""
        if self.wait_s > SHORT_S:
            raise RegistryFault(
                f"{self.failure} It has failed {self._failures} times in a row and is asked again in "
                f"{self.wait_s:.0f} s."
            )

    async def read(self, decode: Callable[[bytes], T], answer: Answer, what: str) -> T:
        """A body in the contract's form. Raises `RegistryFault`."""
        try:
            if len(answer.body) < BIG_BYTES:
                return decode(answer.body)
            return await anyio.to_thread.run_sync(partial(decode, answer.body))
        except JaatoError as error:
            raise RegistryFault(
                f"{what} of the registry {self.name!r} cannot be used: {one_line(str(error), 300)}"
            ) from None

    async def _send(self, ask: Ask) -> Answer:
        self._ways.check(self.config)
        way = self._way
        if way is None:  # the keyring may have to ask its user
            way = self._way = await anyio.to_thread.run_sync(self._ways.open_way, self.config)
        return await way.send(ask)

    def _expect(self, answer: Answer, what: str) -> None:
        """Raise for an answer that is not 200."""
        if answer.status == 200:
            return
        if answer.status == 404:
            raise RegistryFault(
                f"The registry {self.name!r} has no {LIST_PATH} (HTTP 404); its url in {self.config.origin} may be wrong."
            )
        raise refusal_of(self.name, answer) or RegistryFault(
            f"The registry {self.name!r} answered HTTP {answer.status} in place of {what}."
        )

    def _answered(self) -> None:
        self.failure, self._failures, self._not_before = "", 0, 0.0

    def _failed(self, error: JaatoError) -> None:
        """Leave the registry alone for a while, each time longer."""
        self._failures += 1
        wait_s = min(MOST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures - 1, 20))
        self.failure, self._not_before = str(error), self._clock() + wait_s
        self.tell(self.failure)

    def tell(self, what: str) -> None:
        """Say in the log what is wrong, once."""
        if what not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(what)
            LOG.warning("Registry '%s': %s", self.name, what)


def path_of(name: str) -> str:
    """Where a tool is; nothing in its name leads elsewhere."""
    return f"{LIST_PATH}/{quote(name, safe='')}"
