"""A registry's tool as a tool of ours: its name here, its parameters once they are needed, and the call."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import anyio.to_thread
import msgspec
from msgspec import UNSET

from jaato.errors import ConfigError, InvalidArguments, ToolError
from jaato.plugins.arp.calls import body_of, headers_of, output_of
from jaato.plugins.arp.config import RegistryConfig, target_of
from jaato.plugins.arp.definitions import Definitions, KnownDefinition
from jaato.plugins.arp.errors import RegistryRefusal
from jaato.plugins.arp.pins import Pins, hash_of
from jaato.plugins.arp.remote_registry import RemoteRegistry
from jaato.plugins.arp.validation import access_of
from jaato.protocol.arp import ToolView
from jaato.protocol.messages import Problem
from jaato.protocol.specs import ToolSpec
from jaato.tools.call import Call, Output, no_output
from jaato.tools.catalog import wire_name
from jaato.tools.invisible_text import one_line
from jaato.tools.schema import arguments_error
from jaato.tools.tool import FIRST, Tool

CATEGORY = "registry"
BACKGROUND_AFTER_S = 10.0
MAX_SHOWN_SCHEMA_CHARS = 4_000
MAX_TAGS = 100
MAX_TAG_CHARS = 100
MAX_CHECKED = 1_000
UNKNOWN_PARAMETERS: dict[str, Any] = {"type": "object"}
STALE = frozenset(("tool.invalid_args", "request.invalid_shape", "tool.not_found"))
"""Answers that may mean that the definition is another by now."""


class RegistryTool:
    """Where one tool is. Known by its name and description until its definition is requested."""

    def __init__(self, source: RemoteRegistry, definitions: Definitions, view: ToolView, pins: Pins) -> None:
        self.source = source
        self.view = view
        self._definitions = definitions
        self._pins = pins
        self._checked_hashes: dict[str, str] = {}
        """By which definition calls were judged: its hash by the call's id, empty where none was known."""
        self._allowed_changed: set[str] = set()
        """Of these calls, those made without a review of the change."""

    @property
    def place(self) -> str:
        """Which registry it is a tool of."""
        return f"the registry {self.source.name!r} ({target_of(self.source.config)})"

    @property
    def accept_command(self) -> str:
        """The command that accepts its tools as they are now."""
        return f"jaato registry trust {shlex.quote(self.source.name)}"

    @property
    def unreachable_reason(self) -> str:
        """Why its registry cannot be reached now."""
        return self.source.failure

    def describe_change(self, call: Call) -> str:
        """How the tool differs from what it was when a call of it was last allowed."""
        known = self._definitions.get_cached(self.view.name)
        if call.id:
            self._allowed_changed.discard(call.id)
            self._checked_hashes.pop(call.id, None)
            self._checked_hashes[call.id] = "" if known is None else hash_of(known.definition)
            if len(self._checked_hashes) > MAX_CHECKED:
                oldest = next(iter(self._checked_hashes))
                del self._checked_hashes[oldest]
                self._allowed_changed.discard(oldest)
        return "" if known is None else self._pins.describe_change(known.definition)

    def allow_changed(self, call: Call) -> None:
        """Pin nothing by this call: whoever allows everything has allowed this very definition to no rule."""
        if call.id in self._checked_hashes:
            self._allowed_changed.add(call.id)

    async def _check_pin(self, known: KnownDefinition, call: Call) -> None:
        """Raise `RegistryRefusal` for a call that was allowed for another definition; else that one is what is allowed."""
        checked = self._checked_hashes.pop(call.id, None)
        is_allowed_changed = call.id in self._allowed_changed
        self._allowed_changed.discard(call.id)
        if checked is None:
            return  # no permission was needed
        now, pinned = hash_of(known.definition), self._pins.holds(self.view.name)
        if checked != now and (checked or pinned not in ("", now)):
            raise RegistryRefusal(
                Problem(
                    code="registry_definition_changed",
                    message=f"The tool {call.name} of {self.place} has changed since this call was judged; make it again, "
                    f"by its parameters as they are now: {format_parameters(known)}.",
                    retryable=True,
                )
            )
        if pinned == now or is_allowed_changed:
            return
        try:
            await anyio.to_thread.run_sync(self._pins.pin, known.definition)
        except (ConfigError, OSError) as error:
            self.source.log_problem(f"what was allowed cannot be kept: {error}")

    @property
    def batch_key(self) -> object:
        """The definitions of its registry, which are asked for together."""
        return self._definitions

    async def complete(self, tool: Tool) -> None:
        """Have the tool learn its parameters. Raises `ToolError`s."""
        apply_definition(tool, await self._definitions.get(self.view.name))

    async def complete_all(self, tools: Sequence[Tool]) -> dict[str, ToolError]:
        """Have tools of this registry learn theirs; why not, by name, of those that could not."""
        wanted = {tool.remote.view.name: tool for tool in tools if isinstance(tool.remote, RegistryTool)}
        found = await self._definitions.get_all(list(wanted))
        failed: dict[str, ToolError] = {}
        for name, known in found.items():
            tool = wanted[name]
            if isinstance(known, ToolError):
                failed[tool.name] = known
            else:
                apply_definition(tool, known)
        return failed

    async def call(self, tool: Tool, arguments: dict[str, Any], call: Call) -> Output:
        """Carry out a call. Raises `ToolError`s."""
        known = self._definitions.get_cached(self.view.name)
        if known is None or tool.checked is not known.definition.parameters:
            known = known or await self._definitions.get(self.view.name)
            apply_definition(tool, known)
            issues = known.validator.issues(arguments)
            if issues:
                raise with_schema(arguments_error(tool.name, issues), known)
        await self._check_pin(known, call)
        body = body_of(arguments, call)
        on_output = None if call.output is no_output else call.output
        answer = await self.source.invoke(self.view.name, body, headers_of(call), on_output)
        try:
            return output_of(self.source.name, answer, known.definition)
        except RegistryRefusal as error:
            if error.problem.code in STALE:
                await self._refresh_definition(tool, known, error)
            raise

    async def _refresh_definition(self, tool: Tool, known: KnownDefinition, error: RegistryRefusal) -> None:
        """Raise the error for a call that was refused because the tool has changed."""
        try:
            now = await self._definitions.get(self.view.name, refresh=True)
        except ToolError:
            return
        if now.definition.parameters != known.definition.parameters:
            apply_definition(tool, now)
            problem = msgspec.structs.replace(
                error.problem,
                message=f"{error.problem.message} Its parameters have changed since; now they are {format_parameters(now)}.",
                retryable=True,
            )
            raise RegistryRefusal(problem) from None


def full_name(config: RegistryConfig, name: str) -> str:
    """A tool's name with its registry's prefix."""
    return wire_name(f"{config.prefix}__{name}")


def make_tool(registry_tool: RegistryTool, known: KnownDefinition | None, *, prefixed: bool) -> Tool:
    """One tool, under its own name where that is allowed and free."""
    full = full_name(registry_tool.source.config, registry_tool.view.name)
    tool = Tool(
        spec=ToolSpec(
            name=full if prefixed else wire_name(registry_tool.view.name),
            description=registry_tool.view.description,
            parameters=UNKNOWN_PARAMETERS,
            category=CATEGORY,
            access=access_of(False),
        ),
        run=lambda arguments, call: registry_tool.call(tool, arguments, call),
        is_async=True,
        plugin="arp",
        checked=UNKNOWN_PARAMETERS,
        background_after_s=BACKGROUND_AFTER_S,
        remote=registry_tool,
        fallback=full,
        bare=wire_name(registry_tool.view.name),
    )
    if known is not None:
        apply_definition(tool, known)
    return tool


def apply_definition(tool: Tool, known: KnownDefinition) -> None:
    """Have a tool take over its definition; it never becomes less careful."""
    careful = known.careful or tool.spec.access != access_of(False)
    parameters = known.definition.parameters
    spec = msgspec.structs.replace(
        tool.spec,
        description=known.definition.description or tool.spec.description,
        parameters=parameters,
        access=access_of(careful),
    )
    tool.set_parameters(spec, parameters, known.validator)
    definition = known.definition
    tool.version = one_line(definition.version, MAX_TAG_CHARS) or FIRST
    tool.returns = None if definition.returns is UNSET else definition.returns
    tool.tags = (
        ()
        if definition.tags is UNSET
        else tuple(one_line(tag, MAX_TAG_CHARS) for tag in definition.tags[:MAX_TAGS])
    )


def with_schema(error: InvalidArguments, known: KnownDefinition) -> InvalidArguments:
    """The problems of arguments, with the parameters as they are: who made the call has not seen them."""
    return InvalidArguments(f"{error} The parameters are {format_parameters(known)}.", error.issues)


def format_parameters(known: KnownDefinition) -> str:
    """Parameters as text, if not too long."""
    text = msgspec.json.encode(known.definition.parameters).decode()
    return text if len(text) <= MAX_SHOWN_SCHEMA_CHARS else "long; ask for them with get_tool_schemas"
