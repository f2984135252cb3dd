"""The server over HTTP, as a process, with the SDK's client in both eras."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.mcp_server.serving import ERAS, House, Served, answering, decides, names, text_of
from tests.mcp_server.test_stdio import SLEEPER, awaited, gone


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of this file that do not end it; a process that has loaded all by itself."""
    server = Served(House(tmp_path_factory.mktemp("served")), fresh=True)
    yield server
    assert server.stop() == (0, "")


@pytest.mark.parametrize("mode", ERAS)
def test_clients_work_over_http(served: Served, mode: str) -> None:
    """List, activate, be asked, call and hear progress, in both eras."""
    heard: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async def main() -> None:
        user = answering(decides("allow"))
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.token}"}) as http,
            Client(
                streamable_http_client(served.url, http_client=http), mode=mode, elicitation_callback=user
            ) as client,
        ):
            await client.call_tool("get_tool_schemas", {"names": ["glob_files"]})
            assert "glob_files" in names((await client.list_tools()).tools)
            command = "echo one; sleep 0.2; echo two"
            result = await client.call_tool("run", {"command": command}, progress_callback=progress)
            assert "one\\ntwo" in text_of(result)

    anyio.run(main)
    assert "".join(text or "" for text in heard) == "one\ntwo\n"


@pytest.mark.parametrize("mode", ERAS)
def test_a_call_given_up_over_http_is_killed(house: House, mode: str) -> None:
    """What a cancelled call had started is gone; SIGTERM in mid-call ends the server at once and takes the rest along."""
    server = Served(house, "--yes")

    async def main() -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {server.token}"}) as http,
            Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
        ):
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "run", {"command": SLEEPER})
                pid = int(await anyio.to_thread.run_sync(awaited, house.work / "pid.txt"))
                group.cancel_scope.cancel()
            assert await anyio.to_thread.run_sync(gone, pid)

    try:
        anyio.run(main)
    finally:
        code, said = server.stop()
    assert (code, said) == (0, "")


def test_a_token_others_can_read_is_not_used(house: House) -> None:
    """The server does not start with a token file of loose permissions, or with one that holds no token."""
    house.state.mkdir(parents=True)
    token = house.state / "mcp-token"
    for content, mode in ((b"x" * 43, 0o644), (b"short", 0o600), (b"", 0o600), (b"\xff" * 50, 0o600)):
        token.write_bytes(content)
        token.chmod(mode)
        done = house.ended("--http", ":0")
        assert done.returncode == 2
        assert b"Remove it" in done.stderr
