"""The plugin `lsp`: code intelligence tools, and diagnostics after edits."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from jaato.abc.plugin import Host, Plugin
from jaato.errors import ToolError
from jaato.plugins.lsp import requests
from jaato.plugins.lsp.client import SEVERITIES
from jaato.plugins.lsp.languages import load_languages
from jaato.plugins.lsp.pool import IDLE_S, Pool, sandbox_profile
from jaato.plugins.lsp.requests import Position
from jaato.plugins.lsp.workspace_edits import EditRefused, NewText, new_texts, preview_diffs
from jaato.tools.call import Call
from jaato.tools.host_services import environ_of, roots_of
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.loop_thread import LoopThread
from jaato.tools.processes.sandbox.sandbox import sandbox_of
from jaato.tools.tool import tool

CODE = "code"
AFTER_WRITE_S = 2.0
MAX_CHECKED = 10
WRITING = (
    *("writeNewFile", "updateFile", "multiFileEdit", "findAndReplace", "apply_patch"),
    *("undoFileChange", "restoreFile", "lsp_rename_symbol", "lsp_get_code_actions"),
)
"""Tools whose results include diagnostics of running servers for the files they wrote."""
Symbol = Annotated[str | None, "name of the symbol"]
Line = Annotated[int | None, "line of the symbol, from 1; without it the first line that has it"]
Column = Annotated[int | None, "only if the line has it twice"]
Offset = Annotated[int, msgspec.Meta(ge=0)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]
Operation = Literal["definition", "type_definition", "implementation", "declaration", "references", "hover"]


class LspPlugin(Plugin):
    """Language servers, one for each language and directory, shared by all sessions.

    Configuration: `language_servers` as the setting, `idle_s` until an unused one ends, `sandbox` their profile (read-only).
    """

    name: ClassVar[str] = "lsp"
    enriches_results: ClassVar[tuple[str, ...]] = WRITING

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._roots = roots_of(host)
        self._loop_thread = LoopThread("jaato-lsp")
        self._launcher = WardenClient()
        named, idle_s = (
            load_languages(self._get_configured_servers()),
            float(host.config.get("idle_s", IDLE_S)),
        )
        self._sandbox = sandbox_of(host)
        confined = self._sandbox, sandbox_profile(host.config)
        self._pool = Pool(self._launcher, self._roots, environ_of(host), named, idle_s, *confined)

    @tool(category=CODE, access="read", aliases={"lsp_query": {"operation": "kind"}})
    async def lsp_goto_definition(
        self,
        path: str,
        symbol: Symbol = None,
        line: Line = None,
        column: Column = None,
        kind: Operation = "definition",
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Find where a symbol used in a file is defined, exactly, across files and libraries. Returns path, line and
        source line."""
        if kind == "hover":
            return await self.lsp_hover(path, symbol, line, column, call=call)
        return await self._request_locations(kind, Position(path, symbol, line, column), 0, 50, call)

    @tool(category=CODE, access="read")
    async def lsp_find_references(
        self,
        path: str,
        symbol: Symbol = None,
        line: Line = None,
        column: Column = None,
        *,
        offset: Offset = 0,
        limit: Limit = 50,
        call: Call,
    ) -> dict[str, Any]:
        """Find every use of a function, class or variable in the project, its definition included. Returns paths, lines
        and source lines; exact where grep guesses."""
        return await self._request_locations(
            "references", Position(path, symbol, line, column), offset, limit, call
        )

    @tool(category=CODE, access="read")
    async def lsp_hover(
        self, path: str, symbol: Symbol = None, line: Line = None, column: Column = None, *, call: Call
    ) -> dict[str, Any]:
        """Tell a symbol's type, signature and documentation where it is used."""
        where = Position(path, symbol, line, column)

        async def send() -> dict[str, Any]:
            _, answer = await requests.request_at(self._pool, where, "hover")
            text = requests.hover_text(answer)
            return (
                {"hover": text} if text else {"hover": None, "note": "The server says nothing of this place."}
            )

        return await self._loop_thread.run(send(), call.token)

    @tool(category=CODE, access="read")
    async def lsp_get_diagnostics(
        self,
        path: str,
        severity: Annotated[Literal["error", "warning", "hint"], "the least that is listed"] = "warning",
        *,
        offset: Offset = 0,
        limit: Limit = 50,
        call: Call,
    ) -> dict[str, Any]:
        """Check one file for errors and warnings: types, undefined names, syntax, unused imports, as its language server
        sees it now. Returns line, severity, message and source line."""

        async def send() -> dict[str, Any]:
            project = await self._pool.project_of(path)
            found, lines = await requests.request_diagnostics(project, path)
            least = SEVERITIES.index(severity)
            rows = requests.diagnostic_rows(found, lines)
            kept = [row for row in rows if SEVERITIES.index(row["severity"]) <= least]
            return {"path": path, **requests.paginate("diagnostics", kept, offset, limit)}

        return await self._loop_thread.run(send(), call.token)

    @tool(category=CODE, access="read")
    async def lsp_document_symbols(
        self, path: str, *, offset: Offset = 0, limit: Limit = 200, call: Call
    ) -> dict[str, Any]:
        """Outline one source file: its classes, functions, methods and variables with their lines."""

        async def send() -> dict[str, Any]:
            project = await self._pool.project_of(path)
            uri, _ = project.open(path)
            answer = await requests.send_request(project, "symbols", {"textDocument": {"uri": uri}})
            return {"path": path, **requests.paginate("symbols", requests.symbol_rows(answer), offset, limit)}

        return await self._loop_thread.run(send(), call.token)

    @tool(category=CODE, access="read")
    async def lsp_workspace_symbols(
        self,
        query: str,
        language: Annotated[str | None, "such as python; without it the servers that run"] = None,
        *,
        offset: Offset = 0,
        limit: Limit = 50,
        call: Call,
    ) -> dict[str, Any]:
        """Find classes, functions and variables of the whole project by part of their name. Returns kind, path and
        line."""

        async def send() -> dict[str, Any]:
            projects = [await self._pool.project_for(language)] if language else self._pool.running()
            if not projects:
                raise ToolError("No language server runs yet. Name the language, such as python.")
            rows: list[dict[str, Any]] = []
            for project in projects:
                project.refresh()
                found = await requests.send_request(project, "workspace_symbols", {"query": query})
                rows += requests.workspace_symbol_rows(project, found)
            return requests.paginate("symbols", rows, offset, limit)

        return await self._loop_thread.run(send(), call.token)

    @tool(category=CODE, access="write")
    async def lsp_rename_symbol(
        self,
        path: str,
        new_name: str,
        symbol: Symbol = None,
        line: Line = None,
        column: Column = None,
        *,
        preview: Annotated[bool, "show the diffs, change nothing"] = False,
        call: Call,
    ) -> dict[str, Any]:
        """Rename a function, class or variable everywhere in the project, by its meaning and not by text; all files or
        none. undoFileChange reverts a file. Returns the diffs."""
        where = Position(path, symbol, line, column)
        asking = requests.request_rename(self._pool, self._roots, where, new_name)
        found, left = await self._loop_thread.run(asking, call.token)
        value = await self._apply_changes(found, call, only_shown=preview)
        return {**value, "same_name_unchanged_in": left} if left else value

    @tool(category=CODE, access="write")
    async def lsp_get_code_actions(
        self,
        path: str,
        line: Annotated[int, msgspec.Meta(ge=1)],
        end_line: Annotated[int | None, "last line, if there are several"] = None,
        kind: Annotated[str | None, "such as quickfix, refactor or source.organizeImports"] = None,
        *,
        apply: Annotated[str | None, "title of the action whose edit is to be made"] = None,
        preview: Annotated[bool, "with apply: show the diffs, change nothing"] = False,
        call: Call,
    ) -> dict[str, Any]:
        """List the fixes and refactorings a language server offers for lines of a file; with apply, make the edit of one.
        Returns titles and kinds, or the diffs."""
        last = max(line, end_line or line)

        async def send() -> dict[str, Any] | list[NewText]:
            project, found = await requests.request_actions(self._pool, path, line, last, kind)
            if apply is None:
                return {"path": path, "actions": [action_row(one) for one in found]}
            wanted = [one for one in found if one["title"] == apply]
            if not wanted:
                titles = "; ".join(one["title"] for one in found[:20]) or "none"
                raise EditRefused(f"There is no action {apply!r} there. There are: {titles}.")
            return new_texts(await requests.resolve_action(project, wanted[0]), project, self._roots)

        found = await self._loop_thread.run(send(), call.token)
        return (
            found if isinstance(found, dict) else await self._apply_changes(found, call, only_shown=preview)
        )

    def shutdown(self) -> None:
        """End every server and its child processes."""
        self._loop_thread.close()
        self._launcher.close()
        self._sandbox.release()

    async def enrich_result(self, call: Call, value: Any) -> Any:
        """The result of a write with the errors and warnings of the files it wrote, where there are any."""
        if not isinstance(value, dict) or ("backups" not in value and call.name.startswith("lsp_")):
            return value
        if value.get("dry_run") is True or not (paths := list_written_files(value)):
            return value
        found = {path: rows for path, rows in (await self.diagnostics_after(paths)).items() if rows}
        return {**value, "diagnostics": found} if found else value

    async def diagnostics_after(self, paths: list[str]) -> dict[str, list[dict[str, Any]]]:
        """Errors and warnings of files that were just written, by path: only of servers that already run, and only what
        they publish within two seconds. No server is started."""
        if not self._pool.running():
            return {}
        found = await self._loop_thread.run(requests.diagnose_written(self._pool, paths, AFTER_WRITE_S))
        return {
            path: [row for row in rows if row["severity"] in ("error", "warning")][:20]
            for path, rows in found.items()
        }

    async def _request_locations(
        self, what: str, where: Position, offset: int, limit: int, call: Call
    ) -> dict[str, Any]:
        async def send() -> dict[str, Any]:
            more = {"context": {"includeDeclaration": True}} if what == "references" else {}
            project, answer = await requests.request_at(self._pool, where, what, **more)
            return requests.location_page(project, answer, offset, limit)

        return await self._loop_thread.run(send(), call.token)

    async def _apply_changes(self, texts: list[NewText], call: Call, *, only_shown: bool) -> dict[str, Any]:
        """Make the changes as the file tools do, all or none and to be undone; or only show them."""
        shown_diffs = {
            "files": len(texts),
            "edits": sum(one.edits for one in texts),
            "changes": preview_diffs(texts),
        }
        if only_shown:
            return {**shown_diffs, "note": "Nothing was changed. Call again without preview to apply."}
        if not texts:
            return {**shown_diffs, "note": "The files have this content already."}
        found = self.host.service("catalog").find("multiFileEdit")
        if found is None:
            raise ToolError("Edits are made by the plugin file_edit, which is not exposed here. Use preview.")
        edits = [
            {"path": one.path, "old": one.old, "new": one.new}
            if one.old
            else {"path": one.path, "new_content": one.new}
            for one in texts
        ]
        made = await asyncio.to_thread(found.tool.run, {"edits": edits}, call)
        return {**shown_diffs, "backups": {one["path"]: one.get("backup_id") for one in made["files"]}}

    def _get_configured_servers(self) -> list[str]:
        """The user's list of servers."""
        given = self.host.config.get("language_servers")
        if given is None:
            try:
                given = self.host.service("settings")["language_servers"]
            except KeyError:
                given = []
        return [str(entry) for entry in given]


def list_written_files(value: dict[str, Any]) -> list[str]:
    """The files that a result lists as written."""
    rows = value.get("files") if isinstance(value.get("files"), list) else value.get("changes")
    named = [value, *(rows if isinstance(rows, list) else [])]
    paths = [row["path"] for row in named if isinstance(row, dict) and isinstance(row.get("path"), str)]
    return list(dict.fromkeys(paths))[:MAX_CHECKED]


def action_row(action: dict[str, Any]) -> dict[str, Any]:
    """An action as it is listed; `command` where it is none that can be applied."""
    row: dict[str, Any] = {"title": action["title"][:300]}
    if isinstance(action.get("kind"), str):
        row["kind"] = action["kind"][:100]
    if isinstance(action.get("command"), str):
        row["command"] = True
    if isinstance(action.get("disabled"), dict):
        row["disabled"] = str(action["disabled"].get("reason"))[:300]
    return row
