"""`jaato mcp serve`: serve this workspace's tools to MCP clients, over stdio or HTTP."""

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

from jaato.cli.arguments.values import session_options, split_list
from jaato.cli.exit_codes import print_message
from jaato.cli.signals import cancel_on_signal
from jaato.errors import ConfigError

if TYPE_CHECKING:
    from jaato.server.auth.gate import KeyVerifier
    from jaato.server.tool_sessions import Offer, ToolSessions


def main(args: Namespace) -> int:
    """Serve until the client disconnects or a signal."""
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError("Serving MCP needs the extra mcp: pip install 'jaato[mcp]'.")
    if not args.http and (args.allow_host or args.allow_origin):
        raise ConfigError("--allow-host and --allow-origin are for HTTP; add --http.")
    import anyio

    from jaato.server.tool_sessions import Offer

    for name in ("mcp", "uvicorn"):
        logging.getLogger(name).setLevel(logging.ERROR)  # errors of clients are reported to the clients
    tools = split_list(args.tools)
    if tools and args.all_tools:
        raise ConfigError("--all-tools and --tools contradict each other; use one of them.")
    offer = Offer(whole=args.all_tools or bool(args.plugins and not tools), tools=tools)
    return anyio.run(serve, args, offer)


async def serve(args: Namespace, offer: Offer) -> int:
    """Serve until the client disconnects; a signal ends it without failure."""
    with cancel_on_signal():
        try:
            await (serve_http if args.http else serve_stdio)(args, offer)
        except asyncio.CancelledError:
            return 0
    return 0


async def serve_stdio(args: Namespace, offer: Offer) -> None:
    """Serve the one client at the standard streams."""
    from jaato.server.mcp import stdio
    from jaato.server.mcp.handlers import Handlers
    from jaato.server.standard_streams import own_streams

    if sys.stdin.isatty():
        print_message("waiting for an MCP client on stdin; Ctrl-C stops the server")
    wire_in, wire_out = own_streams()  # before the first plugin is loaded, which may print
    async with open_tools(args, offer) as sessions:
        await stdio.serve_stdio(Handlers(sessions), wire_in, wire_out)


async def serve_http(args: Namespace, offer: Offer) -> None:
    """Serve clients over HTTP."""
    from jaato.server.mcp.app import listen

    async with open_tools(args, offer) as sessions:
        keyring = make_keyring(args, sessions) if is_registry(args) else None
        await listen(sessions, args.http, args.allow_host, args.allow_origin, print_message, keyring)


@asynccontextmanager
async def open_tools(args: Namespace, offer: Offer) -> AsyncIterator[ToolSessions]:
    """The tools to serve: those of the workspace, or of a registry, which may change. Raises `ConfigError` for an unknown
    tool."""
    options = session_options(args, split_list(args.plugins) or None)
    if is_registry(args):
        from jaato.server.registry.application import open_registry, run_maintenance

        domains = None if args.domains is None else split_list(args.domains)
        registry = open_registry(options, domains, args.allow_entry_point, offer.tools)
        async with begin(registry.callers, offer) as sessions, run_maintenance(registry.registered.watch()):
            offer.resolve_names(sessions.catalog)
            yield sessions
        return
    from jaato.server.tool_sessions import ToolSessions

    async with begin(ToolSessions.open(options, offer), offer) as sessions:
        yield sessions


@asynccontextmanager
async def begin(sessions: ToolSessions, offer: Offer) -> AsyncIterator[ToolSessions]:
    """Check that the tools to serve exist, and close the sessions in the end."""
    try:
        if offer.tools:
            await sessions.begin()
        yield sessions
    finally:
        await sessions.close()


def make_keyring(args: Namespace, sessions: ToolSessions) -> KeyVerifier:
    """The access keys of a registry. Raises `ConfigError`."""
    from jaato.runtime.session_options import settings_for
    from jaato.server.mcp.handlers import RegistryKeyVerifier
    from jaato.server.registry.keys import Keys, default_rate

    options = session_options(args, split_list(args.plugins) or None)
    settings = settings_for(options, options.workspace or Path())
    return RegistryKeyVerifier(Keys(sessions.state_dir, default_rate(settings)))


def is_registry(args: Namespace) -> bool:
    """Whether a registry is served."""
    return bool(args.registry or args.domains is not None or args.allow_entry_point)
