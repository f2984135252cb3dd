"""Discovery of what an MCP server offers: its tools, prompts and resources, listed page by page and bounded."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from jaato.plugins.mcp.manifest import Manifest, PromptEntry, ResourceEntry, ToolEntry, bounded
from jaato.plugins.mcp.server_log import ServerLog

MAX_PAGES = 100
MAX_LISTED = 5_000
MAX_ODD = 100


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of a list; `odd` says what was wrong with those that are left out."""

    entries: list[Any]
    cursor: str | None
    ttl_ms: float | None
    odd: list[str]


ListPage = Callable[[Any, str, type[Any]], Awaitable[Page]]
"""Sends a list request and gives its page: the request, the name of the list, the type of its entries."""


@dataclass(slots=True)
class Survey:
    """What is gathered of one server."""

    list_page: ListPage
    log: ServerLog
    dropped: list[str] = field(default_factory=list)
    ttls_ms: list[float] = field(default_factory=list)

    async def all(self, what: str, request: Any, kind: type[Any]) -> list[Any]:
        """All entries of a list; one without end is cut, one that cannot be had is empty, and that is noted.

        Raises `MCPError` when the connection ends.
        """
        try:
            return await self._pages(what, request, kind)
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise
            self.log.note(f"did not list its {what}: {error.message[:300]}")
        except ValueError as error:
            self.log.note(f"gave a list that is none: {first_line(error)}")
        self.dropped.append(f"all {what}: the list could not be had")
        return []

    async def _pages(self, what: str, request: Any, kind: type[Any]) -> list[Any]:
        found: list[Any] = []
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self.list_page(request(params=params), what, kind)
            found += page.entries
            self.dropped += page.odd[: MAX_ODD - len(self.dropped)]
            if page.ttl_ms is not None:
                self.ttls_ms.append(page.ttl_ms)
            cursor = page.cursor
            if not cursor:
                return found
            if cursor in seen or len(found) > MAX_LISTED:
                break
            seen.add(cursor)
        self.dropped.append(f"{what} beyond the first {len(found):,}: the list has no end")
        return found[:MAX_LISTED]


async def survey(session: ClientSession, list_page: ListPage, digest: str, log: ServerLog) -> Manifest:
    """What the server offers now. A list it cannot give is empty, and noted; raises `MCPError` when it ends."""
    able = session.server_capabilities or types.ServerCapabilities()
    of = Survey(list_page, log)
    tools = await of.all("tools", types.ListToolsRequest, types.Tool) if able.tools else []
    prompts = await of.all("prompts", types.ListPromptsRequest, types.Prompt) if able.prompts else []
    resources: list[Any] = []
    templates: list[Any] = []
    if able.resources:
        resources = await of.all("resources", types.ListResourcesRequest, types.Resource)
        request = types.ListResourceTemplatesRequest
        templates = await of.all("resourceTemplates", request, types.ResourceTemplate)
    info = session.server_info
    return bounded(
        Manifest(
            digest=digest,
            server_info=plain(info),
            protocol_version=session.protocol_version or "",
            instructions=session.instructions or "",
            capabilities=able.model_dump(by_alias=True, mode="json", exclude_none=True),
            tools=[tool_entry(tool) for tool in tools],
            prompts=[prompt_entry(prompt) for prompt in prompts],
            resources=[*map(resource_entry, resources), *map(template_entry, templates)],
            fetched_at=time.time(),
            ttl_s=min(of.ttls_ms) / 1000 if of.ttls_ms else None,
            dropped=of.dropped,
        )
    )


def first_line(error: Exception) -> str:
    """An error of the SDK's, shortened."""
    return " ".join(str(error).split())[:300]


def plain(value: Any) -> dict[str, Any]:
    """One of the SDK's objects as JSON data; empty for None."""
    return {} if value is None else dict(value.model_dump(by_alias=True, mode="json", exclude_none=True))


def tool_entry(tool: types.Tool) -> ToolEntry:
    """A tool as it is kept."""
    return ToolEntry(
        name=tool.name,
        title=tool.title or "",
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=plain(tool.annotations),
        execution=plain(getattr(tool, "execution", None)),
    )


def prompt_entry(prompt: types.Prompt) -> PromptEntry:
    """A prompt as it is kept."""
    return PromptEntry(
        name=prompt.name,
        title=prompt.title or "",
        description=prompt.description or "",
        arguments=[plain(argument) for argument in prompt.arguments or []],
    )


def resource_entry(resource: types.Resource) -> ResourceEntry:
    """A resource as it is kept."""
    return ResourceEntry(
        uri=str(resource.uri),
        name=resource.name,
        title=resource.title or "",
        description=resource.description or "",
        mime_type=resource.mime_type or "",
        size_bytes=resource.size,
        annotations=plain(resource.annotations),
    )


def template_entry(template: types.ResourceTemplate) -> ResourceEntry:
    """A template of resources as it is kept."""
    return ResourceEntry(
        uri=template.uri_template,
        name=template.name,
        title=template.title or "",
        description=template.description or "",
        mime_type=template.mime_type or "",
        annotations=plain(template.annotations),
        template=True,
    )
