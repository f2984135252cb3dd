"""`jaato sessions`: list, search, show, rename, fork, export, import, delete and vacuum stored sessions."""

from __future__ import annotations

import math
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from jaato.abc.store import Hits, Retention, SessionRow, Store
from jaato.agent.event_redaction import redact_file, redact_log
from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.connect import greeted, same_place
from jaato.cli.ending import say
from jaato.cli.output.tables import counted, print_json, print_line, print_records, print_rows, time_text
from jaato.cli.output.terminal import one_line, size_text
from jaato.cli.repl.terminal_input import ask_yes_no
from jaato.client.address import Address, socket_path
from jaato.client.blocking import Client
from jaato.errors import ConfigError, JaatoError, SessionBusy, SessionNotFound
from jaato.protocol.commands import Command, SessionDelete, SessionList, SessionUpdate
from jaato.protocol.events import MessageUser
from jaato.protocol.frames import Sessions
from jaato.protocol.ids import session_name
from jaato.runtime.secrets import collect_secrets
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import load_session, namesakes, open_store
from jaato.settings import Settings, environment
from jaato.tools.redaction.redactor import Redactor

LOOKED_AT = 8
"""Events among which the first message is."""
WORDS_CHARS = 100


def main(args: Namespace) -> int:
    """Do one thing with stored sessions."""
    workspace = workspace_of(args)
    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    if not (settings.state_dir / "jaato.db").exists() and args.action not in ("list", "import"):
        raise SessionNotFound("No session is stored yet; `jaato run` and `jaato chat` begin one.")
    store = open_store(settings)
    secrets = collect_secrets(settings, workspace=workspace)
    try:
        match args.action:
            case "list":
                list_sessions(store, args, None if args.all else workspace, secrets)
            case "show":
                show(store, args, workspace, secrets)
            case "rename":
                rename(store, args, workspace, secrets)
            case "search":
                search(store, args, None if args.all else workspace)
            case "fork" | "import":
                make(store, args, workspace)
            case "vacuum":
                vacuum(store, args, settings)
            case "export" if args.bundle:
                export_bundle(store, args, session_of(store, args.session, workspace), secrets)
            case "export":
                export(store, args, workspace, secrets)
            case "delete":
                return delete(store, args, workspace)
    finally:
        store.close()
    return 0


def list_sessions(store: Store, args: Namespace, workspace: Path | None, secrets: Redactor) -> None:
    """Sessions, newest first; one without a name or description by its first words."""
    rows = store.sessions(str(workspace) if workspace else None, limit=args.limit)
    status = standing(store, rows) if rows else {}
    if not rows and not args.json:
        where = f" in {workspace}; --all shows those of every workspace" if workspace else ""
        say(f"No session is stored{where}.")

    def cells(row: dict[str, Any]) -> list[str]:
        what = row["name"] or row["description"] or first_words(store, row["id"], secrets)
        place = [] if workspace else [row["workspace"]]
        what = f"({row['standing']}) {what}" if row["standing"] else what
        return [
            row["id"],
            time_text(row["updated_at"]),
            f"{row['last_seq']} events",
            row["model"],
            *place,
            what,
        ]

    records = [msgspec.to_builtins(row) | {"standing": status.get(row.id, "")} for row in rows]
    print_records(records, cells, as_json=args.json)


def first_words(store: Store, session_id: str, secrets: Redactor) -> str:
    """What the user has said first."""
    for event in redact_log(islice(store.read(session_id), LOOKED_AT), secrets):
        if isinstance(event, MessageUser):
            return one_line(event.message.words, WORDS_CHARS)
    return ""


def show(store: Store, args: Namespace, workspace: Path, secrets: Redactor) -> None:
    """The conversation."""
    from jaato.cli.output.transcript import line_of, transcript

    session_id = session_of(store, args.session, workspace)
    if args.json:
        print_json([msgspec.Raw(line_of(event)) for event in redact_log(store.read(session_id), secrets)])
        return
    for line in transcript(store, session_id, secrets, full=args.full):
        print_line(line)


def rename(store: Store, args: Namespace, workspace: Path, secrets: Redactor) -> None:
    """Another name."""
    from jaato.protocol.events import SessionUpdated

    name = session_name(clean_text(args.name))
    if name is None:
        raise ConfigError("The name is empty; give the session one that can be typed.")
    session_id = session_of(store, args.session, workspace)

    def note() -> None:
        journal = load_session(store, session_id, secrets=secrets)
        journal.record(SessionUpdated(**journal.head(), name=name))

    done_here_or_there(note, SessionUpdate(session_id=session_id, name=name))
    if notice := namesakes(store, session_id, name):
        say(notice)


def export(store: Store, args: Namespace, workspace: Path, secrets: Redactor) -> None:
    """Every event, as JSON lines or one JSON document; into a file only once it is whole."""
    from jaato.cli.output.transcript import line_of, write_events

    session_id = session_of(store, args.session, workspace)

    def write(file: BinaryIO) -> None:
        if not args.json:
            write_events(store, session_id, file, secrets)
            return
        lines = [line_of(event) for event in redact_log(store.read(session_id), secrets)]
        file.write(b"[" + b",\n".join(lines) + b"]\n")

    if args.to is None:
        sys.stdout.flush()
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    path = Path(args.to)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("xb") as file:
            write(file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def delete(store: Store, args: Namespace, workspace: Path) -> int:
    """Remove sessions; asks first at a terminal, and needs --yes elsewhere."""
    ids = [session_of(store, text, workspace) for text in args.sessions]
    question = f"Delete {', '.join(ids)} for good?"
    if not args.yes and not ask_yes_no(
        question, "Deleting is for good: say --yes where nobody can be asked."
    ):
        say("Nothing was deleted.")
        return 1
    for session_id in dict.fromkeys(ids):
        done_here_or_there(partial(store.delete, session_id), SessionDelete(session_id=session_id))
        print_line(f"deleted {session_id}")
    return 0


def search(store: Store, args: Namespace, workspace: Path | None) -> None:
    """The sessions that have all the words, newest first."""
    words = " ".join([f'"{word}"' if " " in word else word for word in args.words])
    hits = search_all(store, clean_text(words) or "", str(workspace) if workspace else None, args.limit)
    records = [
        {**msgspec.to_builtins(hit.row), "found_seq": hit.seq, "found": hit.snippet} for hit in hits.found
    ]
    if not records and not args.json:
        where = f" in {workspace}; --all searches those of every workspace" if workspace else ""
        say(f"No session has these words{where}.")
    print_records(
        records,
        lambda row: (row["id"], time_text(row["updated_at"]), row["name"] or "", row["found"]),
        as_json=args.json,
    )


def search_all(store: Store, words: str, workspace: str | None, limit: int) -> Hits:
    """What a search of the whole store finds, once all that was written is read."""
    hits = store.search(words, workspace, limit)
    if not hits.complete:
        say("Reading what was written since the last search …")
    while not hits.complete:
        hits = store.search(words, workspace, limit)
    return hits


def session_of(store: Store, text: str, workspace: Path) -> str:
    """The session meant, of this workspace first. Raises `SessionNotFound`."""
    asked = clean_text(text) or ""
    try:
        return store.find(asked, str(workspace))
    except SessionNotFound:
        return store.find(asked)


def make(store: Store, args: Namespace, workspace: Path) -> None:
    """Another session: one that begins as this one did, or that of a bundle; and say which it is."""
    name = session_name(clean_text(args.name))
    if args.action == "fork":
        session_id = store.fork(session_of(store, args.session, workspace), args.at, name)
    else:
        session_id = store.import_bundle(Path(args.file), workspace, name)
    if notice := namesakes(store, session_id, name):
        say(notice)
    if args.json:
        print_json({"id": session_id, "last_seq": store.last_seq(session_id)})
    else:
        print_line(session_id)


def export_bundle(store: Store, args: Namespace, session_id: str, secrets: Redactor) -> None:
    """A session as one file."""
    from jaato.storage.export import write_bundle

    if args.to is None or args.json:
        raise ConfigError("A bundle is a file of its own: say --to FILE, and not --json.")
    manifest = write_bundle(
        store,
        session_id,
        lambda: redact_log(store.read(session_id), secrets),
        lambda path: redact_file(path, secrets),
        Path(args.to),
    )
    lost = f", {len(manifest.missing)} large results are lost" if manifest.missing else ""
    say(f"{manifest.events} events and {len(manifest.blobs)} large results are in {args.to}{lost}.")


def vacuum(store: Store, args: Namespace, settings: Settings) -> None:
    """Remove what is beyond what is kept."""
    kept = Retention(
        days=kept_of(args.keep_days, settings, "keep_days"),
        sessions=whole_number(kept_of(args.keep_sessions, settings, "keep_sessions")),
        size_bytes=whole_number(kept_of(args.keep_mb, settings, "keep_mb"), 1_000_000),
    )
    before = size_of(settings.state_dir)
    done = store.vacuum(kept, dry_run=args.dry_run)
    if args.json:
        print_json({**msgspec.to_builtins(done), "dry_run": args.dry_run})
        return
    word = "would remove" if args.dry_run else "removed"
    print_rows(
        (word, row.id, row.updated_at[:10], row.name or row.description or row.workspace)
        for row in done.removed
    )
    for session_id in done.held:
        print_line(f"kept {session_id}: it is open")
    if args.dry_run:
        say(f"{counted(len(done.removed), 'session')} with {size_text(done.freed_bytes)} would be removed.")
        return
    freed = max(0, before - size_of(settings.state_dir))
    say(f"{counted(len(done.removed), 'session')} removed, {size_text(freed)} freed. {done.note}".rstrip())


def kept_of(given: float | None, settings: Settings, name: str) -> float | None:
    """How much is kept. Raises `ConfigError` for what would keep nothing."""
    value: float | None = settings[name] if given is None else given
    if value is not None and not (math.isfinite(value) and value > 0):
        source = f"--{name.replace('_', '-')}" if given is not None else settings.source(name)
        raise ConfigError(f"{source}: {name} is {value}, which would keep nothing; say a number above 0.")
    return value


def whole_number(value: float | None, times: int = 1) -> int | None:
    """A number in the unit the store counts in."""
    return None if value is None else int(value * times)


def size_of(directory: Path) -> int:
    """What the store takes on the disk."""
    files = [*directory.glob("jaato*.db*"), *(directory / "blobs").rglob("*")]
    return sum(os.lstat(path).st_size for path in files)


LISTED = 500


def beside() -> Client | None:
    """The user's own server, if it runs and keeps its sessions where this process does."""
    environ = environment()
    path = socket_path(environ)
    if not path.exists():
        return None
    try:
        client = greeted(Address(path=path))
    except JaatoError:
        return None
    if same_place(client.welcome.state_dir, environ):
        return client
    client.close()
    return None


def done_here_or_there(work: Callable[[], None], command: Command) -> None:
    """Do something with a session, or have the server do it, where that has the session open. Raises `SessionBusy` for one
    that is open elsewhere."""
    try:
        work()
    except SessionBusy:
        client = beside()
        if client is None:
            raise
        with client:
            client.ask(command)


def standing(store: Store, rows: Sequence[SessionRow]) -> dict[str, str]:
    """What is to be said of sessions that somebody has open, or that were cut off."""
    words = {row.id: f"open in {holder.what}" for row in rows if (holder := store.holder(row.id))}
    client = beside()
    if client is None:
        return words | cut_off(store, rows)
    with client:
        found = client.ask(SessionList(limit=LISTED))
    assert isinstance(found, Sessions)
    for one in found.sessions:
        if one.busy:
            words[one.id] = "at work" + waiting(one.questions)
        elif one.interrupted:
            words[one.id] = "cut off" + waiting(one.questions)
        elif one.is_loaded:
            words.pop(one.id, None)
    return words


def cut_off(store: Store, rows: Sequence[SessionRow]) -> dict[str, str]:
    """The same of those whose process has died at work, where no server tells."""
    from jaato.server.sessions.interrupted import read_standing

    left = set(store.abandoned_sessions()) & {row.id for row in rows}
    found = {session_id: read_standing(store, session_id) for session_id in left}
    return {key: "cut off" + waiting(one.questions) for key, one in found.items() if one.unfinished}


def waiting(questions: int) -> str:
    """How many questions wait for an answer, where any do."""
    return f", {questions} question{'s' * (questions > 1)} waiting" if questions else ""
