"""Asks a server for all that it offers, page by page, never without end."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from jaato.plugins.mcp.journal import ServerLog
from jaato.plugins.mcp.manifest import Manifest, PromptEntry, ResourceEntry, ToolEntry, bounded
from jaato.plugins.mcp.session import Session

MAX_PAGES = 100
MAX_LISTED = 5_000
MAX_PARAMS: Any = types.PaginatedRequestParams


async def paged(
    what: str, ask: Callable[[Any], Awaitable[Any]], log: ServerLog
) -> tuple[list[Any], int | None]:
    """All entries of a list, and for how many milliseconds they hold; a list without end is cut, and noted."""
    found: list[Any] = []
    seen: set[str] = set()
    cursor: str | None = None
    ttl: int | None = None
    for _ in range(MAX_PAGES):
        page = await ask(MAX_PARAMS(cursor=cursor) if cursor else None)
        found += getattr(page, what)
        ttl = getattr(page, "ttl_ms", None) if ttl is None else ttl
        cursor = page.next_cursor
        if not cursor:
            return found, ttl
        if cursor in seen or len(found) > MAX_LISTED:
            break
        seen.add(cursor)
    log.note(f"lists {what.replace('_', ' ')} without end; the first {len(found[:MAX_LISTED])} are used")
    return found[:MAX_LISTED], ttl


async def survey(session: Session, digest: str, log: ServerLog) -> Manifest:
    """What the server offers now. A list it cannot give is empty, and noted; raises `MCPError` when it ends."""
    able = session.server_capabilities or types.ServerCapabilities()
    ttls: list[int | None] = []

    async def listed(what: str, has: Any, ask: Callable[..., Awaitable[Any]]) -> list[Any]:
        if has is None:
            return []
        try:
            found, ttl = await paged(what, lambda params: ask(params=params), log)
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise
            log.note(f"did not list its {what.replace('_', ' ')}: {error.message[:300]}")
            return []
        except (ValueError, RuntimeError) as error:
            log.note(
                f"gave a list of {what.replace('_', ' ')} that is not as the protocol has it: {first_line(error)}"
            )
            return []
        ttls.append(ttl)
        return found

    tools = await listed("tools", able.tools, session.list_tools)
    prompts = await listed("prompts", able.prompts, session.list_prompts)
    resources = await listed("resources", able.resources, session.list_resources)
    templates = await listed("resource_templates", able.resources, session.list_resource_templates)
    info = session.server_info
    known = [ttl for ttl in ttls if ttl is not None]
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
            ttl_s=min(known) / 1000 if known else None,
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
