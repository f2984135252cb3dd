"""What a plugin declares, in either form, as one `Toolset`; and tools as the plain functions of the documented form."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from jaato.abc.plugin import (
    BackgroundCapable,
    Enrichment,
    Plugin,
    PromptEnrichmentResult,
    ToolSchema,
    UserCommand,
)
from jaato.errors import PluginError
from jaato.protocol.specs import ToolSpec
from jaato.runtime.embedding.portal import PORTAL
from jaato.runtime.plugins.validation import (
    MAX_COMMANDS,
    MAX_DESCRIPTION_CHARS,
    MAX_INSTRUCTION_CHARS,
    MAX_TOOLS,
    category_problem,
    check_enrichment,
    check_names,
    check_size,
    check_tools,
    plugin_name,
    require_sync,
    take_at_most,
)
from jaato.tools.call import CURRENT, Call, replace_surrogates, to_plain_value
from jaato.tools.catalog import wire_name
from jaato.tools.schema import Validator
from jaato.tools.tool import Declaration, Rename, Tool, tools_of

ALWAYS = Enrichment()


class Toolset(msgspec.Struct, eq=False):
    """What an exposed plugin brings."""

    name: str
    plugin: Any
    tools: list[Tool] = msgspec.field(default_factory=list)
    instructions: str = ""
    commands: dict[str, tuple[UserCommand, Callable[[Any], Any] | None]] = msgspec.field(default_factory=dict)
    enrich: Callable[[str], PromptEnrichmentResult] | None = None
    enrichment: Enrichment = ALWAYS
    enrich_result: Callable[[Call, Any], Any] | None = None
    enriches_results: tuple[str, ...] = ()
    background: BackgroundCapable | None = None
    wiring: dict[str, Callable[[Any], Any]] = msgspec.field(default_factory=dict)
    """The optional setters it has, by name: set_plugin_registry, set_session, set_workspace_path, …"""
    foreign: bool = False
    """Whether it is third-party code, whose calls have a timeout."""


class ToolsetSource(ABC):
    """A plugin that stands for one built in, and gives that one's record to the registry that exposes it."""

    @abstractmethod
    def toolset(self) -> Toolset:
        """The record of the plugin it stands for."""


SETTERS = ("set_plugin_registry", "set_session", "set_workspace_path", "set_output_callback")


def optional(plugin: object, name: str) -> Callable[..., Any] | None:
    """The method of this name, if the plugin has one."""
    method = getattr(plugin, name, None)
    return method if callable(method) else None


def requirements(plugin: object) -> list[str]:
    """The globs one of which the model's name must match; empty for any model."""
    asked = optional(plugin, "get_model_requirements")
    return take_at_most(asked(), MAX_TOOLS, "Model requirements:") if asked else []


def adapt(
    plugin: object, name: str | None = None, known: Mapping[str, Declaration] = MappingProxyType({})
) -> Toolset:
    """The record of an initialised plugin, under this name; `known` has declarations of its methods by the names of their
    tools. Raises `PluginError` for a declaration that cannot be used."""
    name = name or plugin_name(plugin)
    toolset = Toolset(name, plugin)
    if isinstance(plugin, Plugin):
        offered = take_at_most(plugin.offered(), MAX_TOOLS, f"The plugin {name} offers tools;")
        toolset.tools = check_tools([*tools_of(plugin, name, known), *offered], name)
        toolset.instructions = plugin.instructions
        toolset.commands = {command.name: (command, run) for command, run in plugin.user_commands().items()}
    else:
        adapt_documented(plugin, toolset)
    adapt_optional(plugin, toolset)
    check_words(toolset)
    if isinstance(plugin, BackgroundCapable):
        toolset.background = plugin
    return toolset


def check_words(toolset: Toolset) -> None:
    """Raise `PluginError` for instructions and commands that are not what they should be, or too much."""
    name, instructions = toolset.name, toolset.instructions
    if not isinstance(instructions, str):
        raise PluginError(f"The plugin {name}: its instructions are {type(instructions).__name__}, not text.")
    if len(instructions) > MAX_INSTRUCTION_CHARS:
        raise PluginError(
            f"The plugin {name}: its instructions are longer than {MAX_INSTRUCTION_CHARS:,} characters."
        )
    for command, run in toolset.commands.values():
        words: tuple[object, ...] = (command.name, command.description)
        if not all(isinstance(word, str) for word in words) or not command.name:
            raise PluginError(f"The plugin {name} has a user command that is no text: {command!r:.80}.")
        if run is not None and not callable(run):
            raise PluginError(f"The plugin {name}: /{command.name} is a {type(run).__name__}, no function.")


def enriching(plugin: object) -> Toolset:
    """The record of a plugin that only enriches prompts: no tools, no commands."""
    toolset = Toolset(plugin_name(plugin), plugin)
    adapt_optional(plugin, toolset)
    return toolset


def adapt_optional(plugin: object, toolset: Toolset) -> None:
    """Prompt enrichment and wiring, as far as the plugin has them."""
    subscribes = optional(plugin, "subscribes_to_prompt_enrichment")
    if isinstance(plugin, Plugin) and plugin.enrichment is not None:
        toolset.enrich = plugin.enrich_prompt
        toolset.enrichment = check_enrichment(plugin.enrichment, toolset.name)
    elif subscribes and subscribes():
        toolset.enrich = optional(plugin, "enrich_prompt")
        if toolset.enrich is None:
            raise PluginError(f"The plugin {toolset.name} subscribes to prompts and has no enrich_prompt().")
        priority = optional(plugin, "get_enrichment_priority")
        toolset.enrichment = Enrichment(int(priority())) if priority else ALWAYS
    adapt_results(plugin, toolset)
    toolset.wiring = {setter: found for setter in SETTERS if (found := optional(plugin, setter))}


def adapt_results(plugin: object, toolset: Toolset) -> None:
    """Result enrichment, as far as the plugin has it."""
    subscribes = optional(plugin, "subscribes_to_tool_result_enrichment")
    enrich = optional(plugin, "enrich_tool_result")
    if isinstance(plugin, Plugin):
        if plugin.enriches_results:
            toolset.enrich_result = plugin.enrich_result
            toolset.enriches_results = check_names(plugin.enriches_results, toolset.name)
    elif subscribes and enrich and subscribes():
        toolset.enrich_result = lambda call, value: enrich(call.name, value)
        toolset.enriches_results = ("*",)


def adapt_documented(plugin: Any, toolset: Toolset) -> None:
    """Read a plugin of the documented shape."""
    executors = dict(plugin.get_executors() or {})
    approved = set(call_optional(plugin, "get_auto_approved_tools") or [])
    whose = f"The plugin {toolset.name} declares tools;"
    for schema in take_at_most(
        require_sync(plugin.get_tool_schemas(), "get_tool_schemas()"), MAX_TOOLS, whose
    ):
        toolset.tools.append(tool_of(schema, executors, toolset.name, schema_approved=approved))
    toolset.instructions = call_optional(plugin, "get_system_instructions") or ""
    commands = call_optional(plugin, "get_user_commands")
    for command in take_at_most(commands, MAX_COMMANDS, f"The plugin {toolset.name} has commands;"):
        toolset.commands[command[0]] = (UserCommand(*command), executors.get(command[0]))


def call_optional(plugin: object, name: str) -> Any:
    """What the method gives, or None when the plugin has no such method."""
    method = optional(plugin, name)
    return require_sync(method(), f"{name}()") if method else None


def tool_of(
    schema: Any,
    executors: Mapping[str, Callable[..., Any]],
    plugin: str,
    *,
    schema_approved: set[str],
) -> Tool:
    """A tool from a documented declaration and its executor."""
    spec = spec_of(schema, plugin)
    name = str(schema.name)
    executor = executors.get(name)
    if executor is None:
        raise PluginError(f"The plugin {plugin} declares {name} but get_executors() has no such key.")
    if not callable(executor):
        raise PluginError(f"The plugin {plugin}: the executor of {name} is a {type(executor).__name__}.")
    return Tool(
        spec=spec,
        run=run_documented(executor),
        is_async=inspect.iscoroutinefunction(executor),
        plugin=plugin,
        checked=spec.parameters,
        original_name=name if spec.name != name else None,
        auto_approved=name in schema_approved,
    )


def spec_of(schema: Any, plugin: str) -> ToolSpec:
    """A documented declaration as the one kind there is. Raises `PluginError` naming what is wrong with it."""
    name = getattr(schema, "name", None)
    if not isinstance(name, str) or not name:
        raise PluginError(f"The plugin {plugin} declares a tool without a name: {schema!r}.")
    parameters = getattr(schema, "parameters", None) or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise PluginError(
            f"The plugin {plugin}: parameters of {name} are {type(parameters).__name__}, not a dict."
        )
    problem = declaration_problem(schema, parameters)
    if problem:
        raise PluginError(f"The plugin {plugin}, tool {name}: {problem}.")
    try:
        check_size(parameters, "its")
        Validator(parameters)
    except (PluginError, TypeError, ValueError, RecursionError) as error:
        raise PluginError(f"The plugin {plugin}, tool {name}: {error}") from None
    return ToolSpec(
        name=wire_name(name),
        description=replace_surrogates(str(getattr(schema, "description", "") or "")),
        parameters=parameters if "type" in parameters else {"type": "object", **parameters},
        category=getattr(schema, "category", None) or "uncategorized",
        discoverability=getattr(schema, "discoverability", None) or "discoverable",
        access="execute",
    )


def declaration_problem(schema: Any, parameters: dict[str, Any]) -> str | None:
    """What is wrong with a declaration beside its JSON Schema, or None."""
    if parameters.get("type", "object") != "object":
        return f"its parameters are of type {parameters['type']!r}; arguments are always an object"
    mode = getattr(schema, "discoverability", None)
    if mode not in (None, "", "core", "discoverable"):
        return f"discoverability is core or discoverable, not {mode!r}"
    description = getattr(schema, "description", "")
    if description is not None and not isinstance(description, str):
        return f"its description is a {type(description).__name__}, not text"
    if len(description or "") > MAX_DESCRIPTION_CHARS:
        return f"its description is longer than {MAX_DESCRIPTION_CHARS:,} characters"
    category = getattr(schema, "category", None)
    return None if category is None else category_problem(category)


def run_documented(executor: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any], Call], Any]:
    """An executor of one argument as one that also takes the call."""
    return lambda arguments, _call: executor(arguments)


Executor = Callable[[dict[str, Any]], Any]


def executors_of(
    toolsets: Iterable[Toolset], tools: Iterable[Tool], workspace: Callable[[], Path]
) -> dict[str, Executor]:
    """A function per tool name, alias and user command; a tool's own name comes before any alias of another."""
    executors: dict[str, Executor] = {}
    for toolset in toolsets:
        executors |= {name: run for name, (_, run) in toolset.commands.items() if run is not None}
        for tool in toolset.tools:
            executors |= {alias: blocking(tool, rename, workspace) for alias, rename in tool.aliases.items()}
    return executors | {tool.name: blocking(tool, {}, workspace) for tool in tools}


def blocking(tool: Tool, rename: Rename, workspace: Callable[[], Path]) -> Executor:
    """The tool as a plain function of its argument dict. It works in this directory, or where the call does that it is
    part of."""

    def execute(arguments: dict[str, Any]) -> Any:
        renamed = {rename.get(key, key): value for key, value in arguments.items()}
        call = CURRENT.get() or Call(id="", name=tool.name, arguments=renamed, workspace=workspace())
        value = tool.run(renamed, call)
        return to_plain_value(PORTAL.call(value) if inspect.iscoroutine(value) else value)

    return execute


def schemas_of(tools: Iterable[Tool]) -> list[ToolSchema]:
    """The declarations of tools in the documented form."""
    return [
        ToolSchema(
            tool.name,
            tool.spec.description,
            tool.spec.parameters,
            tool.spec.category,
            tool.spec.discoverability,
        )
        for tool in tools
    ]
