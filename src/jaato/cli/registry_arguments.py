"""The arguments of `jaato registry`; nothing but argparse is imported."""

from __future__ import annotations

from jaato.cli.arguments import command
from jaato.cli.registry_client_arguments import add_client

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from jaato.cli.parser import Commands

REGISTRY = """Tool registries offer tools over HTTP. Yours stand in registries.json of your configuration directory, those of a
workspace in its .jaato/registries.json, which are asked only once you have trusted them as they are. An agent finds
their tools with list_tools.

examples:
  jaato registry add weather https://tools.example.com --token '${WEATHER_TOKEN}'
  jaato registry list
  jaato registry list weather
  jaato registry get weather forecast
  jaato registry invoke http://127.0.0.1:8000 calc '{"expression": "6 * 7"}'

exit codes: 0 ok, 1 the registry or the tool failed, 2 wrong usage or configuration, 4 denied or not trusted, 130 interrupted"""


def add_registry(commands: Commands) -> None:
    """`jaato registry`."""
    registry = command(
        commands, "registry", "registry", "configure, trust, list and use tool registries", REGISTRY
    )
    kinds = registry.add_subparsers(dest="action", metavar="list|get|invoke|add|remove|trust", required=True)
    add_client(kinds)
