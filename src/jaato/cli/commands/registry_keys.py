"""`jaato registry key`: who may use the registry, and for what."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from typing import Any

from jaato.cli.arguments.values import clean_text, listed
from jaato.cli.commands.registry_serve import TOKEN
from jaato.cli.commands.tokens import day
from jaato.cli.ending import say
from jaato.cli.output.tables import print_json, print_line, print_rows
from jaato.errors import ConfigError
from jaato.server.registry.keys import KeyEntry, add_key, keys_in
from jaato.server.registry.limits import UNITS_S
from jaato.settings import load

WRITTEN = re.compile(r"([1-9][0-9]{0,5})(min|h|d)")


def main(args: Namespace) -> int:
    """Add, list or remove keys."""
    state_dir = load().state_dir
    file = keys_in(state_dir)
    match args.key_action:
        case "add":
            before = file.path.exists()
            key = add_key(
                state_dir,
                clean_text(args.name) or "",
                listed(args.scope),
                () if args.tools is None else patterns(args.tools),
                None if args.expires is None else time.time() + seconds_of(args.expires),
                clean_text(args.rate),
            )
            print_line(key)
            say(f"This is the key of {args.name}. It is not shown again.")
            if not before:
                say(
                    f"Nobody comes in without a key from now on; your own token does, from {state_dir / TOKEN}."
                )
        case "remove":
            if not file.remove(clean_text(args.name) or ""):
                raise ConfigError(
                    f"There is no key {args.name[:80]!r}; `jaato registry key list` shows them."
                )
            say(f"The key {args.name} no longer lets anybody in.")
            if not file.read():
                say(f"It was the last. Nobody comes in without a key until {file.path} is removed.")
        case _:
            shown(file.read(), as_json=args.json)
    return 0


def shown(entries: list[KeyEntry], *, as_json: bool) -> None:
    """Every key, without what would let anybody in."""
    if as_json:
        print_json([row_of(entry) for entry in entries])
    elif entries:
        print_rows(
            [("NAME", "MAY", "TOOLS", "RATE", "MADE", "GOOD UNTIL")]
            + [
                (
                    entry.name,
                    ",".join(scope.removeprefix("tools:") for scope in entry.scopes),
                    ",".join(entry.tools) or "all",
                    entry.rate or "",
                    day(entry.created),
                    "expired" if entry.expired else day(entry.expires),
                )
                for entry in entries
            ]
        )
    else:
        say("There are no keys; `jaato registry key add NAME --scope tools:read,tools:invoke` makes one.")


def row_of(entry: KeyEntry) -> dict[str, Any]:
    """One key for a program."""
    return {
        "name": entry.name,
        "scopes": entry.scopes,
        "tools": entry.tools,
        "rate": entry.rate,
        "created": entry.created,
        "expires": entry.expires,
        "expired": entry.expired,
    }


def seconds_of(text: str) -> float:
    """`30d`, `12h`, `90min` in seconds. Raises `ConfigError`."""
    match = WRITTEN.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text[:40]!r} is no time: write 30d, 12h or 90min.")
    return float(int(match[1]) * UNITS_S[match[2]])


def patterns(text: str) -> tuple[str, ...]:
    """Which tools a key is for. Raises `ConfigError` for none: a variable that is not set would open all of them."""
    if not (found := listed(text)):
        raise ConfigError("--tools names no tool; without --tools the key is for all of them.")
    return found
