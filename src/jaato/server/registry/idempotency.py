"""Idempotency keys: a call with a key is executed once, and repeated requests get the stored response from the log."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from jaato.abc.store import Store
from jaato.errors import JaatoError, SessionNotFound, StoreError, ToolTimeout
from jaato.log import logger
from jaato.protocol.events import ToolCallEnd, ToolCallStart
from jaato.server.registry.responses import UNAVAILABLE, Response, busy, error_for, error_of, failure, success
from jaato.server.registry.running_call import (
    UNKNOWN,
    CallListener,
    CallOptions,
    CallRequest,
    TooLarge,
    outcome_of,
)
from jaato.storage.database import connect
from jaato.storage.errors import database_error, file_error
from jaato.storage.private_files import check_own_file, create_private, private_directory
from jaato.tools.tool import Tool

LOG = logger("server.registry")
NAME = "registry-repeats.db"
KEPT_S = 86_400.0
"""How long a key is remembered."""
KEPT_KEYS = 10_000
"""How many keys of one caller are remembered, the newest."""
PRUNED_EVERY = 256
UNDER_WAY = "The call of this Idempotency-Key is under way; ask again with the same key for its answer."
MISMATCH = "Another request was made with this Idempotency-Key; a new request takes a new key."
REPLAYED = (b"idempotent-replayed", b"true")
CUT_OFF = frozenset(("cancelled", ToolTimeout.code))
"""Problems after which a call that only reads may be made again."""
TABLE = """
CREATE TABLE IF NOT EXISTS repeat (
    number INTEGER PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, item INTEGER NOT NULL, digest TEXT NOT NULL,
    session_id TEXT NOT NULL, call_id TEXT NOT NULL, after_seq INTEGER NOT NULL, request_id TEXT NOT NULL,
    made_at REAL NOT NULL, end_seq INTEGER NOT NULL DEFAULT 0, text INTEGER NOT NULL DEFAULT 0,
    UNIQUE (scope, key, item)
)
"""
COLUMNS = "digest, session_id, call_id, after_seq, request_id, end_seq, text"


class KeyInUse(JaatoError):
    """Another process is making the call of this key."""

    code = "request.idempotency_under_way"


class IdempotencyKey(NamedTuple):
    """A key of a caller, and the index of the call in its batch."""

    scope: str
    key: str
    item: int = 0


class RecordedCall(NamedTuple):
    """A call that was about to start: the digest of its request, and its place in the log; `end_seq` is 0 before it is known."""

    digest: str
    session_id: str
    call_id: str
    after_seq: int
    request_id: str
    end_seq: int = 0
    text: bool = False


class IdempotencyStore:
    """A database beside the session store, created with the first key. It only points into the log, which has the truth about
    a call. Every method raises `StoreError`s."""

    def __init__(self, state_dir: Path, workspace: Path) -> None:
        self._path = state_dir / NAME
        self._workspace = workspace
        self._connection: sqlite3.Connection | None = None
        self._count = 0

    def scope(self, caller: str) -> str:
        """The namespace of a caller's keys."""
        return hashlib.sha256(f"{self._workspace}\0{caller}".encode()).hexdigest()[:32]

    def find(self, key: IdempotencyKey) -> RecordedCall | None:
        """The call of this key, if there was one in the last day."""
        with self._open() as connection:
            row = connection.execute(
                f"SELECT {COLUMNS} FROM repeat WHERE scope = ? AND key = ? AND item = ? AND made_at > ?",  # noqa: S608
                (*key, time.time() - KEPT_S),
            ).fetchone()
        return None if row is None else RecordedCall(*row)._replace(text=bool(row[-1]))

    def digest(self, key: IdempotencyKey) -> str | None:
        """The digest of the request that used this key."""
        with self._open() as connection:
            row = connection.execute(
                "SELECT digest FROM repeat WHERE scope = ? AND key = ? AND made_at > ? LIMIT 1",
                (key.scope, key.key, time.time() - KEPT_S),
            ).fetchone()
        return None if row is None else str(row[0])

    def claim(self, key: IdempotencyKey, made: RecordedCall, before: RecordedCall | None) -> None:
        """Record that a call of a key is about to start; an earlier one (`before`) never started. Raises `KeyInUse`."""
        with self._open() as connection:
            if before is not None:
                connection.execute("DELETE FROM repeat WHERE call_id = ?", (before.call_id,))
            if self._count % PRUNED_EVERY == 0:
                self._prune(connection, key.scope)
            connection.execute(
                "DELETE FROM repeat WHERE scope = ? AND key = ? AND item = ? AND made_at <= ?",
                (*key, time.time() - KEPT_S),
            )
            try:
                connection.execute(
                    f"INSERT INTO repeat (scope, key, item, made_at, {COLUMNS}) "  # noqa: S608
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*key, time.time(), *made),
                )
            except sqlite3.IntegrityError:
                raise KeyInUse("Another process is making this call.") from None
            self._count += 1

    def record_end(self, made: RecordedCall, end_seq: int, *, text: bool) -> None:
        """Record where in the log the end of a call is."""
        with self._open() as connection:
            connection.execute(
                "UPDATE repeat SET end_seq = ?, text = ? WHERE call_id = ?", (end_seq, text, made.call_id)
            )

    def forget(self, made: RecordedCall) -> None:
        """Release the key of a call that did not start."""
        with self._open() as connection:
            connection.execute("DELETE FROM repeat WHERE call_id = ?", (made.call_id,))

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _prune(self, connection: sqlite3.Connection, scope: str) -> None:
        connection.execute("DELETE FROM repeat WHERE made_at <= ?", (time.time() - KEPT_S,))
        connection.execute(
            "DELETE FROM repeat WHERE scope = ? AND number <= "
            "(SELECT number FROM repeat WHERE scope = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (scope, scope, KEPT_KEYS),
        )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection
        except sqlite3.Error as error:
            raise database_error(error, self._path) from error
        except OSError as error:
            raise file_error(error, self._path) from error

    def _connect(self) -> sqlite3.Connection:
        private_directory(self._path.parent)
        check_own_file(self._path)
        create_private(self._path)
        connection = connect(self._path, "mode=rw")
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(TABLE)
            connection.execute("CREATE INDEX IF NOT EXISTS repeat_call ON repeat (call_id)")
        except sqlite3.Error:
            connection.close()
            raise
        return connection


MakeCall = Callable[[CallRequest, CallOptions], Awaitable[Response]]


class CallStatus(Enum):
    """What is known of a call without an end in the log."""

    NOT_STARTED = "not started"
    IN_OTHER_PROCESS = "running in another process"
    UNKNOWN = "started, outcome unknown"


class IdempotentCalls:
    """Makes the calls that have a key, each once."""

    def __init__(self, store: Store, keys: IdempotencyStore) -> None:
        self.keys = keys
        self._store = store
        self._running: dict[tuple[str, str], tuple[str, asyncio.Future[Response]]] = {}

    async def invoke(
        self, request: CallRequest, key: str, listener: CallListener, make: MakeCall
    ) -> Response:
        """The response to a call with a key. The call continues if its client disconnects."""
        whole, digest = IdempotencyKey(self.keys.scope(request.who.key), key), request.digest()
        refused = self.find_conflict(whole, digest)
        if refused is not None:
            return refused
        return await self.run(whole, digest, self.invoke_one(request, whole, digest, listener, make))

    def find_conflict(self, key: IdempotencyKey, digest: str) -> Response | None:
        """The response if the key is in use, or was used for another request."""
        try:
            running = self._running.get((key.scope, key.key))
            known = running[0] if running is not None else self.keys.digest(key)
        except StoreError as error:
            return unavailable(error)
        if known is not None and known != digest:
            return failure(error_of("request.idempotency_mismatch", MISMATCH))
        return None if running is None else busy("request.idempotency_under_way", UNDER_WAY)

    async def run(self, key: IdempotencyKey, digest: str, work: Awaitable[Response]) -> Response:
        """The response of some work under a key, which continues if the client disconnects."""
        task = asyncio.ensure_future(work)
        self._running[key.scope, key.key] = digest, task
        task.add_done_callback(lambda _task: self._running.pop((key.scope, key.key)))
        return await asyncio.shield(task)

    async def invoke_one(
        self, request: CallRequest, key: IdempotencyKey, digest: str, listener: CallListener, make: MakeCall
    ) -> Response:
        """The response to one call with a key that is not in use: the stored one, else that of a new call."""
        try:
            before = self.keys.find(key)
            found = None if before is None else self._find_end(before, request.tool)
        except StoreError as error:
            return unavailable(error)
        match found:
            case CallStatus.IN_OTHER_PROCESS:
                return busy("request.idempotency_under_way", UNDER_WAY)
            case CallStatus.UNKNOWN:
                return failure(error_of("tool.outcome_unknown", UNKNOWN, tool=request.tool.name))
            case ToolCallEnd() if before is not None:
                listener.begun = True
                return self._replay(before, found, request.tool)
        return await self._make(request, key, digest, listener, make, before)

    async def _make(
        self,
        request: CallRequest,
        key: IdempotencyKey,
        digest: str,
        listener: CallListener,
        make: MakeCall,
        before: RecordedCall | None,
    ) -> Response:
        claimed: list[RecordedCall] = []

        def claim(session_id: str, call_id: str, after_seq: int) -> None:
            made = RecordedCall(digest, session_id, call_id, after_seq, request.origin["request_id"])
            self.keys.claim(key, made, before)
            claimed.append(made)

        origin = {**request.origin, "idempotency_key": key.key}
        response = await make(structs.replace(request, origin=origin), CallOptions(listener, claim=claim))
        try:
            for made in claimed:
                if listener.begun and listener.end_seq and listener.is_stored:  # other ends are found soon
                    self.keys.record_end(made, listener.end_seq, text=listener.is_text)
                elif not listener.begun:
                    self.keys.forget(made)
        except StoreError as error:
            LOG.warning(
                "The end of a call with a key was not recorded, and is search_tools for when needed: %s",
                error,
            )
        return response

    def _find_end(self, made: RecordedCall, tool: Tool) -> ToolCallEnd | CallStatus:
        """The end of a call in the log, else what is known of it. Raises `StoreError`."""
        begun = bool(made.end_seq)
        try:
            for event in self._store.read(
                made.session_id, made.end_seq - 1 if made.end_seq else made.after_seq
            ):
                if isinstance(event, ToolCallStart) and event.call_id == made.call_id:
                    begun = True
                elif isinstance(event, ToolCallEnd) and event.call_id == made.call_id:
                    ended = event.result.error
                    harmless = tool.spec.access == "read" and ended is not None and ended.code in CUT_OFF
                    return event if begun and not harmless else CallStatus.NOT_STARTED
        except SessionNotFound:  # removed, because of its age or size
            begun = True
        holder = None if made.end_seq else self._store.holder(made.session_id)
        if holder is not None and holder.pid != os.getpid():
            return CallStatus.IN_OTHER_PROCESS
        return CallStatus.UNKNOWN if begun and tool.spec.access != "read" else CallStatus.NOT_STARTED

    def _replay(self, made: RecordedCall, end: ToolCallEnd, tool: Tool) -> Response:
        """The stored response of a call."""

        def read(handle: str, offset: int, limit: int) -> bytes:
            return self._store.get_blob(made.session_id, handle.removeprefix("result:"), offset, limit)

        try:
            outcome = outcome_of(end, read, text=made.text)
        except TooLarge as error:
            return failure(error_of(error.code, str(error), tool=tool.name), 0.0, REPLAYED)
        except StoreError as error:
            return unavailable(error)
        if outcome.problem is not None:
            access = tool.spec.access
            problem = error_for(
                outcome.problem, made.request_id, tool.name, begun=outcome.begun, access=access
            )
            return failure(problem, outcome.latency_ms, REPLAYED)
        response = success(outcome.value, outcome.latency_ms)
        response.headers.append(REPLAYED)
        return response


def unavailable(error: StoreError) -> Response:
    """The response if the store cannot be read."""
    LOG.warning("A call with a key could not be looked up: %s", error)
    return busy("registry.unavailable", UNAVAILABLE)
