"""A call that takes long: its deadline, the progress that extends it, and the task a server may make of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from jaato.plugins.mcp.elicit import CALLER, Caller
from jaato.plugins.mcp.faults import ServerFault, ServerRefusal

MOST_TIMES = 12
"""How many times its deadline a call may take that goes on showing progress."""
PROGRESS_EVERY_S = 0.1
POLL_S = 1.0
LEAST_POLL_S = 0.1
MOST_POLL_S = 30.0
REQUESTS: TypeAdapter[Any] = TypeAdapter(dict[str, types.InputRequest])


class Deadline:
    """The time a call has: progress gives it more, a question to the user stops it, nothing makes it endless."""

    def __init__(self, seconds: float) -> None:
        self.scope = anyio.CancelScope()
        self._seconds = seconds
        self._held = 0
        self._last = anyio.current_time() + seconds * MOST_TIMES
        self.more()

    def more(self) -> None:
        """The server has shown that it is at work."""
        if not self._held:
            self.scope.deadline = min(anyio.current_time() + self._seconds, self._last)

    def hold(self) -> None:
        """The user is asked; that time is not the server's."""
        self._held += 1
        self._left = self._last - anyio.current_time()
        self.scope.deadline = math.inf

    def go_on(self) -> None:
        """The user has answered."""
        self._held -= 1
        if not self._held:
            self._last = anyio.current_time() + max(self._left, self._seconds)
            self.more()


def shown_progress(caller: Caller, deadline: Deadline) -> Callable[[float, float | None, str | None], None]:
    """Progress as output of the call, not more of it than can be read."""
    last, at_end = 0.0, False

    def show(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last, at_end
        deadline.more()
        now = anyio.current_time()
        arrives = progress == total and not at_end  # the end is shown at once, and once
        if now - last < PROGRESS_EVERY_S and not arrives:
            return
        last, at_end = now, at_end or arrives
        share = f"{figure(progress)}/{figure(total)}" if total else figure(progress)
        caller.call.output(f"[{share}] {message[:500]}\n" if message else f"[{share}]\n")

    return show


def figure(number: float) -> str:
    """A number as it is shown; a server may send one that is too large to be any."""
    try:
        return f"{number:g}"
    except OverflowError:
        return "?"


class CreatedTask(types.Result):
    """A call that goes on at the server: `tasks/get` says how far it is."""

    model_config = {**types.Result.model_config, "extra": "allow"}
    result_type: Literal["task"] = "task"


class TaskParams(types.RequestParams):
    """Which task."""

    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(types.Request[TaskParams, str]):
    """`tasks/get`, `tasks/update` or `tasks/cancel`."""

    name_param = "taskId"


class TaskState(types.Result):
    """Where a task stands; its result when it has one."""

    model_config = {**types.Result.model_config, "extra": "allow"}
    result_type: Any = None


class Tasks(ClientExtension):
    """The extension by which a server may make a task of a call."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """A call that has become a task."""
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=finished)]


async def finished(created: CreatedTask, context: ClaimContext) -> types.CallToolResult:
    """The result of a task, when it is there. Raises `ServerRefusal` for one that failed or was cancelled."""
    session, caller = context.session, CALLER.get()
    state = members(created)
    task_id = state.get("taskId")
    if not isinstance(task_id, str) or not task_id:
        raise ServerFault("The server made a task of the call and did not say which.")
    polls = 0
    try:
        while True:
            match state.get("status"):
                case "completed":
                    return types.CallToolResult.model_validate(state.get("result") or {}, by_name=False)
                case "failed":
                    error = state.get("error")
                    said = error.get("message") if isinstance(error, dict) else state.get("statusMessage")
                    raise ServerRefusal(f"The task failed: {said or 'the server does not say why'}")
                case "cancelled":
                    raise ServerRefusal("The task was cancelled at the server.")
                case "input_required":
                    await answer(session, task_id, state.get("inputRequests"))
            polls += 1
            if caller is not None:
                caller.show(polls, None, text_of(state.get("statusMessage")))
            await anyio.sleep(poll_s(state))
            state = members(await ask(session, "tasks/get", task_id))
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(5, shield=True):
            try:
                await ask(session, "tasks/cancel", task_id)
            except MCPError:
                pass  # it has ended, or never will
        raise


async def answer(session: ClientSession, task_id: str, requests: Any) -> None:
    """Put the questions of a task to the user and send what was said."""
    try:
        asked = REQUESTS.validate_python(requests or {}, by_name=False)
    except ValidationError:
        raise ServerFault("The server's task asks for input in a form that is not the protocol's.") from None
    if asked:
        responses = {}
        for key, request in asked.items():
            meta = request.params.meta if request.params else None
            context = ClientRequestContext(session=session, request_id=key, meta=meta)
            said = await session.dispatch_input_request(context, request)
            if isinstance(said, types.ErrorData):
                raise MCPError.from_error_data(said)
            responses[key] = said.model_dump(by_alias=True, mode="json", exclude_none=True)
        await ask(session, "tasks/update", task_id, responses)


async def ask(
    session: ClientSession, method: str, task_id: str, responses: dict[str, Any] | None = None
) -> TaskState:
    """One request about a task."""
    params = TaskParams(task_id=task_id, input_responses=responses)
    return await session.send_request(TaskRequest(method=method, params=params), TaskState)


def members(result: types.Result) -> dict[str, Any]:
    """The members of a task, wherever the server has put them."""
    told = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    inner = told.get("task")
    return {**told, **inner} if isinstance(inner, dict) else told


def poll_s(state: dict[str, Any]) -> float:
    """When to ask again."""
    for key in ("pollIntervalMs", "pollInterval"):
        value = state.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return min(max(value / 1000, LEAST_POLL_S), MOST_POLL_S)
    return POLL_S


def text_of(value: Any) -> str | None:
    """A message, if it is one."""
    return value[:500] if isinstance(value, str) else None
