"""The API's routes: `/v1/models` and `/v1/chat/completions`."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import anyio

from jaato.errors import JaatoError
from jaato.server.auth.gate import send_refusal
from jaato.server.auth.identity import KEY, Admission
from jaato.server.http.asgi import Receive, Refused, Scope, Send, body_of, values
from jaato.server.openai.errors import RequestError, error_body, refusal_of_error
from jaato.server.openai.idempotency import attempt_of
from jaato.server.openai.models import Models
from jaato.server.openai.requests import parse_request
from jaato.server.openai.tasks import TaskAnswer, header_value, is_task
from jaato.server.openai.turns import Chat, TurnAnswer
from jaato.server.openai.wire import NO_RETRY, EventStream, Source, send_json, send_whole
from jaato.server.sessions.hub import Hub

CHAT_HEADERS = (b"x-openwebui-chat-id", b"x-conversation-id")
"""Headers with the id of a chat whose front end sends all of its messages."""
SESSION_HEADER = b"x-jaato-session"
WORKSPACE_HEADER = b"x-jaato-workspace"
MAX_ID_CHARS = 200
MAX_CONCURRENT = 64
"""The most requests that are answered at a time."""
MAX_DISCARDED_BYTES = 64_000_000
DISCARD_S = 10.0


class Application:
    """Answers the requests of front ends. Put a `Gate` in front."""

    def __init__(self, hub: Hub, workspace: Path | None) -> None:
        self._hub = hub
        self._workspace = workspace
        self._models = Models(hub.base)
        self._running = 0
        self._open: set[anyio.CancelScope] = set()
        self._followers: Counter[str] = Counter()
        """How many requests await the turn of each message, by its `once`."""
        self._is_stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            if scope["path"] == "/v1/chat/completions":
                check_method(scope, "POST")
                await self._complete(scope, receive, send)
            else:
                check_method(scope, "GET")
                await self._list_models(scope, send)
        except Refused as refused:
            await send_refusal(scope, send, refused, error_body)
        except JaatoError as error:
            await send_refusal(scope, send, refusal_of_error(error), error_body)

    async def _list_models(self, scope: Scope, send: Send) -> None:
        """All models, or the one at the path."""
        entries = await self._models.list()
        name = scope["path"].removeprefix("/v1/models").removeprefix("/")
        if not name:
            await send_json(send, {"object": "list", "data": entries})
            return
        found = [entry for entry in entries if entry["id"] == name]
        if not found:
            raise RequestError(404, f"There is no model {name[:200]!r}.", "model_not_found", "model")
        await send_json(send, found[0])

    async def _complete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message of a chat."""
        admission: Admission = scope["state"][KEY]
        if admission.identity is None or admission.identity.role != "owner":
            raise RequestError(
                403, "An agent acts as the owner; use a token of the role owner.", "role_not_allowed"
            )
        if self._is_stopping:
            raise stopping_error()
        if self._running >= MAX_CONCURRENT:
            raise RequestError(
                429,
                f"{MAX_CONCURRENT} requests are being answered; send this one again later.",
                "overloaded",
                **{"retry-after": "5"},
            )
        self._running += 1
        try:
            await self._answer(scope, receive, send, admission)
        finally:
            self._running -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send, admission: Admission) -> None:
        try:
            body = await body_of(scope, receive)
        except Refused:
            await discard_body(receive)
            raise
        if body is None:
            return
        request = parse_request(body, is_chat=any(values(scope, name) for name in CHAT_HEADERS))
        choice = await self._models.find(request.model)
        source: Source
        if is_task(scope, request):
            source = TaskAnswer(self._models, choice, self._workspace, request)
        else:
            workspace, chat = self._workspace_of(scope), chat_of(scope)
            attempt = attempt_of(scope, body, chat.chat_id, chat.session, str(workspace))
            source = TurnAnswer(
                self._hub, admission, chat, choice, workspace, request, attempt, self._followers
            )
        options = request.stream_options
        usage = options is not None and bool(options.include_usage)
        stream = EventStream(scope, send, request.model, include_usage=usage) if request.stream else None
        is_answered = False
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_on_disconnect, receive, group.cancel_scope)
            self._open.add(group.cancel_scope)
            try:
                if stream is not None:
                    await stream.run(source)
                else:
                    await send_whole(send, request.model, source)
                is_answered = True
            except Refused as refused:
                await send_refusal(scope, send, refused, error_body)
                is_answered = True
            finally:
                self._open.discard(group.cancel_scope)
            group.cancel_scope.cancel()
        if self._is_stopping and not is_answered:
            if stream is None:
                raise stopping_error()
            await stream.fail(stopping_error())

    def stop(self) -> None:
        """Stop every turn, and answer its request with an error."""
        self._is_stopping = True
        for cancel_scope in self._open:
            cancel_scope.cancel()

    def _workspace_of(self, scope: Scope) -> Path:
        """The directory in which the agent works. Raises `RequestError` without one."""
        given = values(scope, WORKSPACE_HEADER)
        if len(given) > 1:
            raise RequestError(400, "X-Jaato-Workspace is given once.", "workspace_invalid")
        text = given[0].encode("latin-1").decode("utf-8", "replace") if given else ""
        if not text and self._workspace is not None:
            return self._workspace
        if not text:
            raise RequestError(
                400,
                "It is not known in which directory the agent is to work: start the server with "
                "`jaato serve --openai-workspace DIR`, or send the header X-Jaato-Workspace with an absolute path.",
                "workspace_missing",
            )
        if "\0" in text or not os.path.isabs(text) or not os.path.isdir(text):
            raise RequestError(
                400,
                f"X-Jaato-Workspace: {text[:200]!r} is not the absolute path of a directory on the server.",
                "workspace_invalid",
            )
        return Path(text)


def stopping_error() -> RequestError:
    """The error of requests that a stop of the server interrupts."""
    text = "The server is stopping; the turn was interrupted, and the next message continues."
    return RequestError(503, text, "server_stopping", **NO_RETRY)


def check_method(scope: Scope, method: str) -> None:
    """Raise `RequestError` for another method."""
    if scope["method"] != method:
        raise RequestError(
            405, f"{scope['path']} is requested with {method}.", "method_not_allowed", allow=method
        )


def chat_of(scope: Scope) -> Chat:
    """What a request continues, by its headers. Raises `RequestError` for an id that is given twice, or too long."""
    for name in (SESSION_HEADER, *CHAT_HEADERS):
        given = values(scope, name)
        if len(given) > 1 or (given and len(given[0]) > MAX_ID_CHARS):
            raise RequestError(
                400,
                f"{name.decode()} is given once, with at most {MAX_ID_CHARS} characters.",
                "header_invalid",
            )
    session = header_value(scope, SESSION_HEADER).encode("latin-1").decode("utf-8", "replace")
    ids = [value for name in CHAT_HEADERS if (value := header_value(scope, name)) and value != "new"]
    return Chat("" if session or not ids else ids[0], session)


async def discard_body(receive: Receive) -> None:
    """Read the rest of a body that is refused, within bounds: clients see the answer only when they have sent all of it."""
    left = MAX_DISCARDED_BYTES
    with anyio.move_on_after(DISCARD_S):
        while left > 0:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                return
            left -= len(message.get("body", b""))


async def cancel_on_disconnect(receive: Receive, cancel_scope: anyio.CancelScope) -> None:
    """Cancel an answer when its client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancel_scope.cancel()
