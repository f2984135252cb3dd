"""An ASGI application that is started lazily, by its first request, so that nothing of it is imported before."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar

import anyio

from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.server.auth.gate import ErrorFormat, send_refusal
from jaato.server.auth.identity import KEY, Admission
from jaato.server.http.asgi import App, Receive, Refused, Scope, Send

LOG = logger("server")


class LazyApp(ABC):
    """An ASGI application for the owner. Requests are served while `running` is entered, once."""

    what: ClassVar[str]
    """Its name in error messages."""
    form: ClassVar[ErrorFormat]
    """How its refusals are formatted."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[App]] = []
        self._requested = asyncio.Event()
        self._app: App | None = None

    def admits(self, admission: Admission) -> bool:
        """Whether a client may use it."""
        return admission.identity is not None and admission.identity.role == "owner"

    @abstractmethod
    def check(self) -> None:
        """Raise `Refused` where it cannot be started at all."""

    @abstractmethod
    def opening(self) -> AbstractAsyncContextManager[App]:
        """The application, while the context is entered. Raises `JaatoError`s, OSError."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            if not self.admits(scope["state"][KEY]):
                raise Refused(403, f"The tools of {self.what} act as the owner; use the owner's token.")
            app = self._app or await self._start()
        except Refused as refused:
            await send_refusal(scope, send, refused, type(self).form)
            return
        await app(scope, receive, send)

    async def _start(self) -> App:
        self.check()
        app: asyncio.Future[App] = asyncio.get_running_loop().create_future()
        self._waiting.append(app)
        self._requested.set()
        try:
            return await app
        except JaatoError as error:
            raise Refused(503, str(error)) from None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the body runs; then its open requests are cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._serve)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _serve(self) -> None:
        while True:
            await self._requested.wait()
            self._requested.clear()
            try:
                async with self.opening() as app:
                    self._app = app
                    for future in self._take_waiting():
                        future.set_result(app)
                    await anyio.sleep_forever()
            except (JaatoError, OSError) as error:
                message = f"Cannot start {self.what}: {error}"
                LOG.warning(message)
                for future in self._take_waiting():
                    future.set_exception(ConfigError(message))
            finally:
                self._app = None

    def _take_waiting(self) -> list[asyncio.Future[App]]:
        """The requests that wait for the application and were not given up."""
        waiting, self._waiting = self._waiting, []
        return [future for future in waiting if not future.done()]
