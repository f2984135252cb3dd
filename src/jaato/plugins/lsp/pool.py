"""Pool of running language servers: one for each language and directory, started lazily, evicted when idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from jaato.errors import ConfigError, ToolError
from jaato.plugins.lsp.client import LanguageServer, ServerCommand, ServerFailed
from jaato.plugins.lsp.documents import ServerDocuments
from jaato.plugins.lsp.languages import (
    Language,
    NoServer,
    environment_of,
    find_command,
    find_language,
    settings_of,
)
from jaato.protocol.specs import SandboxAccess, SandboxProfile
from jaato.tools.filesystem.containment import Roots
from jaato.tools.processes.environment import command_environment, is_inside
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import UNCONFINED, Confinement, Sandbox

MAX_SERVERS = 6
IDLE_S = 600.0
LOOK_EVERY_S = 15.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 120.0
FORGOTTEN_S = 600.0
SANDBOX_SESSION = "language-servers"
"""The sandbox session of the servers, which all sessions share."""


@dataclass(eq=False)
class Slot:
    """The place of one server. `failures` counts those in a row; until `not_before` no other is started."""

    project: ServerDocuments | None = None
    failures: int = 0
    failed_at: float = 0.0
    not_before: float = 0.0
    why: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Pool:
    """Servers by language and root, on the loop its coroutines are awaited on."""

    def __init__(
        self,
        launcher: WardenClient,
        roots: Roots,
        environ: Mapping[str, str],
        languages: Sequence[Language],
        idle_s: float,
        sandbox: Sandbox,
        profile: SandboxProfile = "read-only",
    ) -> None:
        self._launcher = launcher
        self._roots = roots
        self._environ = environ
        self._languages = languages
        self._idle_s = idle_s
        self._sandbox = sandbox
        self._access = SandboxAccess(profile)
        self._slots: dict[tuple[str, Path], Slot] = {}
        self._reaper: asyncio.Task[None] | None = None

    async def project_of(self, path: str) -> ServerDocuments:
        """The project of a file, its server running. Raises `NoServer`, `ServerFailed` and other `ToolError`s."""
        language = find_language(path, self._languages)
        root, _ = self._roots.relative(path)
        return await self._get_project(language, root)

    async def project_for(self, name: str) -> ServerDocuments:
        """The project of the workspace in a language. Raises as above."""
        for language in self._languages:
            if language.name == name:
                return await self._get_project(language, self._roots.workspace)
        known = ", ".join(language.name for language in self._languages)
        raise NoServer(f"There is no language {name!r}; there are {known}.")

    def running(self) -> list[ServerDocuments]:
        """The projects whose servers run now."""
        found = (slot.project for slot in self._slots.values())
        return [project for project in found if project is not None and project.server.is_alive]

    def running_for(self, path: str) -> ServerDocuments | None:
        """The project of a file if its server runs already."""
        try:
            language = find_language(path, self._languages)
            slot = self._slots.get((language.name, self._roots.relative(path)[0]))
        except ToolError:
            return None
        project = slot.project if slot is not None else None
        return project if project is not None and project.server.is_alive else None

    async def _get_project(self, language: Language, root: Path) -> ServerDocuments:
        slot = self._slots.setdefault((language.name, root), Slot())
        async with slot.lock:
            project = slot.project
            if project is not None and project.server.is_alive:
                if time.monotonic() - slot.failed_at > FORGOTTEN_S:
                    slot.failures = 0
                return project
            if project is not None:
                slot.project = None
                self._record_failure(slot, project.server.why or "it ended by itself")
            pause_s = slot.not_before - time.monotonic()
            if pause_s > 0:
                raise ServerFailed(
                    f"The language server for {language.name} has failed {slot.failures} times ({slot.why}); it is "
                    f"started again in {pause_s:.0f} s at the earliest. grep_content and ast_search work without."
                )
            await self._evict_least_used()
            slot.project = await self._start(slot, language, root)
            if self._reaper is None or self._reaper.done():
                self._reaper = asyncio.create_task(self._evict_idle(), name="jaato-lsp-idle")
            return slot.project

    async def _start(self, slot: Slot, language: Language, root: Path) -> ServerDocuments:
        argv = find_command(language, self._environ, self._roots.paths)
        confinement = await self._confine(argv[0], root)
        way = ServerCommand(
            language.name,
            argv,
            command_environment(environment_of(self._environ, self._roots.paths), extra=language.environment),
            settings_of(language, self._environ, self._roots.paths),
            language.options,
        )
        server = LanguageServer(way, root, confinement)
        try:
            await server.start(self._launcher)
        except ServerFailed as error:
            self._record_failure(slot, str(error)[:500])
            raise
        project = ServerDocuments(server, language, self._roots)
        project.refresh()
        return project

    async def _confine(self, program: str, root: Path) -> Confinement:
        """The sandbox of a server. Where there is none, a server starts without, as long as the session cannot write it.

        Raises `NoServer`.
        """
        if self._sandbox.backend is not None or self._access.profile == "full":
            return await self._sandbox.confine(self._access, root, SANDBOX_SESSION)
        if is_inside(Path(program), [one.resolve() for one in self._roots.paths]):
            raise NoServer(
                f"{program} lies where the session may write, so it is started in a sandbox only, and there is none here "
                "(`jaato doctor` says why). Name a program outside the workspace in language_servers."
            )
        return UNCONFINED

    def _record_failure(self, slot: Slot, why: str) -> None:
        now = time.monotonic()
        slot.failures += 1
        slot.failed_at, slot.why = now, why
        if slot.failures > 1:  # the first end of a server may be an accident
            slot.not_before = now + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**slot.failures)

    async def _evict_least_used(self) -> None:
        """End the least recently used server when the limit is reached."""
        running = self.running()
        if len(running) >= MAX_SERVERS:
            idle = [project for project in running if not project.server.in_use]
            if not idle:
                raise ToolError(
                    f"{MAX_SERVERS} language servers are at work, the most there may be. Try again."
                )
            await self._stop(min(idle, key=lambda project: project.server.used_at))

    async def _stop(self, project: ServerDocuments) -> None:
        for slot in self._slots.values():
            if slot.project is project:
                slot.project = None
        await project.server.close()

    async def _evict_idle(self) -> None:
        """End idle servers, until none runs."""
        while running := self.running():
            for project in running:
                idle_s = time.monotonic() - project.server.used_at
                if not project.server.in_use and idle_s > self._idle_s:
                    await self._stop(project)
            await asyncio.sleep(min(LOOK_EVERY_S, self._idle_s / 4))


def sandbox_profile(config: Mapping[str, Any]) -> SandboxProfile:
    """The profile that the plugin's configuration names for servers. Raises `ConfigError`."""
    profile: SandboxProfile = config.get("sandbox", "read-only")
    if profile not in get_args(SandboxProfile):
        known = ", ".join(get_args(SandboxProfile))
        raise ConfigError(f"The configuration of the plugin lsp: sandbox is one of {known}, not {profile!r}.")
    return profile
