"""The tools that are served, each encoded once: the list of views, and every definition, with the digest of its bytes."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import UNSET

from jaato.protocol.arp import SCHEMA_VERSION, ToolDefinition, ToolView
from jaato.protocol.codec import encode
from jaato.protocol.specs import ToolSpec
from jaato.tools.tool import Tool

WORTH_BYTES = 1_400
"""A page that is longer is kept compressed too: a shorter one fits in one packet anyhow."""


@dataclass(frozen=True, slots=True)
class Page:
    """Bytes as they are sent, with their entity tag; `gzipped` where that is shorter."""

    body: bytes
    etag: bytes
    gzipped: bytes | None = None

    @property
    def gzipped_etag(self) -> bytes:
        """The tag of the compressed bytes, which are others."""
        return self.etag[:-1] + b'-gzip"'


class Shelf:
    """What is served now. Its tools never change: where some come or go, another takes its place, which has from `before`
    what is as it was. A tool of somebody else's has no definition before it was asked for."""

    def __init__(self, tools: Iterable[Tool], before: Shelf | None = None) -> None:
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self.views = page(encode([ToolView(one.name, one.spec.description) for one in self.tools.values()]))
        known = {} if before is None else before.made
        self.made: dict[str, tuple[ToolSpec, str, Page]] = {
            name: made for name, made in known.items() if name in self.tools
        }
        self.definitions: dict[str, Page] = {
            name: self.defined(tool) for name, tool in self.tools.items() if tool.remote is None
        }

    def defined(self, tool: Tool) -> Page:
        """The definition of a tool as it is now."""
        made = self.made.get(tool.name)
        if made is None or made[0] is not tool.spec or made[1] != tool.version:
            made = self.made[tool.name] = (tool.spec, tool.version, page(encode(definition_of(tool))))
        return made[2]

    def describe(self, tool: Tool) -> None:
        """Have the definition of a tool of somebody else's, who was asked for it."""
        self.definitions[tool.name] = self.defined(tool)


def definition_of(tool: Tool) -> ToolDefinition:
    """A tool as others are told of it: its parameters are those its arguments are held against."""
    return ToolDefinition(
        schema_version=SCHEMA_VERSION,
        name=tool.name,
        description=tool.spec.description,
        version=tool.version,
        parameters=tool.checked if tool.checked is not None else tool.spec.parameters,
        returns=tool.returns if tool.returns is not None else UNSET,
        tags=list(tool.tags) if tool.tags else UNSET,
        source=source_of(tool),
    )


def source_of(tool: Tool) -> dict[str, str]:
    """Where a tool comes from, and what a call of it may touch."""
    return {"registry": "jaato", "domain": tool.plugin or "program", "access": tool.spec.access}


def page(body: bytes) -> Page:
    """Bytes made ready to be sent."""
    digest = hashlib.sha256(body).hexdigest()[:32]
    packed = gzip.compress(body, 6, mtime=0) if len(body) > WORTH_BYTES else None
    return Page(body, f'"{digest}"'.encode(), packed if packed and len(packed) < len(body) else None)
