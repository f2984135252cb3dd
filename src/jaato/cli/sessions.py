"""`jaato sessions`: what is stored, to list, search, read, name, fork, export, import and delete."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from jaato.abc.store import Store
from jaato.agent.masking import masked_log
from jaato.cli.at_server import done_here_or_there, standing
from jaato.cli.ending import say
from jaato.cli.options import clean_text, workspace_of
from jaato.cli.screen import one_line
from jaato.cli.session_files import export_bundle, fork, search, session_of, take_in, vacuum
from jaato.cli.table import print_json, print_line, print_rows
from jaato.errors import ConfigError, SessionNotFound
from jaato.protocol.commands import SessionDelete, SessionUpdate
from jaato.protocol.events import MessageUser
from jaato.protocol.ids import session_name
from jaato.runtime.assemble import open_store, settings_for, stored
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.namesakes import namesakes
from jaato.runtime.secret_values import secrets_of
from jaato.tools.secrets import Secrets

LOOKED_AT = 8
"""Events among which the first message is."""
WORDS_CHARS = 100


def main(args: Namespace) -> int:
    """Do one thing with stored sessions."""
    workspace = workspace_of(args)
    settings = settings_for(Blueprint(workspace=workspace), workspace)
    if not (settings.state_dir / "jaato.db").exists() and args.action not in ("list", "import"):
        raise SessionNotFound("No session is stored yet; `jaato run` and `jaato chat` begin one.")
    store = open_store(settings)
    secrets = secrets_of(settings, workspace=workspace)
    try:
        match args.action:
            case "list":
                listing(store, args, None if args.all else workspace, secrets)
            case "show":
                show(store, args, workspace, secrets)
            case "rename":
                rename(store, args, workspace, secrets)
            case "search":
                search(store, args, None if args.all else workspace)
            case "fork":
                fork(store, args, workspace)
            case "import":
                take_in(store, args, workspace)
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


def listing(store: Store, args: Namespace, workspace: Path | None, secrets: Secrets) -> None:
    """Sessions, newest first; one without a name or description by its first words."""
    rows = store.sessions(str(workspace) if workspace else None, limit=args.limit)
    words = standing(store, rows) if rows else {}
    if args.json:
        print_json([msgspec.to_builtins(row) | {"standing": words.get(row.id, "")} for row in rows])
        return
    if not rows:
        where = f" in {workspace}; --all shows those of every workspace" if workspace else ""
        say(f"No session is stored{where}.")
    lines = []
    for row in rows:
        what = row.name or row.description or first_words(store, row.id, secrets)
        if row.id in words:
            what = f"({words[row.id]}) {what}"
        place = [] if workspace else [row.workspace]
        when = row.updated_at[:16].replace("T", " ")
        lines.append([row.id, when, f"{row.last_seq} events", row.model, *place, what])
    print_rows(lines)


def first_words(store: Store, session_id: str, secrets: Secrets) -> str:
    """What the user has said first."""
    for event in masked_log(islice(store.read(session_id), LOOKED_AT), secrets):
        if isinstance(event, MessageUser):
            return one_line(event.message.words, WORDS_CHARS)
    return ""


def show(store: Store, args: Namespace, workspace: Path, secrets: Secrets) -> None:
    """The conversation."""
    from jaato.cli.transcript import line_of, transcript

    session_id = session_of(store, args.session, workspace)
    if args.json:
        print_json([msgspec.Raw(line_of(event)) for event in masked_log(store.read(session_id), secrets)])
        return
    for line in transcript(store, session_id, secrets, full=args.full):
        print_line(line)


def rename(store: Store, args: Namespace, workspace: Path, secrets: Secrets) -> None:
    """Another name."""
    from jaato.protocol.events import SessionUpdated

    name = session_name(clean_text(args.name))
    if name is None:
        raise ConfigError("The name is empty; give the session one that can be typed.")
    session_id = session_of(store, args.session, workspace)

    def note() -> None:
        journal = stored(store, session_id, secrets=secrets)
        journal.record(SessionUpdated(**journal.head(), name=name))

    done_here_or_there(note, SessionUpdate(session_id=session_id, name=name))
    if notice := namesakes(store, session_id, name):
        say(notice)


def export(store: Store, args: Namespace, workspace: Path, secrets: Secrets) -> None:
    """Every event, as JSON lines or one JSON document; into a file only once it is whole."""
    from jaato.cli.transcript import line_of, write_events

    session_id = session_of(store, args.session, workspace)
    if args.json:
        data = (
            b"["
            + b",\n".join(line_of(event) for event in masked_log(store.read(session_id), secrets))
            + b"]\n"
        )
    if args.to is None:
        sys.stdout.flush()
        if args.json:
            sys.stdout.buffer.write(data)
        else:
            write_events(store, session_id, sys.stdout.buffer, secrets)
        sys.stdout.buffer.flush()
        return
    path = Path(args.to)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("xb") as file:
            if args.json:
                file.write(data)
            else:
                write_events(store, session_id, file, secrets)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def delete(store: Store, args: Namespace, workspace: Path) -> int:
    """Remove sessions; asks first at a terminal, and needs --yes elsewhere."""
    ids = [session_of(store, text, workspace) for text in args.sessions]
    if not args.yes:
        if not sys.stdin.isatty():
            raise ConfigError("Deleting is for good: say --yes where nobody can be asked.")
        names = ", ".join(ids)
        if input(f"Delete {names} for good? [y/N] ").strip().lower() not in ("y", "yes"):
            say("Nothing was deleted.")
            return 1
    for session_id in dict.fromkeys(ids):
        done_here_or_there(partial(store.delete, session_id), SessionDelete(session_id=session_id))
        print_line(f"deleted {session_id}")
    return 0
