"""JSON-RPC over the standard streams: what is no message is refused here, and requests at once are limited."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeGuard

from jaato.server.standard_streams import MAX_MESSAGE_BYTES, LineStreams

PARSE_ERROR, INVALID_REQUEST, INTERNAL = -32700, -32600, -32603
CANCELLED = -32800
"""Also of what is not done because of constrained resources."""
CANCEL = "session/cancel"
EXTENDED = {"session/delete": "_session/delete"}
"""Methods for which the library has no route, as it passes them on: as extensions."""
MAX_REQUESTS = 64
"""Requests of the editor that may be unanswered at once."""
MAX_ID_CHARS = 200
MAX_ISSUES = 10
MAX_ISSUE_CHARS = 300
MAX_ERROR_CHARS = 2_000
RequestId = int | str


class EditorStreams:
    """The connection to the editor, as the library uses it: whole messages in both directions."""

    def __init__(self, wire_in: int, wire_out: int) -> None:
        self._streams = LineStreams(wire_in, wire_out)
        self._lines = self._streams.lines()
        self.unanswered: dict[RequestId, str] = {}
        """The ids of the editor's requests that have no response yet; of a prompt with its session, else with an empty text."""
        self._questions: dict[tuple[str, str], RequestId] = {}
        """By session and call, the id of the open request to the editor that asks about it; by session and path, that for a
        file."""
        self.on_session: Callable[[str], None] = lambda _session_id: None
        """Called with the id of a session once the editor was sent it."""

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is valid JSON-RPC, None at the end; requests among the others are answered with an error."""
        async for message in self._messages():
            method, request = message.get("method"), message.get("id")
            if method is None:
                self._forget(request)
                return message
            params = {name: value for name, value in (message.get("params") or {}).items() if name != "_meta"}
            # the library would let the fields of `_meta` replace parameters
            message |= {"params": params, "method": EXTENDED.get(method, method)}
            if request is None:
                if (
                    cancel := self._find_cancel(method, params)
                ) is not None:  # other notifications may be ignored
                    return cancel
            elif request in self.unanswered:
                await self._refuse(request, INVALID_REQUEST, "A request with this id is not answered yet.")
            elif len(self.unanswered) >= MAX_REQUESTS:
                text = f"{MAX_REQUESTS} requests are unanswered; send this one again when there are fewer."
                await self._refuse(request, CANCELLED, text)
            else:
                session = params.get("sessionId") if method == "session/prompt" else None
                self.unanswered[request] = session if isinstance(session, str) else ""
                return message
        return None

    def _find_cancel(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The notification that cancels the turn of a session, if this one does: by the session, or by the request of a prompt."""
        request = params.get("requestId")
        if method == "$/cancel_request" and is_id(request) and (session := self.unanswered.get(request)):
            method, params = CANCEL, {"sessionId": session}
        return {"jsonrpc": "2.0", "method": CANCEL, "params": params} if method == CANCEL else None

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        """The lines that are JSON-RPC messages; the others are refused, except for responses."""
        async for line in self._lines:
            if line is None:
                text = f"The message has more than {MAX_MESSAGE_BYTES:,} bytes."
                await self._refuse(None, PARSE_ERROR, text)
            elif line.strip():
                try:
                    message = json.loads(line.decode(), parse_constant=refuse_constant)
                except (ValueError, RecursionError):
                    await self._refuse(None, PARSE_ERROR, "This is not JSON.")
                    continue
                if is_response(message):
                    if is_id(message.get("id")):
                        yield with_valid_error(message)
                elif problem := find_problem(message):
                    found = message.get("id") if isinstance(message, dict) else None
                    await self._refuse(found if is_id(found) else None, INVALID_REQUEST, problem)
                else:
                    yield message

    async def _refuse(self, request: RequestId | None, code: int, text: str) -> None:
        error = {"code": code, "message": text}
        await self._write({"jsonrpc": "2.0", "id": request, "error": error})

    async def send(self, message: dict[str, Any]) -> None:
        """Send one message. Raises `ConnectionError` when the editor reads no more."""
        method, request = message.get("method"), message.get("id")
        if method is not None and request is not None:
            params = message["params"]
            call_id = params.get("toolCallId") or params.get("toolCall", {}).get("toolCallId", "")
            if key := call_id or params.get("path"):
                self._questions[params.get("sessionId", ""), key] = request
        if method is None and request is not None:
            self.unanswered.pop(request, None)
            if "error" in message:
                message = {**message, "error": shorten_error(message["error"])}
        await self._write(message)
        result = message.get("result")
        if method is None and isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self.on_session(result["sessionId"])

    async def withdraw(self, session_id: str, key: str) -> None:
        """Tell the editor that the question about a call of a session, or the request for a file, needs no answer any more,
        if it is open."""
        if (request := self._questions.pop((session_id, key), None)) is not None:
            params = {"requestId": request}
            await self._write({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})

    def _forget(self, answered: RequestId | None) -> None:
        """A request to the editor was answered."""
        self._questions = {call: one for call, one in self._questions.items() if one != answered}

    async def _write(self, message: dict[str, Any]) -> None:
        if not await self._streams.write_line(json.dumps(message, separators=(",", ":")) + "\n"):
            raise ConnectionError("The editor reads no more.")

    def stop(self) -> None:
        """Read nothing more, as if the editor had ended its stream."""
        self._streams.stop()

    async def close(self) -> None:
        """Nothing is held back."""


def refuse_constant(name: str) -> None:
    """Refuse numbers that JSON does not have. Raises `ValueError`."""
    raise ValueError(name)


def is_response(message: Any) -> bool:
    """Whether a message answers a request; it is never answered itself."""
    return (
        isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)
    )


def with_valid_error(message: dict[str, Any]) -> dict[str, Any]:
    """A response whose error, if it has one, is an object with a code and a text."""
    error = message.get("error")
    if "result" in message or (
        isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and isinstance(error.get("message"), str)
    ):
        return message
    return {**message, "error": {"code": INTERNAL, "message": "an error without a code and a text"}}


def find_problem(message: Any) -> str:
    """Why this is no request and no notification of JSON-RPC; empty for one."""
    if not isinstance(message, dict):
        return "A JSON-RPC message is an object; batches are not supported."
    if "id" in message and not is_id(message["id"]):
        return f"The id of a message is a text of at most {MAX_ID_CHARS} characters or an integer."
    if not isinstance(message.get("method"), str):
        return "The method is a text."
    return "" if isinstance(message.get("params"), dict | None) else "The params are an object."


def is_id(value: Any) -> TypeGuard[RequestId]:
    """Whether this identifies a request."""
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool)


def shorten_error(error: dict[str, Any]) -> dict[str, Any]:
    """An error without the editor's own input, which invalid parameters and unknown methods would be answered with."""
    shown = {**error, "message": error["message"][:MAX_ERROR_CHARS]}
    data = error.get("data")
    if not isinstance(data, dict):
        return shown
    if isinstance(issues := data.get("errors"), list):
        data = {"errors": [issue_text(issue) for issue in issues[:MAX_ISSUES]]}
    return {
        **shown,
        "data": {
            name: value[:MAX_ISSUE_CHARS] if isinstance(value, str) else value for name, value in data.items()
        },
    }


def issue_text(issue: dict[str, Any]) -> str:
    """What is wrong with one parameter."""
    place = ".".join(str(part) for part in issue.get("loc", ()))
    return f"{place}: {issue.get('msg', '')}"[:MAX_ISSUE_CHARS]
