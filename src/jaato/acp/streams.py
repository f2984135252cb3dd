"""JSON-RPC over the standard streams: what is no message is refused here, and requests at once are limited."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from jaato.server.standard_streams import MAX_MESSAGE_BYTES, LineStreams

PARSE_ERROR, INVALID_REQUEST, BUSY = -32700, -32600, -32000
MAX_REQUESTS = 64
"""Requests of the editor that may be unanswered at once."""
MAX_ID_CHARS = 200
MAX_ISSUES = 10
MAX_ISSUE_CHARS = 300
RequestId = int | str


class EditorStreams:
    """The connection to the editor, as the library uses it: whole messages in both directions."""

    def __init__(self, wire_in: int, wire_out: int) -> None:
        self._streams = LineStreams(wire_in, wire_out)
        self._lines = self._streams.lines()
        self.unanswered: set[RequestId] = set()
        """The ids of the editor's requests that have no response yet."""
        self._questions: dict[str, RequestId] = {}
        """By call, the id of the open request to the editor that asks about it."""
        self.on_session: Callable[[str], None] = lambda _session_id: None
        """Called with the id of a session once the editor was sent it."""

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is valid JSON-RPC, None at the end; others are answered with an error."""
        async for message in self._messages():
            method, request = message.get("method"), message.get("id")
            if method is None:
                self._forget(request)
                return message
            if request is None:
                if not method.startswith("$/"):  # such notifications may be ignored
                    return message
            elif request in self.unanswered:
                await self._refuse(request, INVALID_REQUEST, "A request with this id is not answered yet.")
            elif len(self.unanswered) >= MAX_REQUESTS:
                text = f"{MAX_REQUESTS} requests are unanswered; send this one again when there are fewer."
                await self._refuse(request, BUSY, text)
            else:
                self.unanswered.add(request)
                return message
        return None

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        """The lines that are JSON-RPC messages; the others are refused."""
        async for line in self._lines:
            if line is None:
                text = f"The message has more than {MAX_MESSAGE_BYTES:,} bytes."
                await self._refuse(None, PARSE_ERROR, text)
            elif line.strip():
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError):
                    await self._refuse(None, PARSE_ERROR, "This is not JSON.")
                    continue
                if problem := find_problem(message):
                    await self._refuse(None, INVALID_REQUEST, problem)
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
            self._questions[call_id] = request
        if method is None and request is not None:
            self.unanswered.discard(request)
            if "error" in message:
                message = {**message, "error": shorten_error(message["error"])}
        await self._write(message)
        result = message.get("result")
        if method is None and isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self.on_session(result["sessionId"])

    async def withdraw(self, call_id: str) -> None:
        """Tell the editor that the question about a call needs no answer any more, if there is one."""
        if (request := self._questions.pop(call_id, None)) is not None:
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


def find_problem(message: Any) -> str:
    """Why this is not a JSON-RPC message; empty for one."""
    if not isinstance(message, dict):
        return "A JSON-RPC message is an object; batches are not supported."
    method, request = message.get("method"), message.get("id")
    if "id" in message and not is_id(request):
        return "The id of a message is a text or an integer."
    if method is None:
        return (
            ""
            if request is not None and ("result" in message or "error" in message)
            else "A method is missing."
        )
    if not isinstance(method, str):
        return "The method is a text."
    return "" if isinstance(message.get("params", {}), dict) else "The params are an object."


def is_id(value: Any) -> bool:
    """Whether this identifies a request."""
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool)


def shorten_error(error: dict[str, Any]) -> dict[str, Any]:
    """An error without the editor's own input, which invalid parameters would be answered with."""
    data = error.get("data")
    issues = data.get("errors") if isinstance(data, dict) else None
    if not isinstance(issues, list):
        return error
    texts = [
        f"{'.'.join(str(part) for part in issue.get('loc', ()))}: {issue.get('msg', '')}"[:MAX_ISSUE_CHARS]
        for issue in issues[:MAX_ISSUES]
    ]
    return {**error, "data": {"errors": texts}}
