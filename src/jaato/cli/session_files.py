"""`jaato sessions search`, `fork`, `export --bundle`, `import` and `vacuum`."""

from __future__ import annotations

import math
import os
from argparse import Namespace
from pathlib import Path

import msgspec

from jaato.abc.store import Hits, Retention, SessionRow, Store
from jaato.agent.masking import masked_file, masked_log
from jaato.cli.ending import say
from jaato.cli.options import clean_text
from jaato.cli.table import print_json, print_line, print_rows
from jaato.errors import ConfigError, SessionNotFound
from jaato.protocol.ids import session_name
from jaato.runtime.namesakes import namesakes
from jaato.settings import Settings
from jaato.tools.secrets import Secrets


def search(store: Store, args: Namespace, workspace: Path | None) -> None:
    """The sessions that have all the words, newest first."""
    words = " ".join([f'"{word}"' if " " in word else word for word in args.words])
    hits = whole(store, clean_text(words) or "", str(workspace) if workspace else None, args.limit)
    if args.json:
        rows = [
            {**msgspec.to_builtins(hit.row), "found_seq": hit.seq, "found": hit.snippet} for hit in hits.found
        ]
        print_json(rows)
        return
    if not hits.found:
        where = f" in {workspace}; --all searches those of every workspace" if workspace else ""
        say(f"No session has these words{where}.")
    for hit in hits.found:
        print_rows([[hit.row.id, hit.row.updated_at[:16].replace("T", " "), hit.row.name or "", hit.snippet]])


def whole(store: Store, words: str, workspace: str | None, limit: int) -> Hits:
    """What a search of the whole store finds."""
    told = False
    while True:
        hits = store.search(words, workspace, limit)
        if hits.complete:
            return hits
        if not told:
            say("Reading what was written since the last search …")
            told = True


def session_of(store: Store, text: str, workspace: Path) -> str:
    """The session meant, of this workspace first. Raises `SessionNotFound`."""
    asked = clean_text(text) or ""
    try:
        return store.find(asked, str(workspace))
    except SessionNotFound:
        return store.find(asked)


def fork(store: Store, args: Namespace, workspace: Path) -> None:
    """Another session that begins as this one did."""
    name = session_name(clean_text(args.name))
    made = store.fork(session_of(store, args.session, workspace), args.at, name)
    tell_made(store, made, args, name)


def take_in(store: Store, args: Namespace, workspace: Path) -> None:
    """A session from a bundle."""
    name = session_name(clean_text(args.name))
    tell_made(store, store.import_bundle(Path(args.file), workspace, name), args, name)


def tell_made(store: Store, session_id: str, args: Namespace, name: str | None) -> None:
    """Say which session there is now."""
    if notice := namesakes(store, session_id, name):
        say(notice)
    if args.json:
        print_json({"id": session_id, "last_seq": store.last_seq(session_id)})
        return
    print_line(session_id)


def export_bundle(store: Store, args: Namespace, session_id: str, secrets: Secrets) -> None:
    """A session as one file."""
    from jaato.storage.pack import pack

    if args.to is None or args.json:
        raise ConfigError("A bundle is a file of its own: say --to FILE, and not --json.")
    manifest = pack(
        store,
        session_id,
        lambda: masked_log(store.read(session_id), secrets),
        lambda path: masked_file(path, secrets),
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
    for row in done.removed:
        print_rows([[word, row.id, row.updated_at[:10], title(row)]])
    for session_id in done.held:
        print_line(f"kept {session_id}: it is open")
    if args.dry_run:
        say(f"{len(done.removed)} sessions with {done.freed_bytes:,} bytes would be removed.")
        return
    freed = max(0, before - size_of(settings.state_dir))
    say(f"{len(done.removed)} sessions were removed, {freed:,} bytes freed. {done.note}".rstrip())


def title(row: SessionRow) -> str:
    """What a session is called."""
    return row.name or row.description or row.workspace


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
