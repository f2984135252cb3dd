"""The document: every path with its operations, and the types they speak of."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec

from jaato.protocol.arp import INVOKE, LIST_PATH, SCHEMA_VERSION, SPOKEN
from jaato.server.registry.openapi.operations import (
    ALWAYS,
    BESIDE,
    CALL_FAILURES,
    CALLING,
    FAILURES,
    HEADERS,
    JSON,
    OPTIONAL,
    PUT_FIELDS,
    READING,
    REQUEST_ID,
    RESULT,
    WITH_BODY,
    WRITING,
    Answered,
    Operation,
    Parameter,
)
from jaato.server.registry.requests import SCOPES, Kind
from jaato.server.registry.responses import STATUS
from jaato.version import __version__

REF = "#/components/schemas/{name}"


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
    "Invocation": {"schema_version": {"pattern": f"^{SPOKEN.pattern}$"}},
    "ToolError": {"code": {"enum": sorted(STATUS)}, "schema_version": {"const": SCHEMA_VERSION}},
    "ToolResult": {"schema_version": {"const": SCHEMA_VERSION}},
    "ToolDefinition": {"schema_version": {"const": SCHEMA_VERSION}},
    "Metrics": {"latency_ms": {"minimum": 0}},
    **PUT_FIELDS,
}
"""What is known of some fields beyond their types."""


def narrowed(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with what is known beyond the types."""
    for field, more in NARROWED.get(name, {}).items():
        schema["properties"][field].update(more)
    return schema


def schemas(named: list[Any], *, closed: bool) -> Mapping[str, Any]:
    """The types by their names; what is answered has no other fields than those that are told."""
    _, made = msgspec.json.schema_components(named, ref_template=REF)
    found = {name: narrowed(name, schema) for name, schema in made.items()}
    if closed:
        return {name: {**schema, "additionalProperties": False} for name, schema in found.items()}
    return found


OPERATIONS: dict[tuple[Kind, bytes], Operation] = {**READING, **CALLING, **WRITING}
"""What each method does; `HEAD` is as `GET`, without a body."""
PATHS: dict[Kind, tuple[str, ...]] = {
    "list": (LIST_PATH,),
    "tool": (f"{LIST_PATH}/{{name}}",),
    "invoke": (f"{LIST_PATH}/{{name}}{INVOKE}",),
    "batchGet": (f"{LIST_PATH}:batchGet",),
    "batchInvoke": (f"{LIST_PATH}:batchInvoke",),
    "cancel": (f"{LIST_PATH}:cancel",),
    "result": (f"{LIST_PATH}:result",),
    "health": ("/healthz",),
    "version": ("/version",),
    "metrics": ("/metrics", f"{LIST_PATH}:metrics"),
    "openapi": ("/openapi.json", f"{LIST_PATH}:openapi"),
}
"""Where each is."""
KEY = "key"
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
    failures: dict[str, Any] = {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "jaato tool registry", "version": __version__, "description": WORDS},
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "tools", "description": "The tools that are served."},
            {"name": "registry", "description": "What the registry says of itself."},
        ],
        "paths": paths(failures, whole=whole, keyed=keyed),
        "components": {
            "responses": failures,
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


def paths(failures: dict[str, Any], *, whole: bool, keyed: bool) -> dict[str, Any]:
    """Every path, with what each method does there; what is answered to what fails goes to `failures`, once."""
    found: dict[str, Any] = {}
    for (kind, method), scope in SCOPES.items():
        operation = OPERATIONS[kind, b"GET" if method == b"HEAD" else method]
        path = (
            PATHS[kind][0] if whole else next((one for one in PATHS[kind] if one.startswith(LIST_PATH)), None)
        )
        if path is not None:
            made = described(operation, failures, bare=method == b"HEAD")
            made["operationId"] = operation.id + ("Head" if method == b"HEAD" else "")
            made["security"] = [{}] if scope is None else [{KEY: [scope]}, *([] if keyed else [{}])]
            found.setdefault(path, {})[method.decode().lower()] = made
    return found


def described(operation: Operation, failures: dict[str, Any], *, bare: bool) -> dict[str, Any]:
    """One operation; a `bare` one has no bodies."""
    answers = {status: answer(one, bare=bare) for status, one in operation.answers.items()}
    for status in (*ALWAYS, *operation.fails, *(WITH_BODY if operation.body is not None else ())):
        if status not in answers:
            name = f"{operation.errors.__name__}{status}{'Bare' if bare else ''}"
            failures[name] = answer(failure(operation.errors, status), bare=bare)
            answers[status] = {"$ref": f"#/components/responses/{name}"}
    made: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.words.partition(". ")[0].rstrip("."),
        "description": operation.words,
        "parameters": [parameter(one) for one in (*operation.parameters, REQUEST_ID)],
        "responses": {str(status): answers[status] for status in sorted(answers)},
    }
    if operation.body is not None:
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": schema_of(operation.body)}}}
    return {**made, **operation.more}


def failure(errors: Any, status: int) -> Answered:
    """What a status means where it is an error of this type."""
    special = CALL_FAILURES.get(status) if errors is RESULT else None
    return Answered(special or FAILURES[status], errors, headers=BESIDE.get(status, ()))


def parameter(one: Parameter) -> dict[str, Any]:
    """One parameter."""
    made = {"name": one.name, "in": one.where, "description": one.words, "schema": dict(one.schema)}
    return {**made, "required": True} if one.where == "path" or one.required else made


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
