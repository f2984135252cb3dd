"""The OpenAPI document: the operations of `openapi.json`, and the schemas of the types that are decoded and encoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from jaato.protocol.arp import (
    LIST_PATH,
    BatchGot,
    ErrorBody,
    Invocation,
    ToolDefinition,
    ToolResult,
    ToolView,
)
from jaato.server.registry.invoke import BatchInvocation, Cancellation, Cancelled
from jaato.server.registry.listing import BatchGet
from jaato.server.registry.metrics import Health, Version
from jaato.server.registry.registered.definition import ToolRegistration
from jaato.server.registry.responses import STATUS
from jaato.version import __version__

FILE = Path(__file__).with_name("openapi.json")
REQUESTS: tuple[type[Struct], ...] = (BatchGet, Invocation, BatchInvocation, Cancellation, ToolRegistration)
RESPONSES: tuple[type[Struct], ...] = (
    ErrorBody,
    ToolView,
    ToolDefinition,
    BatchGot,
    Health,
    Version,
    ToolResult,
    Cancelled,
)
MOUNTED_PATHS = {"/metrics": f"{LIST_PATH}:metrics", "/openapi.json": f"{LIST_PATH}:openapi"}
"""Where a server with paths of its own serves these; it has no other path outside the list's."""


def build_document(*, mounted: bool = False, requires_key: bool = False) -> dict[str, Any]:
    """The document of a registry with its own address, or of one `mounted` in a server; where no key is required, every
    operation can also be used without one."""
    document: dict[str, Any] = msgspec.json.decode(FILE.read_bytes())
    document["info"]["version"] = __version__
    components = document["components"]
    components["schemas"] = build_schemas()
    if mounted:
        paths = {MOUNTED_PATHS.get(path, path): item for path, item in document["paths"].items()}
        document["paths"] = {path: item for path, item in paths.items() if path.startswith(LIST_PATH)}
    for item in document["paths"].values():
        if "get" in item:
            item["head"] = head_of(item["get"], components["responses"])
        for name, operation in item.items():
            if name != "parameters" and not requires_key and {} not in operation["security"]:
                operation["security"] = [*operation["security"], {}]
    return document


def build_schemas() -> dict[str, Any]:
    """The schemas of the types by name; responses have no other properties than those described."""
    _, schemas = msgspec.json.schema_components(REQUESTS, ref_template="#/components/schemas/{name}")
    _, responses = msgspec.json.schema_components(RESPONSES, ref_template="#/components/schemas/{name}")
    responses["ToolError"]["properties"]["code"]["enum"] = sorted(STATUS)
    return schemas | {name: {**schema, "additionalProperties": False} for name, schema in responses.items()}


def head_of(operation: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """The operation HEAD for that of GET: the same responses without a body."""
    responses = {
        status: shared[response["$ref"].rpartition("/")[2]] if "$ref" in response else response
        for status, response in operation["responses"].items()
    }
    bare = {
        status: {key: value for key, value in response.items() if key != "content"}
        for status, response in responses.items()
    }
    return {**operation, "operationId": f"{operation['operationId']}Head", "responses": bare}
