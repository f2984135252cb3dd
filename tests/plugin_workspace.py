"""A workspace with the file tools and one plugin that goes on between calls, on one loop or on several."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from jaato import settings
from jaato.abc.plugin import Plugin
from jaato.plugins.files.plugin import FilesPlugin
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call, no_output
from jaato.tools.cancel import CancelToken
from jaato.tools.catalog import Catalog
from jaato.tools.filesystem.containment import Roots
from jaato.tools.processes.sandbox.sandbox import Sandbox
from jaato.tools.tool import tools_of


class Bench:
    """One plugin at work, beside the file tools that write for it. `close` it."""

    def __init__(
        self,
        kind: type[Plugin],
        workspace: Path,
        config: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        workspace.mkdir(parents=True, exist_ok=True)
        self.workspace = workspace.resolve()
        self.config: Mapping[str, Any] = config or {}
        self.blobs: list[bytes] = []
        self.catalog = Catalog()
        plain = {"PATH": settings.environment()["PATH"], "HOME": str(workspace)}
        self.services: dict[str, Any] = {
            "environ": dict(environ or plain),
            "roots": Roots(self.workspace),
            "catalog": self.catalog,
        }
        self.services["sandbox"] = Sandbox(self.workspace, environ=self.services["environ"])
        files = FilesPlugin(self)
        self.catalog.add(tools_of(files, files.name))
        self.plugin: Any = kind(self)
        self.catalog.add(tools_of(self.plugin, kind.name))

    def service(self, name: str) -> Any:
        """What the runtime lends."""
        return self.services[name]

    async def go(
        self,
        name: str,
        /,
        *,
        output: Callable[[str], None] = no_output,
        token: CancelToken | None = None,
        session: str = "",
        services: Mapping[str, Any] | None = None,
        access: SandboxAccess | None = None,
        **arguments: Any,
    ) -> Any:
        """Call a tool: checked against its schema first."""
        found = self.catalog.find(name)
        assert found is not None
        issues = found.tool.issues(arguments)
        assert not issues, issues
        call = Call(
            "c1",
            name,
            arguments,
            session_id=session,
            workspace=self.workspace,
            output=output,
            keep=self._keep,
            token=token or CancelToken(),
            services=services or {},
            access=access,
        )
        value = found.tool.run(arguments, call)
        return await value if found.tool.is_async else value

    def ask(self, name: str, /, **options: Any) -> Any:
        """The same, on a loop of its own."""

        async def main() -> Any:
            return await self.go(name, **options)

        return anyio.run(main)

    def close(self) -> None:
        """Shut the plugin down."""
        self.plugin.shutdown()
        self.services["sandbox"].close()

    def _keep(self, data: bytes | Path) -> str:
        assert isinstance(data, bytes)
        self.blobs.append(data)
        return f"result:{len(self.blobs)}"


def gone(carrying: Callable[[], object], within_s: float = 60.0) -> bool:
    """Whether what is looked for disappears in time."""
    until = time.monotonic() + within_s
    while carrying() and time.monotonic() < until:
        time.sleep(0.05)
    return not carrying()


def python(code: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """A program that uses jaato as this test does."""
    path = ":".join(entry for entry in sys.path if entry)
    environ = {"PYTHONPATH": path, "PATH": settings.environment()["PATH"], **options.pop("env", {})}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
        **options,
    )
