"""Who carries out the calls of registered tools: each kind of handler checked when it is put, and called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from msgspec import UNSET

from jaato.protocol.specs import Access, ToolSpec
from jaato.server.registry.registered.entry_points import EntryPoints
from jaato.server.registry.registered.types import Entry, EntryPoint, Handler, McpTool, Webhook
from jaato.server.registry.registered.webhook import Post, secrets_in
from jaato.settings import Settings
from jaato.tools.network.addresses import AllowedHosts
from jaato.tools.network.webhooks import key_of
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.tool import Tool

if TYPE_CHECKING:
    from jaato.server.registry.registered.mcp import Servers

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
        from jaato.tools.remote.directory import source_context

        context = source_context(self._workspace, self._settings.environ, self._settings)
        sandbox = sandbox_for(self._workspace, self._settings, self._state_dir)
        return Servers(Directory(replace(context, state_dir=self._state_dir), sandbox=sandbox))

    async def check(self, handler: Handler) -> None:
        """Raise `Invalid` for what can be no handler, `Forbidden` for one that the operator has not allowed."""
        match handler:
            case Webhook():
                await self._post.check(handler)
            case McpTool():
                await anyio.to_thread.run_sync(lambda: self._servers.check(handler))
            case EntryPoint():
                await anyio.to_thread.run_sync(self._entry_points.check, handler)

    def refuse(self, handler: Handler) -> None:
        """Raise `Forbidden` or `Invalid` for a kept handler that is not allowed any more. Imports, asks and starts
        nothing."""
        if isinstance(handler, EntryPoint):
            self._entry_points.refuse(handler)

    def tool(self, entry: Entry) -> Tool:
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


def source_of(entry: Entry) -> dict[str, Any]:
    """What is said of a tool's source beside where it is served: what it was put with, and of its handler the kind alone.
    Each change has a revision of its own, so that its definition has a tag of its own."""
    given = entry.tool.source
    said = {"name": given} if isinstance(given, str) else {} if given is UNSET else dict(given)
    kind = {Webhook: "webhook", McpTool: "mcp", EntryPoint: "entry_point"}[type(entry.handler)]
    return {**said, "handler": kind, "revision": entry.revision}
