"""Tools: `@tool`, `Tool` and its options, made from functions and their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, overload

import msgspec

from jaato.errors import InvalidArguments, PluginError, ToolError
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.specs import Access, SandboxAccess, ToolSpec
from jaato.tools.call import Call
from jaato.tools.schema import Validator, arguments_struct, compact, foreign_value, schema_of
from jaato.typed_decoding import prepare_type

WIRE_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,64}")
MARK = "__jaato_tool__"
FIRST = "0.1.0"
"""The version of a tool that does not say which it is."""

F = TypeVar("F", bound=Callable[..., Any])
Rename = Mapping[str, str]
Meant = Callable[[dict[str, Any]], tuple[str, dict[str, Any]] | None]


class ToolOptions(msgspec.Struct, frozen=True):
    """The options of `@tool`."""

    name: str | None = None
    category: str = "uncategorized"
    access: Access = "execute"
    core: bool = False
    aliases: Mapping[str, Rename] = msgspec.field(default_factory=dict)
    background_after_s: float | None = None
    timeout_s: float | None = None
    parameters: dict[str, Any] | None = None
    examples: tuple[dict[str, Any], ...] = ()
    means: str | None = None
    version: str = FIRST
    returns: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    resumes: bool = False
    confines: bool = False
    examines: str | None = None
    reaches: str | None = None
    previews: str | None = None


class RemoteTool(Protocol):
    """The remote server of a tool, whose parameters are loaded lazily, when they are first needed."""

    @property
    def place(self) -> str:
        """Where a call of it is carried out, as permission questions say it."""
        ...

    @property
    def accept_command(self) -> str:
        """The command by which a person accepts what has changed of its tools."""
        ...

    @property
    def unreachable_reason(self) -> str:
        """Why it is unreachable now; empty when it is reachable."""
        ...

    def describe_change(self, call: Call) -> str:
        """How the tool differs from its definition when a call was last allowed; empty where it does not. The described
        definition is what this call is checked against; a call without an id is never made."""
        ...

    def allow_changed(self, call: Call) -> None:
        """Record that this call is made although the tool has changed, since everything is allowed; the changed definition is
        not accepted by that."""
        ...

    @property
    def batch_key(self) -> object:
        """A key that is equal for tools whose parameters can be loaded in one request."""
        ...

    async def complete(self, tool: Tool) -> None:
        """Load the parameters of the tool. Raises `ToolError`."""
        ...

    async def complete_all(self, tools: Sequence[Tool]) -> dict[str, ToolError]:
        """Load the parameters of tools with the same key; returns the errors by tool name."""
        ...


class Declaration(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool declares: its `spec`, and `checked`, the schema of its arguments (`Tool.checked`)."""

    spec: ToolSpec
    checked: dict[str, Any] | None = None


class Tool(msgspec.Struct, eq=False):
    """A tool that can be called. `run(arguments, call)` takes valid arguments and may be a coroutine function.
    `remote` has the parameters of one that is known by name only; `fallback` is its name where another tool has
    its own, `bare` its name at its source: a rule that denies `bare` denies it under every name.

    `checked` is the schema that arguments are validated against; None accepts any object. `aliases` maps each other spelling of
    the name to the renaming of its arguments. `means` maps a call to one of another tool, with its
    arguments, which is then permitted and run instead; None for a call that is none. `version`, `returns` (a JSON Schema),
    `tags` and `source` are published by a registry. A tool that `resumes` continues a call that a crash interrupted when it
    is made again, as `call.again` says. One that `confines` starts its process in the sandbox of `call.access`;
    `examines` finds problems of arguments that the schema accepts, `reaches` gives the access of the process that a call
    uses, None where that is unknown; `previews` returns a unified diff of what a call would change in files.
    """

    spec: ToolSpec
    run: Callable[[dict[str, Any], Call], Any]
    is_async: bool = False
    plugin: str = ""
    checked: dict[str, Any] | None = None
    aliases: Mapping[str, Rename] = msgspec.field(default_factory=dict)
    original_name: str | None = None
    remote: RemoteTool | None = None
    fallback: str | None = None
    bare: str | None = None
    auto_approved: bool = False
    background_after_s: float | None = None
    timeout_s: float | None = None
    means: Meant | None = None
    version: str = FIRST
    returns: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    source: Mapping[str, Any] = msgspec.field(default_factory=dict)
    resumes: bool = False
    confines: bool = False
    examines: Callable[[dict[str, Any]], list[tuple[str, str]]] | None = None
    reaches: Callable[[Call], SandboxAccess | None] | None = None
    previews: Callable[[dict[str, Any]], str] | None = None
    _validator: Validator | None = None

    @property
    def name(self) -> str:
        """The canonical name."""
        return self.spec.name

    def set_parameters(self, spec: ToolSpec, checked: dict[str, Any], validator: Validator) -> None:
        """Set the parameters of a tool that was known by name only, or change them, wherever it is listed."""
        self.checked, self._validator, self.spec = checked, validator, spec

    def issues(self, arguments: dict[str, Any]) -> list[tuple[str, str]]:
        """Every problem of these arguments, as (JSON Pointer, message)."""
        if self._validator is None:
            self._validator = Validator(self.checked if self.checked is not None else {"type": "object"})
        found = self._validator.issues(arguments)
        return found if found or self.examines is None else self.examines(arguments)


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    category: str = "uncategorized",
    access: Access = "execute",
    core: bool = False,
    aliases: Mapping[str, Rename] | None = None,
    background_after_s: float | None = None,
    timeout_s: float | None = None,
    parameters: dict[str, Any] | None = None,
    examples: tuple[dict[str, Any], ...] = (),
    means: str | None = None,
    version: str = FIRST,
    returns: dict[str, Any] | None = None,
    tags: tuple[str, ...] = (),
    resumes: bool = False,
    confines: bool = False,
    examines: str | None = None,
    reaches: str | None = None,
    previews: str | None = None,
) -> Callable[[F], F]: ...
def tool(function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
    """Mark a function or method as a tool: its name, docstring and signature are what the model sees.

    `access` says what it may touch (`read` is allowed by default, the others ask); `core` declares it from the start;
    `background_after_s` lets a slow call go on as a background task; `parameters` replaces the generated schema; `version`,
    `returns` and `tags` are for those to whom a registry offers it; `resumes` and `confines`: see `Tool`; `means`, `examines`,
    `reaches` and `previews` name methods of its object.
    """
    if function is not None:
        setattr(function, MARK, ToolOptions())
        return function
    aliases = options.pop("aliases", None)
    settled = ToolOptions(**options, aliases=aliases or {})

    def mark(marked: F) -> F:
        setattr(marked, MARK, settled)
        return marked

    return mark


def options_of(function: Callable[..., Any]) -> ToolOptions | None:
    """The options of `@tool` on this function, or None."""
    return getattr(inspect.unwrap(function), MARK, None)


def tool_from(
    function: Callable[..., Any], plugin: str = "", known: Mapping[str, Declaration] = MappingProxyType({})
) -> Tool:
    """A tool from a function or bound method, marked or not; its declaration is taken from `known` where its name is
    there. Raises `PluginError` when it cannot be one."""
    options = options_of(function) or ToolOptions()
    name = options.name or str(getattr(function, "__name__", type(function).__name__))
    if not WIRE_NAME.fullmatch(name):
        raise PluginError(f"{name!r} is no tool name: use letters, digits, _ and -, at most 64.")
    plain_function = unwrap_function(function)
    if inspect.isgeneratorfunction(plain_function) or inspect.isasyncgenfunction(plain_function):
        raise PluginError(
            f"The tool {name} is a generator: give the whole result, and show progress with call.output."
        )
    declared = known.get(name) or declare(function, name, options)
    return Tool(
        spec=declared.spec,
        run=ArgumentBinder(function).run,
        is_async=inspect.iscoroutinefunction(plain_function),
        plugin=plugin,
        checked=declared.checked,
        aliases=options.aliases,
        background_after_s=options.background_after_s,
        timeout_s=options.timeout_s,
        means=method_of(function, options.means),
        version=options.version,
        returns=options.returns,
        tags=options.tags,
        resumes=options.resumes,
        confines=options.confines,
        examines=method_of(function, options.examines),
        reaches=method_of(function, options.reaches),
        previews=method_of(function, options.previews),
    )


def declare(function: Callable[..., Any], name: str, options: ToolOptions) -> Declaration:
    """The declaration that a function's docstring and signature make. Raises `PluginError`."""
    struct, _ = arguments_struct(unwrap_function(function))
    checked = options.parameters or schema_of(struct)
    spec = ToolSpec(
        name=name,
        description=inspect.cleandoc(inspect.getdoc(function) or "").strip(),
        parameters=options.parameters or compact(checked),
        category=options.category,
        discoverability="core" if options.core else "discoverable",
        access=options.access,
        examples=list(options.examples),
    )
    return Declaration(spec, checked)


def method_of(function: Callable[..., Any], name: str | None) -> Any:
    """The method of this name of the object that a tool's function is bound to; None where there is none."""
    return getattr(function.__self__, name) if name and inspect.ismethod(function) else None


class ArgumentBinder:
    """Calls a function with its arguments in the types of its signature. Those are made at the first call: thousands of
    tools are listed and never called."""

    __slots__ = ("_function", "_signature")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature: tuple[type[msgspec.Struct], str | None] | None = None

    def run(self, arguments: dict[str, Any], call: Call) -> Any:
        """Call it. Raises `InvalidArguments`, and what it raises."""
        if self._signature is None:
            signature = arguments_struct(unwrap_function(self._function))
            prepare_type(signature[0])  # two first calls may run in two threads
            self._signature = signature
        struct, call_parameter = self._signature
        try:
            typed = msgspec.convert(arguments, struct, dec_hook=foreign_value)
        except msgspec.ValidationError as error:
            raise InvalidArguments(
                f"Invalid arguments for {call.name}: {error}", [("", str(error))]
            ) from None
        keywords = msgspec.structs.asdict(typed)
        if call_parameter is not None:
            keywords[call_parameter] = call
        return self._function(**keywords)


def unwrap_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that has the signature."""
    return function if inspect.isroutine(function) else type(function).__call__


def tools_of(
    plugin: object, name: str, known: Mapping[str, Declaration] = MappingProxyType({})
) -> list[Tool]:
    """The tools of a native plugin, in the order they are written; `known` as in `tool_from`."""
    methods = [
        getattr(plugin, attribute)
        for kind in reversed(type(plugin).__mro__)
        for attribute, member in vars(kind).items()
        if callable(member) and options_of(member) is not None
    ]
    return [tool_from(method, name, known) for method in methods]
