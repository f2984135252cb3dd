"""`Agent(dependencies=…)`: an object for tools, which no model sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, assert_type

import anyio
import pytest
from tests.kit import call, results, say
from tests.runtime.agents import agent

from jaato import Agent, Call, ConfigError, Plugin, PluginError, tool
from jaato.abc.provider import ModelRequest
from jaato.providers.scripted import Answer, ScriptedProvider, Step
from jaato.tools.tool import tool_from


@dataclass
class Shop:
    """What the tools sell from."""

    stock: dict[str, int] = field(default_factory=lambda: {"tea": 3})


@tool(access="read")
async def count(item: str, call: Call[Shop]) -> int:
    """How many there are."""
    assert_type(call.dependencies, Shop)
    return call.dependencies.stock[item]


def test_a_tool_gets_the_program_s_object_and_the_model_does_not(tmp_path: Path) -> None:
    """`call.dependencies` is the very object; neither the schema nor the request has anything of it."""

    async def main() -> None:
        shop = Shop()
        async with agent(
            tmp_path, [call("count", item="tea"), say("3")], tools=[count], dependencies=shop
        ) as live:
            await live.run("go")
            assert results(live.live)[0].result == 3
            provider = live.provider
            assert isinstance(provider, ScriptedProvider)
            (spec,) = [spec for spec in provider.requests[0].tools if spec.name == "count"]
            assert list(spec.parameters["properties"]) == ["item"]
            assert "Shop" not in repr([spec, provider.requests])

    anyio.run(main)


def test_a_run_can_have_its_own(tmp_path: Path) -> None:
    """Dependencies of one run hold for it alone, also in its subagents."""

    def answer(request: ModelRequest) -> Step:
        last = request.messages[-1]
        if last.role == "user" and "child" in last.text:
            return call("count", item="tea")
        if last.role == "user":
            return call("delegate", task="the child counts")
        return say(str(last.parts[0].result))  # type: ignore[union-attr]

    async def main() -> None:
        more = {"tools": [count], "dependencies": Shop(), "subagents": {"any": {}}}
        async with agent(tmp_path, [answer] * 8, **more) as live:
            first = await live.run("go", dependencies=Shop({"tea": 44}))
            second = await live.run("go")
            assert "44" in first.text
            assert "'result': '3'" in second.text

    anyio.run(main)


def test_missing_dependencies_are_an_error_before_the_model_is_asked(tmp_path: Path) -> None:
    """The error names the tool; with them for one run it works; a tool with a plain `Call` needs none."""
    script: list[Answer] = [call("count", item="tea"), say("ok")]
    one: Agent = agent(tmp_path, script, tools=[count])
    with pytest.raises(ConfigError, match="count takes dependencies"):
        one.run_sync("go")
    assert one.run_sync("go", dependencies=Shop()).text == "ok"

    def plain(call: Call) -> bool:
        """Whether there are none."""
        return call.dependencies is None

    other: Agent = agent(tmp_path, [call("plain"), say("ok")], tools=[plain])
    assert other.run_sync("go").text == "ok"


class Stock(Plugin):
    """What is there, as a plugin."""

    name: ClassVar[str] = "stock"

    @tool(access="read", core=True)
    def all_of_it(self, call: Call[Shop]) -> dict[str, int]:
        """Everything."""
        return call.dependencies.stock


def test_tools_of_plugins_get_them_too(tmp_path: Path) -> None:
    """A plugin's method asks for them in the same way."""

    async def main() -> None:
        async with agent(
            tmp_path, [call("all_of_it"), say("x")], plugins=[Stock], dependencies=Shop()
        ) as live:
            await live.run("go")
            assert results(live.live)[0].structured == {"tea": 3}

    anyio.run(main)


def test_a_type_that_cannot_be_found_is_named() -> None:
    """A type defined in a function is not there when the tool is made from its annotations."""

    class Local:
        """Of this function alone."""

    def lost(call: Call[Local]) -> None:
        """Lose."""

    with pytest.raises(PluginError, match=r"tool lost: .*Local.*at the top of its module"):
        tool_from(lost)
