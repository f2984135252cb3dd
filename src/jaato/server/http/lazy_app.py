"""A door of a server that has others too: opened by its first request, so that nothing of it is imported before."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar

import anyio

from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.server.auth.admission import KEY, Admission
from jaato.server.auth.gate import Form, turn_away
from jaato.server.http.asgi import App, Receive, Refused, Scope, Send

LOG = logger("server")


class Later(ABC):
    """An ASGI application for the owner. Requests are served while `running` is entered, once."""

    what: ClassVar[str]
    """What it is, in a sentence."""
    form: ClassVar[Form]
    """How it words a refusal."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[App]] = []
        self._asked = asyncio.Event()
        self._app: App | None = None

    def admits(self, admission: Admission) -> bool:
        """Whether who came in so may use it."""
        return admission.held is not None and admission.held.role == "owner"

    @abstractmethod
    def check(self) -> None:
        """Raises `Refused` where it cannot be opened at all."""

    @abstractmethod
    def opening(self) -> AbstractAsyncContextManager[App]:
        """The application, while the context is entered. Raises `JaatoError`s, OSError."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            if not self.admits(scope["state"][KEY]):
                raise Refused(403, f"{self.what}'s tools act as the owner; come with the token of an owner.")
            app = self._app or await self._opened()
        except Refused as refused:
            await turn_away(scope, send, refused, type(self).form)
            return
        await app(scope, receive, send)

    async def _opened(self) -> App:
        self.check()
        app: asyncio.Future[App] = asyncio.get_running_loop().create_future()
        self._waiting.append(app)
        self._asked.set()
        try:
            return await app
        except JaatoError as error:
            raise Refused(503, str(error)) from None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the body runs; in the end every client is sent away."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._serve)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _serve(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                async with self.opening() as app:
                    self._app = app
                    self._tell(None)
                    await anyio.sleep_forever()
            except (JaatoError, OSError) as error:
                LOG.warning("The door for %s cannot be opened: %s", self.what, error)
                self._tell(ConfigError(f"The door for {self.what} cannot be opened: {error}"))
            finally:
                self._app = None

    def _tell(self, error: JaatoError | None) -> None:
        for one in self._waiting:
            if one.done():
                continue
            if error is not None:
                one.set_exception(error)
            elif self._app is not None:
                one.set_result(self._app)
        self._waiting.clear()
