"""`jaato chat` and `jaato attach`: a conversation at the terminal."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jaato.cli.connect import address_given, memory_blueprint, open_server, own_name
from jaato.cli.create_command import creation
from jaato.cli.output.terminal import Screen
from jaato.cli.repl.loop import Repl
from jaato.client.address import Address, socket_path
from jaato.client.connection import Client, connect
from jaato.errors import SessionNotFound
from jaato.protocol.commands import SessionList
from jaato.protocol.frames import Sessions
from jaato.settings import environment


def main(args: Namespace) -> int:
    """Talk until the user leaves: in a session of this terminal's own, or in one that is joined."""
    screen = Screen(environment())
    made = None
    if args.command == "attach":
        address = address_given(args) or Address(path=socket_path(environment()))
        args.session = args.session or newest(address)
        connection = connect(address, name=own_name())
    elif (client := open_server(args, screen)) is not None:
        client.close()
        made = creation(args, local=bool(client.welcome.state_dir))
        assert client.address is not None
        connection = connect(client.address, name=own_name())
    else:
        made = creation(args, local=True, in_process=True)
        connection = connected_in_memory(args, screen)
    return asyncio.run(Repl(args, screen, connection, made).run())


@asynccontextmanager
async def connected_in_memory(args: Namespace, screen: Screen) -> AsyncIterator[Client]:
    """A client of a hub in this process."""
    from jaato.server.in_memory import serve_in_memory

    async with (
        serve_in_memory(memory_blueprint(args, screen), maintain=True) as transport,
        connect(transport=transport, name=own_name()) as client,
    ):
        yield client


def newest(address: Address) -> str:
    """The session somebody means who names none: at work, here, or worked in last. Raises `SessionNotFound`."""
    import os

    from jaato.client.blocking import Client as BlockingClient

    with BlockingClient(address) as client:
        found = client.ask(SessionList(limit=50))
    assert isinstance(found, Sessions)
    if not found.sessions:
        raise SessionNotFound("The server has no session yet; `jaato chat` begins one.")
    here = os.path.realpath(os.getcwd())
    ranked = sorted(found.sessions, key=lambda row: (not row.busy, row.workspace != here))
    return ranked[0].id
