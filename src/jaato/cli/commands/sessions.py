"""`jaato sessions`: list, search, show, rename, fork, export, import, delete and vacuum stored sessions."""

from __future__ import annotations

import math
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from jaato.abc.store import Hits, Retention, SessionRow, Store
from jaato.agent.event_redaction import redact_file, redact_log
from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.connect import connect_to, same_state_dir
from jaato.cli.exit_codes import print_message
from jaato.cli.output.console import (
    print_json,
    print_line,
    print_records,
    print_rows,
    size_text,
    time_text,
)
from jaato.cli.repl.questions import confirm_now
from jaato.client.address import Address, socket_path
from jaato.client.blocking import Client
from jaato.errors import ConfigError, JaatoError, SessionBusy, SessionNotFound
from jaato.protocol.commands import Command, SessionDelete, SessionList, SessionUpdate
from jaato.protocol.frames import Sessions
from jaato.protocol.ids import session_name
from jaato.runtime.secrets import collect_secrets
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import (
    load_session,
    namesakes,
    open_existing_store,
    open_store,
    read_first_message,
)
from jaato.settings import Settings, environment
from jaato.settings.budgets import format_count
from jaato.tools.redaction.redactor import Redactor

MAX_SESSIONS = 500


def main(args: Namespace) -> int:
    """Run one action."""
    workspace = workspace_of(args)
    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    if args.action == "list" and args.names and not (settings.state_dir / "jaato.db").exists():
        return 0  # completing a command line makes no store
    store = open_store(settings) if args.action in ("list", "import") else open_existing_store(settings)
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
                create(store, args, workspace)
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
    """List sessions, most recent first; those without name and description are titled by their first message."""
    rows = store.sessions(str(workspace) if workspace else None, limit=args.limit)
    if args.names:
        for row in rows:
            print_line(row.name or row.id)
        return
    status = session_status(store, rows) if rows else {}
    if not rows and not args.json:
        where = f" in {workspace}; --all lists those of all workspaces" if workspace else ""
        print_message(f"There are no sessions{where}.")

    def cells(row: dict[str, Any]) -> list[str]:
        what = row["name"] or row["description"] or read_first_message(store, row["id"], secrets)
        place = [] if workspace else [row["workspace"]]
        what = f"({row['standing']}) {what}" if row["standing"] else what
        return [
            row["id"],
            time_text(row["updated_at"]),
            format_count(row["last_seq"], "event"),
            row["model"],
            *place,
            what,
        ]

    records = [msgspec.to_builtins(row) | {"standing": status.get(row.id, "")} for row in rows]
    print_records(records, cells, as_json=args.json)


def show(store: Store, args: Namespace, workspace: Path, secrets: Redactor) -> None:
    """Print the conversation."""
    from jaato.cli.output.transcript import event_json, render_log

    session_id = session_of(store, args.session, workspace)
    if args.json:
        print_json([msgspec.Raw(event_json(event)) for event in redact_log(store.read(session_id), secrets)])
        return
    for line in render_log(store, session_id, secrets, full=args.full):
        print_line(line)


def rename(store: Store, args: Namespace, workspace: Path, secrets: Redactor) -> None:
    """Rename a session."""
    from jaato.protocol.events import SessionUpdated

    name = session_name(clean_text(args.name))
    if name is None:
        raise ConfigError("The name is empty; give the session another name.")
    session_id = session_of(store, args.session, workspace)

    def record() -> None:
        journal = load_session(store, session_id, secrets=secrets)
        journal.record(SessionUpdated(**journal.head(), name=name))

    run_or_ask_server(record, SessionUpdate(session_id=session_id, name=name))
    if notice := namesakes(store, session_id, name):
        print_message(notice)


def export(store: Store, args: Namespace, workspace: Path, secrets: Redactor) -> None:
    """Write every event, as JSON lines or one JSON document; a file is replaced atomically."""
    from jaato.cli.output.transcript import event_json, write_events

    session_id = session_of(store, args.session, workspace)

    def write(file: BinaryIO) -> None:
        if not args.json:
            write_events(store, session_id, file, secrets)
            return
        lines = [event_json(event) for event in redact_log(store.read(session_id), secrets)]
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
    """Delete sessions, after a confirmation unless `--yes` is given."""
    ids = [session_of(store, text, workspace) for text in args.sessions]
    if not args.yes:
        answer = confirm_now(f"Delete {', '.join(ids)} for good?")
        if answer is None:
            raise ConfigError("Deletion is permanent, and there is no terminal to confirm it: pass --yes.")
        if not answer:
            print_message("Nothing was deleted.")
            return 1
    for session_id in dict.fromkeys(ids):
        run_or_ask_server(partial(store.delete, session_id), SessionDelete(session_id=session_id))
        print_line(f"deleted {session_id}")
    return 0


def search(store: Store, args: Namespace, workspace: Path | None) -> None:
    """List the sessions that contain all the words, most recent first."""
    words = " ".join([f'"{word}"' if " " in word else word for word in args.words])
    hits = search_all(store, clean_text(words) or "", str(workspace) if workspace else None, args.limit)
    records = [
        {**msgspec.to_builtins(hit.row), "found_seq": hit.seq, "found": hit.snippet} for hit in hits.found
    ]
    if not records and not args.json:
        where = f" in {workspace}; --all searches all workspaces" if workspace else ""
        print_message(f"No session contains these words{where}.")
    print_records(
        records,
        lambda row: (row["id"], time_text(row["updated_at"]), row["name"] or "", row["found"]),
        as_json=args.json,
    )


def search_all(store: Store, words: str, workspace: str | None, limit: int) -> Hits:
    """Search the whole store, after indexing what was written since the last search."""
    hits = store.search(words, workspace, limit)
    if not hits.complete:
        print_message("Indexing new events …")
    while not hits.complete:
        hits = store.search(words, workspace, limit)
    return hits


def session_of(store: Store, text: str, workspace: Path) -> str:
    """The id of the session with this id, prefix or name; those of this workspace first. Raises `SessionNotFound`."""
    name = clean_text(text) or ""
    try:
        return store.find(name, str(workspace))
    except SessionNotFound:
        return store.find(name)


def create(store: Store, args: Namespace, workspace: Path) -> None:
    """Create a session, as a fork or from a bundle, and print its id."""
    name = session_name(clean_text(args.name))
    if args.action == "fork":
        session_id = store.fork(session_of(store, args.session, workspace), args.at, name)
    else:
        session_id = store.import_bundle(Path(args.file), workspace, name)
    if notice := namesakes(store, session_id, name):
        print_message(notice)
    if args.json:
        print_json({"id": session_id, "last_seq": store.last_seq(session_id)})
    else:
        print_line(session_id)


def export_bundle(store: Store, args: Namespace, session_id: str, secrets: Redactor) -> None:
    """Write a session as one file."""
    from jaato.storage.bundle_export import write_bundle

    if args.to is None or args.json:
        raise ConfigError("A bundle is written to a file: pass --to FILE, without --json.")
    manifest = write_bundle(
        store,
        session_id,
        lambda: redact_log(store.read(session_id), secrets),
        lambda path: redact_file(path, secrets),
        Path(args.to),
    )
    events, results = (
        format_count(manifest.events, "event"),
        format_count(len(manifest.blobs), "large result"),
    )
    missing = f"; missing: {format_count(len(manifest.missing), 'large result')}" if manifest.missing else ""
    print_message(f"wrote {events} and {results} to {args.to}{missing}")


def vacuum(store: Store, args: Namespace, settings: Settings) -> None:
    """Remove the sessions beyond the retention limits."""
    kept = Retention(
        days=retention_limit(args.keep_days, settings, "keep_days"),
        sessions=to_int(retention_limit(args.keep_sessions, settings, "keep_sessions")),
        size_bytes=to_int(retention_limit(args.keep_mb, settings, "keep_mb"), 1_000_000),
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
        print_message(
            f"{format_count(len(done.removed), 'session')} with {size_text(done.freed_bytes)} would be removed."
        )
        return
    freed = max(0, before - size_of(settings.state_dir))
    print_message(
        f"{format_count(len(done.removed), 'session')} removed, {size_text(freed)} freed. {done.note}".rstrip()
    )


def retention_limit(given: float | None, settings: Settings, name: str) -> float | None:
    """A retention limit from the flag or the setting. Raises `ConfigError` for one that keeps nothing."""
    value: float | None = settings[name] if given is None else given
    if value is not None and not (math.isfinite(value) and value > 0):
        source = f"--{name.replace('_', '-')}" if given is not None else settings.source(name)
        raise ConfigError(f"{source}: {name} is {value}, which keeps nothing; use a number above 0.")
    return value


def to_int(value: float | None, times: int = 1) -> int | None:
    """A limit in the unit of the store."""
    return None if value is None else int(value * times)


def size_of(directory: Path) -> int:
    """The size of the store on disk, in bytes."""
    files = [*directory.glob("jaato*.db*"), *(directory / "blobs").rglob("*")]
    return sum(os.lstat(path).st_size for path in files)


def connect_if_running() -> Client | None:
    """A client of the user's own server, if it is running and has the state directory of this process."""
    environ = environment()
    path = socket_path(environ)
    if not path.exists():
        return None
    try:
        client = connect_to(Address(path=path))
    except JaatoError:
        return None
    if same_state_dir(client.welcome.state_dir, environ):
        return client
    client.close()
    return None


def run_or_ask_server(work: Callable[[], None], command: Command) -> None:
    """Do something with a session, or have the server do it if it has the session open. Raises `SessionBusy` for one that
    is open elsewhere."""
    try:
        work()
    except SessionBusy:
        client = connect_if_running()
        if client is None:
            raise
        with client:
            client.ask(command)


def session_status(store: Store, rows: Sequence[SessionRow]) -> dict[str, str]:
    """The status of the sessions that are open or interrupted, by id."""
    status = {row.id: f"open in {holder.what}" for row in rows if (holder := store.holder(row.id))}
    client = connect_if_running()
    if client is None:
        return status | get_interrupted_status(store, rows)
    with client:
        found = client.ask(SessionList(limit=MAX_SESSIONS))
    assert isinstance(found, Sessions)
    for one in found.sessions:
        if one.busy:
            status[one.id] = "at work" + waiting_text(one.questions)
        elif one.interrupted:
            status[one.id] = "cut off" + waiting_text(one.questions)
        elif one.is_loaded:
            status.pop(one.id, None)
    return status


def get_interrupted_status(store: Store, rows: Sequence[SessionRow]) -> dict[str, str]:
    """The status of sessions whose process died during a turn, when no server is running."""
    from jaato.server.sessions.interrupted import read_status

    abandoned = set(store.abandoned_sessions()) & {row.id for row in rows}
    found = {session_id: read_status(store, session_id) for session_id in abandoned}
    return {key: "cut off" + waiting_text(one.questions) for key, one in found.items() if one.unfinished}


def waiting_text(questions: int) -> str:
    """The number of pending questions, as a suffix."""
    return f", {questions} question{'s' * (questions > 1)} waiting" if questions else ""
