"""A call that goes on at the server as a task: followed until it ends, its questions answered, cancelled with the call."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from jaato.plugins.mcp.direct import Show
from jaato.plugins.mcp.faults import ServerFault, ServerRefusal
from jaato.plugins.mcp.session import CreatedTask, Session, answered

POLL_S = 1.0
LEAST_POLL_S = 0.1
MOST_POLL_S = 30.0
REQUESTS: TypeAdapter[Any] = TypeAdapter(dict[str, types.InputRequest])


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


async def finished(session: Session, created: CreatedTask, show: Show) -> types.CallToolResult:
    """The result of a task, when it is there. Raises `ServerRefusal` for one that failed or was cancelled."""
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
            show(polls, None, text_of(state.get("statusMessage")))
            await anyio.sleep(poll_s(state))
            state = members(await ask(session, "tasks/get", task_id))
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(5, shield=True):
            try:
                await ask(session, "tasks/cancel", task_id)
            except MCPError:
                pass  # it has ended, or never will
        raise


async def answer(session: Session, task_id: str, requests: Any) -> None:
    """Put the questions of a task to the user and send what was said."""
    try:
        asked = REQUESTS.validate_python(requests or {}, by_name=False)
    except ValidationError:
        raise ServerFault("The server's task asks for input in a form that is not the protocol's.") from None
    if asked:
        responses = {
            key: response.model_dump(by_alias=True, mode="json", exclude_none=True)
            for key, response in (await answered(session, asked)).items()
        }
        await ask(session, "tasks/update", task_id, responses)


async def ask(
    session: Session, method: str, task_id: str, responses: dict[str, Any] | None = None
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
