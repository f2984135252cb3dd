"""The request and the result of a call to a registry: body, ids and trace context out; output, refusals and lost calls back."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET

from jaato.errors import JaatoError, PluginError, ToolError
from jaato.plugins.arp.errors import CallLost, RegistryFault, RegistryRefusal
from jaato.plugins.arp.http_client import ArpResponse, Headers
from jaato.protocol.arp import (
    REQUEST_ERRORS,
    SCHEMA_VERSION,
    Invocation,
    ToolDefinition,
    ToolResult,
    decode_error,
    decode_result,
)
from jaato.protocol.arp import ToolError as ResultError
from jaato.protocol.codec import json_problems
from jaato.protocol.ids import span_id, trace_id
from jaato.protocol.messages import Problem
from jaato.tools.call import Call, Output
from jaato.tools.invisible_text import escape_invisible, one_line
from jaato.tools.remote.refresh import INVOCATION
from jaato.tools.schema import validator_of

MAX_ARGUMENT_BYTES = 4_000_000
TRACE = "trace"
"""The service by which who has a call made says as what step of which flow."""


def body_of(arguments: dict[str, Any], call: Call) -> bytes:
    """The body of a call: what it is called with, in which session, as which step; where it is served on, as its caller
    has said. Raises `ToolError`."""
    given = call.services.get(INVOCATION)
    context: dict[str, Any] = {
        "session_id": call.session_id,
        "agent_id": call.agent_id,
        "turn_id": call.turn_id,
    }
    step_id = f"{call.turn_id}/{call.id}" if call.turn_id else call.id
    trace: dict[str, Any] = call.services.get(TRACE) or {"flow_id": call.session_id, "step_id": step_id}
    if isinstance(given, Invocation):
        context = given.context if isinstance(given.context, dict) else context
        trace = given.trace if isinstance(given.trace, dict) else trace
    body = msgspec.json.encode(
        Invocation(
            args=arguments,
            schema_version=SCHEMA_VERSION,
            context={key: value for key, value in context.items() if value not in (None, "")},
            trace={key: value for key, value in trace.items() if value not in (None, "")},
        )
    )
    if len(body) > MAX_ARGUMENT_BYTES:
        raise ToolError(f"The arguments have {len(body):,} bytes; at most {MAX_ARGUMENT_BYTES:,} are sent.")
    return body


def headers_of(call: Call) -> Headers:
    """What identifies a call: its id, for the registry's log and for idempotency, and its trace."""
    found = [("traceparent", traceparent(call))]
    if call.id and call.id.isascii() and call.id.isprintable() and len(call.id) <= 200:
        found += [("X-Request-Id", call.id), ("Idempotency-Key", call.id)]
    return tuple(found)


def traceparent(call: Call) -> str:
    """The call in W3C Trace Context: the span of the program that it runs in, else the trace its caller is in, else the one
    our own traces give it."""
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is not None and tracing.get_current_span().get_span_context().is_valid:
        found: dict[str, str] = {}
        from opentelemetry.propagate import inject

        inject(found)
        if "traceparent" in found:
            return found["traceparent"]
    trace = (call.origin or {}).get("trace_id") or trace_id(call.session_id, call.turn_id or call.id)
    return f"00-{trace}-{span_id(call.session_id, 'execute_tool', call.id)}-01"


CODE = re.compile(r"(?=.{1,100}\Z)[a-z][a-z0-9_:-]*(\.[a-z0-9_:-]+)+")
"""A code as the contract has them: those of ours have no dot, and what they say of a call is not a third party's to say."""
MAX_MESSAGE_CHARS = 2_000
MAX_DETAILS_BYTES = 30_000
GATEWAYS = frozenset((502, 503, 504))


def output_of(registry: str, answer: ArpResponse, definition: ToolDefinition) -> Output:
    """The output of a call. Raises `RegistryRefusal` where the registry says that it failed, `CallLost` for an answer that
    is none, from which the outcome of the call cannot be known."""
    try:
        result = decode_result(answer.body)
    except JaatoError as error:
        refusal = refusal_of(registry, answer)
        if refusal is not None:
            raise refusal from None
        raise CallLost(
            f"The registry {registry!r} answered HTTP {answer.status} with what is no result: "
            f"{one_line(str(error), 300).rstrip('.')}. Whether the call was carried out is not known."
        ) from None
    if result.error is not UNSET:
        raise RegistryRefusal(problem_of(registry, result.error))
    if answer.status >= 400:
        raise CallLost(f"The registry {registry!r} says that the call went well, and HTTP {answer.status}.")
    return make_output(result, definition)


def make_output(result: ToolResult, definition: ToolDefinition) -> Output:
    """What a call that went well gave; data that is not as the tool's definition says is marked."""
    value = result.result
    problems = json_problems(value)
    if problems:
        return Output(f"[The result is left out: {problems[0][0] or '/'} {problems[0][1]}]")
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    note = schema_mismatches(value, definition)
    if note:
        return Output(f"{text}\n[This is not what the tool declares: {note}]")
    return Output(text, None if isinstance(value, str) else value)


def schema_mismatches(value: Any, definition: ToolDefinition) -> str:
    """How a result differs from what its tool declares; empty where it does not."""
    if definition.returns is UNSET:
        return ""
    try:
        issues = validator_of(definition.returns).issues(value)
    except PluginError as error:
        issues = [("", str(error))]
    return "; ".join(f"{path or '/'} {one_line(text, 200)}" for path, text in issues[:3])


def problem_of(registry: str, error: ResultError) -> Problem:
    """A registry's error as ours: its words as a third party's, whether it can be tried again, and its code, which is in
    the details where it is none of the contract's."""
    message = escape_invisible(error.message[:MAX_MESSAGE_CHARS].strip()) or "It did not say why."
    details = None if error.details is UNSET or not error.details else error.details
    if details is not None and (
        json_problems(details) or len(msgspec.json.encode(details)) > MAX_DETAILS_BYTES
    ):
        details = None
    code = error.code
    if CODE.fullmatch(code) is None:
        details = {"code": one_line(code, 100), **(details or {})}
        code = "registry_refused"
    return Problem(
        code=code, message=f"The registry {registry!r}: {message}", retryable=error.retryable, details=details
    )


def refusal_of(registry: str, answer: ArpResponse) -> JaatoError | None:
    """What an answer that is not 200 means; None where it says nothing for sure."""
    status = answer.status
    if status == 400:
        with suppress(JaatoError):
            error = decode_error(answer.body)
            if error.code in REQUEST_ERRORS:
                return RegistryRefusal(problem_of(registry, error))
    if status in (401, 403):
        return RegistryRefusal(
            Problem(
                code="registry_unauthorized",
                message=f"The registry {registry!r} refuses the key (HTTP {status}){words(answer)}. The user has to set "
                "its token: in registries.json, or with --token where it is named by its URL.",
            )
        )
    if status == 429:
        wait = answer.header("retry-after")
        when = f" in {wait} s" if wait.isdecimal() and len(wait) < 7 else " later"
        return RegistryRefusal(
            Problem(
                code="registry_busy",
                message=f"The registry {registry!r} takes no more calls now (HTTP 429); try again{when}.",
                retryable=True,
            )
        )
    if status in GATEWAYS:
        return RegistryFault(f"The registry {registry!r} cannot answer now (HTTP {status}){words(answer)}.")
    if 400 <= status < 500:
        return RegistryRefusal(
            Problem(
                code="registry_refused",
                message=f"The registry {registry!r} refused the request (HTTP {status}){words(answer)}.",
            )
        )
    return None


def words(answer: ArpResponse) -> str:
    """What a refusal says in the contract's form, as part of a sentence."""
    try:
        error = decode_error(answer.body)
    except JaatoError:
        return ""
    return f": {one_line(error.message, 500).rstrip('.')}"
