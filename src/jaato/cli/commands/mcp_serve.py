"""`jaato mcp serve`: this workspace's tools for MCP clients, at the standard streams or over HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jaato.cli.arguments.values import listed, serving_options
from jaato.cli.ending import say
from jaato.cli.signals import interruptible
from jaato.errors import ConfigError

if TYPE_CHECKING:
    from jaato.server.auth.gate import KeyVerifier
    from jaato.server.tool_sessions import Door, Offer


def main(args: Namespace) -> int:
    """Serve until the client goes or a signal comes."""
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError("Serving MCP needs its library: pip install 'jaato[mcp]'.")
    if not args.http and (args.allow_host or args.allow_origin):
        raise ConfigError("--allow-host and --allow-origin say who may come over HTTP; give --http as well.")
    import anyio

    from jaato.server.tool_sessions import Offer

    for name in ("mcp", "uvicorn"):
        logging.getLogger(name).setLevel(logging.ERROR)  # what a client does wrong, the client is told
    tools = listed(args.tools)
    if tools and args.all_tools:
        raise ConfigError("--all-tools and --tools contradict each other; give one of them.")
    offer = Offer(whole=args.all_tools or bool(args.plugins and not tools), tools=tools)
    return anyio.run(serve, args, offer)


async def serve(args: Namespace, offer: Offer) -> int:
    """Serve at the door of the workspace; a signal ends it as the client's leaving does."""
    from jaato.server.mcp.stdio import own_streams

    with interruptible():
        try:
            if args.http:
                await serve_http(args, offer)
            else:
                if sys.stdin.isatty():
                    say("waiting for an MCP client at the standard streams; Ctrl-C ends it")
                wire_in, wire_out = own_streams()  # before the first plugin is loaded, which may print
                await serve_streams(args, offer, wire_in, wire_out)
        except asyncio.CancelledError:
            return 0
    return 0


async def serve_streams(args: Namespace, offer: Offer, wire_in: int, wire_out: int) -> None:
    """Serve the one client at the standard streams."""
    from jaato.server.mcp.handlers import Handlers
    from jaato.server.mcp.stdio import serve_stdio

    async with opened(args, offer) as door:
        await serve_stdio(Handlers(door), wire_in, wire_out)


async def serve_http(args: Namespace, offer: Offer) -> None:
    """Serve clients at an address."""
    from jaato.server.mcp.app import listen

    async with opened(args, offer) as door:
        keyring = keyring_of(args, door) if is_registry(args) else None
        await listen(door, args.http, args.allow_host, args.allow_origin, say, keyring)


@asynccontextmanager
async def opened(args: Namespace, offer: Offer) -> AsyncIterator[Door]:
    """The door that is served: to the workspace, or to a registry, whose tools that others put there are followed."""
    if is_registry(args):
        from jaato.server.registry.application import open_registry, run_maintenance

        domains = None if args.domains is None else listed(args.domains)
        registry = open_registry(
            serving_options(args, listed(args.plugins) or None), domains, args.allow_entry_point, offer.tools
        )
        door: Door = registry.callers
        async with closed_after(door, offer), run_maintenance(registry.registered.watch()):
            offer.known(door.catalog)
            yield door
        return
    from jaato.server.tool_sessions import open_door

    door = open_door(serving_options(args, listed(args.plugins) or None), offer)
    async with closed_after(door, offer):
        yield door


@asynccontextmanager
async def closed_after(door: Door, offer: Offer) -> AsyncIterator[None]:
    """Close a door in the end. Raises `ConfigError` where a tool is to be offered that is nowhere."""
    try:
        if offer.tools:
            await door.begin()
        yield
    finally:
        await door.close()


def keyring_of(args: Namespace, door: Door) -> KeyVerifier:
    """The keys of a registry, which let in for what they are for. Raises `ConfigError`."""
    from jaato.runtime.session_options import settings_for
    from jaato.server.mcp.handlers import Everywhere
    from jaato.server.registry.keys import Keys, default_rate

    blueprint = serving_options(args, listed(args.plugins) or None)
    settings = settings_for(blueprint, blueprint.workspace or Path())
    return Everywhere(Keys(door.state_dir, default_rate(settings)))


def is_registry(args: Namespace) -> bool:
    """Whether it is a registry that is served."""
    return bool(args.registry or args.domains is not None or args.allow_entry_point)
