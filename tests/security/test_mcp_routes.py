"""MCP beside the server's own protocol: the same gate, for owners, opened by its first request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.mcp_server.serving import names, text_of
from tests.security.auth_server import Keep, status


class Loading(Keep):
    """A server that loads what it needs itself."""

    is_forked = False


@contextmanager
def serving_mcp(place: Path) -> Iterator[Keep]:
    """A server with a workspace that is open to MCP."""
    (place / "project").mkdir()
    (place / "project" / "notes.txt").write_text("Tea is at four.\n")
    served = Loading(place / "keep", "--web-socket", ":0", "--mcp-workspace", str(place / "project"))
    try:
        yield served
    finally:
        assert served.stop()[0] == 0


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keep]:
    """A server with a workspace that is open to MCP, for all tests."""
    with serving_mcp(tmp_path_factory.mktemp("mcp")) as served:
        yield served


def mapped(keep: Keep) -> int:
    """How much the server holds, in kilobytes."""
    return int(Path(f"/proc/{keep.process.pid}/status").read_text().partition("VmRSS:")[2].split()[0])


def test_nothing_is_loaded_until_somebody_comes(tmp_path: Path) -> None:
    """Idle, and after requests of others, the library is not there; the bound of an idle server holds."""
    with serving_mcp(tmp_path) as fresh:
        assert status(fresh.ask(fresh.head("/mcp", method="POST"), who=9)) == 401
        assert status(fresh.ask(fresh.head("/mcp", method="POST", token=fresh.tokens["viewer"]))) == 403
        assert status(fresh.ask(fresh.head("/mcp", method="POST", token=fresh.tokens["approver"]))) == 403
        assert "pydantic_core" not in Path(f"/proc/{fresh.process.pid}/maps").read_text()
        assert mapped(fresh) < 80_000


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_clients_work_at_the_daemon_s_address(opened: Keep, mode: str) -> None:
    """The SDK's client lists and calls tools of the workspace, while the server's own protocol is served. What it has called
    is listed and can be watched like any session."""

    async def main() -> None:
        url = f"http://127.0.0.1:{opened.port}/mcp"
        headers = {"Authorization": f"Bearer {opened.tokens['owner']}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            assert "readFile" in names((await client.list_tools()).tools)
            assert "Tea is at four." in text_of(await client.call_tool("readFile", {"path": "notes.txt"}))
            assert await anyio.to_thread.run_sync(opened.serves)

    anyio.run(main)
    with opened.client(opened.tokens["viewer"]) as line:
        listed = line.command("session.list")["result"]["sessions"]
        (one, *_) = [session for session in listed if (session.get("name") or "").startswith("MCP: ")]
        assert "result" in line.command("session.attach", session_id=one["id"])


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff"])
def test_bodies_that_are_none_are_refused(opened: Keep, body: bytes) -> None:
    """As at a door of its own: a 4xx as JSON-RPC has it, and the server serves on."""
    rows = (
        f"Content-Length: {len(body)}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
    )
    head = opened.head("/mcp", *rows, method="POST", token=opened.tokens["owner"])
    assert status(opened.ask(head + body)) == 400
    large = opened.head("/mcp", "Content-Length: 100000000", method="POST", token=opened.tokens["owner"])
    assert status(opened.ask(large)) == 413
    assert opened.serves()


def test_without_a_workspace_there_is_no_door(keep: Keep) -> None:
    """It says how to open one."""
    said = keep.ask(keep.head("/mcp", method="POST", token=keep.tokens["owner"]))
    assert status(said) == 404
    error = json.loads(said.partition(b"\r\n\r\n")[2])["error"]
    assert "--mcp-workspace" in error["message"]
    assert re.fullmatch(r"-\d+", str(error["code"]))
