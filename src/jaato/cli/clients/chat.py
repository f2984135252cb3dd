"""`jaato chat` and `jaato attach`: an interactive session at the terminal."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jaato.cli.arguments.values import session_create, workspace_of
from jaato.cli.connect import client_name, connect_to, connect_to_server, in_process_options, parse_address
from jaato.cli.full_screen import can_draw, is_accessible, is_installed, run_full_screen
from jaato.cli.local_download import offer_download
from jaato.cli.output.console import Console
from jaato.cli.repl.loop import Repl
from jaato.client.address import Address, socket_path
from jaato.client.connection import Client, connect
from jaato.errors import SessionNotFound
from jaato.protocol.commands import SessionCreate, SessionList
from jaato.protocol.frames import Sessions
from jaato.settings import environment


def main(args: Namespace) -> int:
    """Run the REPL in a new or resumed session, or in one that is attached to."""
    environ = environment()
    if is_accessible(args, environ):
        environ["TERM"] = "dumb"  # no colours, no redrawing, the terminal's own line editing
    elif getattr(args, "full_screen", False) and is_installed() and can_draw(environ):
        return run_full_screen(args)
    console = Console(environ)
    creation = None
    if args.command != "attach":
        offer_download(args, console)
    if args.command == "attach":
        address = parse_address(args) or Address(path=socket_path(environment()))
        if not args.session:
            args.session, creation = choose_session(args, address)
        connection = connect(address, name=client_name())
    elif (client := connect_to_server(args, console)) is not None:
        client.close()
        creation = session_create(args, local=bool(client.welcome.state_dir), in_process=False)
        assert client.address is not None
        connection = connect(client.address, name=client_name())
    else:
        creation = session_create(args, local=True, in_process=True)
        connection = connect_in_process(args, console)
    return asyncio.run(Repl(args, console, connection, creation, environ).run())


@asynccontextmanager
async def connect_in_process(args: Namespace, console: Console) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    from jaato.server.in_memory import serve_in_memory

    async with (
        serve_in_memory(in_process_options(args, console), maintain=True) as transport,
        connect(transport=transport, name=client_name()) as client,
    ):
        yield client


def choose_session(args: Namespace, address: Address) -> tuple[str, SessionCreate | None]:
    """The session to attach to by default: of those of this directory, at a server on another machine of `--workspace` or of
    all, a busy one, else the most recent one. Without any: with `--new` the command that creates one. Raises `SessionNotFound`."""
    with connect_to(address) as client:
        local = bool(client.welcome.state_dir)
        here = str(workspace_of(args)) if local else args.workspace
        found = client.ask(SessionList(workspace=here, limit=50))
    assert isinstance(found, Sessions)
    if found.sessions:
        return min(found.sessions, key=lambda row: not row.busy).id, None
    if args.new:
        return "", session_create(args, local=local, in_process=False)
    raise SessionNotFound(
        f"The server has no sessions{' of this directory' if here else ''}: `jaato attach --new` or `jaato chat` starts one, "
        "`jaato sessions list --all` lists those of other directories."
    )
