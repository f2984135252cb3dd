"""Session information that is in no log: tools, commands, notes and models, when a session is loaded and when they change."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

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
from jaato.server.sessions.room import Room, do_nothing
from jaato.server.sessions.session_pool import Live

LOG = logger("server")
NOTES_TOOL = "store_memory"
"""The tool that stores notes; sessions with it get the list of notes."""


class SessionInfoSource:
    """Publishes the information of loaded sessions. Everything happens on the loop."""

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
        """By workspace, the version of the notes file that was last published."""

    def attach(self, room: Room, live: Live) -> None:
        """Publish the information of a loaded session, now, on changes, and when a client subscribes."""
        room.publish_info()
        session = live.session
        registry: PluginRegistry = session.services["registry"]
        remove_watcher = registry.watchers.add(self._make_change_callback(room, live))
        remove_listener = session.journal.bus.listen(functools.partial(self._on_event, live))

        def stop_info() -> None:
            remove_watcher()
            remove_listener()
            room.on_subscribe = do_nothing
            others = self._live.values()
            if not any(other.session.workspace == session.workspace for other in others):
                self._stamps.pop(session.workspace, None)

        live.stop_info, room.on_subscribe = stop_info, functools.partial(self.check_notes, live)
        self._publish_commands(room, live)
        self._stamps.pop(session.workspace, None)
        self.check_notes(live)

    def check_notes(self, live: Live) -> None:
        """Publish the notes of a session's workspace if they have changed."""
        if live.session.catalog.find(NOTES_TOOL) is not None:
            self._check_workspace_notes(live.session.workspace)

    def _make_change_callback(self, room: Room, live: Live) -> Callable[[], None]:
        """The callback for changes of tools or commands, from any thread; several changes are published once."""
        loop = asyncio.get_running_loop()
        waiting = False

        def publish() -> None:
            nonlocal waiting
            waiting = False
            if self._live.get(room.session_id) is live:
                self._publish_commands(room, live)
                room.publish_info()

        def on_change() -> None:
            nonlocal waiting
            if not waiting:
                waiting = True
                with contextlib.suppress(RuntimeError):  # the server has gone
                    loop.call_soon_threadsafe(publish)

        return on_change

    def _publish_commands(self, room: Room, live: Live) -> None:
        session = live.session
        commands = commands_of(session, session.services["registry"])
        if commands != room.state.commands:
            publish_redacted(room, CommandList(**room.head(), commands=commands))

    def _on_event(self, live: Live, event: Event) -> None:
        """Check the notes after a call that may have changed them; publish a changed mode."""
        room = self._rooms.get(live.session.state.session_id)
        if isinstance(event, SessionUpdated) and event.mode is not None and room is not None:
            room.publish_info()
        if isinstance(event, ToolCallEnd):
            found = live.session.catalog.find(event.tool)
            if found is None or found.tool.spec.access != "read":
                self.check_notes(live)

    def _check_workspace_notes(self, workspace: Path) -> None:
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
            self._publish_notes(workspace, [], 0)

    async def _read(self, workspace: Path, notes: Notes, stamp: tuple[int, ...]) -> None:
        """Read the notes in a thread, and publish them to every session of the workspace."""
        page = await anyio.to_thread.run_sync(notes.read)
        if self._stamps.get(workspace) == stamp:  # else they are read again
            self._publish_notes(workspace, brief_entries(page), len(page.notes))

    def _publish_notes(self, workspace: Path, entries: list[MemoryEntry], total: int) -> None:
        for session_id, live in self._live.items():
            room = self._rooms.get(session_id)
            mine = live.session.workspace == workspace and live.session.catalog.find(NOTES_TOOL) is not None
            if (
                mine
                and room is not None
                and (room.state.memories, room.state.memory_count) != (entries, total)
            ):
                publish_redacted(room, MemoryList(**room.head(), memories=entries, total=total))


def publish_redacted(room: Room, event: Event) -> None:
    """Publish an event without the secrets that may be in it."""
    for masked in redact_events((event,), room.secrets):
        room.publish(masked)


LOG = logger("server")
MODELS_TIMEOUT_S = 10.0
MAX_MODELS = 500


async def publish_models(room: Room, live: Live) -> None:
    """Publish the models of the provider, which is asked once for all sessions of a factory."""
    provider, known = live.session.model.provider, live.entry.models
    where = (provider.name, live.how.blueprint.base_url if live.how.blueprint is not None else None)
    if where not in known:
        known[where] = []
        try:
            with anyio.move_on_after(MODELS_TIMEOUT_S):
                known[where] = [model.id for model in await provider.models()][:MAX_MODELS]
        except (JaatoError, OSError, RuntimeError) as error:  # the last by a client that was closed meanwhile
            LOG.info("%s lists no models: %s", provider.name, error)
    if known[where] and room.models != known[where]:
        room.models = known[where]
        room.publish_info()
