"""Invoke: single calls, batches of calls, and cancellation; validated, limited, and once for each idempotency key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, structs

from jaato.errors import ConfigError, JaatoError, Overloaded, ToolTimeout
from jaato.log import logger
from jaato.protocol.arp import (
    REQUEST_ERRORS,
    InvalidJson,
    InvalidShape,
    Invocation,
    ToolError,
    decode_invocation,
    strict,
)
from jaato.protocol.codec import encode
from jaato.server.registry.caller_sessions import Caller, Callers
from jaato.server.registry.catalog import ServedTool, ServedTools
from jaato.server.registry.idempotency import (
    REPLAYED,
    UNDER_WAY,
    IdempotencyKey,
    IdempotentCalls,
    KeyInUse,
)
from jaato.server.registry.limits import ConcurrencyLimits
from jaato.server.registry.listing import find_requested, find_version
from jaato.server.registry.requests import (
    CONTENT_TYPES,
    NO_PREFERENCES,
    PendingRequest,
    Preferences,
    StreamFormat,
    parse_preferences,
    parse_trace_id,
)
from jaato.server.registry.responses import (
    JSON,
    LOGGED_ONLY,
    NOT_STORED,
    RETRY,
    UNAVAILABLE,
    Response,
    busy,
    error_for,
    error_of,
    error_response,
    failure,
    refusal,
    seconds,
    success,
)
from jaato.server.registry.running_call import (
    CallListener,
    CallOptions,
    CallOutcome,
    CallRequest,
    CallStream,
    OutcomeUnknown,
    TooLarge,
    digest_of,
)

LOG = logger("server.registry")
MAX_ID_CHARS = 200
MAX_BATCH = 64
"""Calls of one request."""
MAX_BATCH_BYTES = 16_000_000
"""The size of all results of a batch."""
BATCH_TOO_LARGE = f"The tool has run, and the results of these calls have more than {MAX_BATCH_BYTES:,} bytes. Make it a call of its own."


class BatchInvocation(Struct, frozen=True, gc=False):
    """The body of `batchInvoke`. An invalid call fails separately."""

    calls: Annotated[
        list[Raw],
        Meta(
            max_length=MAX_BATCH,
            description="Each is what `invokeTool` takes, with the `name` of the tool and optionally its `version`.",
            examples=[[{"name": "echo", "args": {"text": "hello"}}]],
        ),
    ]


class NamedCall(Struct, frozen=True, gc=False):
    """The tool of a call in a batch."""

    name: str
    version: str | UnsetType = UNSET


class Cancellation(Struct, frozen=True, gc=False):
    """The body of `cancel`: the request whose calls are cancelled."""

    request_id: str


class Cancelled(Struct, frozen=True, gc=False):
    """The response to `cancel`: the number of calls that were running."""

    request_id: str
    cancelled: int


BATCH: msgspec.json.Decoder[BatchInvocation] = msgspec.json.Decoder(BatchInvocation)
NAMED_CALL: msgspec.json.Decoder[NamedCall] = msgspec.json.Decoder(NamedCall)
CANCELLATION: msgspec.json.Decoder[Cancellation] = msgspec.json.Decoder(Cancellation)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The timeout in seconds of calls whose tool has none, and the concurrency limits by tool."""

    within_s: float | None = None
    concurrency: Mapping[str, int] = field(default_factory=dict)


class Calls:
    """Makes the calls of all callers."""

    def __init__(self, callers: Callers, limits: CallLimits, count: Callable[[str, str], None]) -> None:
        self.callers = callers
        self._count = count
        self.within_s = limits.within_s
        self.limits = ConcurrencyLimits(limits.concurrency) if limits.concurrency else None
        self._idempotent = IdempotentCalls(callers.store, callers.idempotency)

    async def invoke(self, tools: ServedTools, pending: PendingRequest, body: bytes) -> Response:
        """The response to a call."""
        request = pending.request
        found = find_requested(tools, pending.route.name, request.query)
        try:
            invocation = decode_invocation(body)
            preferences = parse_preferences(request.headers)
        except (InvalidJson, InvalidShape) as error:
            response = refusal(error.code, str(error))
            if isinstance(found, ServedTool):
                self._count(found.tool.name, error.code)
        else:
            if isinstance(found, ServedTool):
                origin = origin_of(pending.id, request.header(b"traceparent"), invocation)
                call = CallRequest(pending.who, found.tool, invocation, origin)
                plain = preferences is NO_PREFERENCES and self.limits is None
                response = await (self._make(call) if plain else self._make_preferred(call, preferences))
            else:
                response = error_response(found) if found.code in REQUEST_ERRORS else failure(found)
        response.headers.append(NOT_STORED)
        return response

    async def _make(self, call: CallRequest, options: CallOptions | None = None) -> Response:
        """Make a call in the session of its caller."""
        try:
            caller = await self.callers.caller(call.who.key, call.who.name)
            outcome = await caller.call(
                call.tool, call.invocation, call.origin, self._timeout_of(call), options
            )
            response = response_of(call, outcome)
        except JaatoError as error:
            response = not_made(call, error)
        self._count(call.tool.name, response.code)
        return response

    async def _make_limited(self, call: CallRequest, options: CallOptions) -> Response:
        """Make a call within the concurrency limit of its tool."""
        return await self._make(call, replace(options, limits=self.limits))

    async def _make_preferred(self, call: CallRequest, preferences: Preferences) -> Response:
        """Make a call with an idempotency key, as a stream or with a timeout of the caller's."""
        wait_s = preferences.wait_s
        call = structs.replace(call, within_s=self._get_requested_timeout(preferences))
        listener = CallListener(streams=preferences.form is not None)
        work: Coroutine[Any, Any, Response]
        if preferences.key:
            work = self._idempotent.invoke(call, preferences.key, listener, self._make_limited)
        else:
            work = self._make_limited(call, CallOptions(listener))
        response = await (
            work if preferences.form is None else start_stream(preferences.form, listener, work)
        )
        if wait_s is not None and wait_s == shortest(call.tool.timeout_s, call.within_s):
            response.headers.append((b"preference-applied", b"wait=%d" % int(wait_s)))
        return response

    def _get_requested_timeout(self, preferences: Preferences) -> float | None:
        return None if preferences.wait_s is None else shortest(preferences.wait_s, self.within_s)

    def _timeout_of(self, call: CallRequest) -> float | None:
        """The timeout of a call beside that of its tool. A call that continues in the background has only the requested one."""
        continues = (
            call.tool.background_after_s is not None and call.invocation.args.get("background") is True
        )
        if call.tool.timeout_s is not None or continues:
            return call.within_s
        return shortest(call.within_s, self.within_s)

    async def invoke_batch(self, tools: ServedTools, pending: PendingRequest, body: bytes) -> Response:
        """The response to a batch of calls, which run concurrently: an array of results, in the order of the calls."""
        try:
            calls = strict(body, BATCH).calls
            preferences = parse_preferences(pending.request.headers)
        except (InvalidJson, InvalidShape) as error:
            return refusal(error.code, str(error), NOT_STORED)
        request = pending.request
        if request.spend is not None and len(calls) > 1:
            wait_s, request.rate_headers = request.spend(len(calls) - 1)
            if wait_s:
                words = f"{len(calls)} calls are too many now; come back later, or with fewer."
                late = (b"retry-after", seconds(wait_s).encode())
                return failure(error_of("request.too_many", words), 0.0, NOT_STORED, late)
        if not preferences.key:
            return await self._make_batch(tools, pending, calls, preferences)
        key = IdempotencyKey(self._idempotent.keys.scope(pending.who.key), preferences.key)
        digest = digest_of(["batchInvoke", [comparable(bytes(raw)) for raw in calls]])
        refused = self._idempotent.find_conflict(key, digest)
        if refused is not None:
            return refused
        work = self._make_batch(tools, pending, calls, preferences, key, digest)
        return await self._idempotent.run(key, digest, work)

    async def _make_batch(
        self,
        tools: ServedTools,
        pending: PendingRequest,
        calls: Sequence[Raw],
        preferences: Preferences,
        key: IdempotencyKey | None = None,
        digest: str = "",
    ) -> Response:
        within_s = self._get_requested_timeout(preferences)

        async def make(number: int, raw: bytes) -> Response:
            call = call_in_batch(tools, pending, raw, within_s)
            if isinstance(call, ToolError):
                return failure(call)
            if key is not None:
                own = key._replace(item=number)
                return await self._idempotent.invoke_one(
                    call, own, digest, CallListener(), self._make_limited
                )
            if self.limits is None:
                return await self._make(call)
            return await self._make_limited(call, CallOptions(CallListener()))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(make(number, bytes(raw))) for number, raw in enumerate(calls)]
        responses = [task.result() for task in tasks]
        headers = [JSON, NOT_STORED]
        if responses and all(REPLAYED in response.headers for response in responses):
            headers.append(REPLAYED)
        return Response(200, b"[%b]" % b",".join(limit_bodies(calls, responses)), headers)


async def start_stream(
    form: StreamFormat, listener: CallListener, work: Coroutine[Any, Any, Response]
) -> Response:
    """The streamed response of a call once it has started; a call that ends before has a normal response."""
    call = asyncio.create_task(work)
    call.add_done_callback(listener.wake)
    try:
        while not (listener.begun or call.done()):
            await listener.wait()
    except BaseException:
        call.cancel()
        await asyncio.wait((call,))
        raise
    if not listener.begun:
        return call.result()
    headers = [] if not call.done() else [one for one in call.result().headers if one[0] != b"content-type"]
    content_type = (b"content-type", CONTENT_TYPES[form])
    return Response(200, b"", [content_type, *headers], stream=CallStream(form, listener, call))


def not_made(call: CallRequest, error: JaatoError) -> Response:
    """The response to a call that could not be made, or whose outcome is not known."""
    match error:
        case Overloaded() | ConfigError():
            return busy("request.too_many", str(error))
        case ToolTimeout():
            return failure(error_of("tool.timeout", str(error), tool=call.tool.name))
        case TooLarge():
            return failure(error_of(error.code, str(error), tool=call.tool.name))
        case OutcomeUnknown():
            words = "Request %s: the outcome of %s is not recorded"
            LOG.error(words, call.origin["request_id"], call.tool.name, exc_info=error)
            return failure(error_of(error.code, str(error), tool=call.tool.name))
        case KeyInUse():
            return busy(error.code, UNDER_WAY)
    LOG.error("Request %s: %s could not be called", call.origin["request_id"], call.tool.name, exc_info=error)
    return busy("registry.unavailable", UNAVAILABLE)


def response_of(call: CallRequest, outcome: CallOutcome) -> Response:
    """The response to a call with this outcome."""
    problem, request_id = outcome.problem, call.origin["request_id"]
    if problem is None:
        return success(outcome.value, outcome.latency_ms)
    if problem.code == "tool_raised" or problem.code in LOGGED_ONLY:
        LOG.error(
            "Request %s: %s failed: %s", request_id, call.tool.name, problem.traceback or problem.message
        )
    error = error_for(problem, request_id, call.tool.name, begun=outcome.begun, access=call.tool.spec.access)
    return failure(error, outcome.latency_ms, *([RETRY] if error.code == "registry.unavailable" else []))


def shortest(*timeouts_s: float | None) -> float | None:
    """The shortest of these timeouts; None if there is none."""
    given = [one for one in timeouts_s if one is not None]
    return min(given) if given else None


def origin_of(id_: bytes, traceparent: bytes | None, invocation: Invocation) -> dict[str, str]:
    """The ids by which the caller knows a call: of the request, the trace, the flow and the step."""
    origin = {"request_id": id_.decode("ascii")}
    trace = parse_trace_id(traceparent)
    if trace is not None:
        origin["trace_id"] = trace
    if isinstance(invocation.trace, dict):
        for name in ("flow_id", "step_id"):
            value = invocation.trace.get(name)
            if isinstance(value, str):
                origin[name] = value[:MAX_ID_CHARS]
    return origin


def comparable(raw: bytes) -> Any:
    """The value of a call in a batch, for its digest; its text if that cannot be decoded, as with too large a number."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return [raw.decode()]


def limit_bodies(calls: Sequence[Raw], responses: Sequence[Response]) -> Iterator[bytes]:
    """The bodies of the responses; those beyond the size limit are replaced by an error."""
    room = MAX_BATCH_BYTES
    for raw, response in zip(calls, responses, strict=True):
        if len(response.body) <= room or response.code:
            room -= len(response.body)
            yield response.body
        else:
            name = NAMED_CALL.decode(raw).name
            yield failure(error_of("tool.result_too_large", BATCH_TOO_LARGE, tool=name)).body


def call_in_batch(
    tools: ServedTools, pending: PendingRequest, raw: bytes, within_s: float | None
) -> CallRequest | ToolError:
    """One call of a batch, else why it is invalid."""
    try:
        named = strict(raw, NAMED_CALL)
        invocation = decode_invocation(raw)
    except (InvalidJson, InvalidShape) as error:
        return error_of(error.code, str(error))
    found = find_version(tools, named.name, None if named.version is UNSET else named.version)
    if isinstance(found, ToolError):
        return found
    origin = origin_of(pending.id, pending.request.header(b"traceparent"), invocation)
    return CallRequest(pending.who, found.tool, invocation, origin, within_s)


def cancel_calls(callers: Callers, pending: PendingRequest, body: bytes) -> Response:
    """Cancel the running calls of a request of the same caller; the response has their number."""
    try:
        request_id = strict(body, CANCELLATION).request_id
    except (InvalidJson, InvalidShape) as error:
        return refusal(error.code, str(error), NOT_STORED)
    caller = callers.get(pending.who.key)
    count = caller.cancel(request_id) if isinstance(caller, Caller) else 0
    if not count:
        return refusal("call.not_found", "No call of this request_id is under way here.", NOT_STORED)
    return Response(200, encode(Cancelled(request_id, count)), [JSON, NOT_STORED])
