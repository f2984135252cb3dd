"""Handlers: who carries out the calls of registered tools, a webhook, an entry point, or a tool of an MCP server."""

from __future__ import annotations

import fnmatch
import importlib
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterable
from functools import cached_property, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from msgspec import UNSET
from msgspec.structs import replace

from jaato.errors import JaatoError, ToolError
from jaato.log import logger
from jaato.protocol.specs import Access, ToolSpec
from jaato.server.registry.registered.definition import (
    EntryPoint,
    Handler,
    HandlerForbidden,
    InvalidDefinition,
    McpTool,
    StoredTool,
    Webhook,
)
from jaato.server.registry.registered.webhook import Post, secrets_in
from jaato.settings import Settings
from jaato.tools.call import Call
from jaato.tools.network.addresses import AllowedHosts
from jaato.tools.network.webhooks import key_of
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.tool import Tool, tool_from

if TYPE_CHECKING:
    from jaato.server.registry.registered.mcp import Servers

LOG = logger("server.registry")
TARGET = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)", re.ASCII)
MAX_TARGET_CHARS = 300


class EntryPoints:
    """The functions that may be called: those whose `package.module:function` one of the patterns covers. Nothing is
    imported from the workspace, nor from the directory of the process, which whoever works there can write to."""

    def __init__(self, allowed: Iterable[str], workspace: Path) -> None:
        self._allowed = tuple(allowed)
        self._workspace = workspace.resolve()
        self._made: dict[str, Tool] = {}

    def check(self, handler: EntryPoint) -> None:
        """Raise `InvalidDefinition` for what names no function that can be a tool, `HandlerForbidden` for one that is not allowed. The
        module is imported."""
        self.refuse(handler)
        try:
            self.tool(handler.target)
        except ToolError as error:
            raise InvalidDefinition([("/handler/target", str(error).rstrip("."))]) from None

    def refuse(self, handler: EntryPoint) -> None:
        """Raise `InvalidDefinition` for what names no function, `HandlerForbidden` for one that is not allowed."""
        if len(handler.target) > MAX_TARGET_CHARS or not TARGET.fullmatch(handler.target):
            raise InvalidDefinition([("/handler/target", "is written package.module:function")])
        if not any(fnmatch.fnmatchcase(handler.target, pattern) for pattern in self._allowed):
            raise HandlerForbidden(
                f"The entry point {handler.target} is not allowed here; the operator can allow it: "
                f"jaato registry serve --allow-entry-point '{handler.target}'."
            )

    def call(self, handler: EntryPoint, arguments: dict[str, Any], call: Call) -> Any:
        """Call the function, in a worker's thread; of an asynchronous one that gives what is to be awaited. Raises
        `ToolError`s, and what the function raises."""
        return self.tool(handler.target).run(arguments, call)

    def tool(self, target: str) -> Tool:
        """The function as a tool, imported once. Raises `ToolError`."""
        found = self._made.get(target)
        if found is None:
            found = self._made[target] = self._load(target)
        return found

    def _load(self, target: str) -> Tool:
        parts = TARGET.fullmatch(target)
        assert parts is not None
        try:
            self._refuse_own(parts["module"])
            function = getattr(importlib.import_module(parts["module"]), parts["name"], None)
            if isinstance(function, Tool):
                return function
            if not callable(function):
                raise ToolError(f"there is no function {target}")
            return tool_from(function)
        except JaatoError as error:
            raise ToolError(f"The entry point {target}: {error}") from None
        except (Exception, SystemExit):  # the module's own code runs here
            LOG.exception("The entry point %s cannot be loaded", target)
            raise ToolError(
                f"The entry point {target} cannot be loaded; the registry's log says why."
            ) from None

    def _refuse_own(self, module: str) -> None:
        """Raise `ToolError` where a module, or a package above it, would come from the workspace. Only packages that may
        be imported are, on the way."""
        names = module.split(".")
        for end in range(1, len(names) + 1):
            name = ".".join(names[:end])
            try:
                spec = importlib.util.find_spec(name)
            except ValueError:
                spec = None
            if spec is None:
                raise ToolError(f"there is no module {name}")
            for place in locations_of(spec):
                if self._is_own(place, top=end == 1):
                    raise ToolError(
                        f"{name} is in the workspace or the directory of the process; it has to be installed"
                    )

    def _is_own(self, place: Path, *, top: bool) -> bool:
        installed = [
            Path(sys.prefix).resolve(),
            *(Path(sysconfig.get_path(one)) for one in ("purelib", "platlib")),
        ]
        if top and place.parent == Path.cwd() and not any(place.parent == one for one in installed):
            return True
        if not place.is_relative_to(self._workspace):
            return False
        return not any(place.is_relative_to(one) and one.is_relative_to(self._workspace) for one in installed)


def locations_of(spec: ModuleSpec) -> list[Path]:
    """Where a module is: its file, the directories of a package. None for one that is built in."""
    found = [Path(place) for place in spec.submodule_search_locations or ()]
    if not found and spec.origin is not None and spec.has_location:
        found.append(Path(spec.origin))
    return [place.resolve() for place in found]


KEY = "registered-webhook-key"
DOMAIN = "registered"


class Handlers:
    """What handlers work with. Nothing of MCP is loaded before a tool needs it."""

    def __init__(
        self, settings: Settings, workspace: Path, state_dir: Path, allowed: Iterable[str], secrets: Redactor
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._workspace = workspace
        self._state_dir = state_dir
        hosts = AllowedHosts.of(settings["allow_hosts"])
        self._post = Post(hosts, settings.environ, partial(key_of, state_dir / KEY))
        self._entry_points = EntryPoints(allowed, workspace)

    @cached_property
    def _servers(self) -> Servers:
        from jaato.plugins.mcp.directory import Directory
        from jaato.runtime.plugins.setup import sandbox_for
        from jaato.server.registry.registered.mcp import Servers
        from jaato.tools.remote.sources import source_context

        context = source_context(self._workspace, self._settings.environ, self._settings)
        sandbox = sandbox_for(self._workspace, self._settings, self._state_dir)
        return Servers(Directory(replace(context, state_dir=self._state_dir), sandbox=sandbox))

    async def check(self, handler: Handler) -> None:
        """Raise `InvalidDefinition` for what can be no handler, `HandlerForbidden` for one that the operator has not allowed."""
        match handler:
            case Webhook():
                await self._post.check(handler)
            case McpTool():
                await anyio.to_thread.run_sync(lambda: self._servers.check(handler))
            case EntryPoint():
                await anyio.to_thread.run_sync(self._entry_points.check, handler)

    def refuse(self, handler: Handler) -> None:
        """Raise `HandlerForbidden` or `InvalidDefinition` for a kept handler that is not allowed any more. Imports, asks and starts
        nothing."""
        if isinstance(handler, EntryPoint):
            self._entry_points.refuse(handler)

    def tool(self, entry: StoredTool) -> Tool:
        """A kept tool as one that can be called."""
        given, handler = entry.tool, entry.handler
        if isinstance(handler, Webhook):
            for place, value in secrets_in(handler):
                self._secrets.add(place, value)  # wherever a handler says it again, it is masked
        spec = ToolSpec(
            name=entry.name,
            description=given.description,
            parameters=given.parameters,
            category="registry",
            access=self._access(handler),
        )
        return Tool(
            spec=spec,
            run=partial(self._run, entry.name, handler),
            is_async=not isinstance(handler, EntryPoint),
            plugin=DOMAIN,
            checked=given.parameters,
            timeout_s=handler.timeout_s,
            version=given.version,
            returns=None if given.returns is UNSET else given.returns,
            tags=() if given.tags is UNSET else tuple(given.tags),
            source=source_of(entry),
        )

    def _access(self, handler: Handler) -> Access:
        match handler:
            case Webhook():
                return "network"
            case McpTool():
                return self._servers.access(handler)
            case EntryPoint():
                return "execute"

    def _run(self, name: str, handler: Handler, arguments: dict[str, Any], call: Any) -> Any:
        match handler:
            case Webhook():
                return self._post.call(name, handler, arguments, call)
            case McpTool():
                return self._servers.call(handler, arguments, call)
            case EntryPoint():
                return self._entry_points.call(handler, arguments, call)

    def shutdown(self) -> None:
        """Let go of the MCP servers that calls have started."""
        if "_servers" in self.__dict__:
            self._servers.leave()


def source_of(entry: StoredTool) -> dict[str, Any]:
    """The source of a tool as it is shown: what it was put with, and of its handler the kind alone.
    Each change has a revision of its own, so that its definition has a tag of its own."""
    given = entry.tool.source
    message = {"name": given} if isinstance(given, str) else {} if given is UNSET else dict(given)
    kind = {Webhook: "webhook", McpTool: "mcp", EntryPoint: "entry_point"}[type(entry.handler)]
    return {**message, "handler": kind, "revision": entry.revision}
