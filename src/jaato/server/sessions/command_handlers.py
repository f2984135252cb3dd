"""Command handlers: what each command of a client does, with the history it may ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, get_args

import msgspec

from jaato.abc.asker import Answer
from jaato.agent.event_redaction import redact_log
from jaato.agent.inbox import Author
from jaato.client.state import is_unfinished
from jaato.errors import ConfigError, NotAllowed, Overloaded, SessionNotFound
from jaato.protocol.commands import (
    BlobRequest,
    CallStop,
    ClarificationResponse,
    ClientConfig,
    Command,
    CommandExecute,
    FileResponse,
    FilesFind,
    HistoryRequest,
    MessageSend,
    PairingCreate,
    PermissionResponse,
    ServedFiles,
    ServerReload,
    SessionAttach,
    SessionCreate,
    SessionDelete,
    SessionDetach,
    SessionFork,
    SessionList,
    SessionSettle,
    SessionStop,
    SessionUpdate,
    TaskStop,
    ToolsDisable,
    TurnContinue,
)
from jaato.protocol.events import ClarificationQuestion, Event, PermissionRequested
from jaato.protocol.events.state import Entry
from jaato.protocol.frames import Blob, Done, Files, History, Opened, Pairing, Result, Said, Settled, Taken
from jaato.protocol.ids import new_id, session_name
from jaato.protocol.specs import ClientView
from jaato.runtime.session_store import namesakes
from jaato.runtime.user_commands import check_prompt, find_backend
from jaato.server.sessions.client_files import FileServer
from jaato.server.sessions.creation import check_key, create, end_visit, load_interrupted, send_progress
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.messages import (
    check_attachments,
    get_settled,
    send_message,
    stop_call,
    stop_task,
    wait_for_subagents,
)
from jaato.server.sessions.room import Room
from jaato.server.sessions.session_pool import Live
from jaato.server.sessions.stored_sessions import fork_session, list_sessions
from jaato.server.sessions.subscription import Subscription, Wire

WATCHING = (SessionAttach, SessionDetach, SessionList, HistoryRequest, BlobRequest, ClientConfig)
"""Commands of the role viewer."""
ANSWERING = (PermissionResponse, ClarificationResponse)
"""Further commands of the role approver."""
MOST_WATCHED = 256
"""The most sessions that one connection may subscribe to: each keeps its state in memory."""


class CommandHandlers:
    """Runs the commands of one client, and holds its subscriptions."""

    def __init__(self, hub: Hub, wire: Wire, client: ClientView, *, local: bool = True) -> None:
        self._hub = hub
        self._wire = wire
        self._client = client
        self._local = local
        """Whether the client is a process of the same user on the same machine."""
        self._deltas = self._info = True
        self._subscriptions: dict[str, tuple[Room, Subscription]] = {}
        self._files: dict[str, FileServer] = {}
        """By session, the files that this client serves."""
        self._visits: set[str] = set()
        """Sessions with options of this client, which hold while it is connected."""

    def send_pending(self) -> None:
        """Send what is pending on every subscription of this client."""
        for _, subscription in list(self._subscriptions.values()):
            subscription.send_pending()

    def leave(self) -> None:
        """The client has disconnected: end its subscriptions and visits."""
        for room, subscription in self._subscriptions.values():
            self._serve_files(room, None)
            self._hub.unsubscribe(room, subscription)
        self._subscriptions.clear()
        hub, client_id = self._hub, self._client.id
        for session_id in self._visits:
            hub.spawn(partial(end_visit, hub, session_id, client_id, stop=False))

    async def prepare(self, command: Command) -> Command:
        """Fold the log of a session in steps before it is read, and check the attachments of a message, in the order of the
        commands; returns the command to handle. Raises `SessionNotFound`, `NotAllowed`, and as `check_attachments` does."""
        if isinstance(command, SessionAttach):
            session_id = self._hub.find(command.session_id)
            if self._info:
                await self._find_sandbox(session_id)
            await self._hub.room(session_id)
        elif isinstance(command, HistoryRequest | BlobRequest):
            await self._room(command)
        elif isinstance(command, ClientConfig) and command.info:
            for session_id in list(self._subscriptions):
                await self._find_sandbox(session_id)
        elif isinstance(command, MessageSend) and (command.files or command.attachments):
            self._check_role(command)
            session_id = self._id_of(command)
            return await asyncio.to_thread(check_attachments, self._hub.store, session_id, command)
        return command

    async def _find_sandbox(self, session_id: str) -> None:
        """Find the sandbox of a loaded session, which takes time."""
        if (live := self._hub.pool.loaded.get(session_id)) is not None:
            await find_backend(live.session)

    def handle(self, command: Command) -> Result | Awaitable[Result]:
        """The result of a command that is `ready`, or what will give it. Raises `JaatoError`s."""
        self._check_role(command)
        match command:
            case SessionAttach():
                return self._attach(command)
            case SessionDetach():
                return self._detach(command)
            case SessionList():
                return list_sessions(self._hub, command)
            case HistoryRequest():
                return page_of(self._load(self._id_of(command)), command)
            case BlobRequest():
                return piece_of(self._load(self._id_of(command)), command)
            case ClientConfig():
                return self._configure(command)
            case PermissionResponse() | ClarificationResponse():
                return self._answer(command)
            case SessionCreate():
                return self._create(command)
            case MessageSend():
                return self._send(command)
            case SessionStop():
                return self._stop(command)
        return self._handle_other(command)

    def _handle_other(self, command: Command) -> Awaitable[Result]:
        match command:
            case TurnContinue():
                return self._continue(command)
            case SessionFork():
                return fork_session(self._hub, command, self._id_of(command))
            case SessionDelete():
                return self._delete(command)
            case SessionUpdate():
                return self._update(command)
            case CommandExecute():
                return self._execute(command)
            case FileResponse():
                return self._take_file(command)
            case ToolsDisable():
                return self._disable(command)
            case CallStop():
                return self._stop_call(command)
            case TaskStop():
                return stop_task(self._hub.pool.loaded.get(self._id_of(command)), command.task_id)
            case ServerReload():
                return self._reload()
            case PairingCreate():
                return self._pair(command)
            case FilesFind():
                return self._find_files(command)
            case SessionSettle():
                return wait_for_subagents(self._hub.pool.loaded.get(self._id_of(command)))
        raise ConfigError(f"This server does not know {type(command).__name__} yet.")

    def _check_role(self, command: Command) -> None:
        role = self._client.role
        if role == "owner" or isinstance(command, WATCHING):
            return
        if role == "approver" and isinstance(command, ANSWERING):
            return
        raise NotAllowed(f"A {role} may not do this; connect with the token of an owner.")

    # --- which session -------------------------------------------------------------------------------------------

    def _id_of(self, command: Command) -> str:
        if command.session_id:
            return self._hub.find(command.session_id)
        if len(self._subscriptions) == 1:
            return next(iter(self._subscriptions))
        raise ConfigError("Say which session is meant: session_id.")

    async def _room(self, command: Command) -> Room:
        return await self._hub.room(self._id_of(command))

    async def _live(self, command: Command) -> Live:
        return await self._hub.load(self._id_of(command))

    def _load(self, session_id: str) -> Room:
        if (room := self._hub.rooms.get(session_id)) is None:
            raise SessionNotFound(f"The session {session_id} has just been removed.")
        return room

    # --- watching ------------------------------------------------------------------------------------------------

    def _attach(self, command: SessionAttach) -> Opened:
        room = self._load(self._hub.find(command.session_id))
        if command.serves_files is not None and self._client.role != "owner":
            raise NotAllowed(f"A {self._client.role} serves no files; attach without serves_files.")
        self._watch(room, command.after_seq)
        self._serve_files(room, command.serves_files)
        if is_unfinished(room.state) and self._client.role != "viewer":
            self._hub.spawn(partial(load_interrupted, self._hub, room.session_id))
        return Opened(room.session_id, room.state.seq, room.state.name)

    def _watch(self, room: Room, after_seq: int | None) -> None:
        held = self._subscriptions.pop(room.session_id, None)
        if held is not None:
            self._hub.unsubscribe(*held)
        elif len(self._subscriptions) >= MOST_WATCHED:
            raise Overloaded(f"One connection watches at most {MOST_WATCHED} sessions; detach from some.")
        wants = {"deltas": self._deltas, "info": self._info}
        subscription = self._hub.subscribe(room, self._wire, self._client, after_seq, **wants)
        self._subscriptions[room.session_id] = (room, subscription)

    def _serve_files(self, room: Room, served: ServedFiles | None) -> None:
        """Have this client serve the text files of a session from now on, or no longer."""
        if (before := self._files.pop(room.session_id, None)) is not None:
            room.client_files.remove(before)
        if served is not None:
            made = self._files[room.session_id] = FileServer(
                self._wire, room.session_id, self._client.name, served
            )
            room.client_files.add(made)

    async def _take_file(self, command: FileResponse) -> Settled:
        server = self._files.get(self._id_of(command))
        return Settled(server is not None and server.answer(command))

    async def _detach(self, command: SessionDetach) -> Done:
        session_id = self._id_of(command)
        held = self._subscriptions.pop(session_id, None)
        if held is not None:
            self._serve_files(held[0], None)
        if session_id in self._visits:
            self._visits.discard(session_id)
            await end_visit(self._hub, session_id, self._client.id, stop=True)
        if held is not None:
            self._hub.unsubscribe(*held)
        return Done()

    def _configure(self, command: ClientConfig) -> Done:
        if command.deltas is not None:
            self._deltas = command.deltas
        if command.info is not None:
            self._info = command.info
        if command.answers is not None:
            self._client = msgspec.structs.replace(self._client, answers=command.answers)
        for room, subscription in self._subscriptions.values():
            subscription.select_kinds(deltas=self._deltas, info=self._info)
            self._hub.update_client(room, subscription, self._client)
            if command.info:
                room.publish_info()
        return Done()

    # --- answering -----------------------------------------------------------------------------------------------

    async def _answer(self, command: PermissionResponse | ClarificationResponse) -> Settled:
        room = await self._room(command)
        if command.question_id in room.state.questions:
            live = await self._hub.load(room.session_id)  # it may be that of an earlier process
        asked = room.state.questions.get(command.question_id)
        if asked is None:
            return get_settled(room, command.question_id)
        given: Answer | list[str | None]
        name = self._client.name
        match command, asked:
            case PermissionResponse(), PermissionRequested():
                if command.digest and command.digest != asked.digest:
                    raise ConfigError(
                        "This answer is to another call: its digest is not that of the question."
                    )
                given = Answer(
                    answer=command.answer,
                    arguments=command.arguments,
                    comment=command.comment,
                    by=name,
                )
            case ClarificationResponse(), ClarificationQuestion():
                given = list(command.answers)
            case _:
                raise ConfigError("The question is of the other kind.")
        if live.session.questions.respond(command.question_id, given, name):
            return Settled(True, name)
        return get_settled(room, command.question_id)

    # --- working -------------------------------------------------------------------------------------------------

    async def _create(self, command: SessionCreate) -> Opened:
        progress, wants_info = partial(send_progress, self._wire), command.attach and self._info
        room, opened = await create(self._hub, command, self._client.id, progress, wants_info=wants_info)
        if command.passing:
            self._visits.add(room.session_id)
        if command.attach:
            self._watch(room, None)
            self._serve_files(room, command.serves_files)
        same = namesakes(self._hub.store, room.session_id, command.name and opened.name)
        return msgspec.structs.replace(opened, notice="\n".join(filter(None, [opened.notice, same])))

    async def _send(self, command: MessageSend) -> Taken:
        room = await self._room(command)
        live = await self._hub.load(room.session_id)
        if command.check_prompt:
            await check_prompt(live.session.services["registry"], command.text)
        word = check_key(command.once) or new_id("m")
        if (before := room.recall.taken.get(word)) is not None:
            return msgspec.structs.replace(before, again=True)
        if (under_way := room.preparing.get(word)) is not None:
            return msgspec.structs.replace(await under_way, again=True)
        taken, turn = send_message(live, room, command, Author(self._client.name, word))
        self._hub.run_turn(room, turn)
        return await taken

    async def _stop(self, command: SessionStop) -> Done:
        room = await self._room(command)
        if command.turn_id and room.state.open_turn != command.turn_id:
            return Done()  # the turn has ended meanwhile
        if room.session_id in self._hub.pool.loaded or is_unfinished(room.state):
            live = await self._hub.load(room.session_id)
            live.stops += 1
            if live.session.is_interrupted:
                live.session.abandon()
            live.session.stop()
        return Done()

    async def _stop_call(self, command: CallStop) -> Done:
        room = await self._room(command)
        view = room.state.calls.get(command.call_id)
        agent_id = room.state.root_agent_id if view is None else view.agent_id
        return await stop_call(self._hub.pool.loaded.get(room.session_id), agent_id, command.call_id)

    async def _continue(self, command: TurnContinue) -> Done:
        room = await self._room(command)
        session = (await self._hub.load(room.session_id)).session
        if not session.is_interrupted:
            raise ConfigError("No turn was cut off here; send a message to begin one.")
        self._hub.run_turn(room, session.resume)
        return Done()

    async def _delete(self, command: SessionDelete) -> Done:
        if not command.session_id:
            raise ConfigError("Name the session to be removed: session_id.")
        session_id = self._hub.find(command.session_id)
        await self._hub.delete(session_id)
        self._subscriptions.pop(session_id, None)
        return Done()

    async def _update(self, command: SessionUpdate) -> Done:
        session_id = self._id_of(command)
        await self._hub.update(session_id, command)
        return Done(namesakes(self._hub.store, session_id, session_name(command.name)))

    async def _execute(self, command: CommandExecute) -> Said:
        live = await self._live(command)
        if command.name == "permissions" and not self._local:
            check_remote_permissions(live, command.arguments.split())
        with live.in_use():
            output = await live.session.run_command(command.name, command.arguments)
        return Said(output)

    async def _reload(self) -> Done:
        await self._hub.reload(open_sessions=True)
        return Done()

    async def _find_files(self, command: FilesFind) -> Files:
        room = await self._room(command)
        found = await self._hub.files.find(room.state.workspace, command.query, command.limit)
        return Files(found)

    async def _pair(self, command: PairingCreate) -> Pairing:
        if not self._local:
            raise NotAllowed("Browsers are paired on the machine of the server: `jaato web`.")
        if self._hub.pair_browser is None:
            raise ConfigError("Only a server has the page: `jaato serve`.")
        return await self._hub.pair_browser(command.role)

    async def _disable(self, command: ToolsDisable) -> Done:
        live = await self._live(command)
        live.session.disable(command.tools, command.disabled)
        return Done()


def check_remote_permissions(live: Live, words: list[str]) -> None:
    """Raise `NotAllowed` for a command `permissions` that would allow more: over the network it shows what holds, and
    revokes answers that allow."""
    match words:
        case [] | ["json"]:
            return
        case ["revoke", grant_id] if any(
            grant.id == grant_id and grant.effect == "allow" for grant in live.session.gate.grants()
        ):
            return
    raise NotAllowed(
        "Over the network, only answers that allow can be revoked; the rest is changed on the machine of the server: "
        "`jaato permissions`."
    )


MOST = 500
MOST_BYTES = 1 << 18
DIGEST_CHARS = 64
READ = 4
"""Events read for each entry that is asked for, to begin with: not every event is one."""


MOST_SEARCHED = 2_000
"""Events that one request for certain types searches; `before_seq` of its answer continues the search."""
STORED: dict[str, Any] = {kind.__struct_config__.tag: kind for kind in get_args(Event) if kind.durable}
"""The types of events that a log holds."""


def page_of(room: Room, asked: HistoryRequest) -> History:
    """The newest entries before an event, oldest first; work grows with the number requested, not with the log. Raises
    `ConfigError` for a type that no log holds."""
    limit = min(max(asked.limit, 1), MOST)
    end = (
        room.state.seq + 1 if asked.before_seq is None else min(max(asked.before_seq, 1), room.state.seq + 1)
    )
    found: list[Event] = []
    if asked.types:
        start = max(1, end - MOST_SEARCHED)
        kinds = kinds_of(asked.types)
        found = [event for event in between(room, start, end) if isinstance(event, kinds)]
        first = found[-limit].seq if len(found) > limit else start
        return History(found[-limit:], first if first > 1 else None)
    span = limit * READ
    start = end
    while start > 1 and len(found) < limit:
        start, before = max(1, start - span), start
        page = [event for event in between(room, start, before) if isinstance(event, Entry)]
        found = page + found
        span *= 2
    found = found[-limit:]
    more = bool(found) and (start > 1 or len(found) == limit)
    return History(found, found[0].seq if more and found[0].seq > 1 else None)


def kinds_of(types: Sequence[str]) -> tuple[Any, ...]:
    """The classes of types of events. Raises `ConfigError`."""
    unknown = [name for name in types if name not in STORED]
    if unknown:
        raise ConfigError(
            f"No log has events of the type {unknown[0][:60]!r}; there are {', '.join(STORED)}."
        )
    return tuple(STORED[name] for name in types)


def between(room: Room, first: int, end: int) -> list[Event]:
    """The stored events from `first` to before `end`."""
    read: list[Event] = []
    for event in redact_log(room.store.read(room.session_id, first - 1), room.secrets):
        if isinstance(event, Event):
            if event.seq >= end:
                break
            read.append(event)
    return read


def piece_of(room: Room, asked: BlobRequest) -> Blob:
    """Bytes of a blob of this session, as it was kept: text without secrets. Raises `StoreError` for another's."""
    digest = asked.blob.removeprefix("result:")
    if len(digest) != DIGEST_CHARS or not digest.isalnum():
        raise ConfigError("A blob is named by its SHA-256 or its handle, as an event has it.")
    size_bytes = room.store.blob_size(room.session_id, digest)
    offset, limit = max(asked.offset, 0), min(max(asked.limit, 1), MOST_BYTES)
    return Blob(size_bytes, room.store.get_blob(room.session_id, digest, offset, limit), offset)
