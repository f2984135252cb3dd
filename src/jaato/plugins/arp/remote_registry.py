"""One remote registry: its list of tools, fetched page by page and cached, conditional requests, and backoff while it fails."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
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
from jaato.plugins.arp.cache import CachedDefinitions, CachedList, load_list, save
from jaato.plugins.arp.calls import GATEWAYS, refusal_of
from jaato.plugins.arp.config import RegistryConfig
from jaato.plugins.arp.errors import CallLost, RegistryFault, RegistryRefusal
from jaato.plugins.arp.http_client import ArpRequest, ArpResponse, Headers, OnOutput, RegistryHttpClient
from jaato.plugins.arp.validation import MAX_TOOLS, usable_views
from jaato.protocol.arp import BATCH_GET, INVOKE, LIST_PATH, ToolView, decode_views
from jaato.protocol.messages import Problem
from jaato.tools.filesystem.containment import display_name
from jaato.tools.invisible_text import one_line
from jaato.tools.network.addresses import AddressRefused, Url, parse_url
from jaato.tools.remote.refresh import THROUGH, marks_in, via_of

LOG = logger("registries")
FIRST_WAIT_S = 1.0
MOST_WAIT_S = 300.0
SHORT_S = 1.5
"""A wait no longer than this is not kept to."""
MAX_LOGGED = 200


class Backoff:
    """Of one registry, by the name the user has for it; `failure` says why it is left alone."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name = name
        self.failure = ""
        self._clock = clock
        self._failures = 0
        self._not_before = 0.0
        self._logged: set[str] = set()

    @property
    def wait_s(self) -> float:
        """How long it is left alone; 0 when it can be asked."""
        return max(0.0, self._not_before - self._clock())

    def check_backoff(self) -> None:
        """Raise `RegistryFault` while the registry is left alone because it fails."""
        if self.wait_s > SHORT_S:
            raise RegistryFault(
                f"{self.failure} It has failed {self._failures} times in a row and is asked again in "
                f"{self.wait_s:.0f} s."
            )

    def record_success(self) -> None:
        """It has answered."""
        self.failure, self._failures, self._not_before = "", 0, 0.0

    def record_failure(self, error: JaatoError) -> None:
        """Leave the registry alone for a while, each time longer."""
        self._failures += 1
        wait_s = min(MOST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures - 1, 20))
        self.failure, self._not_before = str(error), self._clock() + wait_s
        self.log_problem(self.failure)

    def log_problem(self, what: str) -> None:
        """Say in the log what is wrong, once."""
        if what not in self._logged and len(self._logged) < MAX_LOGGED:
            self._logged.add(what)
            LOG.warning("Registry '%s': %s", self.name, what)


MAX_PAGES = 200
MAX_LINK_CHARS = 8_000
LINK = re.compile(r'\s*<([^<>]*)>((?:\s*;\s*[\w*-]+(?:\s*=\s*(?:"[^"]*"|[^\s",;]*))?)*)\s*(?:,|$)')
RELATION = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s",;]*))', re.IGNORECASE)


def next_of(link: str) -> str:
    """The target of the link to the next page (RFC 8288); empty without."""
    if len(link) > MAX_LINK_CHARS:
        return ""
    at = 0
    while at < len(link):
        found = LINK.match(link, at)
        if found is None:
            return ""
        relation = RELATION.search(found[2])
        if relation is not None and "next" in (relation[1] or relation[2] or "").lower().split():
            return found[1]
        at = found.end()
    return ""


def next_path(registry: str, base: Url, link: str) -> str:
    """Where the next page is, below the registry's address; empty where this is the last. Raises `RegistryFault` for a
    link that leads out of the list."""
    target = next_of(link)
    if not target:
        return ""
    place = base._replace(target=f"{base.target}{LIST_PATH}")
    try:
        url = parse_url(target, place)
    except AddressRefused:
        url = None
    if url is None or url.origin != base.origin or url.target.partition("?")[0] != place.target:
        raise RegistryFault(
            f"The next page of the list of the registry {registry!r} is at {one_line(target, 200)}, which is not followed."
        )
    return url.target.removeprefix(base.target)


MAX_LIST_BYTES = 8_000_000
MAX_DEFINITION_BYTES = 1_000_000
MAX_RESULT_BYTES = 16_000_000
BIG_BYTES = 100_000
"""Longer bodies are read in a thread, so that the loop is not blocked."""
ASK_WITHIN_S = 10.0
CANCEL_WITHIN_S = 1.0
SOON_S = 5.0
"""How long a search waits for a list of which an older one is known."""
LIST_FRESH_S = 60.0
WHOLE_AFTER_S = 86_400.0
"""After so long a list is asked for without a condition: a registry may be wrong about what has not changed."""

UNKNOWN = frozenset((404, 405, 501))
"""How a registry answers to what it does not know."""

T = TypeVar("T")


class HttpClients(Protocol):
    """Says how registries are reached, and which may be. Both raise `RegistryUnusable`."""

    def check(self, config: RegistryConfig) -> None: ...

    def open_client(self, config: RegistryConfig) -> RegistryHttpClient: ...


class RemoteRegistry(Backoff):
    """One registry."""

    def __init__(
        self,
        config: RegistryConfig,
        cache_dir: Path,
        ways: HttpClients,
        clock: Callable[[], float] = time.monotonic,
        *,
        mark: str = "",
    ) -> None:
        super().__init__(config.name, clock)
        self.config = config
        self.kept = load_list(cache_dir, config.digest)
        self.through: frozenset[str] = frozenset()
        """The marks of those whose tools are in the list."""
        self._mark = mark
        self._cache_dir = cache_dir
        self._ways = ways
        self._way: RegistryHttpClient | None = None
        self._batches = True
        self._underway: dict[int, anyio.Event] = {}

    @property
    def state(self) -> str:
        """Where it stands: configured (never asked), known, unreachable."""
        if self.failure:
            return "unreachable"
        return "known" if self.kept.at else "configured"

    async def refresh(self) -> bool:
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
            return await self.fetch_list(within_s=SOON_S if self.kept.at else ASK_WITHIN_S)
        except JaatoError:
            return False
        finally:
            del self._underway[loop]
            done.set()

    async def fetch_list(self, within_s: float = ASK_WITHIN_S) -> bool:
        """Ask for the list now; whether it is another. Raises `ToolError`s."""
        kept, now = self.kept, time.time()
        known = kept.etag and 0 <= now - kept.asked_whole < WHOLE_AFTER_S
        condition: Headers = (("If-None-Match", kept.etag),) if known else ()
        through = THROUGH.get()
        headers = (*condition, ("Via", via_of(through))) if through else condition
        ask = ArpRequest(
            "GET", LIST_PATH, MAX_LIST_BYTES, min(within_s, self.config.timeout_s), headers=headers
        )
        deadline = time.monotonic() + ask.within_s
        try:
            answer = await self._send(ask)
            self._note_circle(answer)
            if answer.status == 304 and condition:
                self.kept = msgspec.structs.replace(kept, at=now)
                self.record_success()
                return False
            self._expect(answer, "its list of tools")
            views, whole = await self._pages(answer, through, deadline)
        except JaatoError as error:
            self.record_failure(error)
            raise
        usable, dropped = usable_views(views)
        etag = answer.header("etag") if whole else ""  # that of a page says nothing of the others
        self.kept = msgspec.structs.replace(
            kept, views=usable, at=now, asked_whole=now, etag=etag, dropped=dropped
        )
        self.record_success()
        for text in dropped:
            self.log_problem(f"left out {text}")
        await self.keep(self.kept)
        return usable != kept.views or dropped != kept.dropped

    async def _pages(
        self, answer: ArpResponse, through: Sequence[str], deadline: float
    ) -> tuple[list[ToolView], bool]:
        """What a list has, with its other pages, and whether there were none. Raises `ToolError`s."""
        views = await self.read(decode_views, answer, "The list of tools")
        seen: set[str] = set()
        left_bytes = MAX_LIST_BYTES - len(answer.body)
        headers: Headers = (("Via", via_of(through)),) if through else ()
        assert self._way is not None
        while path := next_path(self.name, self._way.base, answer.headers.get("link", "")):
            if path in seen or len(seen) >= MAX_PAGES or len(views) > MAX_TOOLS:
                self.log_problem(f"left out what is beyond {len(seen) + 1} pages of its list")
                break
            seen.add(path)
            within_s = max(0.001, deadline - time.monotonic())
            answer = await self._send(ArpRequest("GET", path, left_bytes, within_s, headers=headers))
            self._expect(answer, "a page of its list of tools")
            views += await self.read(decode_views, answer, "A page of the list of tools")
            left_bytes -= len(answer.body)
        return views, not seen

    def _note_circle(self, answer: ArpResponse) -> None:
        """Note through whom the list came. Raises `RegistryFault` where that was ourselves."""
        through = frozenset(marks_in(answer.header("via")))
        if self._mark in through:
            raise RegistryFault(
                f"The registry {self.name!r} serves what is served here: a circle. Take one of the two out of the other's "
                "configuration."
            )
        self.through = through

    async def keep(self, what: CachedList | CachedDefinitions) -> None:
        """Keep something for the next process; nothing of a registry that is only named on a command line."""
        if self.config.scope != "argument":
            await anyio.to_thread.run_sync(save, self._cache_dir, what)

    async def ask_definition(self, name: str, etag: str) -> ArpResponse:
        """What the registry answers to who asks for a definition; 304 where it is still what `etag` stands for. Raises
        `ToolError`s."""
        self.check_backoff()
        condition: Headers = (("If-None-Match", etag),) if etag else ()
        within_s = min(ASK_WITHIN_S, self.config.timeout_s)
        ask = ArpRequest("GET", path_of(name), MAX_DEFINITION_BYTES, within_s, headers=condition)
        try:
            answer = await self._send(ask)
        except RegistryFault as error:
            self.record_failure(error)
            raise
        if answer.status not in GATEWAYS:
            self.record_success()  # what is wrong with one tool says nothing about the others
        if answer.status == 304 and condition:
            return answer
        if answer.status == 404:
            raise RegistryRefusal(
                Problem(
                    code="tool.not_found",
                    message=f"The registry {self.name!r} has no tool {display_name(name)!r}.",
                )
            )
        try:
            self._expect(answer, f"the definition of {display_name(name)!r}")
        except RegistryFault as error:
            if answer.status in GATEWAYS:
                self.record_failure(error)
            raise
        return answer

    async def ask_definitions(self, names: Sequence[str]) -> ArpResponse | None:
        """What the registry answers to who asks for several definitions at once; None where it cannot. Raises `ToolError`s."""
        self.check_backoff()
        if not self._batches:
            return None
        body = msgspec.json.encode({"names": names})
        within_s = min(ASK_WITHIN_S, self.config.timeout_s)
        try:
            answer = await self._send(
                ArpRequest("POST", f"{LIST_PATH}{BATCH_GET}", MAX_LIST_BYTES, within_s, body)
            )
        except RegistryFault as error:
            self.record_failure(error)
            raise
        self._batches = answer.status not in UNKNOWN
        return answer if answer.status == 200 else None

    async def invoke(
        self, name: str, body: bytes, headers: Headers, on_output: OnOutput | None = None
    ) -> ArpResponse:
        """What the registry answers to a call; `on_output` gets the output meanwhile, where the registry streams it.

        Raises `ToolError`s; `CallLost` where it was sent and is not answered.
        """
        self.check_backoff()
        path, within_s = f"{path_of(name)}{INVOKE}", self.config.timeout_s
        ask = ArpRequest(
            "POST", path, MAX_RESULT_BYTES, within_s, body, headers, safe=False, on_output=on_output
        )
        try:
            answer = await self._send(ask)
        except CallLost:
            raise  # a slow tool says nothing about its registry
        except RegistryFault as error:
            self.record_failure(error)
            raise
        except anyio.get_cancelled_exc_class():
            if request_id := dict(headers).get("X-Request-Id", ""):
                await self._cancel(request_id)
            raise
        self.record_success()
        return answer

    async def _cancel(self, request_id: str) -> None:
        """Tell the registry that a call is abandoned: one with a key may continue without its client."""
        body = msgspec.json.encode({"request_id": request_id})
        with anyio.CancelScope(shield=True), suppress(ToolError):
            await self._send(
                ArpRequest("POST", f"{LIST_PATH}:cancel", MAX_DEFINITION_BYTES, CANCEL_WITHIN_S, body)
            )

    async def read(self, decode: Callable[[bytes], T], answer: ArpResponse, what: str) -> T:
        """A body in the contract's form. Raises `RegistryFault`."""
        try:
            if len(answer.body) < BIG_BYTES:
                return decode(answer.body)
            return await anyio.to_thread.run_sync(partial(decode, answer.body))
        except JaatoError as error:
            raise RegistryFault(
                f"{what} of the registry {self.name!r} cannot be used: {one_line(str(error), 300)}"
            ) from None

    async def open(self) -> RegistryHttpClient:
        """How it is reached; from here on its keys are redacted. Raises `RegistryUnusable`; sends no request."""
        self._ways.check(self.config)
        if self._way is None:  # the keyring may have to ask its user
            self._way = await anyio.to_thread.run_sync(self._ways.open_client, self.config)
        return self._way

    async def _send(self, ask: ArpRequest) -> ArpResponse:
        way = await self.open()
        return await way.send(ask)

    def close(self) -> None:
        """Keep no connection to it any longer; from any thread."""
        if self._way is not None:
            self._way.close()

    def _expect(self, answer: ArpResponse, what: str) -> None:
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


def path_of(name: str) -> str:
    """Where a tool is; nothing in its name leads elsewhere."""
    return f"{LIST_PATH}/{quote(name, safe='')}"
