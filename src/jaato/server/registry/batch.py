"""Several calls in one request, each with an answer of its own, and what ends calls that are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jaato.protocol.arp import InvalidJson, InvalidShape, ToolError, decode_invocation, strict
from jaato.protocol.codec import encode
from jaato.server.registry.call_result import How
from jaato.server.registry.caller_sessions import Caller, Callers
from jaato.server.registry.catalog import Shelf
from jaato.server.registry.idempotency import Key
from jaato.server.registry.invoke import REPLAYED, Ask, Calls, digest_of, origin_of
from jaato.server.registry.keys import seconds
from jaato.server.registry.listing import found_in
from jaato.server.registry.requests import Pending, Wishes, wishes_of
from jaato.server.registry.responses import JSON, NOT_STORED, Answer, error_of, failure, refusal
from jaato.server.registry.streaming import Heard

MOST = 64
"""Calls of one request."""
MAX_BYTES = 16_000_000
"""What their results have together."""
TOO_LARGE = f"The tool has run, and the results of these calls have more than {MAX_BYTES:,} bytes. Make it a call of its own."


class BatchInvocation(Struct, frozen=True, gc=False):
    """The body of `batchInvoke`. A call that is none fails alone, as one does that is wrong in other ways."""

    calls: Annotated[
        list[Raw],
        Meta(
            max_length=MOST,
            description="Each is what `invokeTool` takes, with the `name` of the tool and, if need be, its `version`.",
            examples=[[{"name": "echo", "args": {"text": "hello"}}]],
        ),
    ]


class Named(Struct, frozen=True, gc=False):
    """What is called, beside what every call has."""

    name: str
    version: str | UnsetType = UNSET


class Cancellation(Struct, frozen=True, gc=False):
    """The body of `cancel`: which request's calls are to end."""

    request_id: str


class Cancelled(Struct, frozen=True, gc=False):
    """The answer to `cancel`: how many calls of the request were under way."""

    request_id: str
    cancelled: int


BATCH: msgspec.json.Decoder[BatchInvocation] = msgspec.json.Decoder(BatchInvocation)
NAMED: msgspec.json.Decoder[Named] = msgspec.json.Decoder(Named)
CANCEL: msgspec.json.Decoder[Cancellation] = msgspec.json.Decoder(Cancellation)


async def invoke_all(calls: Calls, shelf: Shelf, pending: Pending, body: bytes) -> Answer:
    """The answers to several calls, which run at the same time: an array of results, in the order of the calls."""
    try:
        asked = strict(body, BATCH).calls
        wishes = wishes_of(pending.request.headers)
    except (InvalidJson, InvalidShape) as error:
        return failure(error_of(error.code, str(error)), 0.0, NOT_STORED)
    request = pending.request
    if request.spend is not None and len(asked) > 1:
        wait_s, request.told = request.spend(len(asked) - 1)
        if wait_s:
            late = (b"retry-after", seconds(wait_s).encode())
            words = f"{len(asked)} calls are too many now; come back later, or with fewer."
            return failure(error_of("request.too_many", words), 0.0, NOT_STORED, late)
    if not wishes.key:
        return await each(calls, shelf, pending, asked, wishes)
    key = Key(calls.callers.repeats.scope(pending.who.key), wishes.key)
    digest = digest_of(["batchInvoke", [comparable(bytes(raw)) for raw in asked]])
    refused = calls.once.refused(key, digest)
    if refused is not None:
        return refused
    return await calls.once.kept(key, digest, each(calls, shelf, pending, asked, wishes, key, digest))


def comparable(raw: bytes) -> Any:
    """What one of several calls is told from others by: its value, however that is written; its text where there is none,
    as of a number beyond what can be kept."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return [raw.decode()]


async def each(
    calls: Calls,
    shelf: Shelf,
    pending: Pending,
    asked: Sequence[Raw],
    wishes: Wishes,
    key: Key | None = None,
    digest: str = "",
) -> Answer:
    """The answer to these calls."""

    async def one(number: int, raw: bytes) -> Answer:
        ask = ask_of(calls, shelf, pending, raw, wishes)
        if isinstance(ask, ToolError):
            return failure(ask)
        if key is not None:
            mine = key._replace(item=number)
            return await calls.once.one(ask, mine, digest, Heard(), calls.made_as)
        return await (calls.made(ask) if calls.places is None else calls.made_as(ask, How(Heard())))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number, bytes(raw))) for number, raw in enumerate(asked)]
    answers = [task.result() for task in tasks]
    headers = [JSON, NOT_STORED]
    if answers and all(REPLAYED in answer.headers for answer in answers):
        headers.append(REPLAYED)
    return Answer(200, b"[%b]" % b",".join(bounded(answers)), headers)


def bounded(answers: Sequence[Answer]) -> Iterator[bytes]:
    """The bodies of these, as far as there is room; what has none is told so."""
    room = MAX_BYTES
    for answer in answers:
        if len(answer.body) <= room or answer.code:
            room -= len(answer.body)
            yield answer.body
        else:
            yield failure(error_of("tool.result_too_large", TOO_LARGE)).body


def ask_of(calls: Calls, shelf: Shelf, pending: Pending, raw: bytes, wishes: Wishes) -> Ask | ToolError:
    """One of several calls; else what is wrong with it."""
    try:
        named = strict(raw, NAMED)
        invocation = decode_invocation(raw)
    except (InvalidJson, InvalidShape) as error:
        return error_of(error.code, str(error))
    found = found_in(shelf, named.name, None if named.version is UNSET else named.version)
    if isinstance(found, ToolError):
        return found
    origin = origin_of(pending.id, pending.request.header(b"traceparent"), invocation)
    return Ask(pending.who, found.tool, invocation, origin, calls.limit_s(wishes))


def cancel(callers: Callers, pending: Pending, body: bytes) -> Answer:
    """How many calls were cancelled: those of a request by the same caller that are under way."""
    try:
        request_id = strict(body, CANCEL).request_id
    except (InvalidJson, InvalidShape) as error:
        return refusal(error.code, str(error), NOT_STORED)
    caller = callers.visiting(pending.who.key)
    count = caller.cancel(request_id) if isinstance(caller, Caller) else 0
    if not count:
        return refusal("call.not_found", "No call of this request_id is under way here.", NOT_STORED)
    return Answer(200, encode(Cancelled(request_id, count)), [JSON, NOT_STORED])
