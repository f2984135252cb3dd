"""The arguments of `jaato registry put` and `delete`; nothing but argparse is imported."""

from __future__ import annotations

from jaato.cli.arguments import action

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from jaato.cli.parser import Commands


def add_put(kinds: Commands) -> None:
    """`put` and `delete`."""
    put = action(
        kinds,
        "put",
        "put a tool into a registry of ours, or another in its place",
        "registry put http://127.0.0.1:8000 forecast forecast.json --webhook https://tools.example.com/forecast",
    )
    delete = action(
        kinds,
        "delete",
        "take a tool out of a registry that was put there",
        "registry delete http://127.0.0.1:8000 forecast --version 1.0.0",
    )
    for one in (put, delete):
        one.set_defaults(module="jaato.cli.registry_put")
        one.add_argument("registry", metavar="NAME|URL", help="a registry, or the address of one")
        one.add_argument("tool", metavar="TOOL", help="the name of the tool")
    put.add_argument(
        "definition", metavar="FILE", help="its description, version and parameters, as JSON; - reads stdin"
    )
    handlers = put.add_mutually_exclusive_group()
    handlers.add_argument("--webhook", metavar="URL", help="have its calls posted there")
    handlers.add_argument(
        "--mcp", metavar="SERVER/TOOL", help="have them made of an MCP server of the registry's"
    )
    handlers.add_argument(
        "--entry-point", metavar="MODULE:FUNCTION", help="have them made of a function there"
    )
    put.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent to the webhook"
    )
    put.add_argument("--timeout", type=float, metavar="S", help="how long a call may take (default 60)")
    put.add_argument("--create", action="store_true", help="only where there is none of this name")
    delete.add_argument("--version", metavar="VERSION", help="only this version (default: all of them)")
    for one in (put, delete):
        one.add_argument("--if-match", metavar="ETAG", help="only where it is still the one of this ETag")
        one.add_argument(
            "--token", metavar="TOKEN", help="sent to a URL; ${VAR} and keyring:NAME are filled in"
        )
        one.add_argument("--workspace", metavar="DIR", help="the workspace meant (default: this directory)")
    put.add_argument("--json", action="store_true", help="the definition that is served now, as JSON")
