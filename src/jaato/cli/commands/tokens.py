"""`jaato tokens`: who may come to the server over the network, and as what."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from typing import Any

from jaato.cli.ending import say
from jaato.cli.output.tables import print_line, print_records
from jaato.errors import ConfigError
from jaato.server.auth.tokens import OWNER, TokenEntry, add_token, remove_token, tokens_file
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
            records = [record_of(entry) for entry in tokens_file(state_dir).read()]
            print_records(records, row_of, as_json=args.json, heading=("NAME", "ROLE", "MADE", "GOOD UNTIL"))
            if not args.json:
                say(f"Your own token is in {state_dir / OWNER}, once a server has used the network.")
    return 0


def record_of(entry: TokenEntry) -> dict[str, Any]:
    """A token, without what would let anybody in."""
    return {name: getattr(entry, name) for name in ("name", "role", "created", "expires", "expired")}


def row_of(record: dict[str, Any]) -> tuple[str, ...]:
    """A token in the list."""
    until = "expired" if record["expired"] else day(record["expires"])
    return (record["name"], record["role"], day(record["created"]), until)


def day(at: float | None) -> str:
    """A day, or that there is no end."""
    return "removed" if at is None else time.strftime("%Y-%m-%d", time.gmtime(at))
