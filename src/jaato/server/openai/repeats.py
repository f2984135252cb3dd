"""Requests that a client repeats by itself, such as when the connection was lost: their turn is found again, and no call is made twice."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import anyio

from jaato.abc.store import Store
from jaato.client.session import RemoteSession
from jaato.client.state import snapshot
from jaato.errors import StoreError
from jaato.protocol.events import MessageUser, SessionInfo, TurnCompleted
from jaato.server.http.asgi import Scope, values
from jaato.server.openai.branches import ONCE
from jaato.server.openai.errors import RequestError
from jaato.server.openai.wire import NO_RETRY

KEY_HEADER = b"idempotency-key"
RETRY_HEADER = b"x-stainless-retry-count"
"""How often the `openai` SDK has sent a request before."""
MAX_KEY_CHARS = 200
MAX_SEARCHED = 50
"""In how many of the newest sessions a repeated request without a chat is searched."""
MAX_MESSAGES = 20
FAILED = ("error", "cancelled", "interrupted")
"""Ends of a turn without an answer."""


class Attempt(NamedTuple):
    """A request as it was sent: the digest of all that it says, and whether it may have been sent before."""

    digest: str
    key: str = ""
    is_repeated: bool = False

    @property
    def once(self) -> str:
        """How the `once` of its message begins."""
        return f"{ONCE}{self.digest}:"


def attempt_of(scope: Scope, body: bytes, *about: str) -> Attempt:
    """The attempt of a request that is `about` a chat. Raises `RequestError` for a key that is given twice, or too long."""
    keys = values(scope, KEY_HEADER)
    if len(keys) > 1 or (keys and len(keys[0]) > MAX_KEY_CHARS):
        text = f"Idempotency-Key is given once, with at most {MAX_KEY_CHARS} characters."
        raise RequestError(400, text, "header_invalid")
    key = keys[0] if keys else ""
    digest = hashlib.sha256("\0".join((*about, key, "")).encode() + body).hexdigest()[:32]
    return Attempt(digest, key, bool(key) or any(count.strip("0 ") for count in values(scope, RETRY_HEADER)))


async def find_session(store: Store, once: str) -> str | None:
    """The newest session with a message whose `once` begins so."""

    def find() -> str | None:
        for row in store.sessions(None, limit=MAX_SEARCHED):
            try:
                for event in store.read(row.id):
                    if isinstance(event, MessageUser) and event.message.once.startswith(once):
                        return row.id
            except StoreError:
                continue  # it was deleted meanwhile
        return None

    return await anyio.to_thread.run_sync(find)


class Repeated(NamedTuple):
    """A message that was sent before, in its session."""

    session: RemoteSession
    message: MessageUser

    @property
    def now(self) -> SessionInfo:
        """The session as it is, for the fold of an answer."""
        assert self.session.info is not None
        return snapshot(self.session.info, self.session.state)

    @property
    def failed(self) -> TurnCompleted | None:
        """The end of its turn, if that has ended without an answer."""
        ends = (
            entry
            for entry in self.session.state.entries
            if isinstance(entry, TurnCompleted) and entry.turn_id == self.message.turn_id
        )
        return next((end for end in ends if end.reason in FAILED), None)

    def check_undone(self) -> None:
        """Raise `RequestError` if its failed turn has called tools: then it is not run again."""
        if self.failed is not None and self.failed.tool_calls:
            raise RequestError(
                409,
                "This request was sent before. Its turn was interrupted after tools had been called, and is not repeated; the "
                f"next message continues. The session {self.session.id} has what was done.",
                "turn_interrupted",
                **NO_RETRY,
            )


async def find_repeated(session: RemoteSession, attempt: Attempt) -> Repeated | None:
    """The newest message of a session, if this request has sent it."""
    page = await session.history(limit=MAX_MESSAGES, types=("message.user",))
    root = session.state.root_agent_id
    for event in reversed(page.events):
        if isinstance(event, MessageUser) and event.agent_id == root and event.message.source == "user":
            return Repeated(session, event) if event.message.once.startswith(attempt.once) else None
    return None
