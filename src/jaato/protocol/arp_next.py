"""What crosses the wire in the registry's later generation: `tool_id` and `input_schema`, one path for all invocations."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jaato.protocol.arp import InvalidShape, strict
from jaato.protocol.codec import json_problems

MAX_ID_CHARS = 200


class LaterTool(Struct, frozen=True, gc=False):
    """A tool, whole; the list has these, not views."""

    tool_id: str
    name: str
    input_schema: dict[str, Any]
    source: Literal["registry_local", "remote"]
    description: str | UnsetType = UNSET
    output_schema: dict[str, Any] | UnsetType = UNSET


class InvocationRequest(Struct, frozen=True, gc=False):
    """The body of a call, which names its tool by `tool_id`, else by `tool_name`; `invocation_id` is the caller's own and
    comes back."""

    invocation_id: str
    args: dict[str, Any]
    tool_id: str | UnsetType = UNSET
    tool_name: str | UnsetType = UNSET
    context: dict[str, Any] | UnsetType = UNSET


class ErrorDetail(Struct, frozen=True, gc=False):
    """Why something failed."""

    code: str
    message: str
    details: dict[str, Any] | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET


class InvocationResult(Struct, frozen=True, gc=False):
    """How a call ended; what it gave is an object. In whole milliseconds."""

    invocation_id: str
    ok: bool
    result: dict[str, Any] | UnsetType = UNSET
    error: ErrorDetail | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET


class ErrorEnvelope(Struct, frozen=True, gc=False):
    """What is answered where no call was made."""

    error: ErrorDetail


class LaterHealth(Struct, frozen=True, gc=False):
    """How the registry is; `time` is ISO 8601 UTC."""

    status: Literal["ok", "degraded", "down"]
    time: str


class VersionInfo(Struct, frozen=True, gc=False):
    """What serves here."""

    service_name: str
    service_version: str
    supported_api_versions: list[str]


REQUEST: msgspec.json.Decoder[InvocationRequest] = msgspec.json.Decoder(InvocationRequest)


def decode_request(data: bytes) -> InvocationRequest:
    """The body of a call. Raises `InvalidJson`, and `InvalidShape` also for one that names no tool."""
    made = strict(data, REQUEST)
    if not 0 < len(made.invocation_id) <= MAX_ID_CHARS:
        raise InvalidShape(f"invocation_id has 1 to {MAX_ID_CHARS} characters.")
    if made.tool_id is UNSET and made.tool_name is UNSET:
        raise InvalidShape("A call names its tool, by tool_id or by tool_name.")
    if made.context is not UNSET and (problems := json_problems(made.context)):
        raise InvalidShape(f"context{problems[0][0]} {problems[0][1]}.")
    return made
