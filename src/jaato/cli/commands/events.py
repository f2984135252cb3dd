"""`jaato events`: print the events of a session as JSON lines, from the store or as they arrive from the server."""

from __future__ import annotations

import select
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.connect import connect, same_state_dir
from jaato.cli.exit_codes import INTERRUPTED, OK
from jaato.cli.output.console import Console
from jaato.cli.signals import SignalPipe
from jaato.client.blocking import Client
from jaato.protocol.codec import encode
from jaato.protocol.commands import ClientConfig, HistoryRequest, SessionAttach, SessionList
from jaato.protocol.events import Event, SessionInfo
from jaato.protocol.frames import Opened, Sessions
from jaato.settings import environment

POLL_S = 0.2
"""How often to check whether the reader of the output exited."""


def main(args: Namespace) -> int:
    """Print the events; with `--follow` until Ctrl-C, which is no failure."""
    try:
        if not (args.follow or args.connect):
            print_stored(args)
            return OK
        with connect(args, Console(environment()), role="viewer", maintain=True) as client:
            if same_state_dir(client.welcome.state_dir, environment()):
                args.session, args.after = print_stored(args)
            with SignalPipe() as signals:
                follow(args, client, signals)
            interrupted = signals.count > 0
    except KeyboardInterrupt:
        interrupted = True
    return INTERRUPTED if interrupted and not args.follow else OK


def write_line(data: bytes) -> None:
    """Write one line to stdout."""
    sys.stdout.buffer.write(data + b"\n")


def print_stored(args: Namespace) -> tuple[str, int]:
    """Print the stored events; return the session's id and the last event. Raises `SessionNotFound`."""
    from jaato.agent.event_redaction import redact_log
    from jaato.cli.commands.sessions import session_of
    from jaato.cli.output.transcript import event_json
    from jaato.runtime.secrets import collect_secrets
    from jaato.runtime.session_options import SessionOptions, settings_for
    from jaato.runtime.session_store import open_existing_store

    workspace = workspace_of(args)
    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    store = open_existing_store(settings)
    secrets = collect_secrets(settings, workspace=workspace)
    try:
        session_id = session_of(store, args.session, workspace)
        seq = args.after
        for event in redact_log(store.read(session_id, seq), secrets):
            write_line(event_json(event))
            seq = event.seq
        sys.stdout.flush()
        return session_id, seq
    finally:
        store.close()


def follow(args: Namespace, client: Client, signals: SignalPipe) -> None:
    """Print the session's events from the server, up to the last one or, with `--follow`, as they arrive. Raises
    `SessionNotFound`, `ServerGone`."""
    client.ask(ClientConfig(answers=False, deltas=not args.no_deltas))
    opened = client.ask(SessionAttach(session_id=find_session(args, client), after_seq=args.after))
    assert isinstance(opened, Opened)
    printed = args.after
    if not args.follow and printed >= opened.seq:
        return
    for event in receive_events(client, signals):
        if isinstance(event, SessionInfo):
            printed = print_missed(client, opened.session_id, printed, event)
        elif not event.durable or event.seq > printed:
            printed = max(printed, event.seq)
            write_line(encode(event))
        if not client.waiting:
            sys.stdout.flush()
        if not args.follow and printed >= opened.seq:
            return


def receive_events(client: Client, signals: SignalPipe) -> Iterator[Event]:
    """The events as they arrive, until a signal, or until the reader of stdout exits. Raises `ServerGone`."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors and hang-ups are always reported
    while not (signals.count or poll.poll(0)):
        signals.clear(client.receive([signals.descriptor], POLL_S))
        while client.waiting:
            yield from client.arrived()


def find_session(args: Namespace, client: Client) -> str:
    """The session to print; of several with this name, the one of this workspace."""
    name = clean_text(args.session) or ""
    here = str(Path(args.workspace).resolve()) if args.workspace else str(Path.cwd())
    found = client.ask(SessionList(workspace=here, limit=500))
    assert isinstance(found, Sessions)
    named = [row.id for row in found.sessions if row.name == name]
    return named[0] if len(named) == 1 else name


def print_missed(client: Client, session_id: str, printed: int, info: SessionInfo) -> int:
    """Print from the history what a snapshot replaced; return the last event that is printed. Raises `ServerGone`."""
    if info.state is None:
        return printed
    pages: list[Event] = []
    before: int | None = None
    while True:
        page = client.ask(HistoryRequest(session_id=session_id, before_seq=before, limit=500))
        events = page.events  # type: ignore[union-attr]
        pages = [event for event in events if printed < event.seq <= info.seq] + pages
        before = page.before_seq  # type: ignore[union-attr]
        if before is None or before <= printed + 1:
            break
    for event in pages:
        write_line(encode(event))
    return max(printed, info.seq)
