"""A new session that begins with what another one had."""

from __future__ import annotations

import re

import msgspec

from jaato.abc.store import Damaged
from jaato.errors import SessionNotFound, StoreError
from jaato.protocol.codec import encode, is_unicode
from jaato.protocol.events import SessionCreated, SessionUpdated, now
from jaato.storage.draft import drafted
from jaato.storage.events import chunk, decoded
from jaato.storage.guard import Guard
from jaato.storage.listing import LAST
from jaato.storage.schema import SEQ_BITS

MAX_NAME_CHARS = 200
DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
SHARE = "INSERT OR IGNORE INTO blob SELECT ?, digest, size_bytes FROM blob WHERE session = ? AND digest = ?"


def fork(guard: Guard, session_id: str, seq: int | None, name: str | None, made: str) -> None:
    """Make the session `made` with the events up to `seq`, or all, of another one, which is not changed.

    Agents, calls and turns keep their ids, which mean something within a session only. Blobs are shared. The last event
    gives the fork its name. Raises `SessionNotFound`, `StoreError` for an event that is not there.
    """
    if not is_unicode(session_id) or (name is not None and not is_unicode(name)):
        raise StoreError("An id or a name has a character that cannot be written.")
    with guard as connection:
        row = connection.execute("SELECT number, name FROM session WHERE id = ?", (session_id,)).fetchone()
        number, old_name = row or (0, None)
        start = number << SEQ_BITS
        last = connection.execute(LAST, (start, start + (1 << SEQ_BITS))).fetchone() if row else None
    if last is None:
        raise SessionNotFound(f"There is no session {session_id!r}. `jaato sessions list` shows them all.")
    end = last[0] - start
    if seq is not None and not 1 <= seq <= end:
        raise StoreError(f"Session {session_id} has the events 1 to {end}; fork it after one of them.")
    end = end if seq is None else seq
    digests: set[bytes] = set()
    with drafted(guard, made) as draft:
        after, root = 0, ""
        while after < end:
            for at, data in chunk(guard, start, after, end):
                event = decoded(session_id, at, data)
                if at == 1 and not isinstance(event, SessionCreated):
                    raise StoreError(
                        f"Session {session_id} has lost its first record, so it cannot be forked."
                    )
                if isinstance(event, Damaged):
                    draft.add(at, data if isinstance(data, bytes) else data.encode(), None)
                    continue
                begun = {"timestamp": now()} if at == 1 else {}
                copy = msgspec.structs.replace(event, session_id=made, **begun)
                root = root or copy.agent_id
                line = encode(copy)
                digests.update(DIGEST.findall(line))
                draft.add(at, line, copy)
                after = at
            after = max(after, at)
        called = (name or f"fork of {old_name or session_id[:12]}")[:MAX_NAME_CHARS]
        named = SessionUpdated(session_id=made, agent_id=root, seq=end + 1, name=called)
        draft.add(end + 1, encode(named), named)
        with guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT 1 FROM session WHERE number = ?", (number,)).fetchone():
                raise SessionNotFound(f"Session {session_id} was deleted while it was forked.")
            draft.finish(connection)
            connection.executemany(
                SHARE, [(draft.number, number, digest.decode()) for digest in sorted(digests)]
            )
            connection.execute("COMMIT")
