"""Searches nobody meant: huge, foreign, empty, many at once; and a hundred tools activated together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, results, say, session
from tests.spec.documented import Documented, schema

from jaato.protocol.specs import ToolSpec
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.tool import Tool


def counting(name: str) -> Tool:
    """A discoverable tool of this name."""
    return Tool(ToolSpec(name, "Count.", {"type": "object", "properties": {}}), lambda arguments, call: 1)


@pytest.fixture
def listed(tmp_path: Path) -> Any:
    """list_tools over a hundred and fifty tools."""
    registry = PluginRegistry(workspace=tmp_path)
    many = [schema(f"count_{n}", category="numbers") for n in range(150)]
    registry.register_plugin(Documented("mine", *many), expose=True)
    registry.expose_tool("introspection")
    return registry.get_exposed_executors()["list_tools"]


@pytest.mark.parametrize(
    "query",
    [
        "x" * 100_000,
        "count " * 20_000,
        "数を数える",
        "считать числа",
        "\ud800",
        "\0",
        "???",
        " ",
        "' OR 1=1",
        "🦒",
    ],
)
def test_any_query_is_answered(listed: Any, query: str) -> None:
    """Of any length, language or bytes, in an answer of bounded size; what fits nothing says so and names the categories."""
    found = listed({"query": query})
    [result] = found["results"]
    assert len(result["query"]) <= 200
    assert len(result["tools"]) <= 20
    if "count" not in query:
        assert "No tool fits" in result["note"]
        assert "numbers" in result["categories"]


def test_a_query_of_nothing_lists_the_categories(listed: Any) -> None:
    """An empty query and an empty list of queries are no query."""
    nothing: list[dict[str, Any]] = [{}, {"query": ""}, {"queries": []}]
    for arguments in nothing:
        assert listed(arguments)["categories"]


def test_many_queries_at_once_are_bounded(listed: Any) -> None:
    """Sixteen queries are answered, each on its own."""
    found = listed({"queries": [f"count {n}" for n in range(100)], "limit": 2})
    assert [row["query"] for row in found["results"]] == [f"count {n}" for n in range(16)]
    assert all(len(row["tools"]) == 2 for row in found["results"])


def test_an_unknown_category_names_those_there_are(listed: Any) -> None:
    """It has no tools, and the answer says which categories have."""
    found = listed({"category": "cooking"})
    assert (found["tool_count"], found["tools"]) == (0, [])
    assert "numbers" in found["categories"]


def test_a_hundred_tools_are_activated_at_once(tmp_path: Path) -> None:
    """All of them can be called from then on, each name once, and those unknown are named."""

    async def main() -> None:
        names = [f"count_{n}" for n in range(100)]
        tools = [counting(name) for name in names]
        script = [call("get_tool_schemas", names=[*names, *names, "nowhere"]), call("count_99"), say("done")]
        async with session(tmp_path, script, tools) as live:
            await live.post("go")
            opened, used = results(live)
            assert opened.structured["activated"] == names
            assert len(opened.structured["schemas"]) == 100
            assert opened.structured["not_found"] == ["nowhere"]
            assert used.ok

    anyio.run(main)
