"""The arguments of `jaato registry` for who uses registries; nothing but argparse is imported."""

from __future__ import annotations

from jaato.cli.arguments import action

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from jaato.cli.parser import Commands


def add_client(kinds: Commands) -> None:
    """`list`, `get`, `invoke`, `add`, `remove` and `trust`."""
    before = set(kinds.choices)
    add_use(kinds)
    add_edit(kinds)
    for name in kinds.choices.keys() - before:
        kinds.choices[name].add_argument(
            "--workspace", metavar="DIR", help="the workspace meant (default: this directory)"
        )


def add_use(kinds: Commands) -> None:
    """`list`, `get` and `invoke`."""
    listing = action(
        kinds, "list", "the registries and their state, or the tools of one", "registry list weather"
    )
    listing.add_argument(
        "registry",
        nargs="?",
        metavar="NAME|URL",
        help="a registry, or the address of one (default: all of them)",
    )
    listing.add_argument("--check", action="store_true", help="ask each one, to see whether it answers")
    get = action(kinds, "get", "the definition of a tool", "registry get weather forecast")
    invoke = action(kinds, "invoke", "call a tool", 'registry invoke weather forecast \'{"city": "Bern"}\'')
    for one in (get, invoke):
        one.add_argument("registry", metavar="NAME|URL", help="a registry, or the address of one")
        one.add_argument("tool", metavar="TOOL", help="the tool, by the registry's own name for it")
    invoke.add_argument(
        "arguments", nargs="?", metavar="JSON", help="its arguments, as a JSON object; - reads stdin"
    )
    invoke.add_argument(
        "--stream", action="store_true", help="show on stderr what the tool says while it is at work"
    )
    for one in (listing, get, invoke):
        one.add_argument(
            "--token", metavar="TOKEN", help="sent to a URL; ${VAR} and keyring:NAME are filled in"
        )
        if one is not get:
            one.add_argument("--json", action="store_true", help="as JSON")


def add_edit(kinds: Commands) -> None:
    """`add`, `remove` and `trust`."""
    add = action(kinds, "add", "configure a registry", "registry add weather https://tools.example.com")
    add.add_argument("registry", metavar="NAME", help="what to call it")
    add.add_argument("url", metavar="URL", help="its address, below which /v1/tools is")
    add.add_argument("--token", metavar="TOKEN", help="a bearer token, as ${VAR} or keyring:NAME")
    add.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent with every request"
    )
    add.add_argument("--prefix", metavar="TEXT", help="what the names of its tools always begin with")
    add.add_argument("--timeout", type=float, metavar="S", help="how long a call may take (default 60)")
    add.add_argument("--replace", action="store_true", help="in the place of one of the same name")
    remove = action(kinds, "remove", "take a registry out of the configuration", "registry remove weather")
    trust = action(
        kinds, "trust", "look at a workspace's registry, and have it asked", "registry trust weather"
    )
    for one in (remove, trust):
        one.add_argument("registry", metavar="NAME", help="the registry")
    for one in (add, remove):
        one.add_argument(
            "--scope",
            choices=("user", "workspace"),
            default="user" if one is add else None,
            help="yours, or the workspace's",
        )
    trust.add_argument("--yes", action="store_true", help="do not ask")
    trust.add_argument("--revoke", action="store_true", help="trust it no longer")
