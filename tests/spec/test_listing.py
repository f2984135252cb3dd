"""`list_tools`: categories, one category, ranked queries, pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, results, say, session
from tests.spec.documented import Documented, schema

from jaato.plugins import BUILTIN
from jaato.runtime.plugins.registry import PluginRegistry


def listing(tmp_path: Path) -> Any:
    """list_tools over forty numbered tools in one category and thirty categories of one."""
    registry = PluginRegistry(workspace=tmp_path)
    many = [schema(f"count_{n}", category="numbers") for n in range(40)]
    registry.register_plugin(
        Documented("mine", *many, *[schema(f"solo_{n}", category=f"c{n:02}") for n in range(30)]), expose=True
    )
    registry.expose_tool("introspection")
    return registry.get_exposed_executors()["list_tools"]


@pytest.mark.spec("C1", "Results of the two introspection tools", "C1.introspection.1")
def test_without_arguments_the_categories_are_listed(tmp_path: Path) -> None:
    """Each with name, tool_count and description; the total and a hint beside them."""
    found = listing(tmp_path)({"limit": 200})
    assert set(found) == {"categories", "total_tools", "hint"}
    assert found["total_tools"] == 72
    assert set(found["categories"][0]) == {"name", "tool_count", "description"}
    assert "get_tool_schemas" in found["hint"]
    assert sum(row["tool_count"] for row in found["categories"]) == 72


@pytest.mark.spec("C1", "Results of the two introspection tools", "C1.introspection.4")
@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ({}, lambda found: found["categories"]),
        ({"category": "numbers"}, lambda found: found["tools"]),
        ({"query": "count"}, lambda found: found["results"][0]["tools"]),
    ],
)
def test_limit_and_cursor_page_every_form(tmp_path: Path, arguments: dict[str, Any], rows: Any) -> None:
    """Pages of seven join to the whole, nothing twice; the last has no cursor; a foreign cursor is refused."""
    ask = listing(tmp_path)
    whole = [row["name"] for row in rows(ask({**arguments, "limit": 200}))]
    joined: list[str] = []
    cursor = None
    for _ in range(20):
        page = ask({**arguments, "limit": 7, "cursor": cursor})
        assert len(rows(page)) <= 7
        joined += [row["name"] for row in rows(page)]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert joined == whole
    assert len(set(joined)) == len(joined) > 7
    with pytest.raises(Exception, match="cursor"):
        ask({**arguments, "cursor": "-1"})


@pytest.mark.spec("C1", "Results of the two introspection tools", "C1.introspection.2")
@pytest.mark.spec("S0", "Introspection Mechanism", "S0.introspection.1")
def test_a_category_lists_first_sentences_of_at_most_a_hundred_characters(tmp_path: Path) -> None:
    """Descriptions are cut to their first sentence; verbose gives all of it; an unknown category says what exists."""
    long = "Does " + "very " * 60 + "much. And more."
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Documented("mine", schema("plain", category="x"))
    plugin.schemas.append(type(plugin.schemas[0])("wordy", long, {"type": "object"}, "x"))
    plugin.schemas.append(type(plugin.schemas[0])("two", "First one. Second one.", {"type": "object"}, "x"))
    plugin.executors |= {"wordy": str, "two": str}
    registry.register_plugin(plugin, expose=True)
    registry.expose_tool("introspection")
    ask = registry.get_exposed_executors()["list_tools"]
    found = ask({"category": "x"})
    assert (found["category"], found["tool_count"]) == ("x", 3)
    texts = {row["name"]: row["description"] for row in found["tools"]}
    assert texts["plain"] == "What plain does."
    assert texts["two"] == "First one."
    assert len(texts["wordy"]) <= 100
    assert texts["wordy"].endswith("…")
    verbose = {row["name"]: row["description"] for row in ask({"category": "x", "verbose": True})["tools"]}
    assert verbose["wordy"] == long
    assert ask({"category": "nope"})["categories"] == ["system", "x"]
    registry.shutdown()


@pytest.mark.spec("C1", "Results of the two introspection tools", "C1.introspection.3")
def test_queries_are_ranked_with_category_access_and_score(tmp_path: Path) -> None:
    """Each query has its ranked tools; access says whether a call is allowed, asked about or denied."""
    from jaato.tools.permissions.gate import Policy

    async def main() -> None:
        script = [
            call(
                "list_tools", queries=["search text in files", "remove a file", "write a new file"], limit=30
            ),
            say("done"),
        ]
        policy = Policy.of({"blacklist": {"tools": ["removeFile"]}})
        async with session(tmp_path, script, plugins=list(BUILTIN), policy=policy) as live:
            await live.post("go")
            entries = results(live)[0].structured["results"]
            assert [entry["query"] for entry in entries][1] == "remove a file"
            best = [entry["tools"][0] for entry in entries]
            assert [row["name"] for row in best] == ["grep_content", "removeFile", "writeNewFile"]
            assert [row["access"] for row in best] == ["allowed", "denied", "asks"]
            assert best[0]["category"] == "search"
            scores = [row["score"] for row in entries[0]["tools"]]
            assert scores == sorted(scores, reverse=True)

    anyio.run(main)
