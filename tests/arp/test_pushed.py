"""MCP clients are told of tools that come and go behind the server, over both transports and in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as mcp
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.arp.serving import Shop, definition, shop
from tests.arp.test_as_mcp import configured
from tests.mcp_server.serving import ERAS, House, names

from jaato.plugins.arp import remote_registry as source
from jaato.server.mcp import list_changes as changes
from jaato.server.mcp.app import listen
from jaato.server.tool_sessions import Offer, ToolSessions

PATIENCE_S = 60.0


class Ear:
    """Counts how often a client is told that its tools are others."""

    def __init__(self) -> None:
        self.told = 0
        self._news = anyio.Event()

    async def __call__(self, message: object) -> None:
        """A message of the older protocol's."""
        if isinstance(message, mcp.ToolListChangedNotification):
            self.hear()

    def hear(self) -> None:
        """It was told."""
        self.told += 1
        self._news.set()

    async def until(self, count: int) -> None:
        """Wait until it was told so often."""
        with anyio.fail_after(PATIENCE_S):
            while self.told < count:
                await self._news.wait()
                self._news = anyio.Event()


@asynccontextmanager
async def hearing(client: Client, mode: str, ear: Ear) -> AsyncIterator[None]:
    """A client that listens: in the newer protocol by asking to be told."""
    if mode == ERAS[0]:
        yield
        return
    async with client.listen(tools_list_changed=True) as events, anyio.create_task_group() as group:

        async def hear() -> None:
            async for _ in events:
                ear.hear()

        group.start_soon(hear)
        yield
        group.cancel_scope.cancel()


async def follows(client: Client, ear: Ear, behind: Shop, change: Callable[[], Awaitable[Any]]) -> None:
    """A client that has listed is told of a tool that comes and of one that goes, once each, and finds the list so."""
    assert "late" not in names((await client.list_tools()).tools)
    behind.tools["late"] = definition("late")
    await change()
    await ear.until(1)
    assert "late" in names((await client.list_tools()).tools)
    done = await client.call_tool("late", {"text": "x"})
    assert done.structured_content == {"tool": "late", "text": "x"}
    del behind.tools["late"]
    await change()
    await ear.until(2)
    assert "late" not in names((await client.list_tools()).tools)
    assert ear.told == 2


@asynccontextmanager
async def serving(tool_sessions: ToolSessions) -> AsyncIterator[tuple[str, str]]:
    """A door over HTTP; gives its address and its token."""
    said: list[str] = []
    begun = anyio.Event()

    def announce(text: str) -> None:
        said.append(text)
        begun.set()

    async with anyio.create_task_group() as group:
        group.start_soon(listen, tool_sessions, ":0", (), (), announce)
        await begun.wait()
        url, _, file = said[0].partition("; the token is in ")
        yield url.rpartition(" ")[2], Path(file).read_text().strip()
        group.cancel_scope.cancel()


async def asks_nothing() -> None:
    """The server finds out for itself."""


def test_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of both eras at one server hear of what a registry behind it has now, which is asked for them again and again."""
    monkeypatch.setattr(source, "LIST_FRESH_S", 0.0)
    monkeypatch.setattr(changes, "REFRESH_S", 0.05)

    async def main(house: House) -> None:
        tool_sessions = house.tool_sessions(offer=Offer(whole=True), plugins=("arp",), yes=True)
        try:
            async with serving(tool_sessions) as (url, token):
                for mode in ERAS:
                    ear = Ear()
                    async with (
                        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
                        Client(
                            streamable_http_client(url, http_client=http), mode=mode, message_handler=ear
                        ) as client,
                        hearing(client, mode, ear),
                    ):
                        await follows(client, ear, it, asks_nothing)
        finally:
            await tool_sessions.close()

    with shop(definition("forecast")) as it:
        anyio.run(main, configured(tmp_path, it.url))


@pytest.mark.parametrize("mode", ERAS)
def test_over_stdio(tmp_path: Path, mode: str) -> None:
    """So is the one at the standard streams."""

    async def main(house: House) -> None:
        ear = Ear()
        flags = ("--plugins", "arp", "--yes")
        async with house.client(mode, *flags, message_handler=ear) as client, hearing(client, mode, ear):

            async def refresh() -> None:
                await client.call_tool("refresh_registry", {"registry": "it"})

            await follows(client, ear, it, refresh)

    with shop(definition("forecast")) as it:
        anyio.run(main, configured(tmp_path, it.url))
