"""Several definitions at once, each found or not, in the order they were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.json import Decoder

from jaato.protocol.arp import (
    SCHEMA_VERSION,
    InvalidJson,
    InvalidShape,
    ToolError,
    strict,
)
from jaato.protocol.codec import encode
from jaato.server.onward import Onward
from jaato.server.registry.listing import SHARED, found_in
from jaato.server.registry.request import Request, accepts_gzip
from jaato.server.registry.responses import JSON, Answer, error_for, refusal
from jaato.server.registry.shelf import Kept, Page, Shelf

MAX_NAMES = 100
MAX_BYTES = 8_000_000
"""What is answered at most: a few bytes that ask for the same thing a hundred times are not worth more."""


class NamedTool(Struct, frozen=True, gc=False):
    """A tool in a version; without one the newest."""

    name: str
    version: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET


class BatchGet(Struct, frozen=True, gc=False):
    """The body of `batchGet`: names of tools, or names with versions."""

    names: Annotated[list[str | NamedTool], Meta(max_length=MAX_NAMES)]


BATCH: Decoder[BatchGet] = Decoder(BatchGet)


async def got(shelf: Shelf, onward: Onward, request: Request, body: bytes) -> Answer:
    """The definitions of several tools."""
    try:
        asked = strict(body, BATCH)
    except (InvalidJson, InvalidShape) as error:
        return refusal(error.code, str(error))
    names = {one if isinstance(one, str) else one.name for one in asked.names}
    failed = await onward.failing(shelf.tools[name] for name in names if name in shelf.tools)
    errors = {name: error_for(problem, "") for name, problem in failed.items()}
    found = [sought(shelf, one, errors) for one in asked.names]
    if sum(len(one.page.body) for one in found if isinstance(one, Kept)) > MAX_BYTES:
        words = f"These definitions have more than {MAX_BYTES:,} bytes together; ask for fewer at once."
        return refusal("request.invalid_shape", words)
    results = [result_of(one) for one in found]
    page = Page(encode({"schema_version": SCHEMA_VERSION, "results": results}))
    if accepts_gzip(request.header(b"accept-encoding")) and page.gzipped is not None:
        return Answer(200, page.gzipped, [JSON, SHARED, (b"content-encoding", b"gzip")])
    return Answer(200, page.body, [JSON, SHARED])


def sought(shelf: Shelf, asked: str | NamedTool, errors: Mapping[str, ToolError]) -> Kept | ToolError:
    """The tool that one of them names; else why there is none, or why somebody else cannot say what it takes."""
    match asked:
        case str() as name:
            version = None
        case NamedTool(name=name, version=given):
            version = None if given is UNSET else given
    return errors.get(name) or found_in(shelf, name, version)


def result_of(found: Kept | ToolError) -> dict[str, Raw | ToolError]:
    """What is answered for one of them, as `GotTool` has it; a definition is the bytes that are kept."""
    return {"definition": Raw(found.page.body)} if isinstance(found, Kept) else {"error": found}
