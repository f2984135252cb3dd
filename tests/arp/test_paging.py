"""Lists that come in pages, and several definitions at once: taken where a registry offers them, within bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.arp.serving import body, definition, shop
from tests.arp.using import configure, directory, offered, plugins
from tests.registry.opened import made, opened

from jaato.errors import JaatoError
from jaato.plugins.arp.remote_registry import next_of

PAGE = "/v1/tools?cursor="


def views(*names: str) -> list[dict[str, str]]:
    """The views of these tools."""
    return [{"name": name, "description": "x"} for name in names]


def test_the_link_to_the_next_page() -> None:
    """A link is found among others, its relation in any case and among others too; what is no link is none."""
    for link, target in (
        ('</v1/tools?cursor=a>; rel="next"', "/v1/tools?cursor=a"),
        ("<a>;rel=next", "a"),
        ('<a>; rel=prev, <b>; title="x, <c>; rel=next"; REL="last NEXT"', "b"),
        ('<a>; rel="nextish"', ""),
        ("a; rel=next", ""),
        ("<a; rel=next", ""),
        ("", ""),
        ("<a>" + ";" * 5_000 + " " * 2_000, ""),
        ('<a>; rel="next"' + " " * 9_000, ""),
    ):
        assert next_of(link) == target, link


def test_a_list_in_pages(tmp_path: Path) -> None:
    """All pages together are the list, asked for again as a whole; of pages without end the first are taken, and a page
    that is none, or elsewhere, is no part of any list: the one that is known stays."""
    with shop() as it:
        configure(tmp_path, it=it.url + "/v1/tools/")
        it.lies["GET /v1/tools"] = body(views("a", "b"), Link=f'<{PAGE}1>; rel="next"')
        it.lies[f"GET {PAGE}1"] = body(views("c"), Link=f'<{it.url}{PAGE}2>; rel="next"')
        it.lies[f"GET {PAGE}2"] = body(views("d"), ETag='"x"')

        async def main() -> None:
            source = directory(tmp_path).get_handle("it").source
            for changed in (True, False):
                assert await source.fetch_list() is changed
                assert [view.name for view in source.kept.views] == ["a", "b", "c", "d"]
                assert "if-none-match" not in it.seen[-3].headers
            hostile: tuple[tuple[Any, str], ...] = (
                (body(b"oops", "500 Oops"), "HTTP 500 in place of a page"),
                (body({"no": "list"}), "cannot be used"),
                (body(b"", "404 Not Found"), "HTTP 404"),
                (body(b"[" + b" " * 8_000_000 + b"]"), "did not keep to HTTP|bytes"),
                *(
                    (body(views("e"), Link=f'<{link}>; rel="next"'), "which is not followed")
                    for link in (
                        "http://169.254.169.254/v1/tools",
                        "//evil.example/v1/tools",
                        "/v1/other",
                        "ftp://x",
                        "../..",
                    )
                ),
            )
            for lie, words in hostile:
                it.lies[f"GET {PAGE}2"] = lie
                with pytest.raises(JaatoError, match=words):
                    await source.fetch_list()
                assert len(source.kept.views) == 4
            before = len(it.seen)
            it.lies[f"GET {PAGE}2"] = body(views("d"), Link=f'<{PAGE}1>; rel="next"')
            await source.fetch_list()
            assert len(it.seen) - before == 3
            it.lies["GET"] = lambda handler: body([], Link=f'<{PAGE}{len(it.seen)}>; rel="next"')(handler)
            it.lies[f"GET {PAGE}2"] = it.lies["GET"]
            before = len(it.seen)
            await source.fetch_list()
            assert len(it.seen) - before < 210

        anyio.run(main)


def test_definitions_at_once(tmp_path: Path) -> None:
    """Several definitions are asked for in one request where a registry can do that; one that cannot is asked for each,
    and no more for several; what is wrong with one says nothing about the others."""
    asked: list[Any] = []

    def batch(handler: Any) -> None:
        names = it.seen[-1].body["names"]
        asked.append(names)
        answers = {name: {"definition": it.tools[name]} for name in names}
        answers["b"] = {"error": {"schema_version": "0.1.0", "code": "x", "message": "y", "retryable": False}}
        answers["c"] = {"definition": definition("another")}
        body({"schema_version": "0.1.0", "results": [answers[name] for name in names]})(handler)

    async def main() -> None:
        definitions = directory(tmp_path).get_handle("it").definitions
        found = await definitions.get_all(["a", "b", "c", "d"])
        assert len(it.asked("POST")) == 1
        assert len(it.asked("GET")) == 4
        assert {name for name, known in found.items() if not isinstance(known, JaatoError)} == {
            "a",
            "b",
            "c",
            "d",
        }
        definitions = directory(tmp_path / "other").get_handle("it").definitions
        it.lies["POST /v1/tools:batchGet"] = batch
        found = await definitions.get_all(["a", "b", "c", "d"])
        assert asked == [["a", "b", "c", "d"]]
        assert it.seen[-1].path == "/v1/tools/b"
        assert {name for name, known in found.items() if not isinstance(known, JaatoError)} == {"a", "b", "d"}
        assert "it is that of 'another'" in str(found["c"])
        before = len(it.seen)
        assert len(await definitions.get_all(["a", "d"])) == 2
        assert len(it.seen) == before
        for lie in (
            body({"results": []}),
            body(b"[", "200 OK"),
            body([1]),
            body(b"", "500 Oops"),
            body(b"", "413 X"),
        ):
            it.lies["POST /v1/tools:batchGet"] = lie
            for name in "ad":
                definitions._kept.tools.pop(name)
            assert len(await definitions.get_all(["a", "d"])) == 2

    with shop(*map(definition, "abcd")) as it:
        configure(tmp_path, it=it.url)
        configure(tmp_path / "other", it=it.url)
        anyio.run(main)


def test_with_our_own_registry(tmp_path: Path) -> None:
    """What our own registry has is described at once to our own client, and by pages where that is asked for."""

    async def main() -> None:
        (tmp_path / "served").mkdir()
        async with opened(tmp_path / "served") as one:
            one.put(*(made(f"tool{number}") for number in range(30)))
            configure(tmp_path, it=one.at.url)
            mine = plugins(tmp_path)
            names = await offered(mine)
            assert len(names) == 33
            registry_tool = next(tool for tool in mine.catalog if tool.remote is not None)
            assert registry_tool.remote is not None
            tools = [tool for tool in mine.catalog if tool.remote is not None]
            assert await registry_tool.remote.complete_all(tools) == {}
            assert all(tool.checked and "type" in tool.checked for tool in tools)
            mine.shutdown()

    anyio.run(main)
