"""What an embedding program gives a session: plugins of its own, MCP servers and profiles of subagents."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jaato.errors import ConfigError, PluginError, ToolError
from jaato.protocol.codec import json_problems
from jaato.runtime.plugins.discovery import instance
from jaato.runtime.plugins.lifecycle import PluginHost
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.session_options import ProgramOptions
from jaato.tools.tool import Tool, options_of

if TYPE_CHECKING:
    from jaato.plugins.mcp.config import ServerConfig
    from jaato.plugins.subagent.profiles import Profile

DELEGATE = "delegate"


def expose_given(registry: PluginRegistry, program: ProgramOptions) -> None:
    """Expose what the program gives; beside the built-in tools, or alone. Raises `ConfigError`, `PluginError`."""
    configs = make_given_configs(program, registry.workspace)
    for name, config in configs.items():
        registry.expose_tool(name, config)
    for plugin in program.plugins:
        expose_own(registry, plugin)
    if "subagent" in configs:
        declare_profiles(registry, configs["subagent"]["profiles"])
    if program.builtin_tools:
        return
    if "subagent" in configs:
        keep_tools(registry, "subagent", lambda tool: tool.name == DELEGATE)
    if "mcp" in configs:
        from jaato.plugins.mcp.tools import PREFIX

        keep_tools(registry, "mcp", lambda tool: tool.name.startswith(PREFIX))


def make_given_configs(program: ProgramOptions, workspace: Path) -> dict[str, dict[str, Any]]:
    """The configurations of the built-in plugins that carry what the program gives. Raises `ConfigError`."""
    configs: dict[str, dict[str, Any]] = {}
    if program.mcp_servers:
        servers = parse_servers(program.mcp_servers, workspace)
        configs["mcp"] = {"servers": servers, "only": not program.builtin_tools}
    if program.subagents:
        configs["subagent"] = {"profiles": parse_profiles(program.subagents)}
    return configs


def parse_servers(given: dict[str, Any], workspace: Path) -> dict[str, ServerConfig]:
    """MCP servers by name, trusted since the program gave them. Raises `ConfigError` naming the one that is wrong."""
    from jaato.plugins.mcp.config import ServerConfig
    from jaato.tools.remote.fields import Malformed

    origin = workspace / "mcp_servers"
    found: dict[str, ServerConfig] = {}
    for name, entry in given.items():
        try:
            table = to_entry(entry)
            if problems := json_problems(table):
                path, what = problems[0]
                raise Malformed(f"{what} at {path or '/'}; write it as in .mcp.json")
            found[name] = ServerConfig.parse(name, table, "argument", origin)
        except Malformed as error:
            raise ConfigError(f"mcp_servers: the server {name[:80]!r} {error}.") from None
        except RecursionError:
            raise ConfigError(f"mcp_servers: the server {name[:80]!r} is nested too deeply.") from None
    return found


def to_entry(value: Any) -> Any:
    """A value of an entry as a configuration file has it: paths as texts, tuples as lists."""
    from jaato.tools.remote.fields import JsonObject

    match value:
        case Mapping():
            return JsonObject((key, to_entry(item)) for key, item in value.items())
        case list() | tuple():
            return [to_entry(item) for item in value]
        case os.PathLike():
            return os.fspath(value)
    return value


def parse_profiles(given: dict[str, Any]) -> dict[str, Profile]:
    """Profiles of subagents by name, which may say all that the user's may. Raises `ConfigError` naming the one that is
    wrong."""
    from jaato.plugins.subagent.profiles import profile_of

    try:
        return {name: profile_of(name, entry) for name, entry in given.items()}
    except ToolError as error:
        raise ConfigError(str(error)) from None


def expose_own(registry: PluginRegistry, plugin: Any) -> None:
    """Expose a plugin of the program: a class, an object, or a function that makes one. Raises `PluginError`."""
    if callable(plugin) and options_of(plugin) is not None:
        name = getattr(plugin, "__name__", "it")
        raise PluginError(f"{name} is a tool, not a plugin: give it as tools=[{name}].")
    registry.register_plugin(instance(plugin, PluginHost(registry, MappingProxyType({}))), expose=True)


def declare_profiles(registry: PluginRegistry, profiles: dict[str, Profile]) -> None:
    """Declare the tool that starts subagents from the start, and name the profiles in the system prompt."""
    toolset = registry.toolset("subagent")
    assert toolset is not None
    lines = [
        f"- {name}: {profile.config.description or 'no description'}" for name, profile in profiles.items()
    ]
    toolset.instructions = (
        f"Subagents for tasks of their kind, by {DELEGATE}(task, profile=NAME):\n" + "\n".join(lines)
    )
    (tool,) = [tool for tool in toolset.tools if tool.name == DELEGATE]
    registry.catalog.remove([tool])
    tool.spec = replace(tool.spec, discoverability="core")
    registry.catalog.add([tool])


def keep_tools(registry: PluginRegistry, name: str, keep: Callable[[Tool], bool]) -> None:
    """Take away the other tools of a plugin."""
    toolset = registry.toolset(name)
    assert toolset is not None
    registry.catalog.remove([tool for tool in toolset.tools if not keep(tool)])
    toolset.tools = [tool for tool in toolset.tools if keep(tool)]


async def start_given_servers(registry: PluginRegistry, program: ProgramOptions) -> None:
    """Start the program's MCP servers and list their tools, as far as the session waits for them. Raises `ToolError` for one
    that fails meanwhile."""
    if not program.mcp_servers:
        return
    from jaato.plugins.mcp.plugin import MCPToolPlugin

    toolset = registry.toolset("mcp")
    if toolset is not None and isinstance(toolset.plugin, MCPToolPlugin):
        await toolset.plugin.start_given(program.servers_within_s)
