"""`jaato acp`: serve one editor at the standard streams."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio.to_thread
from acp.agent.connection import AgentSideConnection

from jaato.acp.agent import EditorAgent
from jaato.acp.streams import EditorStreams
from jaato.cli.arguments.values import session_create
from jaato.cli.clients.chat import connect_in_process
from jaato.cli.connect import client_name, connect_or_start, find_or_start_server
from jaato.cli.exit_codes import OK, print_message
from jaato.cli.output.console import Console
from jaato.cli.signals import cancel_on_signal
from jaato.client.address import Address
from jaato.client.connection import Client, connect
from jaato.server.standard_streams import own_streams
from jaato.settings import environment


def main(args: Namespace) -> int:
    """Serve until the editor ends its stream, or a signal."""
    if sys.stdin.isatty():
        print_message("waiting for an editor on stdin; Ctrl-C stops the program")
    wire = own_streams()  # before anything is loaded that may print
    return asyncio.run(serve(args, wire))


async def serve(args: Namespace, wire: tuple[int, int]) -> int:
    """Serve the editor at these descriptors; a signal ends it without failure. Raises `JaatoError`s."""
    streams = EditorStreams(*wire)
    with cancel_on_signal():
        try:
            async with open_client(args, streams) as client:
                local = bool(client.welcome.state_dir)
                if not local:
                    args.workspace = "/"  # each session has the directory that the editor names
                creation = session_create(args, local=local, in_process=client.in_process)
                agent = EditorAgent(client, streams, creation)
                connection = AgentSideConnection(
                    cast("Any", agent), streams, listening=False, use_unstable_protocol=True
                )
                try:
                    await connection.listen()
                finally:
                    await agent.close()
                    await connection.close()
                if agent.failure is not None:
                    raise agent.failure
        except asyncio.CancelledError:
            pass
    return OK


@asynccontextmanager
async def open_client(args: Namespace, streams: EditorStreams) -> AsyncIterator[Client]:
    """A client of the server, which is started if there is none, also again after it has died while the editor waits for a
    response; or of one in this process. Raises `JaatoError`s."""
    address = await anyio.to_thread.run_sync(find_or_start_server, args)
    if address is None:
        async with connect_in_process(args, Console(environment())) as client:
            yield client
        return

    async def restart() -> bool:
        if not streams.unanswered or args.connect or address.path is None:
            return False
        await anyio.to_thread.run_sync(start_server, address)
        return True

    async with connect(address, name=client_name("editor"), start=restart) as client:
        yield client


def start_server(address: Address) -> None:
    """Start this user's server if it does not run. Raises `JaatoError`s."""
    assert address.path is not None
    connect_or_start(address.path).close()
