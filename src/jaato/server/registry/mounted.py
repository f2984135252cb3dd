"""The registry mounted in the daemon, opened lazily by the first request: the domains of the settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.gate import ErrorFormat
from jaato.server.auth.identity import Admission
from jaato.server.http.asgi import App, Refused, Scope
from jaato.server.http.lazy_app import LazyApp

PATH = "/v1/tools"


def make_refusal_body(scope: Scope, problem: Refused) -> Any:
    """The body of a refusal as the contract has it."""
    from jaato.server.registry.application import refuse

    return refuse(scope, problem)


class Mounted(LazyApp):
    """The lazily opened ASGI application of the registry. Requests are served while `running` is entered, once."""

    what = "the registry"
    form: ClassVar[ErrorFormat] = staticmethod(make_refusal_body)

    def __init__(self, workspace: Path, base: SessionOptions) -> None:
        super().__init__()
        self._options = replace(base, workspace=workspace, plugins=(), tools=(), prompt="")

    def admits(self, admission: Admission) -> bool:
        """Whether the request has the owner's token or a key of the registry."""
        return admission.key is not None or super().admits(admission)

    def check(self) -> None:
        """Nothing is required."""

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[App]:
        """The application, while the context is entered."""
        from jaato.server.registry.application import Application, open_registry, run_maintenance

        registry = open_registry(self._options)
        try:
            async with run_maintenance(registry.maintain()):
                yield Application(registry)
        finally:
            await registry.callers.close()
