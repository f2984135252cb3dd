"""What is known of servers, as the listing tools show it: bounded, without anything hidden."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from jaato.plugins.mcp.config import ServerConfig, describe_sandbox
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.errors import ServerUnusable
from jaato.plugins.mcp.tools import full_name
from jaato.tools.catalog import wire_name
from jaato.tools.invisible_text import escape_all

if TYPE_CHECKING:
    from jaato.plugins.mcp.pool import SessionServers

MAX_ROWS = 200
MAX_TEXT = 300


def shortened(text: str) -> str:
    """A server's text as one short line with nothing hidden."""
    line = " ".join(escape_all(text[: 4 * MAX_TEXT]).split())
    return line if len(line) <= MAX_TEXT else line[:MAX_TEXT] + "…"


def list_servers(directory: Directory, host: SessionServers) -> dict[str, Any]:
    """Every server in a line, and what is wrong with the configuration."""
    rows = [row_of(directory, host, config) for config in list(directory.sources.values())[:MAX_ROWS]]
    shown: dict[str, Any] = {"servers": rows}
    if directory.problems:
        shown["problems"] = [shortened(str(problem)) for problem in directory.problems[:MAX_ROWS]]
    if not rows:
        shown["hint"] = "No MCP server is configured; the user can add one with `jaato mcp add`."
    return shown


def row_of(directory: Directory, host: SessionServers, config: ServerConfig) -> dict[str, Any]:
    """One server."""
    state, why = host.state(config.name)
    row: dict[str, Any] = {"name": config.name, "state": state, "kind": config.kind, "scope": config.scope}
    if config.kind == "stdio":
        row["sandbox"] = describe_sandbox(config)
    if why:
        row["why"] = shortened(why)
    judged = directory.judgement(config)
    if judged is not None:
        manifest = judged.manifest
        row |= {
            "protocol": manifest.protocol_version,
            "tools": len(manifest.tools),
            "prompts": len(manifest.prompts),
            "resources": len(manifest.resources),
            "seen_s_ago": round(manifest.age_s()),
        }
        if judged.changes:
            row["held_back"] = [shortened(change.why(config.name)) for change in judged.changes[:20]]
        if manifest.dropped:
            row["left_out"] = [shortened(text) for text in manifest.dropped[:20]]
    return row


def describe_server(directory: Directory, host: SessionServers, name: str) -> dict[str, Any]:
    """One server with all that it offers."""
    config = directory.entry(name)
    row = row_of(directory, host, config)
    judged = directory.judgement(config)
    if judged is not None:
        counts = Counter(entry.name for entry in judged.manifest.tools)
        names = [wire_name(full_name(name, one)) for one, times in counts.items() if times == 1]
        row["tool_names"] = names[:MAX_ROWS]
        doubled = [one for one, times in counts.items() if times > 1]
        if doubled:
            row["refused"] = [
                f"two tools are called {shortened(one)!r}, so neither can be called" for one in doubled[:20]
            ]
        if judged.manifest.instructions:
            row["instructions"] = escape_all(judged.manifest.instructions[:2000])
    return row


def chosen(directory: Directory, name: str | None) -> list[ServerConfig]:
    """One server, or all. Raises `ServerUnusable`."""
    return [directory.entry(name)] if name is not None else list(directory.sources.values())


def list_resources(directory: Directory, server: str | None, query: str, limit: int) -> dict[str, Any]:
    """Resources whose URI, name or description has the text."""
    limit = min(max(limit, 1), MAX_ROWS)
    wanted = query[:200].casefold()
    rows: list[dict[str, Any]] = []
    for config in chosen(directory, server):
        judged = directory.judgement(config)
        for entry in judged.manifest.resources if judged is not None else ():
            text = f"{entry.uri}\n{entry.name}\n{entry.title}\n{entry.description}".casefold()
            if wanted in text:
                row: dict[str, Any] = {
                    "server": config.name,
                    "template" if entry.template else "uri": shortened(entry.uri),
                }
                row |= {"name": shortened(entry.title or entry.name)} if entry.title or entry.name else {}
                row |= {"description": shortened(entry.description)} if entry.description else {}
                row |= {"type": shortened(entry.mime_type)} if entry.mime_type else {}
                rows.append(row)
    return counted("resources", rows, limit, server, directory)


def list_prompts(directory: Directory, server: str | None) -> dict[str, Any]:
    """Prompts with their arguments."""
    rows: list[dict[str, Any]] = []
    for config in chosen(directory, server):
        judged = directory.judgement(config)
        for entry in judged.manifest.prompts if judged is not None else ():
            arguments = {
                shortened(str(one.get("name", ""))): shortened(str(one.get("description", "")))
                + (" (required)" if one.get("required") else "")
                for one in entry.arguments[:50]
            }
            told = shortened(entry.description or entry.title)
            rows.append(
                {"server": config.name, "name": entry.name, "description": told, "arguments": arguments}
            )
    return counted("prompts", rows, MAX_ROWS, server, directory)


def counted(
    what: str, rows: list[dict[str, Any]], limit: int, server: str | None, directory: Directory
) -> dict[str, Any]:
    """So many rows, how many there are, and which servers have not been asked."""
    shown: dict[str, Any] = {what: rows[:limit], "total": len(rows)}
    unknown = [one.name for one in chosen(directory, server) if directory.judgement(one) is None]
    if unknown:
        shown["not_asked_yet"] = unknown[:MAX_ROWS]
        shown["hint"] = "mcp_connect asks a server what it offers."
    return shown


def check_prompt(directory: Directory, server: str, name: str) -> None:
    """Raise `ServerUnusable` for a prompt that is held back."""
    judged = directory.judgement(directory.entry(server))
    for change in judged.changes if judged is not None else ():
        if change.kind == "prompt" and change.name == name:
            raise ServerUnusable(change.why(server))
