"""Requests for text files to the clients of a session that serve them, and their answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import Any

from jaato.errors import CancelledException
from jaato.log import logger
from jaato.protocol.codec import encode
from jaato.protocol.commands import FileResponse, ServedFiles
from jaato.protocol.frames import FileRequest
from jaato.protocol.ids import new_id
from jaato.server.sessions.subscription import Wire, encode_frame
from jaato.tools.cancel import CancelToken

LOG = logger("server")
READ_TIMEOUT_S = 2.0
"""How long a client may take to answer; then the disk is read, also by later calls until the client answers or may be asked
again."""
RETRY_AFTER_S = 60.0
"""When a client that has missed a deadline may be asked again."""
WRITE_TIMEOUT_S = 10.0
"""How long it may take to write and save, which may format the file."""
LOOP_TIMEOUT_S = 5.0
"""How much longer a thread waits for the loop, which may have ended."""


class FileServer:
    """One client that serves the files of one session. Everything happens on the loop."""

    def __init__(self, wire: Wire, session_id: str, name: str, served: ServedFiles) -> None:
        self._wire = wire
        self._session_id = session_id
        self._name = name
        self.can_write = served == "write"
        self._pending: dict[str, asyncio.Future[FileResponse]] = {}
        self._asked_from = 0.0
        """When it may be asked on the loop's clock: later than now after a missed deadline, until it answers."""
        self._late_writes: dict[str, str] = {}
        """By request, the files that it may still write though their deadline has passed."""

    async def request(self, path: str, content: str | None, timeout_s: float) -> str:
        """The text of a file, or an empty text once `content` is written. Raises `ClientProblem`."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._asked_from or not self._wire.ready:
            raise client_problem(f"{self._name} does not answer")
        asked = FileRequest(new_id("q"), self._session_id, path, timeout_s, content)
        answer = self._pending[asked.id] = loop.create_future()
        self._wire.write(encode_frame(encode(asked)))
        try:
            async with asyncio.timeout(timeout_s):
                response = await answer
        except TimeoutError:
            self._asked_from = loop.time() + RETRY_AFTER_S
            LOG.warning("%s has not answered a file.request within %g s", self._name, timeout_s)
            raise client_problem(f"{self._name} has not answered within {timeout_s:g} s") from None
        finally:
            del self._pending[asked.id]
            if content is not None and (not answer.done() or answer.cancelled()):
                self._late_writes[asked.id] = path
        return check_response(response, self._name, is_read=content is None)

    def answer(self, response: FileResponse) -> bool:
        """Take an answer; whether it was awaited."""
        self._asked_from = 0.0
        self._late_writes.pop(response.request_id, None)
        pending = self._pending.get(response.request_id)
        if pending is None or pending.done():
            return False
        pending.set_result(response)
        return True

    def is_writing(self, path: str) -> bool:
        """Whether it has not answered yet that it has written a file, though the deadline has passed; from any thread."""
        return path in list(self._late_writes.values())

    def close(self) -> None:
        """The client has left."""
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(client_problem(f"{self._name} has left"))


def check_response(response: FileResponse, name: str, *, is_read: bool) -> str:
    """The text in an answer. Raises `ClientProblem` for a refusal, and for what is no text of a file."""
    if response.problem:
        raise client_problem(f"{name}: {response.problem[:300]}", has_answered=True)
    if not is_read:
        return ""
    text = response.content
    if text is None or "\0" in text:
        raise client_problem(f"{name} has answered without text")
    from jaato.tools.filesystem.client_files import MAX_TEXT_BYTES

    if len(text) > MAX_TEXT_BYTES or len(text.encode()) > MAX_TEXT_BYTES:
        raise client_problem(f"{name} has answered with more than {MAX_TEXT_BYTES >> 20} MB")
    return text


def client_problem(text: str, *, has_answered: bool = False) -> Exception:
    """A `ClientProblem`, whose module is imported with the first one: most sessions have no client that serves files."""
    from jaato.tools.filesystem.client_files import ClientProblem

    return ClientProblem(text, has_answered=has_answered)


class SessionFiles:
    """The files that clients of one session serve; of several clients the one that has attached last is asked."""

    def __init__(self) -> None:
        self.synced: dict[str, int] = {}
        """By path, the hash of the text that the client and the disk had in common last."""
        self._servers: list[FileServer] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, server: FileServer) -> None:
        """A client serves files from now on; called on the loop."""
        self._loop = asyncio.get_running_loop()
        self.synced.clear()
        self._servers.append(server)

    def remove(self, server: FileServer) -> None:
        """A client serves files no longer."""
        if server in self._servers:
            self._servers.remove(server)
            server.close()

    # --- for worker threads ------------------------------------------------------------------------------------------

    @property
    def is_served(self) -> bool:
        """Whether a client serves files now."""
        return bool(self._servers)

    @property
    def can_write(self) -> bool:
        """Whether the client that is asked writes them, too."""
        servers = self._servers[-1:]
        return bool(servers) and servers[0].can_write

    def is_writing(self, path: str) -> bool:
        """Whether a client may still write a file though its deadline has passed."""
        return any(server.is_writing(path) for server in list(self._servers))

    def read(self, path: str, token: CancelToken) -> str:
        """The text of a file, unsaved changes included. Raises `ClientProblem`, `CancelledException`."""
        asked = self._begin(self._request(path, None, READ_TIMEOUT_S))
        forget = token.on_cancel(asked.cancel)
        try:
            return asked.result(READ_TIMEOUT_S + LOOP_TIMEOUT_S)
        except TimeoutError:
            raise client_problem("the server is busy") from None
        except concurrent.futures.CancelledError:
            token.raise_if_cancelled()
            raise CancelledException("The server ends.") from None
        finally:
            forget()

    def write(self, path: str, text: str) -> None:
        """Have a file written and saved; a cancellation waits for the answer. Raises `ClientProblem`."""
        try:
            self._begin(self._request(path, text, WRITE_TIMEOUT_S)).result(WRITE_TIMEOUT_S + LOOP_TIMEOUT_S)
        except (TimeoutError, concurrent.futures.CancelledError):
            raise client_problem("the server ends") from None

    async def _request(self, path: str, content: str | None, timeout_s: float) -> str:
        if not self._servers:
            raise client_problem("the client has left")
        return await self._servers[-1].request(path, content, timeout_s)

    def _begin(self, request: Coroutine[Any, Any, str]) -> concurrent.futures.Future[str]:
        """Run a request on the loop. Raises `ClientProblem` where that has ended."""
        try:
            assert self._loop is not None
            return asyncio.run_coroutine_threadsafe(request, self._loop)
        except RuntimeError:
            request.close()
            raise client_problem("the server ends") from None
