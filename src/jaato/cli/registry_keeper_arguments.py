"""The arguments of `jaato registry key` and `jaato registry log`; nothing but argparse is imported."""

from __future__ import annotations

from jaato.cli.arguments import action, positive

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from jaato.cli.parser import Commands


def add_keeper(kinds: Commands) -> None:
    """What whoever serves a registry looks after."""
    add_key(kinds)
    add_log(kinds)


def add_key(kinds: Commands) -> None:
    """`key`."""
    example = "registry key add ci --scope tools:read,tools:invoke --tools 'weather_*' --expires 30d"
    key = action(kinds, "key", "say who may use the registry you serve, and for what", example)
    key.set_defaults(module="jaato.cli.registry_key", key_action="list", json=False)
    below = key.add_subparsers(dest="key_action", metavar="add|list|remove")
    add = action(below, "add", "make a key, and print it", example)
    add.add_argument("name", metavar="NAME", help="what to call it: letters, digits, ._-")
    add.add_argument(
        "--scope",
        metavar="A,B",
        default="tools:read,tools:invoke",
        help="tools:read, tools:invoke, tools:write (default: tools:read,tools:invoke)",
    )
    add.add_argument(
        "--tools", metavar="PATTERN,…", help="which tools there are for it: weather_*,calc (default: all)"
    )
    add.add_argument(
        "--expires", metavar="30d", help="how long it is good: 30d, 12h (default: until removed)"
    )
    add.add_argument("--rate", metavar="100/min", help="how often it may ask (default: tool_registry_rate)")
    listing = action(below, "list", "the keys there are", "registry key list")
    listing.add_argument("--json", action="store_true", help="as JSON")
    remove = action(below, "remove", "take a key away", "registry key remove ci")
    remove.add_argument("name", metavar="NAME", help="what it is called")


def add_log(kinds: Commands) -> None:
    """`log`."""
    log = action(
        kinds, "log", "the calls of the registry you serve: when, who, what, how", "registry log --key ci"
    )
    log.set_defaults(module="jaato.cli.registry_log")
    add = log.add_argument
    add("--workspace", metavar="DIR", help="whose settings hold (default: this directory)")
    add("--request", metavar="ID", help="the call with this X-Request-Id")
    add("--trace", metavar="ID", help="the calls of this trace, as traceparent has it")
    add("--flow", metavar="ID", help="the calls of this flow")
    add("--tool", metavar="NAME", help="the calls of this tool")
    add("--key", metavar="NAME", help="the calls made with this key; anyone and owner are names too")
    add("--failed", action="store_true", help="those that failed")
    add("--since", metavar="1h", help="those of the last 30min, 12h, 7d")
    add("--limit", type=positive, default=50, metavar="N", help="the newest N (default 50)")
    add("--follow", action="store_true", help="go on with those that come")
    add("--json", action="store_true", help="one JSON object a line")
