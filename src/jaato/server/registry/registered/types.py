"""What is put over HTTP, and what is kept of it: closed types, in which what is optional is absent, never null."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jaato.errors import JaatoError, ToolError
from jaato.protocol.arp import InvalidShape, strict

TIMEOUT_S = 60.0
FORMAT = 1
"""The form of a kept file; a newer one is left to a newer jaato."""


class Webhook(
    Struct, tag="webhook", tag_field="type", frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Calls are posted to an address, and a result of the contract is what comes back. `secret` is the key they are signed
    with, in the place of the registry's own."""

    url: str
    headers: dict[str, str] = {}
    timeout_s: float = TIMEOUT_S
    secret: str = ""


class McpTool(
    Struct, tag="mcp", tag_field="type", frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Calls are those of a tool of a configured MCP server."""

    server: str
    tool: str
    timeout_s: float = TIMEOUT_S


class EntryPoint(
    Struct, tag="entry_point", tag_field="type", frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Calls are those of a function, `package.module:function`."""

    target: str
    timeout_s: float = TIMEOUT_S


Handler = Webhook | McpTool | EntryPoint


class Described(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool as it is put: its definition, and who carries out its calls. Without `handler` that of the version which is
    replaced stays. `name` and `schema_version` may stand there as a definition has them."""

    description: str
    version: str
    parameters: dict[str, Any]
    handler: Handler | UnsetType = UNSET
    returns: dict[str, Any] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    source: dict[str, Any] | str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    schema_version: str | UnsetType = UNSET


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kept tool. `revision` is another for each change; `created_ns` and `changed_ns` are since the epoch, `by` says who
    put it."""

    format: int
    name: str
    tool: Described
    revision: str
    created_ns: int
    changed_ns: int
    by: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Its name and version."""
        return self.name, self.tool.version

    @property
    def handler(self) -> Handler:
        """Who carries out its calls."""
        assert self.tool.handler is not UNSET
        return self.tool.handler


class Invalid(JaatoError):
    """What was put cannot be a tool; `issues` has every (path, message)."""

    code = "tool.invalid_definition"

    def __init__(self, issues: list[tuple[str, str]]) -> None:
        shown = "; ".join(f"{path or '/'} {text}" for path, text in issues[:5])
        super().__init__(f"This cannot be a tool: {shown}.")
        self.issues = issues


class Forbidden(JaatoError):
    """The handler is one that this registry's operator has not allowed."""

    code = "tool.handler_forbidden"


class Fixed(JaatoError):
    """The name is that of a tool of a domain or a plugin, which nobody changes over HTTP."""

    code = "tool.fixed"


class Missing(JaatoError):
    """There is no such registered tool."""

    code = "tool.not_found"


class Changed(JaatoError):
    """The tool is not what whoever changes it thinks."""

    code = "request.precondition_failed"


class Unreachable(ToolError):
    """The handler cannot be reached; the call was not made."""

    code = "handler_unreachable"
    retryable = True


class Lost(ToolError):
    """The handler was told of the call and gave no answer that says what became of it."""

    code = "handler_lost"


DESCRIBED: msgspec.json.Decoder[Described] = msgspec.json.Decoder(Described)
ENTRY: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def decode_described(data: bytes) -> Described:
    """The body of a PUT. Raises `InvalidJson`, `InvalidShape`."""
    try:
        return strict(data, DESCRIBED)
    except InvalidShape as error:
        if "`$.handler.type`" in str(error):
            raise InvalidShape(f"{error}: it is one of webhook, mcp and entry_point.") from None
        raise


def decode_entry(data: bytes) -> Entry:
    """A kept tool. Raises `InvalidJson`, `InvalidShape`."""
    return strict(data, ENTRY)
