"""`jaato tokens`: manage the access tokens of the server."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from typing import Any

from jaato.cli.exit_codes import print_message
from jaato.cli.output.console import format_date, print_line, print_records
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
                    f"{args.name[:80]!r} is not a valid name: use up to 64 letters, digits, dots, _ and -."
                )
            expires = None if args.days is None else time.time() + args.days * DAY_S
            print_line(add_token(state_dir, args.name, args.role, expires))
            print_message(f"This is the token of {args.name} ({args.role}). It is not shown again.")
        case "remove":
            if not remove_token(state_dir, args.name):
                raise ConfigError(f"There is no token {args.name[:80]!r}; `jaato tokens list` shows them.")
            print_message(f"removed the token {args.name}; it is no longer accepted")
        case _:
            records = [record_of(entry) for entry in tokens_file(state_dir).read()]
            print_records(records, row_of, as_json=args.json, heading=("NAME", "ROLE", "CREATED", "EXPIRES"))
            if not args.json:
                print_message(
                    f"Your own token is in {state_dir / OWNER}, after the server has first used the network."
                )
    return 0


def record_of(entry: TokenEntry) -> dict[str, Any]:
    """A token without its hash."""
    return {name: getattr(entry, name) for name in ("name", "role", "created", "expires", "expired")}


def row_of(record: dict[str, Any]) -> tuple[str, ...]:
    """A token as a table row."""
    expires = "expired" if record["expired"] else format_date(record["expires"])
    return (record["name"], record["role"], format_date(record["created"]), expires)
