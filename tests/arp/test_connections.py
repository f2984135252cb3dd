"""Connections to a registry: kept while they are used, closed when not, made anew where that harms nothing."""

from __future__ import annotations

import gc
import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.arp.serving import definition, done, shop
from tests.arp.using import configure, directory, offered, plugins, use

from jaato.errors import JaatoError
from jaato.plugins.arp import http_client as connections


def test_connections_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """List, definition and calls go over one connection; at once over several, of which a bounded number is kept; a loop of
    its own has its own; after a while without use, and in the end, they are closed."""
    monkeypatch.setattr("jaato.plugins.arp.http_client.MAX_KEPT", 2)

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        for text in "xyz":
            await use(made, "echo", text=text)
        assert len({one.peer for one in it.seen}) == 1
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(partial(use, made, "echo", text=str(number)))
        for _ in range(2):
            await use(made, "echo", text="x")
        assert len({one.peer for one in it.seen}) <= 6
        assert it.seen[-1].peer == it.seen[-2].peer
        made.shutdown()

    async def again() -> None:
        source = directory(tmp_path).get_handle("it").source
        await source.fetch_list()
        await source.fetch_list()

    async def idle() -> None:
        source = directory(tmp_path).get_handle("it").source
        await source.fetch_list()
        with anyio.fail_after(60):
            while it.lines:
                await anyio.sleep(0.01)

    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)
        before = {one.peer for one in it.seen}
        anyio.run(again)
        assert len({one.peer for one in it.seen} - before) == 1
        gc.collect()  # what is not closed would warn
        monkeypatch.setattr(connections, "IDLE_S", 0.05)
        anyio.run(idle)


def test_a_connection_that_was_closed(tmp_path: Path) -> None:
    """A question that a kept connection lost is asked once more by a new one; a call is not, it is told as lost; and after
    that calls have connections of their own until the registry has shown that it keeps them."""

    def silent(handler: Any) -> None:
        handler.close_connection = True

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        plugin = made.toolset("arp")
        assert plugin is not None
        handle = plugin.plugin.directory.get_handle("it")
        await handle.source.fetch_list()
        it.lies["GET /v1/tools/echo"] = once(it, "GET /v1/tools/echo", silent)
        assert (await handle.definitions.get("echo", refresh=True)).definition.name == "echo"
        assert len(it.asked("GET", "echo")) == 2
        await handle.source.fetch_list()
        await handle.source.fetch_list()
        it.lies["POST"] = silent
        with pytest.raises(JaatoError, match="whether it was carried out is not known"):
            await use(made, "echo", text="x")
        assert len(it.asked("POST")) == 1
        it.lies.clear()
        for text in "ab":
            assert (await use(made, "echo", text=text))["text"] == text
        peers = [one.peer for one in it.asked("POST")]
        assert len(set(peers)) == 3
        made.shutdown()

    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)


def once(it: Any, key: str, lie: Any) -> Any:
    """A lie that is told one time."""

    def told(handler: Any) -> None:
        del it.lies[key]
        lie(handler)

    return told


def test_no_answer_is_another_requests(tmp_path: Path) -> None:
    """What a registry sends beyond its answer is no answer to what is asked next on that connection."""

    def two(handler: Any) -> None:
        handler.close_connection = False
        said = json.dumps(done("mine")).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\n\r\n".encode()
        forged = json.dumps(done("forged")).encode()
        handler.wfile.write(
            head + said + f"HTTP/1.1 200 OK\r\nContent-Length: {len(forged)}\r\n\r\n".encode() + forged
        )

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        await use(made, "echo", text="x")
        it.lies["POST"] = two
        assert await use(made, "echo", text="x") == "mine"
        it.lies.clear()
        assert (await use(made, "echo", text="next"))["text"] == "next"
        made.shutdown()

    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)
