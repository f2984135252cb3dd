"""One client: its greeting, its commands and their replies. Events go from the room to the wire, not through here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from jaato.errors import JaatoError, Overloaded
from jaato.lazy_pattern import lazy_pattern
from jaato.log import logger
from jaato.protocol.codec import COMMANDS, encode
from jaato.protocol.commands import Command
from jaato.protocol.frames import (
    HELLO,
    HELLO_S,
    MAX_FRAME_BYTES,
    MAX_HELLO_BYTES,
    MAX_OTHERS_FRAME_BYTES,
    NOT_LET_IN,
    NOT_UNDERSTOOD,
    OTHER_PROTOCOL,
    PROTOCOL,
    Hello,
    Reply,
    Result,
    Welcome,
)
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Problem
from jaato.protocol.specs import ClientView
from jaato.server.auth.identity import Admission, Identity
from jaato.server.http.asgi import Refused
from jaato.server.sessions.command_handlers import CommandHandlers
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.subscription import Wire, encode_frame
from jaato.settings import environment, home_of
from jaato.tools.call import replace_surrogates
from jaato.typed_decoding import decode_json
from jaato.version import __version__

LOG = logger("server")
MAX_CONCURRENT = 64
"""The most concurrent commands of one client."""
MAX_INVALID_FRAMES = 20
"""The most invalid frames before the client is disconnected."""


MAX_ID_CHARS = 200
"""The longest id that the reply to an invalid frame repeats."""
SHOWN_CHARS = 80
READ_CHARS = 65_536
STRING = r'"(?:[^"\\]|\\.)*+"'
BEGINNING_WITH_ID = lazy_pattern(
    rf'\s*+\{{(?:\s*+(?!"id"\s*+:){STRING}\s*+:\s*+(?:{STRING}|[-+.\w]++)\s*+,)*+\s*+"id"\s*+:\s*+({STRING}|\d++(?=\s*+[,}}]))'
)
"""The beginning of a JSON object up to the value of its `id`, with texts, numbers and constants before it."""


class NamedFrame(msgspec.Struct):
    """A frame of any type, as far as its reply needs it."""

    id: str | int = ""


class Socket(Wire, Protocol):
    """A connection of the transport."""

    async def receive_text(self) -> str | None:
        """The next frame, None at the end."""
        ...

    async def disconnect(self, code: int, reason: str) -> None:
        """End the connection."""
        ...

    def accept_client(self, max_message_bytes: int) -> None:
        """Accept the client: take frames up to this size from now on."""
        ...

    async def wait_writable(self) -> None:
        """Wait while the client leaves too much unread."""
        ...

    on_drain: Callable[[], None] | None


class ClientConnection:
    """A client from its greeting to its end."""

    def __init__(self, hub: Hub, socket: Socket, admission: Admission) -> None:
        self._hub = hub
        self._socket = socket
        self._admission = admission
        self._tasks: set[asyncio.Task[None]] = set()
        self._frames = self._mistakes = 0

    async def serve(self) -> None:
        """Serve until the client disconnects."""
        client = await self._authenticate()
        if client is None:
            return
        self._socket.accept_client(MAX_FRAME_BYTES if client.role == "owner" else MAX_OTHERS_FRAME_BYTES)
        handlers = CommandHandlers(self._hub, self._socket, client, local=self._admission.local)
        self._socket.on_drain = handlers.send_pending
        try:
            while (text := await self._socket.receive_text()) is not None:
                if not await self._handle_frame(handlers, text):
                    return
                await self._socket.wait_writable()
                await asyncio.sleep(0)  # many commands at once leave others their turn
        finally:
            self._socket.on_drain = None
            handlers.leave()
            for task in self._tasks:
                task.cancel()

    async def _authenticate(self) -> ClientView | None:
        """Authenticate the client; None when it was rejected."""
        try:
            async with asyncio.timeout(HELLO_S):
                text = await self._socket.receive_text()
        except TimeoutError:
            await self._socket.disconnect(NOT_UNDERSTOOD, f"no hello within {HELLO_S:g} s")
            return None
        if text is None:
            return None
        try:
            if len(text.encode()) > MAX_HELLO_BYTES:
                raise ValueError("too long")
            hello = HELLO.decode(text)
        except (ValueError, msgspec.DecodeError, RecursionError):
            await self._socket.disconnect(NOT_UNDERSTOOD, "the first frame is hello, of at most 4 kB")
            return None
        try:
            held = await self._admission.authenticate(hello.token)
        except Refused as refused:
            await self._socket.disconnect(NOT_LET_IN, refused.text)
            return None
        if held is None:
            await self._socket.disconnect(NOT_LET_IN, "give the token: in Authorization, or in hello")
            return None
        if hello.protocol != PROTOCOL:
            await self._socket.disconnect(OTHER_PROTOCOL, f"this server speaks protocol {PROTOCOL}")
            return None
        return self._welcome(hello, held)

    def _welcome(self, hello: Hello, held: Identity) -> ClientView:
        client_id = new_id("k")
        name = printable_name(hello.name) or held.name or printable_name(hello.client) or "a client"
        place = str(self._hub.base.state_dir or "") if self._admission.local else ""
        home = str(home_of(self._hub.base.environ or environment()))
        self._send(Welcome(PROTOCOL, f"jaato {__version__}", client_id, held.role, place, home))
        return ClientView(client_id, name, held.role, answers=held.role != "viewer")

    async def _handle_frame(self, handlers: CommandHandlers, text: str) -> bool:
        """Handle one frame; returns whether to continue."""
        self._frames += 1
        try:
            command = COMMANDS.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
            self._mistakes += 1
            if self._mistakes > MAX_INVALID_FRAMES:
                await self._socket.disconnect(NOT_UNDERSTOOD, "too many frames that are no command")
                return False
            self._send(invalid_frame_reply(text, self._frames, str(error)))
            return True
        if len(self._tasks) >= MAX_CONCURRENT:
            refused = Overloaded(f"At most {MAX_CONCURRENT} commands at once; wait for replies.")
            self._send(Reply(command.id, error=problem_of(refused)))
            return True
        try:
            command = await handlers.prepare(command)
            work = handlers.handle(command)
        except JaatoError as error:
            self._send(Reply(command.id, error=problem_of(error)))
            return True
        if isinstance(work, Awaitable):
            task = asyncio.get_running_loop().create_task(self._run_command(handlers, command, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._send(Reply(command.id, work))
        handlers.send_pending()
        return True

    async def _run_command(
        self, handlers: CommandHandlers, command: Command, work: Awaitable[Result]
    ) -> None:
        self._send(await reply_to(command.id, work))
        handlers.send_pending()

    def _send(self, frame: Welcome | Reply) -> None:
        self._socket.write(encode_frame(encode(frame)))


async def reply_to(id_: str, work: Awaitable[Result]) -> Reply:
    """The reply to a command."""
    try:
        return Reply(id_, await work)
    except JaatoError as error:
        return Reply(id_, error=problem_of(error))
    except Exception:
        LOG.exception("A command failed")
        return Reply(id_, error=Problem("internal", "The server failed at this; its log says why."))


def problem_of(error: JaatoError) -> Problem:
    """An error as it crosses the wire."""
    return Problem(error.code, str(error)[:4_000], error.retryable)


def printable_name(text: str) -> str:
    """A name as printable text on one line."""
    return "".join(letter for letter in text if letter.isprintable())[:80].strip()


def invalid_frame_reply(text: str, number: int, reason: str) -> Reply:
    """The reply to the frame of this number, counted from `hello`, which is 0. It has the id of the frame; where none can be
    read, the message quotes the beginning of the frame."""
    id_ = read_id(text)
    begins = replace_surrogates(text[:SHOWN_CHARS])
    which = "" if id_ else f" (frame {number} after hello, {len(text):,} characters, which begins {begins!r})"
    message = f"This is no command{which}: {reason[:500]}. Send an object with type and a text as id."
    return Reply(id_, error=Problem("command_invalid", message, details={"frame": number, "begins": begins}))


def read_id(text: str) -> str:
    """The id of a frame that is no command; empty where it has none, or one that is no short text or whole number. Of what is
    no JSON, the id that stands before any list or object is read."""
    try:
        found = decode_json(text, NamedFrame).id
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        match = BEGINNING_WITH_ID.match(text[:READ_CHARS])
        try:
            found = decode_json(f'{{"id":{match[1]}}}', NamedFrame).id if match else ""
        except (msgspec.DecodeError, UnicodeEncodeError):
            return ""
    return str(found) if len(str(found)) <= MAX_ID_CHARS else ""
