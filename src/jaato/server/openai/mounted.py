"""The API mounted in the server; its modules are imported by the first request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.server.http.asgi import Receive, Refused, Scope, Send

if TYPE_CHECKING:
    from jaato.server.openai.application import Application
    from jaato.server.sessions.hub import Hub

PATHS = ("/v1/chat/completions", "/v1/models")


def is_here(path: str) -> bool:
    """Whether a path is one of the API."""
    return path in PATHS or path.startswith(f"{PATHS[1]}/")


def openai_error(scope: Scope, refused: Refused) -> Any:
    """The body of a refusal, as the API has it."""
    from jaato.server.openai.errors import error_body

    return error_body(scope, refused)


class Mounted:
    """The ASGI application of the API; `workspace` is where its agents work, unless a request names another directory."""

    def __init__(self, hub: Hub, workspace: Path | None) -> None:
        self._hub = hub
        self._workspace = workspace
        self._app: Application | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._app is None:
            from jaato.server.openai.application import Application

            self._app = Application(self._hub, self._workspace)
        await self._app(scope, receive, send)

    def stop(self) -> None:
        """End the requests that are being answered."""
        if self._app is not None:
            self._app.stop()
