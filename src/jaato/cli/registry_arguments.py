"""The arguments of `jaato registry`; nothing but argparse is imported."""

from __future__ import annotations

from argparse import ArgumentParser

from jaato.cli.arguments import action, command, natural
from jaato.cli.registry_client_arguments import add_client
from jaato.cli.registry_keeper_arguments import add_keeper
from jaato.cli.registry_put_arguments import add_put

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from jaato.cli.parser import Commands

REGISTRY = """Tool registries offer tools over HTTP. Yours stand in registries.json of your configuration directory, those of a
workspace in its .jaato/registries.json, which are asked only once you have trusted them as they are. An agent finds
their tools with list_tools. `serve` is a registry of your own, for programs elsewhere.

examples:
  jaato registry add weather https://tools.example.com --token '${WEATHER_TOKEN}'
  jaato registry list
  jaato registry list weather
  jaato registry get weather forecast
  jaato registry invoke http://127.0.0.1:8000 calc '{"expression": "6 * 7"}'
  jaato registry serve                         echo, calc and time_now, at http://127.0.0.1:8000
  jaato registry serve --domains core,tools/weather.py --port 8765
  jaato registry serve --plugins git,file_edit --read-only
  jaato registry put http://127.0.0.1:8000 forecast forecast.json --webhook https://tools.example.com/forecast
  jaato registry key add ci --tools 'weather_*' --expires 30d     from then on nobody comes in without a key
  jaato registry log --failed --since 1h

exit codes: 0 ok, 1 the registry or the tool failed, 2 wrong usage or configuration, 4 denied or not trusted, 130 interrupted"""


def add_registry(commands: Commands) -> None:
    """`jaato registry`."""
    registry = command(
        commands, "registry", "registry", "configure and use tool registries, or serve one", REGISTRY
    )
    kinds = registry.add_subparsers(
        dest="action", metavar="list|get|invoke|put|delete|add|remove|trust|serve|key|log", required=True
    )
    add_client(kinds)
    add_put(kinds)
    serve = action(
        kinds, "serve", "offer tools to programs elsewhere, over HTTP", "registry serve --port 8765"
    )
    serve_arguments(serve)
    add_keeper(kinds)


def serve_arguments(serve: ArgumentParser) -> None:
    """What the registry may be told."""
    serve.set_defaults(module="jaato.cli.registry_serve")
    serve.add_argument("--workspace", metavar="DIR", help="the directory to work in (default: this one)")
    add = serve.add_argument_group("tools").add_argument
    add("--domains", metavar="A,B", help="core, modules by import path, files ending in .py (default: core)")
    add("--plugins", metavar="X,Y", help="offer the tools of these plugins too, to who has the token")
    add(
        "--allow-entry-point",
        action="append",
        default=[],
        metavar="PATTERN",
        help="let functions be put here as tools, such as 'package.module:*'",
    )
    add = serve.add_argument_group("permissions").add_argument
    add("--yes", action="store_true", help="allow everything that no rule denies")
    for name, text in (
        ("--allow", "allow a tool or command"),
        ("--deny", "never allow it, whatever else is said"),
    ):
        add(name, action="append", default=[], metavar="PATTERN", help=text)
    add("--read-only", action="store_true", help="deny every call that does more than read")
    add = serve.add_argument_group("HTTP").add_argument
    add("--host", metavar="HOST", help="the address to listen at (default: 127.0.0.1)")
    add("--port", type=natural, metavar="PORT", help="the port (default: 8000; 0: any)")
    add("--token", action="store_true", help="ask for a token, as beyond loopback is always done")
    add("--log", metavar="FILE", help="keep what the registry says of itself there, not on stderr")
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="a name callers may use for this registry beside its address",
    )
    add(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a web origin whose pages may call, such as http://localhost:3000",
    )
