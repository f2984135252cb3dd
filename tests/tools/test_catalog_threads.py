"""One catalogue searched and changed by several threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from bench.search import QUERIES, tools

from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.call import Call
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool

KNOWN = [Tool(spec, lambda arguments, call: "") for spec in tools(800)]
ROUNDS = 20


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(*works: Callable[[], object]) -> list[BaseException]:
    """Do each in a thread of its own; what they raised."""
    raised: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_searches_while_tools_come_and_go() -> None:
    """Every search answers with tools that were known while it ran; afterwards all are found again."""
    catalog = Catalog()
    catalog.add(KNOWN)

    def look() -> None:
        for _ in range(ROUNDS):
            for query in QUERIES:
                assert len(catalog.search(query, 5)) == 5

    def change() -> None:
        for start in range(0, ROUNDS * 36, 36):
            part = KNOWN[start : start + 40]
            catalog.remove(part)
            catalog.search(QUERIES[0])
            catalog.add(part)
            catalog.search(QUERIES[1])

    assert at_once(look, look, look, change) == []
    for tool in KNOWN[::40]:
        assert catalog.search(tool.name, 1)[0][0] is tool.spec


def test_what_was_added_during_a_search_is_found_after_it() -> None:
    """A tool that comes while another thread builds the index is in the next answer."""
    for _ in range(ROUNDS):
        catalog = Catalog()
        catalog.add(KNOWN[:-1])
        assert at_once(lambda: catalog.search("x"), lambda: catalog.add(KNOWN[-1:])) == []  # noqa: B023
        assert KNOWN[-1].spec in [spec for spec, _ in catalog.search(KNOWN[-1].spec.description, 800)]


def test_a_search_holds_up_nobody_else(tmp_path: Path) -> None:
    """While `list_tools` and the names like an unknown one are looked up, the loop they were asked on goes on."""
    registry = PluginRegistry(workspace=tmp_path)
    registry.expose_tool("introspection")
    found: list[Any] = []

    async def ask(name: str, arguments: dict[str, Any]) -> None:
        entry = registry.catalog.find(name)
        assert entry is not None
        found.append(await entry.tool.run(arguments, Call("c", name, arguments)))

    async def main() -> None:
        with registry.catalog._reading:
            async with anyio.create_task_group() as group:
                group.start_soon(ask, "list_tools", {"queries": ["find tools"] * 20})
                group.start_soon(ask, "get_tool_schemas", {"names": ["list_tolls"]})
                await anyio.sleep(0.05)
                assert found == []
                registry.catalog._reading.release()
            registry.catalog._reading.acquire()

    anyio.run(main)
    assert len(found) == 2
    listed, schemas = sorted(found, key=lambda answer: "schemas" in answer)
    assert len(listed["results"]) == 16
    assert schemas["suggestions"]["list_tolls"][0] == "list_tools"
