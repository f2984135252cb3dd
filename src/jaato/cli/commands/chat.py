"""`jaato chat` and `jaato attach`: an interactive session at the terminal."""

from __future__ import annotations

import asyncio
import os
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jaato.cli.arguments.values import session_create
from jaato.cli.connect import client_name, connect_to, connect_to_server, in_process_options, parse_address
from jaato.cli.output.console import Console
from jaato.cli.repl.loop import Repl
from jaato.client.address import Address, socket_path
from jaato.client.connection import Client, connect
from jaato.errors import SessionNotFound
from jaato.protocol.commands import SessionList
from jaato.protocol.frames import Sessions
from jaato.settings import environment


def main(args: Namespace) -> int:
    """Run the REPL in a new or resumed session, or in one that is attached to."""
    console = Console(environment())
    creation = None
    if args.command == "attach":
        address = parse_address(args) or Address(path=socket_path(environment()))
        args.session = args.session or choose_session(address)
        connection = connect(address, name=client_name())
    elif (client := connect_to_server(args, console)) is not None:
        client.close()
        creation = session_create(args, local=bool(client.welcome.state_dir), in_process=False)
        assert client.address is not None
        connection = connect(client.address, name=client_name())
    else:
        creation = session_create(args, local=True, in_process=True)
        connection = connect_in_process(args, console)
    return asyncio.run(Repl(args, console, connection, creation).run())


@asynccontextmanager
async def connect_in_process(args: Namespace, console: Console) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    from jaato.server.in_memory import serve_in_memory

    async with (
        serve_in_memory(in_process_options(args, console), maintain=True) as transport,
        connect(transport=transport, name=client_name()) as client,
    ):
        yield client


def choose_session(address: Address) -> str:
    """The session to attach to by default: a busy one, else one of this directory, else the most recent one. Raises
    `SessionNotFound`."""
    with connect_to(address) as client:
        found = client.ask(SessionList(limit=50))
    assert isinstance(found, Sessions)
    if not found.sessions:
        raise SessionNotFound("The server has no sessions; `jaato chat` starts one.")
    here = os.path.realpath(os.getcwd())
    return min(found.sessions, key=lambda row: (not row.busy, row.workspace != here)).id
