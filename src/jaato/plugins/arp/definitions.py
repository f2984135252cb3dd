"""The definitions of a registry's tools: fetched when one is needed, cached, compared with the known one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec
from msgspec import UNSET

from jaato.errors import JaatoError, ToolError
from jaato.plugins.arp.cache import CachedDefinition, CachedDefinitions, load_definitions
from jaato.plugins.arp.errors import RegistryFault, RegistryRefusal
from jaato.plugins.arp.remote_registry import RemoteRegistry
from jaato.plugins.arp.validation import check_definition, is_destructive, sanitize_schema, sanitize_text
from jaato.protocol.arp import ToolDefinition, decode_batch, decode_definition
from jaato.tools.filesystem.containment import display_name
from jaato.tools.schema import Validator

FRESH_S = 60.0
MAX_BATCH = 100
"""Definitions that are asked for in one request."""
MAX_AT_ONCE = 8
"""Requests of one registry that are under way together."""


class KnownDefinition(NamedTuple):
    """A definition that can be used. `careful`: at some time it declared that its tool has side effects."""

    definition: ToolDefinition
    careful: bool
    validator: Validator


class Definitions:
    """The definitions of one registry."""

    def __init__(self, source: RemoteRegistry, cache_dir: Path) -> None:
        self._source = source
        self._cache_dir = cache_dir
        self._known: dict[str, KnownDefinition] = {}
        self._is_dirty = False

    @cached_property
    def _kept(self) -> CachedDefinitions:
        return load_definitions(self._cache_dir, self._source.config.digest)

    def get_cached(self, name: str) -> KnownDefinition | None:
        """A definition that was fetched before; sends no request."""
        known = self._known.get(name)
        kept = self._kept.tools.get(name)
        if known is None and kept is not None:
            try:
                known = self._known[name] = KnownDefinition(
                    kept.definition, kept.careful, check_definition(kept.definition, name)
                )
            except RegistryFault:
                return None
        return known

    async def get(self, name: str, *, refresh: bool = False) -> KnownDefinition:
        """The definition of a tool as it is now; as it was, where the registry cannot say, unless it is wanted `refresh`: then it
        is asked for without a condition, for a registry may be wrong about what has not changed.

        Raises `ToolError`s.
        """
        known = await self._request(name, refresh=refresh)
        await self._keep()
        return known

    async def _keep(self) -> None:
        """Keep what was learnt since this was done last: all of it is one file."""
        if self._is_dirty:
            self._is_dirty = False
            await self._source.keep(self._kept)

    async def _request(self, name: str, *, refresh: bool = False) -> KnownDefinition:
        known, kept = self.get_cached(name), self._kept.tools.get(name)
        now = time.time()
        if known is not None and kept is not None and not refresh and self._is_fresh(name):
            return known
        try:
            etag = kept.etag if known and kept and not refresh else ""
            answer = await self._source.ask_definition(name, etag)
            if answer.status == 304 and known is not None and kept is not None:
                self._kept.tools[name] = msgspec.structs.replace(kept, at=now)
                return known
            what = f"The definition of {display_name(name)[:80]!r}"
            definition = await self._source.read(decode_definition, answer, what)
            return self._learn(name, definition, answer.header("etag"), now)
        except RegistryRefusal:
            raise
        except JaatoError as error:
            self._source.log_problem(str(error))
            if known is None or refresh:
                raise
            return known

    async def get_all(self, names: Sequence[str]) -> dict[str, KnownDefinition | ToolError]:
        """The definitions of several tools, or why one cannot be had; asked for at once where the registry can do that."""
        old = [name for name in names if not self._is_fresh(name) or self.get_cached(name) is None]
        found: dict[str, KnownDefinition | ToolError] = {}
        if len(old) > 1:
            for start in range(0, len(old), MAX_BATCH):
                found |= await self._ask_together(old[start : start + MAX_BATCH])
        room = anyio.CapacityLimiter(MAX_AT_ONCE)

        async def get(name: str) -> None:
            try:
                async with room:
                    found[name] = await self._request(name)
            except ToolError as error:
                found[name] = error

        async with anyio.create_task_group() as tasks:
            for name in names:
                if name not in found:
                    tasks.start_soon(get, name)
        await self._keep()
        return found

    async def _ask_together(self, names: Sequence[str]) -> dict[str, KnownDefinition | ToolError]:
        """What of these definitions one request brings; what it does not is asked for one by one."""
        try:
            answer = await self._source.ask_definitions(names)
            if answer is None:
                return {}
            results = await self._source.read(decode_batch, answer, "Definitions")
        except JaatoError as error:
            self._source.log_problem(str(error))
            return {}
        now, found = time.time(), dict[str, KnownDefinition | ToolError]()
        for name, result in zip(names, results, strict=False):
            if result.definition is UNSET:
                continue
            try:
                found[name] = self._learn(name, result.definition, "", now)
            except RegistryFault as error:
                found[name] = error
        return found

    def _is_fresh(self, name: str) -> bool:
        kept = self._kept.tools.get(name)
        return kept is not None and 0 <= time.time() - kept.at < FRESH_S

    def _learn(self, name: str, definition: ToolDefinition, etag: str, now: float) -> KnownDefinition:
        """Keep a definition. Raises `RegistryFault` for one that cannot be used."""
        shown = msgspec.structs.replace(
            definition,
            description=sanitize_text(definition.description),
            parameters=sanitize_schema(definition.parameters),
        )
        try:
            validator = check_definition(shown, name)
        except RegistryFault as error:
            raise RegistryFault(
                f"The definition of {display_name(name)[:80]!r} by the registry {self._source.name!r} cannot be used: "
                f"{error}."
            ) from None
        before = self._kept.tools.pop(name, None)
        careful = is_destructive(definition) or (before is not None and before.careful)
        kept = msgspec.structs.replace(shown, source=UNSET)
        self._kept.tools[name] = CachedDefinition(kept, now, etag, careful)
        known = self._known[name] = KnownDefinition(shown, careful, validator)
        self._is_dirty = True
        return known
