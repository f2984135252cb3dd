"""The MCP door on an address of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from jaato.server.gate import Gate, Keyring, Remote, rpc_problem
from jaato.server.listen import Listener, bound, config_of, host_and_port
from jaato.server.mcp.application import PATH, Application, Whole
from jaato.server.mcp.door import Door
from jaato.server.names import names_of
from jaato.server.secret import OneToken, token_of


async def listen(
    door: Door,
    address: str,
    hosts: Iterable[str],
    origins: Iterable[str],
    announce: Callable[[str], None],
    keyring: Keyring | None = None,
) -> None:
    """Serve at `[HOST]:PORT` until cancelled; keys let in beside the token. Raises `ConfigError` for an address that cannot be had."""
    host, port = host_and_port(address)
    token, path = token_of(door.state_dir)
    listener = bound(host, port)
    try:
        port = listener.getsockname()[1]
        application = Application(door)
        names = names_of(host, port, hosts, origins)
        gate = Gate(Whole(application), Remote(OneToken(token), names, keyring=keyring), rpc_problem)
        server = Listener(config_of(gate))
        shown = f"[{host}]" if ":" in host else host
        async with application.running():
            announce(f"serving MCP at http://{shown}:{port}{PATH}; the token is in {path}")
            looking = asyncio.create_task(gate.look())
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await asyncio.shield(serving)
            finally:
                looking.cancel()
                server.should_exit = True
                await asyncio.wait([serving])
    finally:
        listener.close()
