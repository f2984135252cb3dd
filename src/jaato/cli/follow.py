"""`jaato events`: what happens in a session as JSON lines, from the server, or from the store where none runs."""

from __future__ import annotations

import select
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from jaato.cli.ending import INTERRUPTED, OK
from jaato.cli.options import clean_text, workspace_of
from jaato.cli.reach import reached, same_place
from jaato.cli.screen import Screen
from jaato.client.blocking import Client
from jaato.errors import SessionNotFound
from jaato.protocol.codec import encode
from jaato.protocol.commands import ClientConfig, HistoryRequest, SessionAttach, SessionList
from jaato.protocol.events import Event, SessionInfo
from jaato.protocol.frames import Opened, Sessions
from jaato.settings import environment

LOOK_S = 0.2
"""How often the store is looked at."""


def main(args: Namespace) -> int:
    """Print the events; with `--follow` until Ctrl-C, which is no failure."""
    client = reached(args, Screen(environment())) if args.follow or args.connect else None
    try:
        if client is None:
            from_store(args, follow=args.follow)
        else:
            with client:
                if same_place(client.welcome.state_dir, environment()):
                    args.session, args.after = from_store(args, follow=False)  # all of it, however much
                from_server(args, client)
    except KeyboardInterrupt:
        return OK if args.follow else INTERRUPTED
    return OK


def put(data: bytes) -> None:
    """One line on stdout, now."""
    sys.stdout.buffer.write(data + b"\n")


def from_store(args: Namespace, *, follow: bool) -> tuple[str, int]:
    """What is stored, and with `follow` what is added to it; gives the session's id and the last event that was told.

    Raises `SessionNotFound`.
    """
    from jaato.agent.masking import masked_log
    from jaato.cli.sessions import session_of
    from jaato.cli.transcript import line_of
    from jaato.runtime.assemble import open_store, settings_for
    from jaato.runtime.blueprint import Blueprint
    from jaato.runtime.secret_values import secrets_of

    workspace = workspace_of(args)
    settings = settings_for(Blueprint(workspace=workspace), workspace)
    if not (settings.state_dir / "jaato.db").exists():
        raise SessionNotFound("No session is stored yet; `jaato run` and `jaato chat` begin one.")
    store = open_store(settings)
    secrets = secrets_of(settings, workspace=workspace)
    try:
        session_id = session_of(store, args.session, workspace)
        seq = args.after
        while True:
            for event in masked_log(store.read(session_id, seq), secrets):
                put(line_of(event))
                seq = event.seq
            sys.stdout.flush()
            if not follow or reader_gone(timeout_s=LOOK_S):
                return session_id, seq
    finally:
        store.close()


def from_server(args: Namespace, client: Client) -> None:
    """What the server has of it and, with `--follow`, what happens. Raises `SessionNotFound`, `ServerGone`."""
    client.ask(ClientConfig(answers=False, deltas=not args.no_deltas))
    session_id = meant(args, client)
    opened = client.ask(SessionAttach(session_id=session_id, after_seq=args.after))
    assert isinstance(opened, Opened)
    session_id, told = opened.session_id, args.after
    if not args.follow and told >= opened.seq:
        return
    for event in heard(client):
        if isinstance(event, SessionInfo):
            told = missed(client, session_id, told, event)
        elif not event.durable or event.seq > told:
            told = max(told, event.seq)
            put(encode(event))
        if not client.waiting:
            sys.stdout.flush()
        if not args.follow and told >= opened.seq:
            return


def heard(client: Client) -> Iterator[Event]:
    """What happens, until nobody reads our output any more. Raises `ServerGone`."""
    while True:
        while client.waiting:
            yield from client.arrived()
        if not client.held_back() and reader_gone(client):
            return
        client.receive()


def reader_gone(client: Client | None = None, timeout_s: float | None = None) -> bool:
    """Whether who read our output has gone; waits until that, until the server says something, or for so long."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # an error and the end are told unasked
    if client is not None:
        poll.register(client.fileno(), select.POLLIN)
    ready = poll.poll(None if timeout_s is None else timeout_s * 1_000)
    return any(number == sys.stdout.fileno() for number, _ in ready)


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
