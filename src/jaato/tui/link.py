"""The link of the full-screen client to its session: it joins or makes it, follows its events, and sends what is typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

import msgspec

from jaato.abc.asker import Answer
from jaato.cli.arguments.values import Attachment, is_command
from jaato.cli.connect import find_busy_session
from jaato.cli.output.answers import late_answer_text
from jaato.cli.output.console import Look, one_line
from jaato.cli.output.presence import OtherClients
from jaato.cli.repl.questions import answer_command
from jaato.cli.repl.slash_commands import run_slash_command
from jaato.client.connection import Client
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError, SessionBusy
from jaato.protocol.commands import MessageSend, SessionCreate, SessionDetach
from jaato.protocol.events import Event, InitProgress, PermissionRequested, SessionInfo, TurnCompleted
from jaato.protocol.frames import Opened, Settled
from jaato.tui.preferences import KeyNames
from jaato.tui.prompt.attachments import Attachments
from jaato.tui.questions.lines import Question
from jaato.tui.server_choice import start_until
from jaato.tui.transcript.blocks import NoteBlock, UserBlock
from jaato.tui.transcript.conversation import Conversation
from jaato.tui.transcript.introduction import introduce

Connection = AbstractAsyncContextManager[tuple[Client, str, SessionCreate | None]]
HISTORY_PAGE = 100
DETACH_TIMEOUT_S = 2.0
SILENCE_S = 0.5
"""How long a server may take to accept a message until that is shown as waiting."""
LOCAL_S = 0.05
"""How long a command may take that needs no server, while there is none."""
T = TypeVar("T")


class Notes:
    """Where a command writes: lines of one block."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._block: NoteBlock | None = None

    @property
    def width(self) -> int:
        """The columns of a line."""
        return max(40, self._link.width() - 3)

    def note(self, text: str, look: Look = "") -> None:
        """Write a line."""
        if self._block is None:
            self._block = self._link.conversation.add_notes([])
        self._block.add(text, look)
        self._link.changed()


class Shown:
    """What commands know of the session where it is shown."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.turns: list[TurnCompleted] = []
        self.changed = asyncio.Event()

    async def wait_for_change(self) -> None:
        """Wait until the agent starts or stops working, or asks."""
        self.changed.clear()
        await self.changed.wait()


class Link:
    """One session at a time, and the connection to its server. `changed` is called whenever something is to be drawn."""

    def __init__(
        self,
        connection: Connection,
        changed: Callable[[], None],
        width: Callable[[], int],
        names: KeyNames,
        attachments: Attachments,
    ) -> None:
        self.client: Client
        self.session: RemoteSession
        self.conversation: Conversation
        self.creation: SessionCreate | None = None
        self.first_creation: SessionCreate | None = None
        self.attachments = attachments
        self.output = Shown("")
        self.console = Notes(self)
        self.changed = changed
        self.width = width
        self.on_leave: Callable[[], None] = lambda: None
        self.on_open: Callable[[], None] = lambda: None
        """Called when another session is shown."""
        self.on_unsent: Callable[[str], None] = lambda _text: None
        """Called with queued messages that are not sent, as the turn was stopped or another session is opened."""
        self.on_unsent_changed: Callable[[], None] = lambda: None
        """Called when `unsent` has changed."""
        self._waiting: dict[UserBlock, tuple[str, list[Attachment]]] = {}
        """Messages that wait for the connection or the server, and their files, by their blocks."""
        self._asking = 0
        """Messages and answers without a reply."""
        self._starting = False
        self.start_server: Callable[[], object] | None = None
        """Starts the user's server if it is not running; None for another server, which is not ours to start."""
        self.progress = ""
        """What a new session waits for."""
        self.state = "connecting"
        """`connecting`, `connected`, `reconnecting`."""
        self._others: OtherClients
        self._connection = connection
        self._names = names
        self._following: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._loading = False
        self._activity = (False, 0)
        """Whether a turn runs, and how many questions wait, as of the last event."""
        self.failure: JaatoError | None = None
        self.was_busy = False
        """Whether the turn went on when this client left."""

    @property
    def is_open(self) -> bool:
        """Whether a session is shown."""
        return hasattr(self, "conversation")

    @property
    def is_deleted(self) -> bool:
        """Whether the session was deleted elsewhere."""
        return self.is_open and self.session.is_deleted

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs."""
        return self.is_open and self.conversation.is_busy and not self.is_deleted

    @property
    def questions(self) -> list[Question]:
        """The questions that wait."""
        return list(self.session.state.questions.values()) if self.is_open and not self.is_deleted else []

    @property
    def unsent(self) -> list[tuple[str, list[Attachment]]]:
        """The messages of which no server is known to have them: those that wait for one, then the queued ones."""
        return [*self._waiting.values(), *self.conversation.queued.values()] if self.is_open else []

    async def run(self, first: str = "") -> None:
        """Connect, open the session, send the first message, and stay until `close` or the end of the connection. Raises
        `JaatoError`s."""
        async with self._connection as (self.client, session, creation):
            self.client.on_connection = self._connection_changed
            self.client.on_progress = self._show_progress
            self.creation = self.first_creation = creation
            await self._open(creation, session)
            self.state = "connected"
            self.changed()
            if first:
                self.start(self.submit(first))
            await self._stop.wait()
            await self._detach()
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Leave the session, which goes on if it is at work in a server."""
        self._stop.set()

    async def _detach(self) -> None:
        self.was_busy = self.is_busy and not self.client.in_process
        if self._following is not None:
            self._following.cancel()
        if self.was_busy or not self.client.connected or self.is_deleted:
            return  # the connection ends, and the turn goes on
        if self.is_busy:
            with suppress(JaatoError):
                await self.session.stop()
        self.session.watched = False
        try:
            async with asyncio.timeout(DETACH_TIMEOUT_S):
                await self.client.ask(SessionDetach(session_id=self.session.id))
        except (JaatoError, TimeoutError):
            return

    # --- the session ---------------------------------------------------------------------------------------------

    async def _open(self, creation: SessionCreate | None, session_id: str | None) -> None:
        """Create, resume or attach to a session. Raises `JaatoError`, and stays in the current one."""
        notices: list[tuple[str, str]] = []
        name = session_id or ""
        if creation is not None:
            try:
                opened = await self.client.ask(creation)
                assert isinstance(opened, Opened)
                name = opened.session_id
                notices.append((f"{opened.provider} {opened.model} ({opened.reason})", "dim"))
                if opened.notice:
                    notices.append((opened.notice, "yellow"))
            except SessionBusy:
                name = await find_busy_session(self.client, creation) or ""  # it is at work, and is joined
                if not name:
                    raise
        session = await self.client.attach(name)
        if self._following is not None:
            self._following.cancel()
        self.on_unsent(self.take_back_all())
        self.session, self.creation, self.progress = session, creation, ""
        self.conversation = Conversation(session.state, self._own_name())
        assert session.info is not None
        self._others = OtherClients(session.info, self.client.welcome.client_id)
        self.output = Shown(session.info.sandbox.mode if session.info.sandbox is not None else "")
        first = introduce(session.state, session.info, self.client.welcome.home, notices, self._names)
        self.conversation.add_notes(first)
        self.conversation.catch_up(session.info)
        self._following = asyncio.get_running_loop().create_task(self._follow(session))
        self.on_open()
        self.changed()

    def _own_name(self) -> str:
        own = self.client.welcome.client_id
        info = self.session.info
        return next((one.name for one in info.clients if one.id == own), "") if info is not None else ""

    async def open_session(self, creation: SessionCreate | None, session_id: str | None) -> None:
        """Switch to another session. Raises `JaatoError`, and stays in the current one."""
        before = self.session
        await self._open(creation, session_id)
        if before.id != self.session.id and not before.is_deleted:
            before.watched = False
            await self.client.ask(SessionDetach(session_id=before.id))

    def attach(self, attachment: Attachment) -> None:
        """Attach a file to the next message."""
        self.attachments.files.append(attachment)

    async def end_input(self) -> None:
        """Leave, as `/exit` does."""
        self.on_leave()

    async def _follow(self, session: RemoteSession) -> None:
        try:
            with session.events() as events:
                async for event in events:
                    self._take(event)
                    self.changed()
        except JaatoError as error:
            self.failure = error
            self._stop.set()

    def _take(self, event: Event) -> None:
        conversation = self.conversation
        conversation.state = self.session.state
        self._take_event(event)
        if self.is_deleted:
            self.on_unsent(self.take_back_all())
        elif conversation.queued and conversation.outcome and not conversation.is_busy:
            self._send_queued()
        activity = conversation.is_busy, len(self.questions)
        if activity != self._activity:
            self._activity = activity
            self.output.changed.set()

    def _take_event(self, event: Event) -> None:
        conversation = self.conversation
        if isinstance(event, InitProgress):
            self._show_progress(event)
            return
        if not isinstance(event, SessionInfo):
            self.progress = ""
            conversation.take(event)
            if isinstance(event, TurnCompleted) and event.agent_id == self.session.state.root_agent_id:
                self.output.turns.append(event)
            return
        own_id, connected = self.client.welcome.client_id, self.client.connected
        conversation.note_presence(self._others.update(event, own_id, connected=connected))
        if event.sandbox is not None and event.sandbox.mode != self.output.mode:
            if self.output.mode:
                conversation.note(f"the mode is now {event.sandbox.mode}", "yellow")
            self.output.mode = event.sandbox.mode
        if event.state is not None or event.live is not None:
            conversation.catch_up(event)

    async def load_earlier(self, limit: int = HISTORY_PAGE) -> dict[str, int]:
        """Load a page of earlier entries; returns by how many lines each agent's layout has grown at its top."""
        conversation = self.conversation
        if self._loading or conversation.first_seq is None:
            return {}
        self._loading = True
        try:
            page = await self.session.history(conversation.first_seq, limit)
            if conversation is not self.conversation:
                return {}
            return conversation.prepend(page.events, page.before_seq)
        except JaatoError as error:
            conversation.note(str(error), "red")
            return {}
        finally:
            self._loading = False

    # --- what is asked -------------------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something in the background, and show its failure."""

        async def run() -> None:
            try:
                await work
            except JaatoError as error:
                self._note_failure(str(error))

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _note_failure(self, text: str) -> None:
        self.conversation.note(text, "red")
        self.changed()

    async def submit(self, text: str) -> bool:
        """Send a message, or run it as a command; whether it was a message. Raises `JaatoError`."""
        is_slash = is_command(text)
        if is_slash:
            self.console = Notes(self)
            running = run_slash_command(self, text[1:], working=self.is_busy)
            silence_s = None if self.client.connected else LOCAL_S
            is_command_run = await self._show_while_waiting(running, text, [], silence_s)
            self.on_unsent_changed()  # it may have attached a file
            if is_command_run:
                return False
        await self.send(text, check_prompt=is_slash)
        return True

    def queue(self, text: str) -> None:
        """Keep a message, with what is attached to it, until the turn has ended."""
        self.conversation.queue(text, self.attachments.take())
        self.on_unsent_changed()
        self.changed()

    def take_back(self) -> str:
        """The newest queued message, which is no longer queued."""
        text, files = self.conversation.take_queued(-1)
        self.attachments.put_back(files)
        self.on_unsent_changed()
        self.changed()
        return text

    def take_back_all(self) -> str:
        """All queued messages, which are no longer queued, as one text."""
        texts: list[str] = []
        while self.is_open and self.conversation.queued:
            texts.insert(0, self.take_back())
        return "\n".join(texts)

    def _send_queued(self) -> None:
        """Send the oldest queued message as the turn has ended; one that was stopped or failed gives all back."""
        outcome, self.conversation.outcome = self.conversation.outcome, ""
        if outcome == "stop":
            self.start(self._submit_queued())
        else:
            self.on_unsent(self.take_back_all())

    async def _submit_queued(self) -> None:
        """Submit queued messages up to the first one that begins a turn."""
        begins_turn = False
        while self.conversation.queued and not begins_turn:
            text, files = self.conversation.take_queued(0)
            self.attachments.put_back(files)
            self.on_unsent_changed()
            try:
                begins_turn = await self.submit(text)
            except JaatoError:
                self.on_unsent("\n".join(filter(None, [text, self.take_back_all()])))
                raise

    async def send(self, text: str, *, check_prompt: bool = False) -> None:
        """Send a message. Raises `JaatoError`."""
        attached = self.attachments.take()
        files = [one.file for one in attached]
        message = MessageSend(session_id=self.session.id, text=text, files=files, check_prompt=check_prompt)
        silence_s = SILENCE_S if self.client.connected else 0
        try:
            await self._show_while_waiting(self.client.ask(message), text, attached, silence_s)
        except JaatoError:
            self.attachments.put_back(attached)
            raise

    async def _show_while_waiting(
        self, work: Coroutine[Any, Any, T], text: str, attached: list[Attachment], silence_s: float | None
    ) -> T:
        """What comes of asking the server; after a silence the message is shown as one that waits. Raises `JaatoError`."""
        self._asking += 1
        asked = asyncio.get_running_loop().create_task(work)
        waiting: UserBlock | None = None
        try:
            await asyncio.wait([asked], timeout=silence_s)
            if not asked.done():
                waiting = self._show_waiting(text, attached)
            return await asked
        finally:
            self._asking -= 1
            asked.cancel()  # without effect on one that is done
            if waiting is not None:
                self.conversation.drop_block(waiting)
                del self._waiting[waiting]
                self.on_unsent_changed()
                self.changed()

    def _show_waiting(self, text: str, attached: list[Attachment]) -> UserBlock:
        """Show a message that waits, and start the server if there is none."""
        waiting = self.conversation.add_waiting(
            text, "the server" if self.client.connected else "the connection"
        )
        self._waiting[waiting] = text, attached
        self.on_unsent_changed()
        if not self.client.connected:
            self._need_server()
        self.changed()
        return waiting

    async def answer(self, question: Question, answer: Answer | list[str | None]) -> None:
        """Answer a question; another client may have been faster. Raises `JaatoError`."""
        command = answer_command(self.session.id, question.question_id, answer)
        if isinstance(question, PermissionRequested):
            command = msgspec.structs.replace(command, digest=question.digest)
        if not self.client.connected:
            self.conversation.note("The answer is sent once there is a connection again.", "yellow")
            self._need_server()
        self.conversation.own_answers.add(question.question_id)
        self._asking += 1
        try:
            settled = await self.client.ask(command)
        except JaatoError:
            self.conversation.own_answers.discard(question.question_id)
            raise
        finally:
            self._asking -= 1
        if isinstance(settled, Settled) and not settled.accepted and settled.answer:
            self.conversation.note(late_answer_text(settled.by, settled.answer), "yellow")
            self.changed()

    # --- the server ----------------------------------------------------------------------------------------------

    def _show_progress(self, event: InitProgress) -> None:
        part = f" {event.done * 100 // event.total} %" if event.total else ""
        is_done = bool(event.total) and event.done >= (event.total or 0)
        self.progress = "" if is_done else one_line(f"{event.step}{part}", 60)
        self.changed()

    def _need_server(self) -> None:
        """Start the server, as something waits for it."""
        if self.start_server is not None and not self._starting:
            self._starting = True
            self.start(self._start_server(self.start_server))
        self.changed()

    async def _start_server(self, start: Callable[[], object]) -> None:
        """Start it until it is there. Raises `JaatoError` if it cannot be started."""
        try:
            await start_until(start, lambda: self._asking and not self.client.connected, self._note_failure)
        finally:
            self._starting = False

    def _connection_changed(self, connected: bool) -> None:
        self.state = "connected" if connected else "reconnecting"
        if not connected and self.is_open:
            self.start(self._resume())
            if self._asking:
                self._need_server()
        self.changed()

    async def _resume(self) -> None:
        """Resume the session with the options of this client, once it is connected again."""
        if self.creation is not None and not self.is_deleted:
            await self.client.resume(self.session, self.creation)
