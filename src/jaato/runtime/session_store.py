"""The user's store of sessions: opened, and sessions loaded from it to be resumed."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from pathlib import Path

from jaato.abc.store import Store
from jaato.agent.event_redaction import redact_log
from jaato.agent.journal import Journal
from jaato.agent.state import State
from jaato.errors import ConfigError, SessionNotFound, StoreError
from jaato.protocol.events import MessageUser
from jaato.runtime.session_options import SessionOptions
from jaato.settings import Settings
from jaato.tools.invisible_text import one_line
from jaato.tools.redaction.redactor import Redactor

FIRST_EVENTS = 8
"""The first message is among these."""
MAX_EMPTY = 20
"""How many of the newest sessions are looked at for one to continue."""
MAX_TITLE_CHARS = 100


def open_store(settings: Settings, state_dir: Path | None = None) -> Store:
    """The user's store of sessions."""
    from jaato.storage.sqlite import SqliteStore

    directory = state_dir or settings.state_dir
    return SqliteStore(directory / "jaato.db", durability=settings["durability"])


def open_existing_store(settings: Settings) -> Store:
    """The user's store of sessions, which is not created. Raises `SessionNotFound` without one."""
    if not (settings.state_dir / "jaato.db").exists():
        raise SessionNotFound("There are no sessions yet; `jaato run` and `jaato chat` create them.")
    return open_store(settings)


def load_requested_session(
    store: Store, options: SessionOptions, workspace: Path, secrets: Redactor | None = None
) -> Journal | None:
    """The log to go on with, if the options name one. Raises `SessionNotFound`."""
    if options.session:
        return load_session(store, options.session, str(workspace), secrets)
    if not options.resume:
        return None
    return load_session(store, find_newest_session(store, str(workspace)), secrets=secrets)


def find_newest_session(store: Store, workspace: str) -> str:
    """The id of the newest session of a workspace with a message or a name, else of the newest: one that was opened and left
    again is no session to continue. Raises `SessionNotFound` without any."""
    rows = store.sessions(workspace, limit=MAX_EMPTY)
    if not rows:
        raise SessionNotFound(
            f"No session has worked in {workspace} yet; `jaato sessions list --all` lists those of other directories."
        )
    begun = (row.id for row in rows if row.name or row.last_seq > FIRST_EVENTS or has_message(store, row.id))
    return next(begun, rows[0].id)


def has_message(store: Store, session_id: str) -> bool:
    """Whether a message of the user is among the first events of a session."""
    try:
        return any(isinstance(event, MessageUser) for event in islice(store.read(session_id), FIRST_EVENTS))
    except StoreError:
        return False  # it was deleted meanwhile


def load_session(
    store: Store, text: str, workspace: str | None = None, secrets: Redactor | None = None
) -> Journal:
    """The log of the session with this id, prefix or name (of this workspace first), folded. Raises `SessionNotFound`."""
    journal = Journal(store, State(), secrets=secrets)
    for _ in load_session_in_steps(journal, text, workspace):
        pass
    return journal


def load_session_in_steps(
    journal: Journal, text: str, workspace: str | None = None
) -> Generator[None, None, None]:
    """Hold a stored session and fold its log into a new journal, piece by piece. Raises `SessionNotFound`."""
    store = journal.store
    try:
        session_id = store.find(text, workspace)
    except SessionNotFound:
        if workspace is None:
            raise
        session_id = store.find(text)
    if not store.read_only:
        store.hold(session_id)
    try:
        yield from journal.loading(session_id)
    except BaseException:
        store.release(session_id)
        raise


def workspace_of_session(journal: Journal) -> Path:
    """The directory a stored session works in. Raises `ConfigError` when it is gone."""
    workspace = Path(journal.state.workspace)
    if not workspace.is_dir():
        raise ConfigError(
            f"The session {journal.state.session_id} works in {workspace}, which is no directory any more; "
            "bring it back, or begin a new session."
        )
    return workspace


def namesakes(store: Store, session_id: str, name: str | None) -> str:
    """What the user should know of a name that was just given to a session; empty when no other one has it."""
    others = [row for row in store.named(name) if row.id != session_id] if name else []
    if not others:
        return ""
    newest = f"{others[0].id} of {others[0].updated_at[:16].replace('T', ' ')} in {others[0].workspace}"
    more = " (and of others)" if len(others) > 1 else ""
    return f"{name!r} is the name of {newest}, too{more}: name either by its id, or give one another name."


def read_first_message(store: Store, session_id: str, secrets: Redactor) -> str:
    """The beginning of the first user message, which titles a session without name and description; empty without one."""
    try:
        for event in redact_log(islice(store.read(session_id), FIRST_EVENTS), secrets):
            if isinstance(event, MessageUser):
                return one_line(event.message.words, MAX_TITLE_CHARS)
    except StoreError:
        pass  # it was deleted meanwhile, or is damaged
    return ""
