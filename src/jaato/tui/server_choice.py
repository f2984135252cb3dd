"""Find the server of the full-screen client, start it if there is none, and connect to it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio.to_thread

from jaato.cli.arguments.values import session_create, workspace_of
from jaato.cli.clients.chat import choose_session
from jaato.cli.connect import client_name, connect_to, find_or_start_server
from jaato.client.address import Address, socket_path
from jaato.client.connection import Client, connect
from jaato.errors import ConnectionFault
from jaato.protocol.commands import SessionCreate
from jaato.settings import environment

START_AGAIN_S = 2.0
Confirm = Callable[[str], Awaitable[bool]]


def find_server(args: Namespace) -> Address | None:
    """The server that this command uses, which is started if it is not running; None when it works in this process.
    Raises `JaatoError`s."""
    if args.command == "attach" and not args.connect:
        return Address(path=socket_path(environment()))
    return find_or_start_server(args)


async def start_until(
    start: Callable[[], object], is_needed: Callable[[], object], report: Callable[[str], object]
) -> None:
    """Start a server as long as it is needed: one that hangs may be killed, and then none runs. Reports each failure to connect
    once. Raises `JaatoError` if it cannot be started."""
    reported = ""
    while is_needed():
        try:
            await anyio.to_thread.run_sync(start)
        except ConnectionFault as error:
            if str(error) != reported:
                reported = str(error)
                report(reported)
        await anyio.sleep(START_AGAIN_S)


def choose(args: Namespace, address: Address | None) -> tuple[str, SessionCreate | None]:
    """The session to attach to, or the command that makes or resumes one. Raises `JaatoError`s."""
    if address is None:
        return "", session_create(args, local=True, in_process=True)
    if args.command == "attach":
        return (args.session, None) if args.session else choose_session(args, address)
    with connect_to(address) as client:
        local = bool(client.welcome.state_dir)
    return "", session_create(args, local=local, in_process=False)


@asynccontextmanager
async def open_connection(
    args: Namespace, confirm: Confirm
) -> AsyncIterator[tuple[Client, str, SessionCreate | None]]:
    """A client of the server with the session to attach to or the command that makes one. `confirm` is asked before
    downloads in this process. Raises `JaatoError`s."""
    address = await anyio.to_thread.run_sync(find_server, args)
    session, creation = await anyio.to_thread.run_sync(choose, args, address)
    if address is not None:
        async with connect(address, name=client_name()) as client:
            yield client, session, creation
        return
    from jaato.runtime.session_options import SessionOptions
    from jaato.server.in_memory import serve_in_memory

    base = SessionOptions(workspace=workspace_of(args), confirm=confirm)
    async with (
        serve_in_memory(base, maintain=True) as transport,
        connect(transport=transport, name=client_name()) as client,
    ):
        yield client, session, creation
