"""JSON Schema of tools: made from signatures, validated, and bounded in cost where it comes from outside."""

from __future__ import annotations

import copy
import functools
import inspect
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints
from urllib.parse import unquote

import msgspec

from jaato.errors import InvalidArguments, Mismatch, PluginError
from jaato.protocol.codec import escape, json_problems
from jaato.tools.call import Call

if TYPE_CHECKING:
    import jsonschema_rs

MAX_STEPS = 500_000
"""Applications of one subschema to one part of a value: about a tenth of a second of validation."""
SMALL = 2_000
"""A schema that makes fewer steps of any part of a value needs no counting."""

ONE = ("not", "if", "then", "else")
LISTS = ("allOf", "anyOf", "oneOf")
TABLES = ("dependentSchemas", "dependencies")
ITEMS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
MEMBERS = ("additionalProperties", "propertyNames", "unevaluatedProperties")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

Node = dict[str, Any]


class TooMuch(Exception):
    """Validation would take more than `MAX_STEPS`."""


class SchemaCost:
    """Counts the steps of one schema. `bounded` says that no value needs to be counted."""

    def __init__(self, schema: Node) -> None:
        self._root = schema
        self._anchors: dict[str, Node] = {}
        self._nodes: dict[int, Node] = {}
        self._closures: dict[int, Counter[int]] = {}
        self._stored = 0
        self.bounded = self._is_bounded()

    def exceeds(self, value: Any) -> bool:
        """Whether validating this value takes more than `MAX_STEPS`."""
        if self.bounded:
            return False
        try:
            self._count(value)
        except TooMuch:
            return True
        return False

    def _count(self, value: Any) -> None:
        spent = 0
        waiting: list[tuple[Counter[int], Any]] = [(self._closure(self._root), value)]
        while waiting:
            nodes, part = waiting.pop()
            spent += nodes.total()
            if spent > MAX_STEPS:
                raise TooMuch
            inside = (
                part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
            )
            for key, member in inside:
                below: Counter[int] = Counter()
                for node, times in nodes.items():
                    spent += 1
                    for child in find_applied_schemas(self._nodes[node], key):
                        for reached, count in self._closure(child).items():
                            below[reached] += times * count
                if below:
                    waiting.append((below, member))

    def _is_bounded(self) -> bool:
        """Whether the schema is a small tree once its references are followed."""
        if not self._look(self._root):
            return True
        try:
            return self._weight(self._root, {}, set()) <= SMALL
        except RecursionError:
            return False

    def _look(self, top: Any) -> bool:
        """Note what has a name; whether anything is a reference."""
        refers = False
        waiting = [top]
        while waiting:
            match waiting.pop():
                case dict() as node:
                    for name in ("$anchor", "$dynamicAnchor", "$id"):
                        if isinstance(node.get(name), str):
                            self._anchors[node[name]] = node
                    refers = refers or any(name in node for name in REFERENCES)
                    waiting += node.values()
                case list() as nodes:
                    waiting += nodes
        return refers

    def _weight(self, node: Node, known: dict[int, int], open_nodes: set[int]) -> int:
        """The size of the tree below a node; raises RecursionError when it has no end."""
        if id(node) in known:
            return known[id(node)]
        if id(node) in open_nodes:
            raise RecursionError
        open_nodes.add(id(node))
        total = 1 + sum(self._weight(child, known, open_nodes) for child in self._in_place(node))
        total += sum(self._weight(child, known, open_nodes) for child in everything_below(node))
        open_nodes.discard(id(node))
        known[id(node)] = total
        return total

    def _closure(self, top: Node) -> Counter[int]:
        """Every node that is applied to the same part of a value as this one, and how often."""
        found = self._closures.get(id(top))
        if found is not None:
            return found
        path = [(top, self._in_place(top))]
        begun = {id(top)}
        while path:
            node, children = path[-1]
            if children and id(children[-1]) not in self._closures and id(children[-1]) not in begun:
                begun.add(id(children[-1]))
                path.append((children[-1], self._in_place(children[-1])))
                continue
            if children:
                children.pop()
                continue
            path.pop()
            self._nodes[id(node)] = node
            sums = Counter({id(node): 1})
            for child in self._in_place(node):
                sums.update(self._closures.get(id(child), ()))
            self._stored += len(sums)
            if sums.total() > MAX_STEPS or self._stored > MAX_STEPS:
                raise TooMuch
            self._closures[id(node)] = sums
        return self._closures[id(top)]

    def _in_place(self, node: Node) -> list[Node]:
        """The subschemas that apply to the same part of the value."""
        found = [node[name] for name in ONE if name in node]
        for name in LISTS:
            found += node[name] if isinstance(node.get(name), list) else []
        for name in TABLES:
            found += node[name].values() if isinstance(node.get(name), dict) else []
        found += [self._target(node[name]) for name in REFERENCES if name in node]
        schemas = [child for child in found if isinstance(child, dict)]
        return schemas * 2 if "unevaluatedProperties" in node or "unevaluatedItems" in node else schemas

    def _target(self, reference: Any) -> Node:
        """The node a reference leads to; the whole schema, when it cannot be resolved."""
        base, _, fragment = str(reference).partition("#")
        place: Any = self._anchors.get(base, self._root)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment, self._root)
        for part in fragment.split("/")[1:]:
            step = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(place, list) and step.isdigit() and int(step) < len(place):
                place = place[int(step)]
            else:
                place = place.get(step) if isinstance(place, dict) else None
        return place if isinstance(place, dict) else self._root


def find_applied_schemas(node: Node, key: str | int) -> list[Node]:
    """The subschemas that a node applies, or may apply, to the member of this name or index."""
    found: list[Any] = []
    if isinstance(key, int):
        for name in ITEMS:
            entry = node.get(name)
            found += entry[key : key + 1] if isinstance(entry, list) else [entry]
    else:
        found = [node.get(name) for name in MEMBERS]
        properties, patterns = node.get("properties"), node.get("patternProperties")
        found += [properties.get(key)] if isinstance(properties, dict) else []
        found += patterns.values() if isinstance(patterns, dict) else []
    return [child for child in found if isinstance(child, dict)]


def everything_below(node: Node) -> list[Node]:
    """The subschemas that a node may apply to any member."""
    found: list[Any] = [node.get(name) for name in MEMBERS]
    for name in ITEMS:
        entry = node.get(name)
        found += entry if isinstance(entry, list) else [entry]
    for name in ("properties", "patternProperties"):
        table = node.get(name)
        found += table.values() if isinstance(table, dict) else []
    return [child for child in found if isinstance(child, dict)]


MAX_ISSUE_CHARS = 300


def with_description(annotation: Any) -> Any:
    """`Annotated[X, "text"]` as msgspec wants it: `Annotated[X, Meta(description="text")]`."""
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, *extras = get_args(annotation)
    metas = [msgspec.Meta(description=extra) if isinstance(extra, str) else extra for extra in extras]
    return Annotated[(kind, *metas)]


def arguments_struct(function: Callable[..., Any]) -> tuple[type[msgspec.Struct], str | None]:
    """A struct with one field per parameter, and the name of the parameter that takes the `Call`, if any."""
    name = getattr(function, "__name__", type(function).__name__)
    hints = hints_of(function, name)
    fields: list[Any] = []
    call_parameter = None
    for parameter in inspect.signature(function).parameters.values():
        annotation = hints.get(parameter.name, Any)
        if parameter.name == "self":
            continue
        if annotation is Call or get_origin(annotation) is Call:
            call_parameter = parameter.name
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise PluginError(f"The tool {name} takes *{parameter.name}; name each of its arguments instead.")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise PluginError(
                f"The tool {name} takes {parameter.name} by its place; have it taken by its name."
            )
        entry = (parameter.name, with_description(annotation))
        match parameter.default:
            case inspect.Parameter.empty:
                fields.append(entry)
            case list() | dict() | set() as default:
                fields.append(
                    (*entry, msgspec.field(default_factory=functools.partial(copy.deepcopy, default)))
                )
            case default:
                fields.append((*entry, default))
    struct = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    return struct, call_parameter


def hints_of(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """The types of a tool's parameters. Raises `PluginError` for one that cannot be found by its name."""
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise PluginError(
            f"The tool {name}: {error}. Define the types of its parameters at the top of its module, not in a function."
        ) from None


def takes_dependencies(function: Callable[..., Any]) -> bool:
    """Whether a tool has a parameter `Call[…]` of some type of dependencies."""
    types = [hint for hint in get_type_hints(function).values() if get_origin(hint) is Call]
    return any(get_args(hint) not in ((Any,), (type(None),)) for hint in types)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type, self-contained, without titles."""
    own = getattr(kind, "model_json_schema", None)  # pydantic's models describe themselves
    if own is not None:
        return dict(own())
    schema = msgspec.json.schema(kind, schema_hook=foreign_schema)
    definitions = schema.pop("$defs", {})
    reference = schema.pop("$ref", None)
    if reference is not None:
        own_name = reference.rsplit("/", 1)[1]
        schema = definitions[own_name] if uses(definitions, reference) else definitions.pop(own_name)
        schema = dict(schema)
    for one in (schema, *definitions.values()):
        one.pop("title", None)  # it costs tokens and repeats the name
        for entry in one.get("properties", {}).values():
            if "default" in entry and json_problems(entry["default"]):
                del entry["default"]  # JSON has no such value, an infinity for example
    return {**schema, "$defs": definitions} if definitions else schema


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with exactly these properties, in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def uses(value: Any, reference: str) -> bool:
    """Whether a schema refers to this definition."""
    match value:
        case dict():
            return value.get("$ref") == reference or any(uses(item, reference) for item in value.values())
        case list():
            return any(uses(item, reference) for item in value)
    return False


def foreign_schema(kind: Any) -> dict[str, Any]:
    """The schema of a type msgspec does not know: a pydantic model, else none."""
    own = getattr(kind, "model_json_schema", None)
    if own is None:
        raise PluginError(
            f"{kind!r} has no JSON Schema; use a builtin, dataclass, TypedDict or msgspec.Struct."
        )
    return dict(own())


def foreign_value(kind: Any, value: Any) -> Any:
    """A value of a type msgspec does not know."""
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError(f"{kind!r} cannot be read from JSON")
    return validate(value)


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as the model sees it: an optional parameter has its type, not `null` or a null default beside it."""
    properties = {name: without_null(entry) for name, entry in schema.get("properties", {}).items()}
    shown = {key: value for key, value in schema.items() if key != "additionalProperties"}
    return {**shown, "properties": properties}


def without_null(entry: dict[str, Any]) -> dict[str, Any]:
    """One parameter without its null alternative."""
    entry = {key: value for key, value in entry.items() if not (key == "default" and value is None)}
    choices = entry.get("anyOf")
    if not choices or {"type": "null"} not in choices:
        return entry
    rest = [choice for choice in choices if choice != {"type": "null"}]
    entry.pop("anyOf")
    return {**entry, **rest[0]} if len(rest) == 1 else {**entry, "anyOf": rest}


def refuse_reference(uri: str) -> Any:
    """Refuse to fetch a referenced schema: schemas are untrusted."""
    raise ValueError(f"refers to {uri}, which is not part of the schema")


UNEXPECTED = "is not a property that is known here"


class Validator:
    """Arguments against one JSON Schema, in Rust; linear-time patterns, no reference leaves the schema."""

    __slots__ = ("_compiled", "_cost")

    def __init__(self, schema: dict[str, Any]) -> None:
        import jsonschema_rs

        try:
            self._compiled = jsonschema_rs.validator_for(
                schema,
                retriever=refuse_reference,
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except (ValueError, TypeError, RecursionError) as error:
            raise PluginError(
                f"The parameters are not a JSON Schema: {str(error).partition(chr(10))[0][:MAX_ISSUE_CHARS]}"
            ) from None
        self._cost = SchemaCost(schema)

    def issues(self, arguments: Any) -> list[tuple[str, str]]:
        """Every problem as (JSON Pointer, message); empty when the arguments are valid."""
        found = json_problems(arguments)
        if found:
            return found
        if self._cost.exceeds(arguments):
            return [("", "fit too many alternatives of the schema to be checked; make them flatter or fewer")]
        if self._compiled.is_valid(arguments):
            return []
        return [issue for error in self._compiled.iter_errors(arguments) for issue in issues_in(error)]


def issues_in(error: jsonschema_rs.ValidationError) -> list[tuple[str, str]]:
    """The issues of one error: one for each missing or unexpected property."""
    from jsonschema_rs import ValidationErrorKind as Kind

    path = "".join(f"/{escape(str(step))}" for step in error.instance_path)
    message = error.message[:MAX_ISSUE_CHARS]
    match error.kind:
        case Kind.Required(property=missing):
            return [(f"{path}/{escape(missing)}", message)]
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            return [(f"{path}/{escape(name)}", UNEXPECTED) for name in names]
        case Kind.MinLength(limit=limit) | Kind.MaxLength(limit=limit):
            return [Mismatch(path, message, limit, len(str(error.instance)))]
    types = get_expected_types(error)
    return [Mismatch(path, message, types, type_name(error.instance)) if types else (path, message)]


def get_expected_types(error: jsonschema_rs.ValidationError) -> list[str]:
    """The types that the schema accepts, if the type is all that is wrong with the value; else empty."""
    from jsonschema_rs import ValidationErrorKind as Kind

    match error.kind:
        case Kind.Type(types=types):
            return sorted(types)
        case Kind.AnyOf(context=branches):
            found = [
                get_expected_types(one[0])
                if [each.instance_path for each in one] == [error.instance_path]
                else []
                for one in branches
            ]
            return sorted({name for types in found for name in types}) if all(found) else []
    return []


def type_name(value: Any) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def arguments_error(name: str, issues: list[tuple[str, str]]) -> InvalidArguments:
    """The error for these problems, worded for a model that will try again."""
    shown = "; ".join(f"{path or '/'} {message}" for path, message in issues[:8])
    more = f"; and {len(issues) - 8} more" if len(issues) > 8 else ""
    return InvalidArguments(
        f"Invalid arguments for {name}: {shown}{more}. Correct them and call again.", issues
    )


MAX_SCHEMA_BYTES = 256_000
MAX_SCHEMA_DEPTH = 32


def validator_of(schema: dict[str, Any], what: str = "its parameters") -> Validator:
    """A validator for an untrusted schema, bounded in size and depth. Raises `PluginError`."""
    if json_problems(schema) or not depth_within(schema, MAX_SCHEMA_DEPTH):
        raise PluginError(f"{what} are nested too deeply, or hold what is no JSON")
    if len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES:
        raise PluginError(f"{what} have more than {MAX_SCHEMA_BYTES:,} bytes")
    return Validator(schema)


def depth_within(value: Any, most: int) -> bool:
    """Whether a JSON value is nested no deeper than so many levels."""
    level = [value]
    for _ in range(most + 1):
        level = [
            member
            for one in level
            if isinstance(one, dict | list)
            for member in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return True
    return False
