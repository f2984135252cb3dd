"""Requests that a client repeats by itself, such as when the connection was lost: their turn is found again, and no call is made twice."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import anyio

from jaato.abc.store import Store
from jaato.client.session import RemoteSession
from jaato.client.state import snapshot
from jaato.errors import StoreError
from jaato.protocol.events import MessageUser, SessionInfo, TurnCompleted
from jaato.server.http.asgi import Scope, values
from jaato.server.openai.answer import AnswerFold, Piece
from jaato.server.openai.branches import ONCE
from jaato.server.openai.errors import RequestError
from jaato.server.openai.wire import NO_RETRY

KEY_HEADER = b"idempotency-key"
RETRY_HEADER = b"x-stainless-retry-count"
"""How often the `openai` SDK has sent a request before."""
MAX_KEY_CHARS = 200
MAX_SEARCHED = 50
"""In how many of the newest sessions a repeated request without a chat is searched."""
TIMEOUT_HEADERS = (b"x-stainless-read-timeout", b"x-stainless-timeout")
"""For how many seconds the SDK of Python, or of TypeScript, waits for an answer before it repeats the request."""
TIMEOUT_S, MAX_TIMEOUT_S = 600.0, 86_400.0
"""What both do by default, and the most that is believed."""
MARGIN_S = 300.0
"""How long after the end of a turn, beyond the timeout, a request without a key is taken for a repetition of the one that began it:
a later request may say the same and mean it anew."""
PAGE = 20
FAILED = ("error", "cancelled", "interrupted")
"""Ends of a turn without an answer."""


class Attempt(NamedTuple):
    """A request as it was sent: the digest of all that it says, and whether it may have been sent before."""

    digest: str
    key: str = ""
    is_repeated: bool = False
    timeout_s: float = TIMEOUT_S
    """For how long its client waits for an answer."""

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
    is_repeated = bool(key) or any(count.strip("0 ") for count in values(scope, RETRY_HEADER))
    return Attempt(digest, key, is_repeated, timeout_of(scope))


def timeout_of(scope: Scope) -> float:
    """For how many seconds a client waits for an answer, as far as it says so."""
    for given in [given for name in TIMEOUT_HEADERS for given in values(scope, name)]:
        with suppress(ValueError):
            if 0 <= (timeout_s := float(given)) <= MAX_TIMEOUT_S:
                return timeout_s
    return TIMEOUT_S


async def find_session(store: Store, once: str) -> str | None:
    """The newest session whose first message, behind the messages it began with, has a `once` that begins so."""

    def find() -> str | None:
        for row in store.sessions(None, limit=MAX_SEARCHED):
            try:
                for event in store.read(row.id):
                    if isinstance(event, MessageUser) and not is_history(event):
                        if event.message.once.startswith(once):
                            return row.id
                        break
            except StoreError:
                continue  # it was deleted meanwhile
        return None

    return await anyio.to_thread.run_sync(find)


def is_history(event: MessageUser) -> bool:
    """Whether a message was there before the session: its `once` has no digest of a request."""
    return event.message.once.startswith(ONCE) and ":" not in event.message.once.removeprefix(ONCE)


class Repeated(NamedTuple):
    """A message that was sent before, in its session."""

    session: RemoteSession
    message: MessageUser
    end: TurnCompleted | None
    """The end of its turn."""

    @property
    def now(self) -> SessionInfo:
        """The session as it is, for the fold of an answer."""
        assert self.session.info is not None
        return snapshot(self.session.info, self.session.state)

    @property
    def failed(self) -> TurnCompleted | None:
        """The end of its turn, if that has ended without an answer."""
        return self.end if self.end is not None and self.end.reason in FAILED else None

    def is_repetition(self, attempt: Attempt) -> bool:
        """Whether an attempt has sent the message, and not another request with the same text before."""
        if not self.message.message.once.startswith(attempt.once):
            return False
        if attempt.key or self.end is None:
            return True
        age = datetime.now(UTC) - datetime.fromisoformat(self.end.timestamp)
        return age.total_seconds() <= attempt.timeout_s + MARGIN_S

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
    root = session.state.root_agent_id
    ends: dict[str, TurnCompleted] = {}  # others than users begin turns, too
    before: int | None = session.state.seq + 1
    while before is not None:
        page = await session.history(before, limit=PAGE, types=("message.user", "turn.completed"))
        for event in [event for event in reversed(page.events) if event.agent_id == root]:
            if isinstance(event, TurnCompleted):
                ends.setdefault(event.turn_id, event)
            elif isinstance(event, MessageUser) and event.message.source == "user":
                found = Repeated(session, event, ends.get(event.turn_id))
                return found if found.is_repetition(attempt) else None
        before = page.before_seq
    return None


async def replay(repeated: Repeated, fold: AnswerFold) -> AsyncGenerator[Piece]:
    """The pieces of the turn so far that are in the log: the state may not hold its beginning any more."""
    session, fold.seq = repeated.session, repeated.message.seq - 1
    while fold.seq < (last := session.state.seq):
        async for entry in session.entries(fold.seq, last):
            for piece in fold.feed(entry):
                yield piece
        fold.seq = max(fold.seq, last)
