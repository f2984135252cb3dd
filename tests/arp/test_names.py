"""By which names tools of registries are known, and who makes way for whom."""

from __future__ import annotations

from pathlib import Path

import anyio
from tests.arp.serving import definition, shop
from tests.arp.using import configure, offered, plugins, use

from jaato.protocol.specs import ToolSpec
from jaato.runtime.plugins.adapter import Toolset
from jaato.tools.call import Call
from jaato.tools.catalog import Catalog
from jaato.tools.permissions.gate import Gate, Policy
from jaato.tools.tool import Tool, tool, tool_from


@tool(access="read")
def lookup(word: str) -> str:
    """Look a word up in the program's own dictionary."""
    return word


def test_names(tmp_path: Path) -> None:
    """A tool bears its own name; where another has it, it is one of jaato's own, or it begins as those of another registry or an
    MCP server do, it has its registry's prefix; with a prefix of the configuration always. What no provider takes as a
    name is mangled."""
    mine = [
        definition(name)
        for name in (
            *("search", "only", "readFile", "mcp__files__read", "get weather/today"),
            *("p__both", "P__more", "two//search", "MCP:_files:_read", "one__mine"),
        )
    ]
    with (
        shop(*mine) as one,
        shop(definition("search"), definition("both")) as two,
        shop(definition("both")) as three,
    ):
        configure(tmp_path, one=one.url, two=two.url, three={"url": three.url, "prefix": "p"})

        async def main() -> None:
            made = plugins(tmp_path)
            names = await offered(made)
            mangled = [name for name in names if name.startswith("get_weather_today_")]
            foreign = sorted(name for name in names if name.startswith(("one__MCP__", "one__two__")))
            assert [name[:-9] for name in foreign] == ["one__MCP__files__read", "one__two__search"]
            assert sorted({*names} - {*mangled, *foreign}) == [
                "both",
                "one__P__more",
                "one__mcp__files__read",
                "one__mine",
                "one__p__both",
                "one__readFile",
                "one__search",
                "only",
                "p__both",
                "two__search",
            ]
            assert await use(made, mangled[0], text="x") == {"tool": "get weather/today", "text": "x"}
            assert one.seen[-1].path == "/v1/tools/get%20weather%2Ftoday:invoke"
            made.shutdown()

        anyio.run(main)


def test_nobody_is_kept_out(tmp_path: Path) -> None:
    """A program, or a plugin that comes later, has its tool under the name it wants: the registry's makes way for it."""
    with shop(definition("lookup"), definition("far__lookup")) as it:
        configure(tmp_path, far=it.url)

        async def main() -> None:
            made = plugins(tmp_path)
            assert await offered(made) == ["far__lookup", "lookup"]
            own = tool_from(lookup, "program")
            made.add_toolset(Toolset("program", None, tools=[own]))
            found = made.catalog.find("lookup")
            assert found is not None
            assert found.tool is own
            left = await offered(made)
            assert "lookup" not in left
            assert len(left) == len(set(left)) >= 1
            made.shutdown()

        anyio.run(main)


def test_what_is_denied_stays_denied(tmp_path: Path) -> None:
    """A rule that denies a tool denies it also where another registry offers one of its name, and both are called otherwise."""

    async def main() -> None:
        made = plugins(tmp_path)
        assert await offered(made) == ["one__wipe", "two__wipe"]
        rules = {"defaultPolicy": "allow", "blacklist": {"tools": ["wipe"]}}
        for policy in (
            rules,
            {"defaultPolicy": "allow", "blacklist": {"arguments": {"wipe": {"text": ["x"]}}}},
        ):
            gate = Gate(Policy.of(policy))
            for name in ("one__wipe", "two__wipe"):
                found = made.catalog.find(name)
                assert found is not None
                assert gate.explain(Call("c", name, {"text": "x"}), found.tool).effect == "deny"
        made.shutdown()

    with shop(definition("wipe")) as one, shop(definition("wipe")) as two:
        configure(tmp_path, one=one.url, two=two.url)
        anyio.run(main)


def test_who_yields_to_whom() -> None:
    """Among tools with a fallback both take it; one that has nowhere to go is left out, and nobody else ever is."""

    def made(name: str, fallback: str | None, *aliases: str) -> Tool:
        spec = ToolSpec(name=name, description=name, parameters={})
        return Tool(
            spec, lambda _arguments, _call: None, aliases={one: {} for one in aliases}, fallback=fallback
        )

    cases: list[tuple[list[Tool], list[str]]] = [
        ([made("a", "x__a"), made("a", "y__a")], ["x__a", "y__a"]),
        ([made("a", None), made("a", "y__a")], ["a", "y__a"]),
        ([made("a", "y__a"), made("a", None)], ["a", "y__a"]),
        ([made("b", None, "a"), made("a", "y__a")], ["b", "y__a"]),
        ([made("a", "y__a"), made("b", None, "a")], ["b", "y__a"]),
        ([made("y__a", "y__a"), made("y__a", "z__y__a")], ["y__a", "z__y__a"]),
        ([made("y__a", "z__y__a"), made("y__a", "y__a")], ["y__a", "z__y__a"]),
        ([made("y__a", "y__a"), made("y__a", None)], ["y__a"]),
        ([made("y__a", None), made("a", None), made("a", "y__a")], ["a", "y__a"]),
        ([made("y__a", "y__a"), made("y__a", "y__a")], ["y__a"]),
    ]
    for tools, names in cases:
        catalog = Catalog()
        for one in tools:
            catalog.add([one])
        assert sorted(tool.name for tool in catalog) == names
        assert {name: tool.name for name, tool in catalog._tools.items()} == {name: name for name in names}
        own = [one for one in tools if one.fallback is None]
        assert {id(one) for one in own} <= {id(one) for one in catalog}
