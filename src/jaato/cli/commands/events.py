"""`jaato events`: what happens in a session as JSON lines, from the server, or from the store where none runs."""

from __future__ import annotations

import select
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.connect import connect, same_place
from jaato.cli.ending import INTERRUPTED, OK
from jaato.cli.output.terminal import Screen
from jaato.cli.signals import SignalPipe
from jaato.client.blocking import Client
from jaato.errors import SessionNotFound
from jaato.protocol.codec import encode
from jaato.protocol.commands import ClientConfig, HistoryRequest, SessionAttach, SessionList
from jaato.protocol.events import Event, SessionInfo
from jaato.protocol.frames import Opened, Sessions
from jaato.settings import environment

LOOK_S = 0.2
"""How often it is looked whether somebody still reads the output."""


def main(args: Namespace) -> int:
    """Print the events; with `--follow` until Ctrl-C, which is no failure."""
    try:
        if not (args.follow or args.connect):
            from_store(args)
            return OK
        with connect(args, Screen(environment()), role="viewer", maintain=True) as client:
            if same_place(client.welcome.state_dir, environment()):
                args.session, args.after = from_store(args)  # all of it, however much
            with SignalPipe() as signals:
                from_server(args, client, signals)
            stopped = signals.count > 0
    except KeyboardInterrupt:
        stopped = True
    return INTERRUPTED if stopped and not args.follow else OK


def put(data: bytes) -> None:
    """One line on stdout, now."""
    sys.stdout.buffer.write(data + b"\n")


def from_store(args: Namespace) -> tuple[str, int]:
    """What is stored; gives the session's id and the last event that was told. Raises `SessionNotFound`."""
    from jaato.agent.event_redaction import redact_log
    from jaato.cli.commands.sessions import session_of
    from jaato.cli.output.transcript import line_of
    from jaato.runtime.secrets import collect_secrets
    from jaato.runtime.session_options import SessionOptions, settings_for
    from jaato.runtime.session_store import open_store

    workspace = workspace_of(args)
    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    if not (settings.state_dir / "jaato.db").exists():
        raise SessionNotFound("No session is stored yet; `jaato run` and `jaato chat` begin one.")
    store = open_store(settings)
    secrets = collect_secrets(settings, workspace=workspace)
    try:
        session_id = session_of(store, args.session, workspace)
        seq = args.after
        for event in redact_log(store.read(session_id, seq), secrets):
            put(line_of(event))
            seq = event.seq
        sys.stdout.flush()
        return session_id, seq
    finally:
        store.close()


def from_server(args: Namespace, client: Client, signals: SignalPipe) -> None:
    """What the server has of it and, with `--follow`, what happens. Raises `SessionNotFound`, `ServerGone`."""
    client.ask(ClientConfig(answers=False, deltas=not args.no_deltas))
    session_id = meant(args, client)
    opened = client.ask(SessionAttach(session_id=session_id, after_seq=args.after))
    assert isinstance(opened, Opened)
    session_id, told = opened.session_id, args.after
    if not args.follow and told >= opened.seq:
        return
    for event in heard(client, signals):
        if isinstance(event, SessionInfo):
            told = missed(client, session_id, told, event)
        elif not event.durable or event.seq > told:
            told = max(told, event.seq)
            put(encode(event))
        if not client.waiting:
            sys.stdout.flush()
        if not args.follow and told >= opened.seq:
            return


def heard(client: Client, signals: SignalPipe) -> Iterator[Event]:
    """What happens, until a signal, or until nobody reads our output any more. Raises `ServerGone`."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # an error and the end are told unasked
    while not (signals.count or poll.poll(0)):
        signals.clear(client.receive([signals.descriptor], LOOK_S))
        while client.waiting:
            yield from client.arrived()


def meant(args: Namespace, client: Client) -> str:
    """The session meant: of this workspace first, where it is a name that several have."""
    asked = clean_text(args.session) or ""
    here = str(Path(args.workspace).resolve()) if args.workspace else str(Path.cwd())
    found = client.ask(SessionList(workspace=here, limit=500))
    assert isinstance(found, Sessions)
    named = [row.id for row in found.sessions if row.name == asked]
    return named[0] if len(named) == 1 else asked


def missed(client: Client, session_id: str, told: int, info: SessionInfo) -> int:
    """Print the conversation in what the server has left out for its number; gives the last event that is told now.

    Raises `ServerGone`.
    """
    if info.state is None:
        return told
    pages: list[Event] = []
    before: int | None = None
    while True:
        page = client.ask(HistoryRequest(session_id=session_id, before_seq=before, limit=500))
        events = page.events  # type: ignore[union-attr]
        pages = [event for event in events if told < event.seq <= info.seq] + pages
        before = page.before_seq  # type: ignore[union-attr]
        if before is None or before <= told + 1:
            break
    for event in pages:
        put(encode(event))
    return max(told, info.seq)
