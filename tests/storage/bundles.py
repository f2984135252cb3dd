"""A session that has used what there is to use, and its bundle."""

from __future__ import annotations

from pathlib import Path

from tests.storage.logs import agent, created, said

from jaato.agent.event_redaction import redact_file, redact_log
from jaato.protocol.events import PermissionGranted
from jaato.protocol.specs import Grant
from jaato.storage.bundle_export import write_bundle
from jaato.storage.sqlite import SqliteStore
from jaato.tools.redaction.redactor import Redactor

SECRET = "wonderland-7461-rabbit"


def packed(store: SqliteStore, target: Path, secrets: Redactor | None = None) -> Path:
    """A bundle of the session s1."""
    known = secrets or Redactor.none()
    write_bundle(
        store,
        "s1",
        lambda: redact_log(store.read("s1"), known),
        lambda path: redact_file(path, known),
        target,
    )
    return target


def whole(store: SqliteStore, session_id: str) -> None:
    """A session that has used what there is to use."""
    store.create([created(session_id, "/far/away", name="trip"), agent(session_id, 2, "m1")])
    digest = store.put_blob(session_id, b"line\n" * 5000 + SECRET.encode())
    store.append([said(session_id, 3, f"see result:{digest}"), said(session_id, 4, f"the key is {SECRET}")])
    grant = Grant(id="g1", effect="allow", tool="run", scope="session")
    store.append([PermissionGranted(session_id=session_id, agent_id="a1", seq=5, grant=grant)])
