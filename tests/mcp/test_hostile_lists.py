"""Servers that lie about what they offer: what can be used is used, the rest is left out and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, results, say, session
from tests.mcp.hosting import configure, hosted, load, raw

from jaato.plugins.mcp.errors import ServerFault
from jaato.plugins.mcp.manifest import Manifest
from jaato.plugins.mcp.pool import SERVER_POOL, SessionServers
from jaato.plugins.mcp.tools import tools_from
from jaato.protocol.messages import ToolResult
from jaato.tools.catalog import wire_name


def offered(path: Path, mode: str) -> tuple[Manifest, list[str]]:
    """What is kept of a server's list, and the names of the tools that come of it."""

    async def talk(host: SessionServers) -> tuple[Manifest, list[str]]:
        await host.connect("raw")
        config = host.directory.entry("raw")
        judged = host.directory.review(config)
        assert judged is not None
        return judged.manifest, [tool.name for tool in tools_from(config, judged.manifest, host.call)]

    made: tuple[Manifest, list[str]] = hosted(path, {"raw": raw(mode)}, talk)
    return made


def played(path: Path, mode: str, *script: Any, server: str = "raw") -> list[ToolResult]:
    """The results of a session's calls."""
    configure(path, {server: raw(mode)})

    async def main() -> list[ToolResult]:
        try:
            names = ["mcp_connect", "call_mcp_tool", "mcp_servers"]
            steps = [
                call("get_tool_schemas", names=names),
                call("mcp_connect", server=server),
                *script,
                say("done"),
            ]
            async with session(path, steps, plugins=("introspection", "mcp")) as live:
                await live.post("go")
                return results(live)[2:]
        finally:
            await anyio.to_thread.run_sync(SERVER_POOL.close)

    return anyio.run(main)


def test_of_two_tools_of_one_name_there_is_neither(tmp_path: Path) -> None:
    """The doubled name cannot be called, and the answer says why; the others can."""
    assert offered(tmp_path, "two-names")[1] == ["mcp__raw__other"]
    refused, fine = played(
        tmp_path,
        "two-names",
        call("call_mcp_tool", server="raw", tool="echo", args={"text": "x"}),
        call("call_mcp_tool", server="raw", tool="other", args={"text": "x"}),
    )
    assert refused.error is not None
    assert "2 tools 'echo', so none of them can be called" in refused.error.message
    assert fine.ok


def test_a_name_that_is_another_ones_on_the_wire(tmp_path: Path) -> None:
    """A name made to be what another name becomes: there is neither, and the next session starts all the same."""
    odd = "\u00fc"
    twin = wire_name(f"mcp__raw__{odd}").removeprefix("mcp__raw__")
    results = twice(tmp_path, {"raw": raw("named", odd, twin, "other")}, "raw")
    assert results == ["other"]


def test_servers_whose_tools_would_have_one_name(tmp_path: Path) -> None:
    """The first server's tool has the name; the other server's is still called by `call_mcp_tool`, and the next session
    starts all the same."""
    servers = {"a": raw("named", "b__echo"), "a__b": raw("named", "echo", "more")}
    assert twice(tmp_path, servers, "a", "a__b") == ["echo", "more"]


def twice(path: Path, servers: dict[str, Any], *order: str) -> list[str]:
    """What of the servers' tools a second session knows, after a first one has connected them in this order."""
    configure(path, servers)

    async def main() -> list[str]:
        try:
            steps = [call("get_tool_schemas", names=["mcp_connect", "call_mcp_tool"])]
            steps += [call("mcp_connect", server=name) for name in order]
            last = {"server": order[-1], "tool": "echo" if len(order) > 1 else "other", "args": {"text": "x"}}
            steps += [call("call_mcp_tool", **last), say("done")]
            async with session(path, steps, plugins=("introspection", "mcp")) as live:
                await live.post("go")
                assert all(result.ok for result in results(live)), results(live)
            async with session(path, [say("done")], plugins=("introspection", "mcp")) as live:
                await live.post("go")
                known = [spec.name for spec, _ in live.catalog.search("say something back", 20)]
            return sorted(name.rpartition("__")[2] for name in known if name.startswith("mcp__"))
        finally:
            await anyio.to_thread.run_sync(SERVER_POOL.close)

    return anyio.run(main)


def test_names_of_built_in_tools_cannot_be_taken(tmp_path: Path) -> None:
    """A server's tool is always called by its server's name too."""
    names = offered(tmp_path, "built-in-names")[1]
    assert names == [
        "mcp__raw__readFile",
        "mcp__raw__run",
        "mcp__raw__list_tools",
        "mcp__raw__mcp__raw__echo",
    ]


def test_schemas_that_are_none_are_left_out_and_named(tmp_path: Path) -> None:
    """A tool whose schema cannot be used costs no other tool and no session."""
    manifest, names = offered(tmp_path, "bad-schema")
    assert names == ["mcp__raw__echo"]
    assert len(manifest.dropped) == 4


def test_a_schema_of_ten_megabytes_is_left_out(tmp_path: Path) -> None:
    """The server stays usable without it."""
    manifest, names = offered(tmp_path, "big-schema")
    assert names == ["mcp__raw__echo"]
    assert "too big" in " ".join(manifest.dropped)


def test_odd_names_are_mangled_and_found_by_their_own(tmp_path: Path) -> None:
    """A name no provider takes gets a digest; the empty one is left out."""
    manifest, names = offered(tmp_path, "odd-names")
    assert len(names) == 3
    assert all(len(name) <= 64 and name.isascii() for name in names)
    assert manifest.dropped


@pytest.mark.parametrize("mode", ["endless", "same-cursor"])
def test_a_list_without_end_is_cut(tmp_path: Path, mode: str) -> None:
    """Pages end after a bound, whatever the cursor says."""
    manifest, names = offered(tmp_path, mode)
    assert len(names) <= 2_000
    assert manifest.tools


def test_a_list_that_is_none_leaves_a_server_without_tools(tmp_path: Path) -> None:
    """The server starts; what was wrong is noted."""
    assert offered(tmp_path, "no-list")[1] == []


def test_schemas_pass_whole(tmp_path: Path) -> None:
    """References and alternatives reach the model and the check of arguments as the server wrote them."""
    manifest, _ = offered(tmp_path, "refs")
    assert manifest.tools[0].input_schema["properties"]["text"] == {"$ref": "#/$defs/t"}
    (short,) = played(tmp_path, "refs", call("call_mcp_tool", server="raw", tool="echo", args={"text": "x"}))
    assert short.error is not None
    assert short.error.code == "arguments_invalid"


def test_a_version_that_nobody_speaks_is_told(tmp_path: Path) -> None:
    """A server of an unknown protocol fails with its version."""

    async def talk(host: SessionServers) -> None:
        with pytest.raises(ServerFault, match="1999-01-01"):
            await host.connect("raw")

    hosted(tmp_path, {"raw": raw("bad-version")}, talk)


def test_a_server_that_dies_of_the_newer_protocol_is_asked_in_the_older(tmp_path: Path) -> None:
    """One that ends at a request it does not know is started again with the handshake first."""

    async def talk(host: SessionServers) -> str:
        return str((await host.connect("raw")).protocol_version)

    assert hosted(tmp_path, {"raw": raw("dies-at-discover")}, talk) == "2025-06-18"


@pytest.mark.parametrize(
    ("mine", "theirs"), [("git", "git__evil"), ("git", "git_"), ("git__hub", "git"), ("a b", "a.b__c")]
)
def test_a_workspace_cannot_have_tools_of_a_name_of_mine(tmp_path: Path, mine: str, theirs: str) -> None:
    """`mcp__git__*` in a rule of the user's means tools of the user's server `git`, and of no server of a workspace."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    configure(home, {mine: {"command": "mine"}})
    configure(work, {theirs: {"command": "theirs"}, "other": {"command": "x"}})
    found = load(work, home)
    assert set(found.sources) == {mine, "other"}
    assert [(one.name, f"has {mine!r}, whose tools" in one.text) for one in found.problems] == [
        (theirs, True)
    ]
