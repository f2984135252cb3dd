"""`jaato tokens`: who may come to the server over the network, and as what."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from typing import Any

from jaato.cli.ending import say
from jaato.cli.table import print_json, print_line, print_rows
from jaato.errors import ConfigError
from jaato.server.tokens import OWNER, TokenEntry, add_token, read_tokens, remove_token
from jaato.settings import load

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DAY_S = 86_400


def main(args: Namespace) -> int:
    """Add, list or remove tokens."""
    state_dir = load().state_dir
    match args.action:
        case "add":
            if not NAME.fullmatch(args.name):
                raise ConfigError(
                    f"{args.name[:80]!r} is no name of a token: take up to 64 letters, digits, dots, _ and -."
                )
            expires = None if args.days is None else time.time() + args.days * DAY_S
            token = add_token(state_dir, args.name, args.role, expires)
            print_line(token)
            say(f"This is the token of {args.name} ({args.role}). It is not shown again.")
        case "remove":
            if not remove_token(state_dir, args.name):
                raise ConfigError(f"There is no token {args.name[:80]!r}; `jaato tokens list` shows them.")
            say(f"The token {args.name} no longer lets anybody in.")
        case _:
            listed(read_tokens(state_dir), as_json=args.json)
            if not args.json:
                say(f"Your own token is in {state_dir / OWNER}, once a server has used the network.")
    return 0


def listed(entries: list[TokenEntry], *, as_json: bool) -> None:
    """Every token, without what would let anybody in."""
    if as_json:
        print_json([row_of(entry) for entry in entries])
        return
    if entries:
        print_rows(
            [("NAME", "ROLE", "MADE", "GOOD UNTIL")]
            + [
                (
                    entry.name,
                    entry.role,
                    day(entry.created),
                    "expired" if entry.expired else day(entry.expires),
                )
                for entry in entries
            ]
        )


def row_of(entry: TokenEntry) -> dict[str, Any]:
    """One token for a program."""
    return {
        "name": entry.name,
        "role": entry.role,
        "created": entry.created,
        "expires": entry.expires,
        "expired": entry.expired,
    }


def day(at: float | None) -> str:
    """A day, or that there is no end."""
    return "removed" if at is None else time.strftime("%Y-%m-%d", time.gmtime(at))
