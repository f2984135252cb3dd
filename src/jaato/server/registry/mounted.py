"""The registry of a server that has other doors too: the domains of the settings, for the owner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.admission import Admission
from jaato.server.auth.gate import Form
from jaato.server.http.asgi import App, Refused, Scope
from jaato.server.http.lazy_app import Later

PATH = "/v1/tools"


def worded(scope: Scope, problem: Refused) -> Any:
    """A refusal in the contract's words."""
    from jaato.server.registry.application import refused

    return refused(scope, problem)


class Mounted(Later):
    """An ASGI application: the routes of the registry. Requests are served while `running` is entered, once."""

    what = "the registry"
    form: ClassVar[Form] = staticmethod(worded)

    def __init__(self, workspace: Path, base: SessionOptions) -> None:
        super().__init__()
        self._described = replace(base, workspace=workspace, plugins=(), tools=(), prompt="")

    def admits(self, admission: Admission) -> bool:
        """The owner, and who has a key of the registry's."""
        return admission.entrance is not None or super().admits(admission)

    def check(self) -> None:
        """There is nothing that it lacks."""

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[App]:
        """The application, while the context is entered."""
        from jaato.server.registry.application import Application
        from jaato.server.registry.standalone import looked_after, open_registry

        door = open_registry(self._described)
        try:
            async with looked_after(door.upkeep()):
                yield Application(door)
        finally:
            await door.callers.close()
