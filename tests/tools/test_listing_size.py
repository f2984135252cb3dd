"""`list_tools` and `get_tool_schemas` over five thousand tools, and with whatever is asked of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, results, say, session

from jaato.protocol.specs import ToolSpec
from jaato.runtime.plugins.adapter import Toolset
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.tool import Tool

COUNT = 5000


def many(path: Path) -> tuple[PluginRegistry, dict[str, Any]]:
    """A registry with five thousand tools in one category, and its executors."""
    registry = PluginRegistry(workspace=path)
    tools = [
        Tool(
            ToolSpec(
                f"measure_{n}",
                f"Measure the level of tank {n}. Use it for tanks.",
                {"type": "object"},
                "tanks",
                examples=[{"tank": n}],
            ),
            lambda arguments, call: "full",
        )
        for n in range(COUNT)
    ]
    registry.add_toolset(Toolset("tanks", None, tools=tools))
    registry.expose_tool("introspection")
    return registry, registry.get_exposed_executors()


def test_five_thousand_tools_are_listed_in_pages(tmp_path: Path) -> None:
    """No page has more than two hundred rows, whatever is asked for, and the pages join to every tool once."""
    registry, ask = many(tmp_path)
    seen: list[str] = []
    cursor = None
    for _ in range(COUNT):
        page = ask["list_tools"]({"category": "TANKS", "limit": 10_000, "cursor": cursor})
        assert len(page["tools"]) <= 200
        seen += [row["name"] for row in page["tools"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert seen == [f"measure_{n}" for n in range(COUNT)]
    registry.shutdown()


@pytest.mark.parametrize("query", ["tank " * 20_000, "貯水槽の水位", "  ", "\x00", "?!"])
def test_any_request_is_answered_in_bounds(tmp_path: Path, query: str) -> None:
    """A request of 100 kB, in another language or of nothing has an answer of a page; its echo is bounded too."""
    registry, ask = many(tmp_path)
    (entry,) = ask["list_tools"]({"queries": [query]})["results"]
    assert len(entry["tools"]) <= 20
    assert len(entry["query"]) <= 200
    registry.shutdown()


def test_a_weak_best_says_so_and_shows_the_categories(tmp_path: Path) -> None:
    """What no tool serves has a note and the categories; what one serves, alone or in steps, has neither."""
    registry, ask = many(tmp_path)
    queries = ["a poem on autumn", "measure tank 17", "measure the level of tank 17 and then list my tools"]
    weak, good, steps = ask["list_tools"]({"queries": queries})["results"]
    assert "No tool fits well" in weak["note"]
    assert weak["categories"] == ["system", "tanks"]
    assert "note" not in good
    assert "note" not in steps
    registry.shutdown()


def test_examples_come_with_the_schema(tmp_path: Path) -> None:
    """The third level of detail: get_tool_schemas shows the examples of a tool that has some."""
    registry, ask = many(tmp_path)
    found = ask["get_tool_schemas"]({"names": ["measure_7", "list_tools"]})["schemas"]
    assert found[0]["examples"] == [{"tank": 7}]
    assert "examples" not in found[1]
    registry.shutdown()


def test_a_hundred_tools_are_activated_at_once(tmp_path: Path) -> None:
    """One call activates all of them, in order; a second activates none again; unknown names are said, once each."""

    async def main() -> None:
        names = [f"count_{n}" for n in range(100)]
        tools = [
            Tool(ToolSpec(name, "Counts.", {"type": "object"}, "counting"), lambda arguments, call: "one")
            for name in [*names, "another"]
        ]
        script = [
            call("get_tool_schemas", names=[*names, *names, "nobody"]),
            call("get_tool_schemas", names=names),
            say("done"),
        ]
        async with session(tmp_path, script, tools=tools) as live:
            await live.post("go")
            first, second = (result.structured for result in results(live))
            assert first["activated"] == names
            assert first["not_found"] == ["nobody"]
            assert second["activated"] == []
            assert [one.name for one in live.model.request().tools][-100:] == names

    anyio.run(main)
