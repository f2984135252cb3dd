"""`jaato attach`: this terminal at a session of the server."""

from __future__ import annotations

from argparse import Namespace

from jaato.cli.connect import address_given
from jaato.client.address import Address, socket_path
from jaato.errors import SessionNotFound
from jaato.protocol.commands import SessionList
from jaato.protocol.frames import Sessions
from jaato.settings import environment


def main(args: Namespace) -> int:
    """Join the session named, else the newest one of this directory, else the newest of all."""
    import asyncio

    address = address_given(args) or Address(path=socket_path(environment()))
    args.session = args.session or newest(address)
    from jaato.cli.joined import Joined

    return asyncio.run(Joined(args, address, None).run())


def newest(address: Address) -> str:
    """The session somebody means who names none: at work, here, or worked in last. Raises `SessionNotFound`."""
    import os

    from jaato.client.blocking import Client

    with Client(address) as client:
        found = client.ask(SessionList(limit=50))
    assert isinstance(found, Sessions)
    if not found.sessions:
        raise SessionNotFound("The server has no session yet; `jaato chat` begins one.")
    here = os.path.realpath(os.getcwd())
    ranked = sorted(found.sessions, key=lambda row: (not row.busy, row.workspace != here))
    return ranked[0].id
