"""The plugin `introspection`: `list_tools` and `get_tool_schemas`: how the model finds and activates tools."""

from __future__ import annotations

from typing import Annotated, Any

import anyio.to_thread

from jaato.abc.plugin import Plugin
from jaato.errors import InvalidArguments
from jaato.protocol.specs import ToolSpec
from jaato.tools.call import Call
from jaato.tools.catalog import CATEGORY_TEXTS, Catalog
from jaato.tools.remote.refresh import connect_unvisited, load_schemas, refresh_tools
from jaato.tools.search.ranking import Access, access_by, rank_tools, row_of, search_all
from jaato.tools.tool import Tool, tool

PAGE = 20
MAX_PAGE = 200
FIRST_LIST_S = 5.0
"""How long the first search waits for MCP servers that have never run to list their tools."""
MAX_GUESSED = 10
"""Unknown names for which similar ones are looked up."""


class IntrospectionPlugin(Plugin):
    """Discovery of tools, and their activation."""

    name = "introspection"

    def catalog(self, call: Call) -> Catalog:
        """Every tool that the call's session may use; without a session, every tool that is known."""
        session = call.services.get("session")
        catalog: Catalog = self.host.service("catalog") if session is None else session.catalog
        return catalog

    @tool(category="system", access="read", core=True)
    async def list_tools(
        self,
        category: str | None = None,
        query: str | None = None,
        queries: Annotated[list[str] | None, "one per step of the task"] = None,
        verbose: bool = False,
        limit: int = PAGE,
        cursor: str | None = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Find more tools. Without arguments: the categories. Say what each step needs in `queries`, then pass the
        names to get_tool_schemas."""
        limit = max(1, min(limit, MAX_PAGE))
        start = read_cursor(cursor)
        missing: dict[str, str] = {}
        if start == 0:
            missing = await connect_unvisited(self.catalog(call), FIRST_LIST_S)
            await refresh_tools(self.catalog(call))
        asked = [*([query] if query else []), *(queries or [])]
        if asked:
            catalog = self.catalog(call)
            hits = await anyio.to_thread.run_sync(search_all, catalog, asked, start + limit + 1)
            result = rank_tools(
                catalog, asked, self._access(call), hits=hits, limit=limit, start=start, verbose=verbose
            )
        elif category is not None:
            result = self._category(category, limit, start, call, verbose)
        else:
            result = self._categories(limit, start, call)
        starting = [name for name, failure in missing.items() if not failure]
        failed = {name: failure for name, failure in missing.items() if failure}
        return (
            result
            | ({"starting": starting} if starting else {})
            | ({"servers_without_tools": failed} if failed else {})
        )

    def _categories(self, limit: int, start: int, call: Call) -> dict[str, Any]:
        rows = [
            {"name": name, "tool_count": count, "description": CATEGORY_TEXTS.get(name, "")}
            for name, count in sorted(self.catalog(call).categories.items())
        ]
        more = {"next_cursor": str(start + limit)} if len(rows) > start + limit else {}
        return more | {
            "categories": rows[start : start + limit],
            "total_tools": len(self.catalog(call)),
            "hint": "list_tools(queries=[…]) ranks tools; get_tool_schemas(names=[…]) activates them.",
        }

    def _category(self, category: str, limit: int, start: int, call: Call, verbose: bool) -> dict[str, Any]:
        known = {name.lower(): name for name in self.catalog(call).categories}
        name = known.get(category.lower())
        if name is None:
            return {"category": category, "tool_count": 0, "tools": [], "categories": sorted(known.values())}
        tools = self.catalog(call).in_category(name)
        access = self._access(call)
        page = [row_of(entry.spec, access, verbose=verbose) for entry in tools[start : start + limit]]
        result: dict[str, Any] = {"category": name, "tool_count": len(tools), "tools": page}
        if len(tools) > start + limit:
            result["next_cursor"] = str(start + limit)
        return result

    def _access(self, call: Call) -> Access:
        """A function that tells whether a call would be allowed; None for each without a session."""
        session = call.services.get("session")
        return access_by(session.gate, self.catalog(call), call) if session is not None else lambda spec: None

    @tool(
        category="system",
        access="read",
        core=True,
        parameters={
            "type": "object",
            "properties": {
                "names": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}
            },
            "required": ["names"],
            "additionalProperties": False,
        },
    )
    async def get_tool_schemas(self, names: list[str] | str, *, call: Call) -> dict[str, Any]:
        """Get the parameters of tools by name and activate them: you can call them from now on."""
        wanted = list(dict.fromkeys([names] if isinstance(names, str) else names))
        if not wanted:
            raise InvalidArguments("Give at least one name.", [("/names", "is empty")])
        if any(self.catalog(call).find(name) is None for name in wanted):
            await refresh_tools(self.catalog(call))
        found: dict[str, Tool] = {}
        missing: list[str] = []
        for name in wanted:
            entry = self.catalog(call).find(name)
            if entry is None:
                missing.append(name)
            else:
                found[entry.tool.name] = entry.tool
        unreachable = {name: str(error) for name, error in (await load_schemas(found.values())).items()}
        for name in unreachable:
            del found[name]
        session = call.services.get("session")
        activated = session.activate(list(found)) if session is not None and found else []
        result: dict[str, Any] = {
            "schemas": [schema_row(entry.spec) for entry in found.values()],
            "activated": activated,
            "not_found": missing,
        }
        if unreachable:
            result["unreachable"] = unreachable
        if not missing:
            return result | {"suggestions": {}}
        similar = [
            await anyio.to_thread.run_sync(self.catalog(call).similar, name) for name in missing[:MAX_GUESSED]
        ]
        near = zip(missing, similar, strict=False)
        return result | {"suggestions": {name: names for name, names in near if names}}


def schema_row(spec: ToolSpec) -> dict[str, Any]:
    """A tool with its whole schema."""
    row: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description,
        "category": spec.category,
        "parameters": spec.parameters,
    }
    return row | {"examples": spec.examples} if spec.examples else row


def read_cursor(cursor: str | None) -> int:
    """Where a page begins; raises `InvalidArguments` for a cursor that is not ours."""
    if cursor is None or cursor == "":
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:
        raise InvalidArguments(
            "cursor: pass on the next_cursor of the last answer.", [("/cursor", "is not ours")]
        )
    return int(cursor)
