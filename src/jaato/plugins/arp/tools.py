"""A registry's tool as a tool of ours: its name here, its parameters once somebody asks, and the call."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from jaato.errors import InvalidArguments, ToolError
from jaato.plugins.arp.checked import access_of
from jaato.plugins.arp.config import RegistryConfig
from jaato.plugins.arp.definitions import Definitions, Known
from jaato.plugins.arp.entry import target_of
from jaato.plugins.arp.faults import RegistryRefusal
from jaato.plugins.arp.http import Headers
from jaato.plugins.arp.results import output_of
from jaato.plugins.arp.source import Source
from jaato.protocol.arp import SCHEMA_VERSION, Invocation, ToolView
from jaato.protocol.ids import span_id, trace_id
from jaato.protocol.specs import ToolSpec
from jaato.tools.call import Call, Output
from jaato.tools.catalog import wire_name
from jaato.tools.schema import complain
from jaato.tools.tool import Tool

CATEGORY = "registry"
BACKGROUND_AFTER_S = 10.0
MAX_ARGUMENT_BYTES = 4_000_000
MAX_SHOWN_SCHEMA_CHARS = 4_000
UNKNOWN_PARAMETERS: dict[str, Any] = {"type": "object"}
TRACE = "trace"
"""The service by which who has a call made says as what step of which flow."""
STALE = frozenset(("tool.invalid_args", "request.invalid_shape", "tool.not_found"))
"""Answers that may mean that the definition is another by now."""


class Far:
    """Where one tool is. Known by its name and description until somebody asks."""

    def __init__(self, source: Source, definitions: Definitions, view: ToolView) -> None:
        self.source = source
        self.view = view
        self._definitions = definitions

    @property
    def place(self) -> str:
        """Which registry it is a tool of."""
        return f"the registry {self.source.name!r} ({target_of(self.source.config)})"

    @property
    def away(self) -> str:
        """Why its registry cannot be reached now."""
        return self.source.failure

    async def complete(self, tool: Tool) -> None:
        """Have the tool learn its parameters. Raises `ToolError`s."""
        learn(tool, await self._definitions.get(self.view.name))

    async def call(self, tool: Tool, arguments: dict[str, Any], call: Call) -> Output:
        """Carry out a call. Raises `ToolError`s."""
        known = self._definitions.at_hand(self.view.name)
        if known is None or tool.checked is not known.definition.parameters:
            known = known or await self._definitions.get(self.view.name)
            learn(tool, known)
            issues = known.validator.issues(arguments)
            if issues:
                raise with_schema(complain(tool.name, issues), known)
        body = body_of(arguments, call)
        answer = await self.source.invoke(self.view.name, body, headers_of(call))
        try:
            return output_of(self.source.name, answer, known.definition)
        except RegistryRefusal as error:
            if error.problem.code in STALE:
                await self._look_again(tool, known, error)
            raise

    async def _look_again(self, tool: Tool, known: Known, error: RegistryRefusal) -> None:
        """Raise what is to be said where a call was refused because the tool is another than it was."""
        try:
            now = await self._definitions.get(self.view.name, anew=True)
        except ToolError:
            return
        if now.definition.parameters != known.definition.parameters:
            learn(tool, now)
            problem = msgspec.structs.replace(
                error.problem,
                message=f"{error.problem.message} Its parameters have changed since; now they are {shown(now)}.",
                retryable=True,
            )
            raise RegistryRefusal(problem) from None


def full_name(config: RegistryConfig, name: str) -> str:
    """A tool's name with its registry's prefix."""
    return wire_name(f"{config.prefix}__{name}")


def make_tool(far: Far, known: Known | None, *, prefixed: bool) -> Tool:
    """One tool. It bears its own name where it may and nobody else has that."""
    full = full_name(far.source.config, far.view.name)
    tool = Tool(
        spec=ToolSpec(
            name=full if prefixed else wire_name(far.view.name),
            description=far.view.description,
            parameters=UNKNOWN_PARAMETERS,
            category=CATEGORY,
            access=access_of(False),
        ),
        run=lambda arguments, call: far.call(tool, arguments, call),
        is_async=True,
        plugin="arp",
        checked=UNKNOWN_PARAMETERS,
        background_after_s=BACKGROUND_AFTER_S,
        remote=far,
        fallback=full,
    )
    if known is not None:
        learn(tool, known)
    return tool


def learn(tool: Tool, known: Known) -> None:
    """Have a tool take over its definition; it never becomes less careful."""
    careful = known.careful or tool.spec.access != access_of(False)
    parameters = known.definition.parameters
    spec = msgspec.structs.replace(
        tool.spec,
        description=known.definition.description or tool.spec.description,
        parameters=parameters,
        access=access_of(careful),
    )
    tool.learn(spec, parameters, known.validator)


def body_of(arguments: dict[str, Any], call: Call) -> bytes:
    """The body of a call: what it is called with, in which session, as which step. Raises `ToolError`."""
    context = {"session_id": call.session_id, "agent_id": call.agent_id, "turn_id": call.turn_id}
    step_id = f"{call.turn_id}/{call.id}" if call.turn_id else call.id
    trace = call.services.get(TRACE) or {"flow_id": call.session_id, "step_id": step_id}
    body = msgspec.json.encode(
        Invocation(
            args=arguments,
            schema_version=SCHEMA_VERSION,
            context={key: value for key, value in context.items() if value},
            trace={key: value for key, value in trace.items() if value},
        )
    )
    if len(body) > MAX_ARGUMENT_BYTES:
        raise ToolError(f"The arguments have {len(body):,} bytes; at most {MAX_ARGUMENT_BYTES:,} are sent.")
    return body


def headers_of(call: Call) -> Headers:
    """By what a call is told from others: its id, for the registry's log and against doing it twice, and its trace."""
    found = [("traceparent", traceparent(call))]
    if call.id and call.id.isascii() and call.id.isprintable() and len(call.id) <= 200:
        found += [("X-Request-Id", call.id), ("Idempotency-Key", call.id)]
    return tuple(found)


def traceparent(call: Call) -> str:
    """The call in W3C Trace Context: the span of the program that it runs in, else the one our own traces give it."""
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is not None and tracing.get_current_span().get_span_context().is_valid:
        found: dict[str, str] = {}
        from opentelemetry.propagate import inject

        inject(found)
        if "traceparent" in found:
            return found["traceparent"]
    trace = trace_id(call.session_id, call.turn_id or call.id)
    return f"00-{trace}-{span_id(call.session_id, 'execute_tool', call.id)}-01"


def with_schema(error: InvalidArguments, known: Known) -> InvalidArguments:
    """The problems of arguments, with the parameters as they are: who made the call has not seen them."""
    return InvalidArguments(f"{error} The parameters are {shown(known)}.", error.issues)


def shown(known: Known) -> str:
    """Parameters as text, if not too long."""
    text = msgspec.json.encode(known.definition.parameters).decode()
    return text if len(text) <= MAX_SHOWN_SCHEMA_CHARS else "long; ask for them with get_tool_schemas"
