"""Runs the turn of a request in its session, as a client of the session protocol in the server's own process."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec

from jaato.client.connection import Client, connect
from jaato.client.session import RemoteSession
from jaato.client.state import is_unfinished
from jaato.errors import ConfigError, JaatoError, SessionBusy, SessionNotFound
from jaato.protocol.commands import (
    ClientConfig,
    MessageSend,
    SessionCreate,
    SessionDetach,
    SessionFork,
    TurnContinue,
)
from jaato.protocol.events import ClarificationQuestion, Event, PermissionRequested
from jaato.protocol.frames import Opened
from jaato.protocol.ids import id_of, is_id, new_id
from jaato.server.auth.identity import Admission
from jaato.server.in_memory import connect_in_memory
from jaato.server.openai.answer import AnswerFold, Piece
from jaato.server.openai.branches import ONCE, find_place, sent_exchanges
from jaato.server.openai.errors import RequestError, refusal_of, refusal_of_error
from jaato.server.openai.idempotency import Attempt, Repeated, find_repeated, find_session, replay
from jaato.server.openai.models import Choice
from jaato.server.openai.requests import ChatRequest, history_of, read_files
from jaato.server.openai.wire import Outcome
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.listing import is_stored

QUESTION_S = 300.0
"""How long a question waits for another client of its session."""
CHECK_S = 0.5
"""How often it is checked whether a pending question can still be answered."""
LEAVE_S = 10.0
MAX_BRANCHES = 100
"""The most versions of a chat."""


class Chat(msgspec.Struct, frozen=True):
    """What a request continues: a chat of a front end, which sends all of it, or a session by its name or id; neither for a
    session of its own."""

    chat_id: str = ""
    session: str = ""


class TurnAnswer:
    """The answer of an agent to the newest message of a request."""

    def __init__(
        self,
        hub: Hub,
        admission: Admission,
        chat: Chat,
        choice: Choice,
        workspace: Path,
        request: ChatRequest,
        attempt: Attempt,
        followers: Counter[str],
    ) -> None:
        self._followers = followers
        self._hub = hub
        self._admission = admission
        self._chat = chat
        self._choice = choice
        self._workspace = workspace
        self._request = request
        self._attempt = attempt
        self._files = read_files(request.newest)
        self._history = history_of(request.dialogue[:-1], ONCE)
        self.outcome = Outcome()

    async def pieces(self) -> AsyncGenerator[Piece]:
        """The pieces as they arrive. When the iteration ends early, the turn is stopped. Raises `Refused`."""
        try:
            async with (
                connect_in_memory(self._hub, self._admission) as transport,
                connect(transport=transport, name="OpenAI API") as client,
            ):
                await client.ask(ClientConfig(answers=False, info=False))
                async with AsyncExitStack() as alone:
                    await alone.enter_async_context(self._hub.lock(self._attempt.once))
                    repeated = await self._find_repeated(client) if self._attempt.is_repeated else None
                    session = repeated.session if repeated is not None else await self._open(client)
                    async with aclosing(self._follow(client, session, repeated, alone)) as pieces:
                        async for piece in pieces:
                            yield piece
        except JaatoError as error:
            raise refusal_of_error(error) from None

    # --- the session ---------------------------------------------------------------------------------------------

    async def _open(self, client: Client) -> RemoteSession:
        """The session that the request continues, attached, with the options of this request."""
        if self._chat.session:
            return await self._open_named(client, self._chat.session)
        if self._chat.chat_id:
            return await self._open_branch(client)
        if not self._attempt.key:
            return await self._create(client, "", new=True)
        word = self._key_word()
        return await self._create(client, word, new=not await is_visible(client, id_of("s", word)))

    async def _find_repeated(self, client: Client) -> Repeated | None:
        """The turn that this request has begun before, if its answer can still be given; its session is attached."""
        for name in await self._candidates():
            try:
                session = await client.attach(name)
            except SessionNotFound:
                continue
            found = await find_repeated(session, self._attempt)
            if found is not None and found.failed is None:
                return found
            await session.leave()
            if found is not None:
                found.check_undone()
                return None
        return None

    async def _candidates(self) -> Sequence[str]:
        """The sessions in which a repeated request may have begun its turn."""
        if self._chat.session:
            return [self._chat.session]
        if self._chat.chat_id:
            return [session_id for _, session_id, is_there in self._branches() if is_there]
        if self._attempt.key:
            return [id_of("s", self._key_word())]
        found = await find_session(self._hub.store, self._attempt.once)
        return [] if found is None else [found]

    def _key_word(self) -> str:
        return word_of("request", self._attempt.digest)

    def _branches(self) -> Sequence[tuple[str, str, bool]]:
        """The sessions that a chat may have, one for each of its versions: the idempotency key, the id, and whether it is stored.
        Any of them may have been deleted."""
        about = "chat", self._chat.chat_id, self._request.model
        words = [word_of(*about, str(number)) for number in range(MAX_BRANCHES)]
        ids = [(word, id_of("s", word)) for word in words]
        return [(word, session_id, is_stored(self._hub.store, session_id)) for word, session_id in ids]

    async def _open_named(self, client: Client, name: str) -> RemoteSession:
        """The session with this id or name, else a new one of the name; its history is not compared."""
        try:
            session = await client.attach(name)
            if name in (session.id, session.state.name):
                return await self._reopen(client, session)
            await session.leave()
        except SessionNotFound:
            if is_id(name, "s"):
                raise
        word = word_of("session", name)
        return await self._create(client, word, new=not await is_visible(client, id_of("s", word)), name=name)

    async def _open_branch(self, client: Client) -> RemoteSession:
        """The branch of the chat whose history is that of the request; where there is none, a new one: a fork before an edited
        message, or a session that begins with the messages of the request."""
        sent = sent_exchanges(self._request.dialogue)
        forks: list[tuple[int, int, str]] = []
        free = ""
        for word, session_id, is_there in self._branches():
            if not is_there:
                free = free or word
                continue
            try:
                session = await client.attach(session_id)
            except SessionNotFound:
                continue  # it was deleted meanwhile
            place = find_place(session.state, sent)
            if place is not None and place.is_end:
                return await self._create(client, word, new=False)
            if place is not None and place.kept:
                forks.append((place.kept, place.fork_seq, session_id))
            await session.leave()
        if not free:
            raise RequestError(
                409, f"This chat has {MAX_BRANCHES} versions; begin a new chat.", "too_many_branches"
            )
        if forks:
            _, seq, session_id = max(forks)
            await client.ask(SessionFork(session_id=session_id, seq=seq, once=free))
        return await self._create(client, free, new=not forks)

    async def _create(
        self, client: Client, word: str, *, new: bool, name: str | None = None
    ) -> RemoteSession:
        """The session of this idempotency key, created or resumed with the options of this request."""
        history = self._history if new else []
        try:
            opened = await client.ask(self._command(once=word, history=history, name=name))
        except SessionBusy:
            return await client.attach(id_of("s", word))  # it is at work, with the options of another client
        assert isinstance(opened, Opened)
        return await client.attach(opened.session_id)

    async def _reopen(self, client: Client, session: RemoteSession) -> RemoteSession:
        """An attached session with the options of this request, unless others use it just now."""
        if session.id not in self._hub.pool.loaded:
            await client.ask(self._command(session_id=session.id))
        return session

    def _command(self, **fields: Any) -> SessionCreate:
        request = self._request
        return SessionCreate(
            workspace=str(self._workspace),
            provider=self._choice.provider,
            model=self._choice.model,
            system_prompt=request.system,
            temperature=request.temperature,
            effort=request.effort,
            max_output_tokens=request.output_limit,
            stop=request.stops,
            response_schema=request.response_schema,
            passing=True,
            attach=False,
            **fields,
        )

    def _message(self, session_id: str, once: str) -> MessageSend:
        """The newest message of the request."""
        text = self._request.newest.text
        return MessageSend(session_id=session_id, text=text, files=self._files, once=once)

    # --- the turn ------------------------------------------------------------------------------------------------

    async def _follow(
        self, client: Client, session: RemoteSession, repeated: Repeated | None, alone: AsyncExitStack
    ) -> AsyncGenerator[Piece]:
        """Send the message, unless it was sent before; the pieces of the answer, to the end of the turn. `alone` is left when the
        message is in the log, where a repetition finds it."""
        once = f"{self._attempt.once}{new_id('m')}"
        message = once if repeated is None else repeated.message.message.once
        fold = AnswerFold(session.state, message)
        waits: dict[str, float] = {}
        is_refused = False
        self._followers[message] += 1
        try:
            async with AsyncExitStack() as stack:
                if repeated is not None:
                    await alone.aclose()
                    replayed = replay(repeated, fold)
                    async for piece in await stack.enter_async_context(aclosing(replayed)):
                        yield piece
                events = stack.enter_context(session.events())
                if repeated is not None:
                    for piece in fold.feed(repeated.now):
                        yield piece
                    if fold.completed is None:
                        waits |= dict.fromkeys(session.state.questions, anyio.current_time() + QUESTION_S)
                        with suppress(ConfigError):  # the turn is running
                            await client.ask(TurnContinue(session_id=session.id))
                else:
                    try:
                        await client.ask(self._message(session.id, once))
                    except JaatoError:
                        is_refused = True  # a running turn is another client's
                        raise
                    await alone.aclose()
                turn = self._turn(session, aiter(events), fold, waits)
                async for piece in await stack.enter_async_context(aclosing(turn)):
                    yield piece
            completed = fold.completed
            if completed is not None and completed.reason == "error" and completed.error is not None:
                raise refusal_of(completed.error)
            self.outcome = Outcome(fold.finish_reason, fold.usage)
        finally:
            self._followers -= Counter((message,))  # which drops what is zero
            with anyio.move_on_after(LEAVE_S, shield=True):
                is_over = is_refused or fold.completed is not None
                await self._leave(client, session, is_over=is_over or message in self._followers)

    async def _turn(
        self, session: RemoteSession, events: AsyncIterator[Event], fold: AnswerFold, waits: dict[str, float]
    ) -> AsyncGenerator[Piece]:
        """The pieces from now to the end of the turn; questions that no one answers are denied. `waits` has until when each of
        those pending waits."""
        if fold.completed is not None:
            return
        async with aclosing(with_pauses(events, CHECK_S, lambda: bool(waits))) as paced:
            async for event in paced:
                if isinstance(event, PermissionRequested | ClarificationQuestion):
                    waits[event.question_id] = anyio.current_time() + QUESTION_S
                if waits:
                    await self._deny_late(session, waits)
                if event is None:
                    continue
                for piece in fold.feed(event):
                    yield piece
                if fold.completed is not None:
                    return

    async def _deny_late(self, session: RemoteSession, waits: dict[str, float]) -> None:
        """Deny the questions that no other client can answer, or that have waited for one too long."""
        room = self._hub.rooms.get(session.id)
        clients = room.clients if room is not None else []
        is_answerable = any(client.answers and client.role != "viewer" for client in clients)
        for question_id, until in list(waits.items()):
            question = session.state.questions.get(question_id)
            if question is None:
                del waits[question_id]
                continue
            if is_answerable and anyio.current_time() < until:
                continue
            del waits[question_id]
            if isinstance(question, ClarificationQuestion):
                await session.clarify(question_id, [None] * len(question.questions))
            else:
                await session.allow(question_id, "c", comment=self._denial(session.id))

    def _denial(self, session_id: str) -> str:
        return (
            "no one can answer permission requests in this chat. Allow such calls by a rule in permissions.json, or "
            f"answer at a terminal while the agent works: jaato attach {session_id}"
        )

    async def _leave(self, client: Client, session: RemoteSession, *, is_over: bool) -> None:
        """Stop a turn whose readers have left, and end the visit, unless background tasks or subagents still run."""
        try:
            if not is_over:
                await session.stop()
            if not session.state.tasks and not (is_over and is_unfinished(session.state)):
                await client.ask(SessionDetach(session_id=session.id))
        except JaatoError:
            return  # the server is going down, and has stopped everything


async def is_visible(client: Client, session_id: str) -> bool:
    """Whether there is a session of this id that the client may see."""
    try:
        await (await client.attach(session_id)).leave()
    except SessionNotFound:
        return False
    return True


def word_of(*what: str) -> str:
    """The idempotency key of the session for these words: always the same, so the next server knows it too."""
    return f"{ONCE}{hashlib.sha256(chr(0).join(what).encode()).hexdigest()}"


async def with_pauses(
    events: AsyncIterator[Event], pause_s: float, is_wanted: Callable[[], bool]
) -> AsyncGenerator[Event | None]:
    """Events, and None after each pause without one while pauses are wanted."""
    task: asyncio.Future[Event] | None = None
    try:
        while True:
            task = task or asyncio.ensure_future(anext(events))
            await asyncio.wait([task], timeout=pause_s if is_wanted() else None)
            if not task.done():
                yield None
                continue
            done, task = task, None
            yield done.result()
    finally:
        if task is not None:
            task.cancel()
