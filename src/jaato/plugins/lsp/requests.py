"""Requests of the tools to a language server, and its responses as rows for the model."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterable
from typing import Any

from jaato.errors import ToolError
from jaato.plugins.lsp.client import SEVERITIES, SYMBOL_KINDS, ServerFailed
from jaato.plugins.lsp.documents import (
    ServerDocuments,
    TextPositions,
    index_at_unit,
    location_of,
    source_line,
)
from jaato.plugins.lsp.pool import Pool
from jaato.plugins.lsp.workspace_edits import EditRefused, NewText, new_texts
from jaato.tools.filesystem.containment import Roots

MAX_TEXT_CHARS = 8_000
MAX_ROWS = 20_000
MAX_DEPTH = 30


def paginate(name: str, rows: list[dict[str, Any]], offset: int, limit: int) -> dict[str, Any]:
    """One page of rows, with how many there are and where the next begins."""
    shown: dict[str, Any] = {"total": len(rows), name: rows[offset : offset + limit]}
    if offset + limit < len(rows):
        shown["next_offset"] = offset + limit
    return shown


def location_rows(project: ServerDocuments, answer: Any) -> list[tuple[str, bool, dict[str, Any]]]:
    """The places of an answer, each once, in the workspace first: path, whether it may be read, start."""
    given = answer if isinstance(answer, list) else [answer]
    found: dict[tuple[Any, ...], tuple[str, bool, dict[str, Any]]] = {}
    for one in given[:MAX_ROWS]:
        location = location_of(one)
        if location is None:
            continue
        uri, start = location
        path, readable = project.display_path(uri)
        line, unit = start.get("line"), start.get("character")
        if type(line) is int and type(unit) is int:
            found[path, line, unit] = (path, readable, start)
    return sorted(found.values(), key=lambda one: (not one[1], one[0], one[2]["line"], one[2]["character"]))


def location_page(project: ServerDocuments, answer: Any, offset: int, limit: int) -> dict[str, Any]:
    """A page of places, each with its source line."""
    found = location_rows(project, answer)
    cache: dict[str, TextPositions | None] = {}
    rows = []
    for path, readable, start in found[offset : offset + limit]:
        text = source_line(project, path, start["line"], cache) if readable else None
        lines = cache.get(path)
        column = (
            index_at_unit(lines.line(start["line"]), start["character"])
            if lines is not None
            else start["character"]
        )
        row = {"path": path, "line": start["line"] + 1, "column": column + 1}
        rows.append({**row, "text": text} if text is not None else {**row, "outside": True})
    files = len({path for path, _, _ in found})
    shown: dict[str, Any] = {"total": len(found), "files": files, "locations": rows}
    if offset + limit < len(found):
        shown["next_offset"] = offset + limit
    return shown


def hover_text(answer: Any) -> str:
    """The text of a hover, of any of its kinds."""
    contents = answer.get("contents") if isinstance(answer, dict) else None
    parts = contents if isinstance(contents, list) else [contents]
    texts = []
    for part in parts[:20]:
        match part:
            case str() as text:
                texts.append(text)
            case {"language": str(language), "value": str(text)}:
                texts.append(f"```{language}\n{text}\n```")
            case {"value": str(text)}:
                texts.append(text)
    whole = "\n\n".join(text.strip() for text in texts if text.strip())
    return whole if len(whole) <= MAX_TEXT_CHARS else whole[:MAX_TEXT_CHARS] + "\n[… cut …]"


def diagnostic_rows(
    found: Iterable[dict[str, Any]], lines: TextPositions | None = None
) -> list[dict[str, Any]]:
    """Diagnostics as rows, the worst first."""
    rows = []
    for one in found:
        span = one.get("range")
        start = span.get("start") if isinstance(span, dict) else None
        line = start.get("line") if isinstance(start, dict) else None
        if type(line) is not int or not isinstance(one.get("message"), str):
            continue
        number = one.get("severity")
        severity = "error"
        if type(number) is int and 1 <= number <= len(SEVERITIES):
            severity = SEVERITIES[number - 1]
        row = {"line": line + 1, "severity": severity, "message": one["message"][:1_000]}
        code = one.get("code")
        if isinstance(code, str | int):
            row["code"] = str(code)[:100]
        if isinstance(one.get("source"), str):
            row["source"] = one["source"][:100]
        if lines is not None:
            row["text"] = lines.line(line).strip()[:240]
        rows.append(row)
    return sorted(rows, key=lambda row: (SEVERITIES.index(row["severity"]), row["line"]))


def kind_of(number: Any) -> str:
    """The word for a symbol's kind."""
    return SYMBOL_KINDS[number - 1] if type(number) is int and 1 <= number <= len(SYMBOL_KINDS) else "symbol"


def symbol_rows(found: Any, depth: int = 0) -> list[dict[str, Any]]:
    """The symbols of a file in the order of its lines, each with its depth; of both of the protocol's shapes."""
    rows: list[dict[str, Any]] = []
    for one in found if isinstance(found, list) else []:
        match one:
            case {"name": str(name), "selectionRange": {"start": {"line": int(line)}}} | {
                "name": str(name),
                "location": {"range": {"start": {"line": int(line)}}},
            }:
                row: dict[str, Any] = {"name": name[:200], "kind": kind_of(one.get("kind")), "line": line + 1}
                end = one.get("range", {}).get("end", {}) if isinstance(one.get("range"), dict) else {}
                if type(end.get("line")) is int:
                    row["end_line"] = end["line"] + 1
                if depth:
                    row["depth"] = depth
                if isinstance(one.get("containerName"), str) and one["containerName"]:
                    row["in"] = one["containerName"][:200]
                rows.append(row)
                if depth < MAX_DEPTH and len(rows) < MAX_ROWS:
                    rows += symbol_rows(one.get("children"), depth + 1)
        if len(rows) > MAX_ROWS:
            break
    return rows[:MAX_ROWS]


def workspace_symbol_rows(project: ServerDocuments, found: Any) -> list[dict[str, Any]]:
    """The symbols a search found, with where they are."""
    rows = []
    for one in found[:MAX_ROWS] if isinstance(found, list) else []:
        match one:
            case {"name": str(name), "location": {"uri": str(uri)} as location}:
                path, readable = project.display_path(uri)
                row: dict[str, Any] = {"name": name[:200], "kind": kind_of(one.get("kind")), "path": path}
                match location:
                    case {"range": {"start": {"line": int(line)}}}:
                        row["line"] = line + 1
                if isinstance(one.get("containerName"), str) and one["containerName"]:
                    row["in"] = one["containerName"][:200]
                rows.append(row if readable else {**row, "outside": True})
    return rows


DIAGNOSED_S = 10.0
QUIET_S = 0.3
OTHERS_S = 1.5
MAX_ACTIONS = 50
MAX_LEFT = 20
PROJECT_WIDE = ("references", "implementation", "rename", "workspace_symbols")
"""Requests that concern the whole project."""
METHODS = {
    "definition": ("textDocument/definition", "definitionProvider"),
    "type_definition": ("textDocument/typeDefinition", "typeDefinitionProvider"),
    "implementation": ("textDocument/implementation", "implementationProvider"),
    "declaration": ("textDocument/declaration", "declarationProvider"),
    "references": ("textDocument/references", "referencesProvider"),
    "hover": ("textDocument/hover", "hoverProvider"),
    "rename": ("textDocument/rename", "renameProvider"),
    "symbols": ("textDocument/documentSymbol", "documentSymbolProvider"),
    "workspace_symbols": ("workspace/symbol", "workspaceSymbolProvider"),
    "actions": ("textDocument/codeAction", "codeActionProvider"),
}


class Position:
    """A place in a file as a model names it: lines and columns from 1."""

    def __init__(self, path: str, symbol: str | None, line: int | None, column: int | None) -> None:
        self.path, self.symbol, self.line, self.column = path, symbol, line, column


async def request_at(pool: Pool, where: Position, what: str, **more: Any) -> tuple[ServerDocuments, Any]:
    """Send a request for a position in a file. Raises `ToolError`s."""
    project = await pool.project_of(where.path)
    uri, lines = project.open(where.path, now=what == "rename")
    position = lines.find_symbol(where.symbol, where.line, where.column)
    if what in PROJECT_WIDE:
        for mention in project.open_mentions(lines.word_at(position)):
            if mention not in project.server.diagnosed:
                await project.server.wait_for_diagnostics(mention, 0, DIAGNOSED_S)
    return project, await send_request(
        project, what, {"textDocument": {"uri": uri}, "position": position, **more}
    )


async def send_request(project: ServerDocuments, what: str, params: dict[str, Any]) -> Any:
    """One request, if the server can answer it. Raises `ToolError`s."""
    method, ability = METHODS[what]
    if project.server.capabilities.get(ability) in (None, False):
        program = project.server.command.argv[0].rsplit("/", 1)[-1]
        raise ToolError(
            f"{program} cannot be asked for {what.replace('_', ' ')}. Use grep_content or ast_search."
        )
    if what in PROJECT_WIDE:
        await wait_for_indexing(project)
    return await project.server.request(method, params)


async def wait_for_indexing(project: ServerDocuments) -> None:
    """Wait, once, until a new server has indexed the project: before that it answers for one file only.

    Published diagnostics of an open file show that it has.
    """
    server = project.server
    if not server.indexing_done and not server.capabilities.get("diagnosticProvider"):
        uri = project.any_open_uri()
        if uri is not None and uri not in server.diagnosed:
            await server.wait_for_diagnostics(uri, 0, DIAGNOSED_S)
    server.indexing_done = True


async def request_diagnostics(
    project: ServerDocuments, path: str, within_s: float = DIAGNOSED_S
) -> tuple[list[dict[str, Any]], TextPositions]:
    """What is wrong in a file as it is now, and its text. Raises `ToolError`s."""
    server = project.server
    before = dict(server.diagnostic_counts)
    known, changes = project.version(path), project.changes
    uri, lines = project.open(path, now=True)
    if server.capabilities.get("diagnosticProvider"):
        answer = await server.request(
            "textDocument/diagnostic", {"textDocument": {"uri": uri}}, max(within_s, 1.0)
        )
        items = answer.get("items") if isinstance(answer, dict) else None
        found = items if isinstance(items, list) else []
        return [one for one in found if isinstance(one, dict)], lines
    if known != project.version(path) or uri not in server.diagnosed:
        count = before.get(uri, 0)
        while await server.wait_for_diagnostics(
            uri, count, within_s if count == before.get(uri, 0) else QUIET_S
        ):
            count = server.diagnostic_counts[uri]
        if count == before.get(uri, 0):
            raise ToolError(
                f"The language server has reported nothing about {path!r} within {within_s:g} s. Try again."
            )
    elif changes != project.changes:  # what others have changed may matter here
        method, capability = METHODS["symbols"]
        if server.capabilities.get(capability):  # a busy server answers once it has processed the changes
            with contextlib.suppress(ServerFailed):  # an error is an answer too
                await server.request(method, {"textDocument": {"uri": uri}}, max(within_s, 1.0))
        count = before.get(uri, 0)
        while await server.wait_for_diagnostics(
            uri, count, OTHERS_S if count == before.get(uri, 0) else QUIET_S
        ):
            count = server.diagnostic_counts[uri]
    return server.diagnosed.get(uri, []), lines


async def request_rename(
    pool: Pool, roots: Roots, where: Position, new_name: str
) -> tuple[list[NewText], list[str]]:
    """The files as a renaming would leave them, and those that have the name and stay as they are.

    Raises `ToolError`s.
    """
    project, edit = await request_at(pool, where, "rename", newName=new_name)
    texts = new_texts(edit, project, roots) if edit is not None else []
    if not texts:
        raise EditRefused(
            "Nothing can be renamed there. Name the symbol and the line it is defined or used on."
        )
    _, text = project.read(where.path)
    lines = TextPositions(text)
    changed = {one.path for one in texts}
    found = project.find_mentions(lines.word_at(lines.find_symbol(where.symbol, where.line, where.column)))
    shown = (project.display_path(path.as_uri())[0] for path, _ in found)
    return texts, list(itertools.islice((path for path in shown if path not in changed), MAX_LEFT))


async def request_actions(
    pool: Pool, path: str, first: int, last: int, kind: str | None
) -> tuple[ServerDocuments, list[dict[str, Any]]]:
    """What the server offers to do about these lines (from 1). Raises `ToolError`s."""
    project = await pool.project_of(path)
    found, lines = await request_diagnostics(project, path)
    uri, _ = project.open(path)
    end = lines.line(last - 1)
    span = {
        "start": {"line": first - 1, "character": 0},
        "end": {"line": last - 1, "character": len(end.encode("utf-16-le", "surrogatepass")) // 2},
    }
    touching = [one for one in found if first <= row_line(one) <= last]
    context: dict[str, Any] = {"diagnostics": touching, "triggerKind": 1}
    if kind is not None:
        context["only"] = [kind]
    answer = await send_request(
        project, "actions", {"textDocument": {"uri": uri}, "range": span, "context": context}
    )
    given = answer if isinstance(answer, list) else []
    return project, [one for one in given if isinstance(one, dict) and isinstance(one.get("title"), str)][
        :MAX_ACTIONS
    ]


def row_line(diagnostic: dict[str, Any]) -> int:
    """The line of a diagnostic, from 1; 0 where it has none."""
    rows = diagnostic_rows([diagnostic])
    return int(rows[0]["line"]) if rows else 0


async def resolve_action(project: ServerDocuments, action: dict[str, Any]) -> Any:
    """The edit of an action, asked for where it is not there yet. Raises `EditRefused`."""
    provider = project.server.capabilities.get("codeActionProvider")
    resolves = isinstance(provider, dict) and provider.get("resolveProvider")
    reason = action.get("disabled")
    if isinstance(reason, dict):
        raise EditRefused(f"{action['title']!r} cannot be done: {str(reason.get('reason'))[:300]}.")
    if action.get("edit") is None and resolves and not isinstance(action.get("command"), str):
        resolved = await project.server.request("codeAction/resolve", action)
        action = resolved if isinstance(resolved, dict) else action
    if action.get("edit") is None:
        raise EditRefused(
            f"{action.get('title')!r} is a command the server would run, not an edit; commands of servers are not run."
        )
    return action["edit"]


async def diagnose_written(pool: Pool, paths: list[str], within_s: float) -> dict[str, list[dict[str, Any]]]:
    """Diagnostics of files that were just written, as far as running servers publish them in time."""
    found: dict[str, list[dict[str, Any]]] = {}

    async def one(path: str, project: ServerDocuments) -> None:
        try:
            async with asyncio.timeout(within_s):
                rows, lines = await request_diagnostics(project, path, within_s)
        except (ToolError, TimeoutError):
            return
        found[path] = diagnostic_rows(rows, lines)

    running = [(path, project) for path in paths if (project := pool.running_for(path)) is not None]
    await asyncio.gather(*(one(path, project) for path, project in running))
    return found
