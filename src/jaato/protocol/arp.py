"""What crosses the wire between a tool registry and who uses it: closed types, in which what is optional is absent, never null."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from jaato.errors import JaatoError
from jaato.protocol.codec import json_problems

SCHEMA_VERSION = "0.1.0"
SPOKEN = re.compile(r"0\.1\.(0|[1-9][0-9]{0,8})")
"""The versions of the contract that are understood: before 1.0 a new minor version may mean something else."""
LIST_PATH = "/v1/tools"
BATCH_GET = ":batchGet"
INVOKE = ":invoke"
MAX_CONTEXT_DEPTH = 256
"""Levels of nesting that `context` and `trace` may have."""

SPACED = re.compile(rb'"[ \t\r\n]+:')
BRANCHES = (dict, list)

T = TypeVar("T")

OwnVersion = Annotated[str, Meta(extra_json_schema={"const": SCHEMA_VERSION})]
"""`schema_version` of what this package writes; what others write is read with any version."""
ReadVersion = Annotated[str, Meta(extra_json_schema={"pattern": f"^{SPOKEN.pattern}$"})]


class ToolView(Struct, frozen=True, gc=False):
    """A tool as a planner sees it."""

    name: str
    description: str


class ToolDefinition(Struct, frozen=True, gc=False):
    """A tool, whole. `parameters` and `returns` are JSON Schemas; `source` says where it comes from."""

    schema_version: OwnVersion
    name: str
    description: str
    version: str
    parameters: dict[str, Any]
    returns: dict[str, Any] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    source: dict[str, Any] | str | UnsetType = UNSET


class Invocation(Struct, frozen=True, gc=False):
    """The body of a call; `trace` has `flow_id` and `step_id`, which tell calls of one flow. What is optional
    may be null, and is then read as absent."""

    args: dict[str, Any]
    schema_version: ReadVersion | UnsetType | None = UNSET
    context: dict[str, Any] | UnsetType | None = UNSET
    trace: dict[str, Any] | UnsetType | None = UNSET


class ToolError(Struct, frozen=True, gc=False):
    """Why a call failed: a code of the contract's, words that say what to do, and whether the same call may work later."""

    schema_version: OwnVersion
    code: str
    message: str
    retryable: bool
    details: dict[str, Any] | UnsetType = UNSET


class ErrorBody(Struct, frozen=True, gc=False):
    """The body of a response with an error that is not the result of a call."""

    error: ToolError


class Metrics(Struct, frozen=True, gc=False):
    """What a call cost; in milliseconds."""

    latency_ms: Annotated[float, Meta(extra_json_schema={"minimum": 0})]


class ToolResult(Struct, frozen=True, gc=False, kw_only=True):
    """What a call gave: `result` when it is ok, which may be null, else `error`; never both."""

    schema_version: OwnVersion
    ok: bool
    result: Any = UNSET
    error: ToolError | UnsetType = UNSET
    metrics: Metrics


class GotTool(Struct, frozen=True, gc=False):
    """One answer of `batchGet`: the definition, else why there is none; never both."""

    definition: ToolDefinition | UnsetType = UNSET
    error: ToolError | UnsetType = UNSET


class BatchGot(Struct, frozen=True, gc=False):
    """The answer to `batchGet`: a result for each name, in their order."""

    schema_version: str
    results: list[GotTool]


class InvalidJson(JaatoError):
    """The bytes are no JSON as RFC 8259 has it, in UTF-8."""

    code = "request.invalid_json"


class InvalidShape(JaatoError):
    """It is JSON, and not what the contract says stands here."""

    code = "request.invalid_shape"


REQUEST_ERRORS = frozenset((InvalidJson.code, InvalidShape.code))
"""Codes of requests that are not calls: their errors are not results of a call on any route."""

INVOCATION: msgspec.json.Decoder[Invocation] = msgspec.json.Decoder(Invocation)
VIEWS: msgspec.json.Decoder[list[ToolView]] = msgspec.json.Decoder(list[ToolView])
DEFINITION: msgspec.json.Decoder[ToolDefinition] = msgspec.json.Decoder(ToolDefinition)
RESULT: msgspec.json.Decoder[ToolResult] = msgspec.json.Decoder(ToolResult)
GOT: msgspec.json.Decoder[BatchGot] = msgspec.json.Decoder(BatchGot)
ERROR: msgspec.json.Decoder[ToolError] = msgspec.json.Decoder(ToolError)
ERROR_BODY: msgspec.json.Decoder[ErrorBody] = msgspec.json.Decoder(ErrorBody)


def strict(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode untrusted JSON: no NaN, no lone surrogate, no name twice in an object, no end of nesting.

    Raises `InvalidJson`, and `InvalidShape` for JSON of another shape.
    """
    try:
        value = decoder.decode(data)
        NAMES.decode(data.decode())
        return value
    except msgspec.ValidationError as error:
        plain(data)
        raise InvalidShape(f"This is not what is expected here: {error}") from None
    except ValueError as error:
        raise InvalidJson(f"This is no JSON: {fault_of(data, error)}") from None
    except RecursionError:
        raise InvalidJson("This is nested too deeply to be read.") from None


def plain(data: bytes) -> None:
    """Read all of it, whatever it is: what follows a wrong place was not read. Raises `InvalidJson`."""
    try:
        msgspec.json.decode(data)
        NAMES.decode(data.decode())
    except msgspec.ValidationError:
        return  # a number beyond what can be kept, which is JSON all the same
    except ValueError as error:
        raise InvalidJson(f"This is no JSON: {fault_of(data, error)}") from None
    except RecursionError:
        raise InvalidJson("This is nested too deeply to be read.") from None


def fault_of(data: bytes, error: ValueError) -> str:
    """What is wrong with bytes that are no JSON; the decoder's own words are about the piece it was at."""
    if not data.strip():
        return "it is empty"
    try:
        NAMES.decode(data.decode())
    except UnicodeDecodeError as problem:
        return f"its byte {problem.start} is not UTF-8"
    except (ValueError, RecursionError):
        return str(error)
    return "a text has half a character (a lone surrogate)"  # which is all that the one reads and the other does not


def names_of(made: Invocation, braces: int) -> int:
    """How many names there are in a call: as many as quotes before a colon in its bytes, unless a name stands twice, or in
    a text or in what was not kept, and it has to be looked into. `braces` open in its bytes."""
    parts = [made.args]
    found = 1 + (made.schema_version is not UNSET)
    for part in (made.context, made.trace):
        if part is not UNSET:
            found += 1
            if part is not None:
                parts.append(part)
    found += sum(map(len, parts))
    if braces != 1 + len(parts):  # there are objects within, or braces in texts
        for part in parts:
            found += sum([names_in(value) for value in part.values() if value.__class__ in BRANCHES])
    return found


def names_in(value: Any) -> int:
    """How many names the objects in a value have."""
    if value.__class__ is dict:
        return len(value) + sum([names_in(one) for one in value.values() if one.__class__ in BRANCHES])
    return sum([names_in(one) for one in value if one.__class__ in BRANCHES])


def unique(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a name that stands twice: who reads the first and who reads the last see different calls."""
    if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("an object has the same name twice")


def unknown(constant: str) -> None:
    """Refuse NaN and the infinities."""
    raise ValueError(f"{constant} is no number of JSON")


NAMES = json.JSONDecoder(
    object_pairs_hook=unique, parse_int=len, parse_float=len, parse_constant=unknown, strict=True
)


def decode_invocation(data: bytes) -> Invocation:
    """The body of a call. Raises `InvalidJson`, `InvalidShape`."""
    try:
        made = INVOCATION.decode(data)
        doubtful = SPACED.search(data) is not None or data.count(b'":') != names_of(made, data.count(b"{"))
    except (ValueError, RecursionError):
        doubtful = True
    if doubtful:
        made = strict(data, INVOCATION)
    if isinstance(made.schema_version, str) and SPOKEN.fullmatch(made.schema_version) is None:
        raise InvalidShape(
            f"schema_version {made.schema_version[:40]!r} is not spoken here; {SCHEMA_VERSION} is."
        )
    for name, value in (("context", made.context), ("trace", made.trace)):
        if value is None:
            made = structs.replace(made, **{name: UNSET})
        elif value is not UNSET and (problems := json_problems(value, MAX_CONTEXT_DEPTH)):
            raise InvalidShape(f"{name}{problems[0][0]} {problems[0][1]}.")
    return made


def decode_views(data: bytes) -> list[ToolView]:
    """A registry's list of tools. Raises `InvalidJson`, `InvalidShape`."""
    return strict(data, VIEWS)


def decode_definition(data: bytes) -> ToolDefinition:
    """A registry's definition of one tool. Raises `InvalidJson`, `InvalidShape`."""
    return strict(data, DEFINITION)


def decode_result(data: bytes) -> ToolResult:
    """A registry's answer to a call. Raises `InvalidJson`, `InvalidShape`, also for one that says yes and no."""
    made = strict(data, RESULT)
    if made.ok in (made.result is UNSET, made.error is not UNSET):
        raise InvalidShape(
            "This is not what is expected here: a result has `result` when it is ok, else `error`."
        )
    return made


def decode_error(data: bytes) -> ToolError:
    """The error in a registry's response that is not a result, also without `{"error": ...}` around it. Raises
    `InvalidJson`, `InvalidShape`."""
    try:
        return strict(data, ERROR_BODY).error
    except InvalidShape:
        return strict(data, ERROR)


def decode_batch(data: bytes) -> list[GotTool]:
    """A registry's definitions of several tools. Raises `InvalidJson`, `InvalidShape`."""
    return strict(data, GOT).results
