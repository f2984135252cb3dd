"""What clients are told of a loaded session beside its log, when it is and when it changes: tools, commands, notes, models."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from jaato.agent.event_redaction import redact_events
from jaato.errors import JaatoError, ToolError
from jaato.log import logger
from jaato.plugins.memory import Notes, brief_entries, workspace_notes
from jaato.protocol.events import CommandList, Event, MemoryList, SessionUpdated, ToolCallEnd
from jaato.protocol.specs import MemoryEntry
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.user_commands import commands_of
from jaato.server.sessions.room import Room, nobody_cares
from jaato.server.sessions.session_pool import Live

LOG = logger("server")
KEEPS_NOTES = "store_memory"
"""The tool a session has that keeps notes; who has it is told which there are."""


class SessionInfoSource:
    """The sessions of a server and what is around them. Everything happens on the loop."""

    def __init__(
        self,
        live: Mapping[str, Live],
        rooms: Mapping[str, Room],
        begin: Callable[[Callable[[], Awaitable[object]]], None],
    ) -> None:
        self._live = live
        self._rooms = rooms
        self._begin = begin
        self._stamps: dict[Path, tuple[int, ...]] = {}
        """The file of notes as it was when it was told last, by workspace."""

    def join(self, room: Room, live: Live) -> None:
        """A session is at work: tell what is around it, and later when it changes or somebody comes."""
        room.tell()
        session = live.session
        registry: PluginRegistry = session.services["registry"]
        forget = registry.watchers.add(self._watcher(room, live))
        deaf = session.journal.bus.listen(functools.partial(self._heard, live))

        def silence() -> None:
            forget()
            deaf()
            room.came = nobody_cares
            others = self._live.values()
            if not any(other.session.workspace == session.workspace for other in others):
                self._stamps.pop(session.workspace, None)

        live.silence, room.came = silence, functools.partial(self.look, live)
        self._tell_commands(room, live)
        self._stamps.pop(session.workspace, None)
        self.look(live)

    def look(self, live: Live) -> None:
        """Tell which notes there are about the workspace of a session, if they are not those that were told last."""
        if live.session.catalog.find(KEEPS_NOTES) is not None:
            self._look(live.session.workspace)

    def _watcher(self, room: Room, live: Live) -> Callable[[], None]:
        """What the plugins call, on any thread, when they offer something else; changes at once are told once."""
        loop = asyncio.get_running_loop()
        waiting = False

        def told() -> None:
            nonlocal waiting
            waiting = False
            if self._live.get(room.session_id) is live:
                self._tell_commands(room, live)
                room.tell()

        def changed() -> None:
            nonlocal waiting
            if not waiting:
                waiting = True
                with contextlib.suppress(RuntimeError):  # the server has gone
                    loop.call_soon_threadsafe(told)

        return changed

    def _tell_commands(self, room: Room, live: Live) -> None:
        session = live.session
        commands = commands_of(session, session.services["registry"])
        if commands != room.state.commands:
            hear(room, CommandList(**head_of(room), commands=commands))

    def _heard(self, live: Live, event: Event) -> None:
        """A call that may have changed files may have changed the notes; another mode is told to all."""
        room = self._rooms.get(live.session.state.session_id)
        if isinstance(event, SessionUpdated) and event.mode is not None and room is not None:
            room.tell()
        if isinstance(event, ToolCallEnd):
            found = live.session.catalog.find(event.tool)
            if found is None or found.tool.spec.access != "read":
                self.look(live)

    def _look(self, workspace: Path) -> None:
        notes = workspace_notes(workspace)
        try:
            stamp = notes.stamp()
        except ToolError:
            return  # the tools of the plugin say what is wrong with it
        if stamp == self._stamps.get(workspace):
            return
        self._stamps[workspace] = stamp
        if stamp:
            self._begin(functools.partial(self._read, workspace, notes, stamp))
        else:
            self._tell_notes(workspace, [], 0)

    async def _read(self, workspace: Path, notes: Notes, stamp: tuple[int, ...]) -> None:
        """Read the notes, away from the loop, and tell every session of the workspace that has them."""
        page = await anyio.to_thread.run_sync(notes.read)
        if self._stamps.get(workspace) == stamp:  # else they are read again
            self._tell_notes(workspace, brief_entries(page), len(page.notes))

    def _tell_notes(self, workspace: Path, entries: list[MemoryEntry], total: int) -> None:
        for session_id, live in self._live.items():
            room = self._rooms.get(session_id)
            mine = live.session.workspace == workspace and live.session.catalog.find(KEEPS_NOTES) is not None
            if (
                mine
                and room is not None
                and (room.state.memories, room.state.memory_count) != (entries, total)
            ):
                hear(room, MemoryList(**head_of(room), memories=entries, total=total))


def head_of(room: Room) -> dict[str, Any]:
    """The common fields of an event that is not stored."""
    state = room.state
    return {"session_id": state.session_id, "agent_id": state.root_agent_id, "seq": state.seq}


def hear(room: Room, event: Event) -> None:
    """Tell whoever watches, without the secrets that may be in it."""
    for masked in redact_events((event,), room.secrets):
        room.publish(masked)


LOG = logger("server")
PATIENCE_S = 10.0
MOST = 500


async def learn(room: Room, live: Live) -> None:
    """Tell who watches which models there are; the provider is asked once for all sessions of a factory."""
    provider, known = live.session.model.provider, live.entry.models
    where = (provider.name, live.how.blueprint.base_url if live.how.blueprint is not None else None)
    if where not in known:
        known[where] = []
        try:
            with anyio.move_on_after(PATIENCE_S):
                known[where] = [model.id for model in await provider.models()][:MOST]
        except (JaatoError, OSError, RuntimeError) as error:  # the last by a client that was closed meanwhile
            LOG.info("%s lists no models: %s", provider.name, error)
    if known[where] and room.models != known[where]:
        room.models = known[where]
        room.tell()
