"""A registry as an MCP server: its domains, what was put there, what it serves on, by one command and both transports."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import msgspec
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents
from tests.arp.serving import definition, shop
from tests.arp.test_as_mcp import configured
from tests.arp.test_pushed import Ear, hearing
from tests.mcp_server.serving import ERAS, House, Served, names
from tests.registry.registering import Hook, put_body, webhook

from jaato.runtime.session_options import SessionOptions
from jaato.server.registry.application import open_registry
from jaato.server.registry.audit import Audit, AuditFilter
from jaato.server.registry.keys import add_key, keys_in
from jaato.server.registry.registered.definition import ToolRegistration
from jaato.storage.sqlite import SqliteStore

WORDS = '''
from jaato.errors import ToolError
from jaato.tools.tool import tool, tool_from

@tool(access="write", version="1.2.0")
def count_words(text: str) -> dict[str, int]:
    """Count words."""
    return {"words": len(text.split())}

@tool(access="read")
def speak(fails: bool) -> str:
    """Say more than is sent at once."""
    if fails:
        raise ToolError("no " * 30_000)
    return "yes " * 30_000

def load_tools():
    return [tool_from(count_words), tool_from(speak)]
'''


def change(house: House, hook: Hook, *, gone: bool = False) -> None:
    """Another registry of the same user has a tool put there, or taken away."""

    async def main() -> None:
        registry = open_registry(
            SessionOptions(workspace=house.work, state_dir=house.state, environ=house.env)
        )
        try:
            if gone:
                await registry.registered.delete("say", None, lambda _: None)
                return
            given = {"type": "webhook", "url": hook.url}
            await registry.registered.put(
                "say", msgspec.convert(put_body(given), ToolRegistration), lambda _: None
            )
        finally:
            await registry.callers.close()

    anyio.run(main)


async def uses(client: Client, mode: str, ear: Ear, house: House, hook: Hook) -> None:
    """A client finds and calls the tools of every kind, and is told where one was taken away."""
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert listed.keys() == {"echo", "calc", "time_now", "count_words", "speak", "forecast", "say"}
    assert listed["say"].input_schema["required"] == ["text"]
    assert (await client.call_tool("count_words", {"text": "to be"})).structured_content == {"words": 2}
    assert (await client.call_tool("say", {"text": "x"})).structured_content == {"said": "x"}
    assert (await client.call_tool("forecast", {"text": "x"})).structured_content["tool"] == "forecast"
    assert (await client.call_tool("calc", {"expression": "1/0"})).is_error
    for fails, said in ((False, "yes "), (True, "no ")):
        spoken = await client.call_tool("speak", {"fails": fails})
        assert isinstance(spoken.content[0], TextContent)
        assert "readFile" not in spoken.content[0].text
        (uri,) = re.findall(r"the resource (jaato://results/[0-9a-f]{64}) has all", spoken.content[0].text)
        (whole,) = (await client.read_resource(uri)).contents
        assert isinstance(whole, TextResourceContents)
        assert whole.text == said * 30_000
    for hidden in ("refresh_registry", "never"):
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool(hidden, {"registry": "it"})
    async with hearing(client, mode, ear):
        await client.list_tools()
        await anyio.to_thread.run_sync(lambda: change(house, hook, gone=True))
        await ear.until(1)
    assert "say" not in names((await client.list_tools()).tools)
    with pytest.raises(MCPError, match="Unknown tool"):
        await client.call_tool("say", {"text": "x"})


async def with_keys(house: House, server: Served, mode: str) -> None:
    """A key of the registry's lets in for its tools and scopes, and no longer than it is there; what it calls is told by its name."""
    keys = {
        name: add_key(house.state, f"{name}-{mode}", scopes, ["calc", "count_*"])
        for name, scopes in (("reads", ["tools:read"]), ("calls", ["tools:read", "tools:invoke"]))
    }
    for name, key in keys.items():
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http,
            Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
        ):
            assert set(names((await client.list_tools()).tools)) == {"calc", "count_words"}
            if name == "reads":
                with pytest.raises(MCPError, match="tools:invoke"):
                    await client.call_tool("calc", {"expression": "1"})
                continue
            assert (await client.call_tool("calc", {"expression": "6*7"})).structured_content["value"] == 42
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("echo", {"text": "x"})
            keys_in(house.state).remove(f"calls-{mode}")
            assert (await http.post(server.url, json={})).status_code == 401
    wrong = httpx2.AsyncClient(headers={"Authorization": "Bearer jrk_x"})
    async with wrong:
        assert (await wrong.post(server.url, json={})).status_code == 401


async def owned(house: House, server: Served) -> None:
    """A session is that of the key it began with: another key neither hears it, nor speaks in it, nor ends it."""
    names_of = ("mine", "other")
    keys = [add_key(house.state, name, ["tools:read", "tools:invoke"]) for name in names_of]
    mine, other, owner = ({"Authorization": f"Bearer {key}"} for key in (*keys, server.token))
    accept = {"Accept": "application/json, text/event-stream"}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    lists = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    async with httpx2.AsyncClient(headers=accept) as http:
        began = await http.post(server.url, json=hello, headers=mine)
        session = {"Mcp-Session-Id": began.headers["mcp-session-id"]}
        for who in (other, owner):
            for sent in ({"method": "GET"}, {"method": "POST", "json": lists}, {"method": "DELETE"}):
                assert (await http.request(url=server.url, headers=who | session, **sent)).status_code == 404
        assert (await http.post(server.url, json=lists, headers=mine | session)).status_code == 200
        assert (await http.delete(server.url, headers=mine | session)).status_code == 200
    for name in names_of:
        keys_in(house.state).remove(name)


def logged(house: House) -> list[tuple[str, str]]:
    """The calls in the registry's log, and how they ended. A client's own name for itself is told from the name of a key."""
    store = SqliteStore(house.state / "jaato.db")
    try:
        found = Audit(store, AuditFilter()).newest(20)
        assert {one.who.split("-")[0] for one in found if one.tool != "calc"} == {"MCP client mcp 0.1.0"}
        return [(one.tool, one.outcome) for one in found]
    finally:
        store.close()


CALLED = [
    ("count_words", "ok"),
    ("say", "ok"),
    ("forecast", "ok"),
    ("calc", "tool.execution_error"),
    ("speak", "ok"),
    ("speak", "tool.execution_error"),
    ("never", "tool.not_found"),
    ("say", "tool.not_found"),
]


@pytest.mark.parametrize("over", ["stdio", "http"])
def test_a_registry_over_mcp(tmp_path: Path, over: str) -> None:
    """`jaato mcp serve --registry` offers domains, tools that were put there and those of registries behind, with their schemas,
    by the registry's rules, to a client of either protocol; what it calls is in the registry's log."""
    mode = ERAS[over == "http"]

    async def main(house: House, hook: Hook) -> None:
        ear = Ear()
        domains = f"core,{house.work / 'words.py'}"
        flags = ("--registry", "--domains", domains, "--plugins", "arp", "--allow", "forecast")
        if over == "stdio":
            async with house.client(mode, *flags, message_handler=ear) as client:
                await uses(client, mode, ear, house, hook)
            return
        server = await anyio.to_thread.run_sync(lambda: Served(house, *flags))
        try:
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {server.token}"}) as http,
                Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
            ):
                await uses(client, mode, ear, house, hook)
            for each in ERAS:
                await with_keys(house, server, each)
            await owned(house, server)
        finally:
            await anyio.to_thread.run_sync(server.stop)

    with shop(definition("forecast", "The weather.")) as it, webhook() as hook:
        house = configured(tmp_path, it.url)
        house.env["JAATO_ALLOW_HOSTS"] = "127.0.0.1"
        (house.work / "words.py").write_text(WORDS)
        change(house, hook)
        anyio.run(main, house, hook)
        assert logged(house) == CALLED + [("calc", "ok")] * (2 if over == "http" else 0)
