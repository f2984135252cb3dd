"""Definitions of registered tools: what is put, who carries out the calls, and whether it can be."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from jaato.errors import JaatoError, PluginError, ToolError
from jaato.protocol.arp import SCHEMA_VERSION, SPOKEN, InvalidShape, ReadVersion, strict
from jaato.protocol.codec import json_problems
from jaato.tools.invisible_text import find_invisible
from jaato.tools.schema import depth_within, validator_of
from jaato.tools.tool import WIRE_NAME

DEFAULT_TIMEOUT_S = 60.0
FORMAT = 1
"""The version of the file format; files of a newer one are left to a newer jaato."""
MAX_DESCRIPTION_CHARS = 4_000
MAX_TAGS = 50
MAX_TAG_CHARS = 100
MAX_SOURCE_BYTES = 10_000
MAX_SOURCE_DEPTH = 8
MAX_TIMEOUT_S = 3_600.0
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")

Timeout = Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": MAX_TIMEOUT_S})]
Description = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_DESCRIPTION_CHARS})]
Version = Annotated[str, Meta(extra_json_schema={"pattern": f"^{VERSION.pattern}$"})]
Tags = Annotated[list[str], Meta(extra_json_schema={"maxItems": MAX_TAGS, "uniqueItems": True})]
"""These only describe their limits; `check` applies them and reports every problem."""


class Webhook(
    Struct, tag="webhook", tag_field="type", frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Calls are posted to an address, and a result of the contract is what comes back. `secret` is the key they are signed
    with, in the place of the registry's own."""

    url: str
    headers: dict[str, str] = {}
    timeout_s: Timeout = DEFAULT_TIMEOUT_S
    secret: str = ""


class McpTool(
    Struct, tag="mcp", tag_field="type", frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Calls are those of a tool of a configured MCP server."""

    server: str
    tool: str
    timeout_s: Timeout = DEFAULT_TIMEOUT_S


class EntryPoint(
    Struct, tag="entry_point", tag_field="type", frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Calls are those of a function, `package.module:function`."""

    target: str
    timeout_s: Timeout = DEFAULT_TIMEOUT_S


Handler = Webhook | McpTool | EntryPoint


class ToolRegistration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool as it is put: its definition, and who carries out its calls. Without `handler` that of the version which is
    replaced stays. `name` and `schema_version` may stand there as a definition has them."""

    description: Description
    version: Version
    parameters: dict[str, Any]
    handler: Handler | UnsetType = UNSET
    returns: dict[str, Any] | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    source: dict[str, Any] | str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    schema_version: ReadVersion | UnsetType = UNSET


class StoredTool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kept tool. `revision` is another for each change; `created_ns` and `changed_ns` are since the epoch, `by` says who
    put it."""

    format: int
    name: str
    tool: ToolRegistration
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
        """What carries out its calls."""
        assert self.tool.handler is not UNSET
        return self.tool.handler


class InvalidDefinition(JaatoError):
    """What was put cannot be a tool; `issues` has every (path, message)."""

    code = "tool.invalid_definition"

    def __init__(self, issues: list[tuple[str, str]]) -> None:
        shown = "; ".join(f"{path or '/'} {text}" for path, text in issues[:5])
        super().__init__(f"This cannot be a tool: {shown}.")
        self.issues = issues


class HandlerForbidden(JaatoError):
    """The handler is one that this registry's operator has not allowed."""

    code = "tool.handler_forbidden"


class NotReplaceable(JaatoError):
    """The name is that of a tool of a domain or a plugin, which cannot be changed over HTTP."""

    code = "tool.fixed"


class NotRegistered(JaatoError):
    """There is no such registered tool."""

    code = "tool.not_found"


class PreconditionFailed(JaatoError):
    """The tool is not what whoever changes it thinks."""

    code = "request.precondition_failed"


class HandlerUnreachable(ToolError):
    """The handler cannot be reached; the call was not made."""

    code = "handler_unreachable"
    retryable = True


class HandlerLost(ToolError):
    """The handler got the call and gave no answer from which its outcome is known."""

    code = "handler_lost"


REGISTRATION: msgspec.json.Decoder[ToolRegistration] = msgspec.json.Decoder(ToolRegistration)
STORED: msgspec.json.Decoder[StoredTool] = msgspec.json.Decoder(StoredTool)


def decode_registration(data: bytes) -> ToolRegistration:
    """The body of a PUT. Raises `InvalidJson`, `InvalidShape`."""
    try:
        return strict(data, REGISTRATION)
    except InvalidShape as error:
        if "`$.handler.type`" in str(error):
            raise InvalidShape(f"{error}: it is one of webhook, mcp and entry_point.") from None
        raise


def decode_stored_tool(data: bytes) -> StoredTool:
    """A kept tool. Raises `InvalidJson`, `InvalidShape`."""
    return strict(data, STORED)


TAKEN = ("mcp__",)
"""How the names of others' tools begin."""

Issues = list[tuple[str, str]]


def check_definition(name: str, given: ToolRegistration) -> None:
    """Raise `InvalidDefinition` for what cannot be a tool of this name."""
    issues: Issues = []
    if not WIRE_NAME.fullmatch(name):
        issues.append(("/name", "has letters, digits, _ and -, at most 64"))
    elif name.startswith(TAKEN):
        issues.append(("/name", f"does not begin with {TAKEN[0]!r}, as those of MCP servers do"))
    if given.name is not UNSET and given.name != name:
        issues.append(("/name", "is another than that of the address"))
    if given.schema_version is not UNSET and SPOKEN.fullmatch(given.schema_version) is None:
        issues.append(("/schema_version", f"is not spoken here; {SCHEMA_VERSION} is"))
    if not VERSION.fullmatch(given.version):
        issues.append(
            ("/version", "has letters, digits and . + _ -, at most 64, and begins with one of the former")
        )
    issues += description_issues(given.description)
    issues += schema_issues(given)
    issues += metadata_issues(given)
    if given.handler is not UNSET:
        seconds = given.handler.timeout_s
        if not (math.isfinite(seconds) and 0 < seconds <= MAX_TIMEOUT_S):
            issues.append(("/handler/timeout_s", f"is more than 0 and at most {MAX_TIMEOUT_S:g} seconds"))
    if issues:
        raise InvalidDefinition(issues)


def description_issues(text: str) -> Issues:
    """What is wrong with a description."""
    if not text.strip():
        return [("/description", "is empty; say when the tool is to be used, and what comes back")]
    if len(text) > MAX_DESCRIPTION_CHARS:
        return [("/description", f"has at most {MAX_DESCRIPTION_CHARS:,} characters")]
    if find_invisible(text):
        return [("/description", "holds invisible characters")]
    return []


def schema_issues(given: ToolRegistration) -> Issues:
    """What is wrong with `parameters` and `returns`."""
    issues: Issues = []
    if given.parameters.get("type", "object") != "object":
        issues.append(("/parameters/type", "is not object: arguments have names"))
    for path, schema in (("/parameters", given.parameters), ("/returns", given.returns)):
        if schema is UNSET:
            continue
        try:
            validator_of(schema, "they")
        except PluginError as error:
            issues.append((path, " ".join(str(error).split()).rstrip(".")[:400]))
    return issues


def metadata_issues(given: ToolRegistration) -> Issues:
    """What is wrong with `tags` and `source`."""
    issues: Issues = []
    tags: list[str] = [] if given.tags is UNSET else given.tags
    if len(tags) > MAX_TAGS or len(set(tags)) < len(tags):
        issues.append(("/tags", f"are at most {MAX_TAGS}, each once"))
    for number, tag in enumerate(tags[:MAX_TAGS]):
        if not tag.strip() or len(tag) > MAX_TAG_CHARS or find_invisible(tag) or not tag.isprintable():
            issues.append((f"/tags/{number}", f"is a word of at most {MAX_TAG_CHARS} characters"))
    source: Any = {} if given.source is UNSET else given.source
    if json_problems(source) or not depth_within(source, MAX_SOURCE_DEPTH):
        issues.append(("/source", "is nested too deeply, or holds what is no JSON"))
    elif len(msgspec.json.encode(source)) > MAX_SOURCE_BYTES:
        issues.append(("/source", f"has at most {MAX_SOURCE_BYTES:,} bytes"))
    return issues
