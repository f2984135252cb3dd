"""A tool call: what the tool is given (arguments, cancellation, services), and its output and outcome."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal

import msgspec

from jaato.errors import JaatoError, Mismatch, ToolError
from jaato.protocol.codec import TOO_MANY, encode, json_problems
from jaato.protocol.events import Permission
from jaato.protocol.messages import Media, Problem, Text, ToolResult
from jaato.protocol.specs import FileChange, SandboxAccess
from jaato.tools.cancel import CancelToken

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # knows defaults: a plain `Call` says nothing of dependencies

    D = TypeVar("D", default=Any)
else:
    from typing import TypeVar

    D = TypeVar("D")

CallerKind = Literal["model", "user", "library", "registry", "mcp", "background"]


HERE = Path()
"""The directory of the process, for a call that was given none."""


def no_output(_text: str) -> None:
    """Discard the text: no client shows it."""


def no_blobs(_data: bytes | Path) -> str:
    """A call without a session has nowhere to keep large output."""
    raise LookupError("this call belongs to no session, so it cannot keep blobs")


def no_handles(handle: str, _offset: int, _limit: int) -> bytes:
    """A call without a session has no results to read."""
    raise LookupError(f"no result {handle} is known here")


class Dependencies:
    """What the program gives the tools of a session; `value` may be another one in each run."""

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value


NO_DEPENDENCIES = Dependencies()


class Call(msgspec.Struct, Generic[D], eq=False):
    """A call on its way through the pipeline; a tool asks for it by a parameter `call: Call`, or `call: Call[Shop]` where the
    program's `dependencies` are a `Shop`.

    `output` shows text while the tool runs (safe from any thread). `keep` stores bytes or a file as a blob and
    returns its handle; `read_handle(handle, offset, limit)` reads bytes of one. `services` are what the session lends
    (`plans`, `clarify`, `background`, …). `origin` says where a call of another program comes from; `waits_for_end`
    that the caller has no later turn, so that a slow call is not moved to the background. `stands_for` is the active
    tool whose call this one is, `alias` the other name of the tool by which the caller called it. `again`: an earlier
    process had begun it, and it continues; `edited`: the arguments are not those that the model gave. `token` is
    cancelled when the call is. `permission_s` is how long the decision about its permission took. `within_s` is how long
    it may run at most, where that is less than the tool's own time. `access` is what a process that the call starts may
    reach, None without a permission policy: everything; `access_reason` says why that and no more. A tool that changes
    files appends to `changed`, so that clients learn of them.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    caller: CallerKind = "library"
    session_id: str = ""
    agent_id: str = ""
    turn_id: str = ""
    output: Callable[[str], None] = no_output
    keep: Callable[[bytes | Path], str] = no_blobs
    read_handle: Callable[[str, int, int], bytes] = no_handles
    services: Mapping[str, Any] = msgspec.field(default_factory=dict)
    malformed: str | None = None
    stands_for: str = ""
    alias: str = ""
    again: bool = False
    edited: bool = False
    workspace: Path = HERE
    origin: dict[str, str] | None = None
    waits_for_end: bool = False
    within_s: float | None = None
    access: SandboxAccess | None = None
    access_reason: str = ""
    permission_s: float = 0.0
    token: CancelToken = msgspec.field(default_factory=CancelToken)
    changed: list[FileChange] = msgspec.field(default_factory=list)

    @property
    def asked_name(self) -> str:
        """The name the caller used."""
        return self.alias or self.name

    @property
    def door(self) -> CallerKind:
        """Deprecated: the former name of `caller`."""
        return self.caller

    @property
    def dependencies(self) -> D:
        """The object that the program gave for its tools (`Agent(dependencies=…)`); None without one. No model sees it."""
        given: Dependencies = self.services.get("dependencies", NO_DEPENDENCIES)
        value: D = given.value
        return value


CURRENT: ContextVar[Call | None] = ContextVar("jaato_current_call", default=None)
"""The call that runs in this context (thread or task)."""

SERVICES: ContextVar[Mapping[str, Any]] = ContextVar("jaato_services", default=MappingProxyType({}))
"""What the session lends whose prompt is being enriched, or whose call is being previewed, in this context."""


class NoSession(ToolError):
    """The call belongs to no session."""

    code = "no_session"


def session_of(call: Call) -> Any:
    """The session a call belongs to. Raises `NoSession`."""
    session = call.services.get("session")
    if session is None:
        raise NoSession("This call belongs to no session. It works for a model inside one.")
    return session


@dataclass(frozen=True, slots=True)
class Output:
    """What a tool returns when a plain value does not say enough: text and media for the model, data for programs."""

    text: str = ""
    structured: Any = None
    media: tuple[Media, ...] = ()


UI_KEYS = frozenset(("continuation_id", "show_output", "show_popup"))
"""Executor metadata: how a client should show the call; never part of what the model reads."""


class Outcome(msgspec.Struct):
    """How a call ended: the tool's own value or the problem, and by which permission."""

    ok: bool
    value: Any = None
    problem: Problem | None = None
    permission: Permission | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    duration_s: float = 0.0


def issue_record(issue: tuple[str, str]) -> dict[str, Any]:
    """An issue as data."""
    return {"path": issue[0], "message": issue[1], **(vars(issue) if isinstance(issue, Mismatch) else {})}


def problem_of(error: BaseException, traceback: str | None = None) -> Problem:
    """An exception as data; our own errors keep their code."""
    carried = getattr(error, "problem", None)
    if isinstance(carried, Problem):
        return carried
    if isinstance(error, JaatoError):
        issues = getattr(error, "issues", None)
        details = {"issues": [issue_record(issue) for issue in issues]} if issues else None
        return Problem(code=error.code, message=str(error), retryable=error.retryable, details=details)
    text = safe_text(error, str)
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Problem(
        code="tool_raised", message=replace_surrogates(message), traceback=replace_surrogates(traceback or "")
    )


def safe_text(value: object, how: Callable[[object], str] = repr) -> str:
    """`repr` or `str` of a value that may be broken."""
    try:
        return how(value)
    except BaseException as error:  # noqa: BLE001 it belongs to a tool, and its result must be shown all the same
        return f"<{type(value).__name__}, which raises {type(error).__name__} when shown>"


def replace_surrogates(text: str) -> str:
    """Text that can be written as UTF-8: each lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def result_of(call: Call, outcome: Outcome) -> ToolResult:
    """The outcome as the durable result; a value that is not JSON is shown as its text, never lost."""
    if not outcome.ok:
        problem = outcome.problem or Problem(code="tool_failed", message="The call failed.")
        return ToolResult(call.id, call.name, False, error=problem)
    match outcome.value:
        case dict() | list():
            pass  # most are
        case Output(text=text, structured=structured, media=media):
            content: list[Text | Media] = [Text(replace_surrogates(text))] if text else []
            return ToolResult(call.id, call.name, True, [*content, *media], to_json_data(structured))
        case Media() as media:
            return ToolResult(call.id, call.name, True, [media])
        case None:
            return ToolResult(call.id, call.name, True)
        case str() as text:
            return ToolResult(call.id, call.name, True, [Text(replace_surrogates(text))])
    value = to_json_data(outcome.value)
    data = encode(value)
    if isinstance(value, dict) and not UI_KEYS.isdisjoint(value):
        data = encode({k: v for k, v in value.items() if k not in UI_KEYS})
    return ToolResult(call.id, call.name, True, [Text(data.decode())], value)


def to_plain_value(value: Any) -> Any:
    """What a tool returned in plain types, for programs: data as a dict, with the `text` and `media` for the model."""
    match value:
        case Output(text=text, structured=None, media=()):
            return text
        case Output(text=text, structured=structured, media=media):
            data = to_json_data(structured)
            plain = dict(data) if isinstance(data, dict) else {} if data is None else {"result": data}
            if text:
                plain.setdefault("text", text)
            if media:
                plain.setdefault("media", to_json_data(list(media)))
            return plain
        case Media():
            return {"media": [to_json_data(value)]}
        case msgspec.Struct():
            return to_json_data(value)
    return value


def to_json_data(value: Any) -> Any:
    """The value as plain JSON data: structs and dataclasses become objects, what JSON cannot carry its text."""
    problems = json_problems(value)
    if not problems:
        return value
    if any(what == TOO_MANY for _, what in problems):
        return JsonFallback().value(value)
    try:
        built = msgspec.to_builtins(value, str_keys=True)
    except Exception:  # noqa: BLE001 code of the value's own class may run here
        built = value
    return built if not json_problems(built) else JsonFallback().value(built)


class JsonFallback:
    """As much of a value as JSON can carry, the rest as text; the work is bounded, whatever refers to what."""

    def __init__(self) -> None:
        self._left = 100_000

    def value(self, value: Any, depth: int = 0) -> Any:
        """One value and what is in it."""
        self._left -= 1
        if depth > 20 or self._left < 0:
            parts = isinstance(value, (dict, list, tuple, set, frozenset))  # whose text may have no end
            return f"<{type(value).__name__}>" if parts else replace_surrogates(safe_text(value))[:200]
        match value:
            case dict():
                return {
                    replace_surrogates(safe_text(k, str)): self.value(v, depth + 1)
                    for k, v in self._items(value)
                }
            case list() | tuple() | set() | frozenset():
                return [self.value(item, depth + 1) for item in self._some(value)]
            case str():
                return replace_surrogates(value)
            case bytes():
                return replace_surrogates(value.decode("utf-8", "replace"))
        return value if not json_problems(value) else replace_surrogates(safe_text(value))[:1000]

    def _some(self, values: Any) -> list[Any]:
        """The members, as far as there is room."""
        return list(itertools.islice(values, max(0, self._left)))

    def _items(self, table: dict[Any, Any]) -> list[tuple[Any, Any]]:
        """The entries, as far as there is room."""
        return list(itertools.islice(table.items(), max(0, self._left)))
