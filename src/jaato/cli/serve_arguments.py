"""The arguments of `jaato mcp serve`; nothing but argparse is imported."""

from __future__ import annotations

from argparse import ArgumentParser


def serve_arguments(serve: ArgumentParser) -> None:
    """What the server may be told."""
    serve.set_defaults(module="jaato.cli.mcp_serve")
    serve.add_argument("--workspace", metavar="DIR", help="the directory to work in (default: this one)")
    add = serve.add_argument_group("tools").add_argument
    add("--all-tools", action="store_true", help="list every tool from the start, not a few and discovery")
    add("--tools", metavar="A,B", help="offer these tools and no others")
    add("--plugins", metavar="X,Y", help="offer the tools of these plugins only")
    add(
        "--registry",
        action="store_true",
        help="offer what `jaato registry serve` does, and no plugins but those named",
    )
    add("--domains", metavar="A,B", help="of a registry with these domains (default: core)")
    add(
        "--allow-entry-point",
        action="append",
        default=[],
        metavar="PATTERN",
        help="serve functions that were put into the registry, such as 'package.module:*'",
    )
    add = serve.add_argument_group("permissions").add_argument
    add("--yes", action="store_true", help="allow everything that no rule denies")
    add(
        "--allow",
        action="append",
        default=[],
        metavar="PATTERN",
        help="allow a tool or command without asking",
    )
    add(
        "--deny", action="append", default=[], metavar="PATTERN", help="never allow it, whatever else is said"
    )
    add("--read-only", action="store_true", help="deny every call that does more than read")
    add = serve.add_argument_group("HTTP, instead of the standard streams").add_argument
    add("--http", metavar="[HOST]:PORT", help="serve at /mcp of this address (host: 127.0.0.1; port 0: any)")
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="a name clients may use for this server beside its address",
    )
    add(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a web origin whose pages may call, such as http://localhost:3000",
    )
