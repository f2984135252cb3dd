"""A session at a server, as a client holds it: its state, what happens in it, and what can be asked of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from jaato.client.state import BACKLOG, PAGE, page_ends, snapshot
from jaato.errors import JaatoError, SessionNotFound
from jaato.protocol.commands import (
    BlobRequest,
    ClarificationResponse,
    Command,
    CommandExecute,
    HistoryRequest,
    MessageSend,
    PermissionResponse,
    ServedFiles,
    SessionAttach,
    SessionDelete,
    SessionDetach,
    SessionStop,
)
from jaato.protocol.events import (
    Event,
    MessageModel,
    SessionInfo,
    SessionUpdated,
    SystemMessage,
    TurnCompleted,
)
from jaato.protocol.events.state import State
from jaato.protocol.frames import Blob, History, Result, Said, Settled, Taken
from jaato.protocol.messages import Media


class Events:
    """What happens from now on: iterate it, leave its `with` to stop. A reader that is more than `BACKLOG` events behind gets
    a `session.info` with the state in their place, as one whom the server sends a snapshot does; the entries of the
    conversation up to it come before it, from the log. `lost` counts the events that were dropped."""

    def __init__(
        self,
        forget: Callable[[Events], None],
        now: Callable[[], SessionInfo | None],
        entries: Callable[[int, int], AsyncIterator[Event]],
        seq: int,
    ) -> None:
        self._forget = forget
        self._now = now
        self._entries = entries
        self._seq = seq
        """The last durable event that the reader has, itself or in a state."""
        self._held: deque[Event] = deque()
        self._some = asyncio.Event()
        self._end: JaatoError | None = None
        self.lost = 0

    def take(self, event: Event) -> None:
        """One more."""
        if len(self._held) >= BACKLOG and (now := self._now()) is not None:
            self.lost += len(self._held) + 1
            self._held.clear()
            event = now
        self._held.append(event)
        self._some.set()

    def end(self, error: JaatoError) -> None:
        """There will be no more."""
        self._end = error
        self._some.set()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget(self)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._held:
                event = self._held.popleft()
                has_state = isinstance(event, SessionInfo) and event.state is not None
                if has_state:
                    async for entry in self._entries(self._seq, event.seq):
                        yield entry
                if has_state or event.durable:
                    self._seq = event.seq
                yield event
            if self._end is not None:
                raise self._end
            self._some.clear()
            await self._some.wait()


class RemoteSession:
    """A session that is watched. `state` is always what the server has sent so far."""

    def __init__(self, ask: Callable[[Command], Awaitable[Result]], session_id: str) -> None:
        self._ask = ask
        self.id = session_id
        self.state = State(session_id=session_id)
        self.info: SessionInfo | None = None
        self.watched = True
        self.serves_files: ServedFiles | None = None
        """The text files that this client serves to tools of the session."""
        self.is_mode_switched = False
        """Whether its mode was switched since this client attached to it."""
        self.is_deleted = False
        """Whether it was deleted while this client watched it."""
        self._readers: list[Events] = []
        self._known = asyncio.Event()
        self._end: JaatoError | None = None

    async def known(self) -> None:
        """Wait until the state has been received."""
        await self._known.wait()
        if self._end is not None:
            raise self._end

    def events(self) -> Events:
        """What happens from now on."""
        reader = Events(self._readers.remove, self._now, self.entries, self.state.seq)
        self._readers.append(reader)
        return reader

    def _now(self) -> SessionInfo | None:
        return None if self.info is None else snapshot(self.info, self.state)

    def on_event(self, event: Event) -> None:
        """Handle an event that the state already includes."""
        self.is_mode_switched |= isinstance(event, SessionUpdated) and event.switched
        if isinstance(event, SystemMessage) and event.is_deleted:
            self.is_deleted, self.watched = True, False
        if isinstance(event, SessionInfo):
            self.info = event
            self._known.set()
        for reader in self._readers:
            reader.take(event)

    def end(self, error: JaatoError) -> None:
        """Handle the end of the connection."""
        self._end = error
        self._known.set()
        for reader in self._readers:
            reader.end(error)

    def attachment(self) -> SessionAttach:
        """The command that watches it again, from where its state is."""
        return SessionAttach(session_id=self.id, after_seq=self.state.seq, serves_files=self.serves_files)

    # --- what can be asked ---------------------------------------------------------------------------------------

    async def send(self, text: str, attachments: Sequence[Media] = ()) -> Taken:
        """Say something; returns when it is in the log."""
        taken = await self._ask(MessageSend(session_id=self.id, text=text, attachments=list(attachments)))
        assert isinstance(taken, Taken)
        return taken

    async def run(self, text: str) -> str:
        """Say something and wait for the end of the turn; the model's last words. Questions are for others to answer."""
        with self.events() as events:
            taken = await self.send(text)
            words = ""
            async for event in events:
                if event.seq <= taken.seq:
                    continue
                if isinstance(event, MessageModel) and event.agent_id == self.state.root_agent_id:
                    words = event.message.text or words
                if isinstance(event, TurnCompleted) and event.agent_id == self.state.root_agent_id:
                    return words
                if isinstance(event, SessionInfo) and event.state is not None and self._is_over(event.seq):
                    return words
        raise AssertionError("events end by an error alone")

    def _is_over(self, seq: int) -> bool:
        """Whether the state is as of this event and no turn is open: the event that ended it may be lost."""
        return self.state.seq == seq and self.state.open_turn is None

    async def allow(self, question_id: str, answer: str = "y", **more: Any) -> Settled:
        """Answer a permission question: y, n, a, t, i, once, never, all, e with `arguments`, c with `comment`."""
        settled = await self._ask(
            PermissionResponse(session_id=self.id, question_id=question_id, answer=answer, **more)
        )
        assert isinstance(settled, Settled)
        return settled

    async def clarify(self, question_id: str, answers: Sequence[str | None]) -> Settled:
        """Answer the model's questions, in their order."""
        settled = await self._ask(
            ClarificationResponse(session_id=self.id, question_id=question_id, answers=list(answers))
        )
        assert isinstance(settled, Settled)
        return settled

    async def stop(self) -> None:
        """Stop what the agent is doing, now; a turn that begins later is not stopped."""
        await self._ask(SessionStop(session_id=self.id, turn_id=self.state.open_turn or ""))

    async def execute(self, name: str, arguments: str = "") -> str:
        """Run a user command; returns its output."""
        reply = await self._ask(CommandExecute(session_id=self.id, name=name, arguments=arguments))
        assert isinstance(reply, Said)
        return reply.text

    async def history(
        self, before_seq: int | None = None, limit: int = 100, types: Sequence[str] = ()
    ) -> History:
        """A part of the conversation before an event; with `types`, the stored events of these types."""
        page = await self._ask(
            HistoryRequest(session_id=self.id, before_seq=before_seq, limit=limit, types=list(types))
        )
        assert isinstance(page, History)
        return page

    async def entries(self, after_seq: int, last_seq: int) -> AsyncIterator[Event]:
        """The entries of the conversation after an event up to another, oldest first: those that the state no longer has
        from the log, a page at a time. A session that is deleted meanwhile has only those of the state."""
        held = [entry for entry in self.state.entries if after_seq < entry.seq <= last_seq]
        first = self.state.entries[0].seq if self.state.earlier and self.state.entries else 0
        with suppress(SessionNotFound):
            for before_seq in page_ends(after_seq, min(first - 1, last_seq)):
                page = await self.history(before_seq, PAGE)
                for event in page.events:
                    if event.seq > after_seq:
                        after_seq = event.seq
                        yield event
        for entry in held:
            yield entry

    async def blob(self, name: str) -> bytes:
        """The whole of an image, document or long result, by the SHA-256 or handle an event has. Raises `StoreError`."""
        data = b""
        while True:
            piece = await self._ask(BlobRequest(session_id=self.id, blob=name, offset=len(data)))
            assert isinstance(piece, Blob)
            data += piece.data
            if len(data) >= piece.size_bytes or not piece.data:
                return data

    async def leave(self) -> None:
        """Detach from the session, which continues."""
        self.watched = False
        await self._ask(SessionDetach(session_id=self.id))

    async def delete(self) -> None:
        """Remove it for good."""
        self.watched = False
        await self._ask(SessionDelete(session_id=self.id))
