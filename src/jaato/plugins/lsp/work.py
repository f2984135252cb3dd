"""What the tools ask of a server, on the loop the servers live on."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from jaato.errors import ToolError
from jaato.plugins.lsp import answers
from jaato.plugins.lsp.edits import EditRefused, NewText, new_texts
from jaato.plugins.lsp.pool import Pool
from jaato.plugins.lsp.positions import Lines
from jaato.plugins.lsp.project import Project
from jaato.tools.paths import Roots

DIAGNOSED_S = 10.0
QUIET_S = 0.3
OTHERS_S = 1.5
MAX_ACTIONS = 50
MAX_LEFT = 20
OF_ALL = ("references", "implementation", "rename", "workspace_symbols")
"""What is asked of the whole project."""
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


class Where:
    """A place in a file as a model names it: lines and columns from 1."""

    def __init__(self, path: str, symbol: str | None, line: int | None, column: int | None) -> None:
        self.path, self.symbol, self.line, self.column = path, symbol, line, column


async def at(pool: Pool, where: Where, what: str, **more: Any) -> tuple[Project, Any]:
    """What the server of a file says of a place. Raises `ToolError`s."""
    project = await pool.project_of(where.path)
    uri, lines = project.open(where.path, now=what == "rename")
    position = lines.place(where.symbol, where.line, where.column)
    if what in OF_ALL:
        for mention in project.show_mentions(lines.word(position)):
            if mention not in project.server.diagnosed:
                await project.server.news_of(mention, 0, DIAGNOSED_S)
    return project, await asked(project, what, {"textDocument": {"uri": uri}, "position": position, **more})


async def asked(project: Project, what: str, params: dict[str, Any]) -> Any:
    """One request, if the server can answer it. Raises `ToolError`s."""
    method, ability = METHODS[what]
    if project.server.capabilities.get(ability) in (None, False):
        program = project.server.way.argv[0].rsplit("/", 1)[-1]
        raise ToolError(
            f"{program} cannot be asked for {what.replace('_', ' ')}. Use grep_content or ast_search."
        )
    if what in OF_ALL:
        await acquainted(project)
    return await project.server.ask(method, params)


async def acquainted(project: Project) -> None:
    """Wait, once, until a new server has had its time to look at the project: it answers before that, of one file.

    It has when it says by itself what is wrong in a file that it was shown.
    """
    server = project.server
    if not server.acquainted and not server.capabilities.get("diagnosticProvider"):
        uri = project.opened()
        if uri is not None and uri not in server.diagnosed:
            await server.news_of(uri, 0, DIAGNOSED_S)
    server.acquainted = True


async def diagnostics(
    project: Project, path: str, within_s: float = DIAGNOSED_S
) -> tuple[list[dict[str, Any]], Lines]:
    """What is wrong in a file as it is now, and its text. Raises `ToolError`s."""
    server = project.server
    before = dict(server.told)
    known, changes = project.version(path), project.changes
    uri, lines = project.open(path, now=True)
    if server.capabilities.get("diagnosticProvider"):
        answer = await server.ask(
            "textDocument/diagnostic", {"textDocument": {"uri": uri}}, max(within_s, 1.0)
        )
        items = answer.get("items") if isinstance(answer, dict) else None
        found = items if isinstance(items, list) else []
        return [one for one in found if isinstance(one, dict)], lines
    if known != project.version(path) or uri not in server.diagnosed:
        count = before.get(uri, 0)
        while await server.news_of(uri, count, within_s if count == before.get(uri, 0) else QUIET_S):
            count = server.told[uri]
        if count == before.get(uri, 0):
            raise ToolError(
                f"The language server has said nothing of {path!r} within {within_s:g} s. Try again."
            )
    elif changes != project.changes:  # what others have changed may matter here
        count = before.get(uri, 0)
        while await server.news_of(uri, count, OTHERS_S if count == before.get(uri, 0) else QUIET_S):
            count = server.told[uri]
    return server.diagnosed.get(uri, []), lines


async def rename(pool: Pool, roots: Roots, where: Where, new_name: str) -> tuple[list[NewText], list[str]]:
    """The files as a renaming would leave them, and those that have the name and stay as they are.

    Raises `ToolError`s.
    """
    project, edit = await at(pool, where, "rename", newName=new_name)
    texts = new_texts(edit, project, roots) if edit is not None else []
    if not texts:
        raise EditRefused(
            "Nothing can be renamed there. Name the symbol and the line it is defined or used on."
        )
    _, text = project.read(where.path)
    lines = Lines(text)
    changed = {one.path for one in texts}
    found = project.mentions(lines.word(lines.place(where.symbol, where.line, where.column)))
    shown = (project.shown_path(path.as_uri())[0] for path, _ in found)
    return texts, list(itertools.islice((path for path in shown if path not in changed), MAX_LEFT))


async def actions(
    pool: Pool, path: str, first: int, last: int, kind: str | None
) -> tuple[Project, list[dict[str, Any]]]:
    """What the server offers to do about these lines (from 1). Raises `ToolError`s."""
    project = await pool.project_of(path)
    found, lines = await diagnostics(project, path)
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
    answer = await asked(
        project, "actions", {"textDocument": {"uri": uri}, "range": span, "context": context}
    )
    given = answer if isinstance(answer, list) else []
    return project, [one for one in given if isinstance(one, dict) and isinstance(one.get("title"), str)][
        :MAX_ACTIONS
    ]


def row_line(diagnostic: dict[str, Any]) -> int:
    """The line of a diagnostic, from 1; 0 where it has none."""
    rows = answers.diagnostic_rows([diagnostic])
    return int(rows[0]["line"]) if rows else 0


async def edit_of(project: Project, action: dict[str, Any]) -> Any:
    """The edit of an action, asked for where it is not there yet. Raises `EditRefused`."""
    provider = project.server.capabilities.get("codeActionProvider")
    resolves = isinstance(provider, dict) and provider.get("resolveProvider")
    reason = action.get("disabled")
    if isinstance(reason, dict):
        raise EditRefused(f"{action['title']!r} cannot be done: {str(reason.get('reason'))[:300]}.")
    if action.get("edit") is None and resolves and not isinstance(action.get("command"), str):
        resolved = await project.server.ask("codeAction/resolve", action)
        action = resolved if isinstance(resolved, dict) else action
    if action.get("edit") is None:
        raise EditRefused(
            f"{action.get('title')!r} is a command the server would run, not an edit; commands of servers are not run."
        )
    return action["edit"]


async def fresh(pool: Pool, paths: list[str], within_s: float) -> dict[str, list[dict[str, Any]]]:
    """What is wrong in files that were just written, as far as running servers say it in time."""
    found: dict[str, list[dict[str, Any]]] = {}

    async def one(path: str, project: Project) -> None:
        try:
            async with asyncio.timeout(within_s):
                rows, lines = await diagnostics(project, path, within_s)
        except (ToolError, TimeoutError):
            return
        found[path] = answers.diagnostic_rows(rows, lines)

    running = [(path, project) for path in paths if (project := pool.running_for(path)) is not None]
    await asyncio.gather(*(one(path, project) for path, project in running))
    return found
