"""A session with some of the tools can reach all it has: they are declared, or introspection comes with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, say

from jaato.abc.plugin import ToolSchema
from jaato.errors import PluginError
from jaato.protocol.messages import ToolResult
from jaato.providers.scripted import Answer, ScriptedProvider
from jaato.runtime.embedding.agent import Agent
from jaato.runtime.embedding.client import JaatoClient
from jaato.runtime.plugins.registry import PluginRegistry


class Many:
    """A documented plugin with so many discoverable tools."""

    def __init__(self, count: int, name: str = "many") -> None:
        self.name = name
        self._names = [f"{name}_{number}" for number in range(count)]

    def get_tool_schemas(self) -> list[ToolSchema]:
        return [ToolSchema(name, f"Gives the word {name}.") for name in self._names]

    def get_executors(self) -> dict[str, Any]:
        return dict.fromkeys(self._names, lambda _args: {"done": True})

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def get_system_instructions(self) -> None: ...

    def get_auto_approved_tools(self) -> list[str]:
        return self._names

    def get_user_commands(self) -> list[Any]:
        return []


def client_of(path: Path, script: Sequence[Answer], *plugins: Any) -> tuple[JaatoClient, ScriptedProvider]:
    """A client over a scripted model with these plugins, by name or made by hand."""
    work = path / "work"
    work.mkdir(exist_ok=True)
    provider = ScriptedProvider(script, keep_requests=True)
    registry = PluginRegistry(workspace=work, services={"environ": {"PATH": "/usr/bin:/bin", "HOME": "/"}})
    for plugin in plugins:
        if isinstance(plugin, str):
            registry.expose_tool(plugin)
        else:
            registry.register_plugin(plugin, expose=True)
    client = JaatoClient(state_dir=path / "state")
    client.connect(model="script", provider=provider, workspace=work)
    client.configure_tools(registry)
    return client, provider


def declared(provider: ScriptedProvider, request: int = 0) -> list[str]:
    """The tools a request declares to the model."""
    return [tool.name for tool in provider.requests[request].tools]


def results(client: JaatoClient) -> list[ToolResult]:
    """What the model was given back."""
    return [part for m in client.get_history() for part in m.parts if isinstance(part, ToolResult)]


@pytest.mark.spec("S3", "Typical Client Usage", "S3.usage.4")
def test_the_tools_of_the_printed_usage_are_declared(tmp_path: Path) -> None:
    """`expose_tool('cli')` and `expose_tool('mcp')`: every tool is declared to the model, which calls one that is no core tool."""
    script = [call("run", command="echo hello"), call("mcp_servers"), say("done")]
    client, provider = client_of(tmp_path, script, "cli", "mcp")
    with client:
        assert client.send_message("go") == "done"
        assert all(result.ok for result in results(client))
    assert {"run", "call_mcp_tool", "mcp_servers"} <= set(declared(provider))


@pytest.mark.spec("S3", "Typical Client Usage", "S3.usage.4")
def test_servers_that_bring_tools_later_bring_introspection(tmp_path: Path) -> None:
    """With a configured MCP server its tools are not known yet: `list_tools` is declared, which finds them."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".mcp.json").write_text('{"mcpServers": {"one": {"command": "true"}}}')
    client, provider = client_of(tmp_path, [say("done")], "cli", "mcp")
    with client:
        client.send_message("go")
    assert {"list_tools", "get_tool_schemas", "run"} <= set(declared(provider))


def test_the_plugins_of_an_agent_are_declared(tmp_path: Path) -> None:
    """`Agent(plugins=("cli", "file_edit"))`: a discoverable tool of them is declared and runs at the first call."""
    provider = ScriptedProvider(
        [call("writeNewFile", path="a.txt", content="hello"), say("done")], keep_requests=True
    )
    agent = Agent(
        model="script",
        provider=provider,
        plugins=("cli", "file_edit"),
        workspace=tmp_path,
        state_dir=tmp_path / "state",
        yes=True,
        environ={"HOME": str(tmp_path)},
    )

    async def run() -> set[str]:
        async with agent:
            await agent.run("go")
            return {tool.name for tool in agent.live.catalog}

    known = anyio.run(run)
    assert set(declared(provider)) == known
    assert "list_tools" not in declared(provider)
    assert (tmp_path / "a.txt").read_text() == "hello"


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (["cli"], ["run"]),
        (["readFile", "glob_files"], ["readFile", "glob_files"]),
        (["cli", "cli_based_tool", "grep_content"], ["run", "grep_content"]),
    ],
)
def test_a_session_takes_plugins_and_tools_by_name(
    tmp_path: Path, names: list[str], first: list[str]
) -> None:
    """`create_session(tools=[…])`: exactly these are declared, in every spelling, also below a parent."""
    client, provider = client_of(
        tmp_path, [say("one"), say("two")], "cli", "file_edit", "search", "introspection"
    )
    with client:
        runtime = client.get_runtime()
        session = runtime.create_session(tools=names)
        session.send_message("go")
        assert declared(provider) == first
        session.close()
        child = runtime.create_session(tools=names, parent=client.get_session())
        child.send_message("go")
        assert set(declared(provider, 1)) == {*first, "list_tools", "get_tool_schemas"}
        child.close()
        with pytest.raises(PluginError, match="'nothing' is not exposed"):
            runtime.create_session(tools=["nothing"])


@pytest.mark.parametrize("many", [24, 25, 300])
def test_many_tools_come_with_introspection(tmp_path: Path, many: int) -> None:
    """Up to 24 are declared; of more the model finds the others, and calls one that it has activated."""
    last = f"many_{many - 1}"
    script = [call("list_tools", query=last), call("get_tool_schemas", names=[last]), call(last), say("done")]
    client, provider = client_of(tmp_path, script if many > 24 else script[2:], Many(many))
    with client:
        assert client.send_message("go") == "done"
        assert all(result.ok for result in results(client))
    if many > 24:
        assert declared(provider) == ["list_tools", "get_tool_schemas"]
        assert declared(provider, 2) == ["list_tools", "get_tool_schemas", last]
    else:
        assert len(declared(provider)) == 24


def test_a_tool_exposed_in_a_session_without_introspection_is_declared(tmp_path: Path) -> None:
    """At the next request, behind those before; a resumed session has it as well."""
    client, provider = client_of(tmp_path, [say("one"), call("late_0"), say("two"), say("three")], "cli")
    with client:
        client.send_message("go")
        client.get_runtime().registry.register_plugin(Many(2, "late"), expose=True)
        assert client.send_message("go on") == "two"
        assert all(result.ok for result in results(client))
        session_id = client.get_session().live.state.session_id
        client.reset_session()
        client.resume_session(session_id)
        client.send_message("and on")
    assert declared(provider) == ["run"]
    assert declared(provider, 1) == ["run", "late_0", "late_1"] == declared(provider, 3)


@pytest.mark.spec("S0", "Discoverability Modes", "S0.modes.1")
def test_with_introspection_the_first_request_declares_the_core_tools(tmp_path: Path) -> None:
    """These and no other, as the registry has them, however few there are."""
    client, provider = client_of(tmp_path, [say("done")], "introspection", "cli", "search", "todo")
    with client:
        client.send_message("go")
        core = [tool.name for tool in client.get_runtime().registry.catalog.core]
    assert declared(provider) == core
    assert core[:3] == ["list_tools", "get_tool_schemas", "run"]
    assert "grep_content" not in core
