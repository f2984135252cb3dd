"""The document: every path with its operations, and the types they speak of."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec

import jaato
from jaato.protocol.arp import INVOKE, LIST_PATH, SCHEMA_VERSION, SPOKEN
from jaato.protocol.arp_next import MAX_ID_CHARS
from jaato.server.registry.answers import STATUS
from jaato.server.registry.next.paths import PREFIX
from jaato.server.registry.openapi.calling import CALLING
from jaato.server.registry.openapi.later import LATER
from jaato.server.registry.openapi.operation import (
    ALWAYS,
    BESIDE,
    CALL_FAILURES,
    FAILURES,
    HEADERS,
    JSON,
    OPTIONAL,
    REQUEST_ID,
    RESULT,
    WITH_BODY,
    Answered,
    Operation,
    Parameter,
)
from jaato.server.registry.openapi.reading import READING
from jaato.server.registry.openapi.writing import PUT_FIELDS, WRITING
from jaato.server.registry.request import SCOPES, Kind

OPERATIONS: dict[tuple[Kind, bytes], Operation] = {**READING, **CALLING, **WRITING, **LATER}
"""What each method does; `HEAD` is as `GET`, without a body."""
PATHS: dict[Kind, tuple[str, ...]] = {
    "list": (LIST_PATH,),
    "tool": (f"{LIST_PATH}/{{name}}",),
    "invoke": (f"{LIST_PATH}/{{name}}{INVOKE}",),
    "batchGet": (f"{LIST_PATH}:batchGet",),
    "batchInvoke": (f"{LIST_PATH}:batchInvoke",),
    "cancel": (f"{LIST_PATH}:cancel",),
    "health": ("/healthz",),
    "version": ("/version",),
    "metrics": ("/metrics", f"{LIST_PATH}:metrics"),
    "openapi": ("/openapi.json", f"{LIST_PATH}:openapi"),
    "next_list": (f"{PREFIX}/v1/tools",),
    "next_tool": (f"{PREFIX}/v1/tools/{{name}}",),
    "next_invoke": (f"{PREFIX}/v1/tool-invocations",),
    "next_health": (f"{PREFIX}/v1/health",),
    "next_version": (f"{PREFIX}/v1/version",),
}
"""Where each is."""
KEY = "key"
REF = "#/components/schemas/{name}"
WORDS = """Tools of this registry for programs elsewhere: a list for planners, the schema of each, a call that is
validated. Errors say what to do; `retryable` says whether the same request may work later."""


def document(*, whole: bool = True, keyed: bool = False) -> dict[str, Any]:
    """The OpenAPI document: of the whole address, or of what is under the path of the list; `keyed` says that a key is
    needed, where otherwise it may be."""
    sent = types_of(one.body for one in OPERATIONS.values())
    told = types_of(
        each
        for one in OPERATIONS.values()
        for each in (one.errors, *(answered.body for answered in one.answers.values()))
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "jaato tool registry", "version": jaato.__version__, "description": WORDS},
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "tools", "description": "The tools that are served."},
            {"name": "registry", "description": "What the registry says of itself."},
            {
                "name": "later",
                "description": "The same in the words of the later generation of the contract.",
            },
        ],
        "paths": paths(whole=whole, keyed=keyed),
        "components": {
            "schemas": {**schemas(sent, closed=False), **schemas(told, closed=True)},
            "securitySchemes": {
                KEY: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key, or the token of the registry.",
                }
            },
            "headers": {
                name: {
                    "description": words,
                    "schema": schema,
                    **({} if name in OPTIONAL else {"required": True}),
                }
                for name, (words, schema) in HEADERS.items()
            },
        },
    }


def paths(*, whole: bool, keyed: bool) -> dict[str, Any]:
    """Every path, with what each method does there."""
    found: dict[str, Any] = {}
    for (kind, method), scope in SCOPES.items():
        operation = OPERATIONS[kind, b"GET" if method == b"HEAD" else method]
        path = (
            PATHS[kind][0] if whole else next((one for one in PATHS[kind] if one.startswith(LIST_PATH)), None)
        )
        if path is not None:
            made = described(operation, bare=method == b"HEAD")
            made["operationId"] = operation.id + ("Head" if method == b"HEAD" else "")
            made["security"] = [{}] if scope is None else [{KEY: [scope]}, *([] if keyed else [{}])]
            found.setdefault(path, {})[method.decode().lower()] = made
    return found


def described(operation: Operation, *, bare: bool) -> dict[str, Any]:
    """One operation; a `bare` one has no bodies."""
    failing = (*ALWAYS, *operation.fails, *(WITH_BODY if operation.body is not None else ()))
    special = CALL_FAILURES if operation.errors is RESULT else {}
    answers = {
        **operation.answers,
        **{
            status: Answered(
                special.get(status) or FAILURES[status], operation.errors, headers=BESIDE.get(status, ())
            )
            for status in failing
            if status not in operation.answers
        },
    }
    made: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.words.partition(". ")[0].rstrip("."),
        "description": operation.words,
        "parameters": [parameter(one) for one in (*operation.parameters, REQUEST_ID)],
        "responses": {str(status): answer(answers[status], bare=bare) for status in sorted(answers)},
    }
    if operation.body is not None:
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": schema_of(operation.body)}}}
    return {**made, **operation.more}


def parameter(one: Parameter) -> dict[str, Any]:
    """One parameter."""
    made = {"name": one.name, "in": one.where, "description": one.words, "schema": dict(one.schema)}
    return {**made, "required": True} if one.where == "path" else made


def answer(one: Answered, *, bare: bool) -> dict[str, Any]:
    """One answer."""
    names = ("X-Request-Id", *one.headers)
    made: dict[str, Any] = {
        "description": one.words,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
    }
    if bare:
        return made
    if one.body is not None:
        made["content"] = {JSON: {"schema": schema_of(one.body)}}
    if one.kinds:
        made.setdefault("content", {}).update({kind: {"schema": {"type": "string"}} for kind in one.kinds})
    return made


def types_of(bodies: Any) -> list[Any]:
    """The types that are named in these, each once."""
    found = dict.fromkeys(part for body in bodies if body is not None for part in parts_of(body))
    return [one for one in found if isinstance(one, type) and issubclass(one, msgspec.Struct)]


def parts_of(body: Any) -> tuple[Any, ...]:
    """The types in a list or a union; else the type."""
    return get_args(body) if get_origin(body) in (list, types.UnionType) else (body,)


def schema_of(body: Any) -> dict[str, Any]:
    """The schema of a type, by reference where it has a name."""
    (made,), _ = msgspec.json.schema_components([body], ref_template=REF)
    return dict(made)


NARROWED: dict[str, dict[str, Any]] = {
    "InvocationRequest": {"invocation_id": {"minLength": 1, "maxLength": MAX_ID_CHARS}},
    "InvocationResult": {"duration_ms": {"minimum": 0}},
    "Invocation": {"schema_version": {"pattern": f"^{SPOKEN.pattern}$"}},
    "ToolError": {"code": {"enum": sorted(STATUS)}, "schema_version": {"const": SCHEMA_VERSION}},
    "ToolResult": {"schema_version": {"const": SCHEMA_VERSION}},
    "ToolDefinition": {"schema_version": {"const": SCHEMA_VERSION}},
    "Metrics": {"latency_ms": {"minimum": 0}},
    **PUT_FIELDS,
}
"""What is known of some fields beyond their types."""
BESIDES: dict[str, dict[str, Any]] = {
    "InvocationRequest": {"anyOf": [{"required": ["tool_id"]}, {"required": ["tool_name"]}]}
}
"""What is known of some types as a whole."""


def narrowed(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with what is known beyond the types."""
    for field, more in NARROWED.get(name, {}).items():
        schema["properties"][field].update(more)
    return {**schema, **BESIDES.get(name, {})}


def schemas(named: list[Any], *, closed: bool) -> Mapping[str, Any]:
    """The types by their names; what is answered has no other fields than those that are told."""
    _, made = msgspec.json.schema_components(named, ref_template=REF)
    found = {name: narrowed(name, schema) for name, schema in made.items()}
    if closed:
        return {name: {**schema, "additionalProperties": False} for name, schema in found.items()}
    return found
