"""Tools of registries for MCP clients: listed whole, called, the same over both eras of the protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from tests.arp.serving import TEXT, body, definition, shop
from tests.arp.test_remote_sources import forwarding_registry
from tests.mcp_server.serving import ERAS, House

from jaato.errors import ConfigError
from jaato.server.tool_sessions import Offer


def configured(path: Path, url: str) -> House:
    """A user's machine with this registry configured."""
    house = House(path)
    config = house.home / ".config" / "jaato"
    config.mkdir(parents=True)
    (config / "registries.json").write_text(json.dumps({"registries": {"it": {"url": url}}}))
    return house


@pytest.mark.parametrize("mode", ERAS)
def test_tools_of_a_registry_over_mcp(tmp_path: Path, mode: str) -> None:
    """An MCP client lists a registry's tools with their whole schemas, without looking for them first, and calls them;
    one that cannot be described is left out."""

    async def main(house: House) -> None:
        given: dict[str, Any] = {"plugins": ("arp",), "yes": True, "offer": Offer(whole=True)}
        async with house.visited(mode, **given) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"forecast", "registries"} <= listed.keys()
            assert "broken" not in listed
            assert listed["forecast"].input_schema == TEXT
            assert listed["forecast"].description == "The weather."
            hints = listed["forecast"].annotations
            assert hints is not None
            assert hints.open_world_hint
            done = await client.call_tool("forecast", {"text": "Bern"})
            assert done.structured_content == {"tool": "forecast", "text": "Bern"}
            it.tools["late"] = definition("late")
            await client.call_tool("refresh_registry", {"registry": "it"})
            assert "late" in {tool.name for tool in (await client.list_tools()).tools}
            assert (await client.call_tool("late", {"text": "x"})).structured_content["tool"] == "late"
            failed = await client.call_tool("forecast", {})
            assert failed.is_error
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("never", {})

    with shop(definition("forecast", "The weather."), definition("broken")) as it:
        it.lies["GET /v1/tools/broken"] = body(b"", "500 Oops")
        anyio.run(main, configured(tmp_path, it.url))


def test_some_tools_of_a_registry_over_mcp(tmp_path: Path) -> None:
    """A registry's tool can be named as one of those that are offered; one that is nowhere is refused before anybody is served."""

    async def main(house: House) -> None:
        given: dict[str, Any] = {"plugins": ("arp",), "yes": True}
        async with house.visited(ERAS[0], offer=Offer(tools=("forecast",)), **given) as client:
            [tool] = (await client.list_tools()).tools
            assert (tool.name, tool.input_schema) == ("forecast", TEXT)
            assert (await client.call_tool("forecast", {"text": "x"})).structured_content["text"] == "x"
        tool_sessions = house.tool_sessions(offer=Offer(tools=("never",)), **given)
        with pytest.raises(
            ConfigError, match="There is no tool 'never' to offer; `jaato tools list` shows them all"
        ):
            await tool_sessions.begin()
        await tool_sessions.close()

    with shop(definition("forecast"), definition("other")) as it:
        anyio.run(main, configured(tmp_path, it.url))


def test_registries_of_registries_over_stdio(tmp_path: Path) -> None:
    """`jaato mcp serve --plugins arp` gives a client at the standard streams the tools of a registry that serves on those of
    another; what no rule allows is denied where nobody can be asked."""

    async def main(url: str) -> None:
        async with forwarding_registry(tmp_path / "between", shop=url) as between:
            (tmp_path / "user").mkdir()
            house = configured(tmp_path / "user", between.at.url)
            async with house.client(ERAS[1], "--plugins", "arp", "--allow", "forecast") as client:
                listed = {tool.name: tool for tool in (await client.list_tools()).tools}
                assert listed["forecast"].input_schema == TEXT
                done = await client.call_tool("forecast", {"text": "Bern"})
                assert done.structured_content == {"tool": "forecast", "text": "Bern"}
                denied = await client.call_tool("calc", {"expression": "1"})
                assert denied.is_error
                assert denied.structured_content["error"]["code"] == "permission_denied"

    with shop(definition("forecast", "The weather.")) as it:
        anyio.run(main, it.url)
