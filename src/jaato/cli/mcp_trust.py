"""`jaato mcp trust`: what a server runs and what it has changed, shown before anything is accepted."""

from __future__ import annotations

import sys
from argparse import Namespace

from jaato.cli.ending import DENIED, OK, say
from jaato.cli.mcp import Desk
from jaato.cli.screen import visible
from jaato.cli.table import print_line, print_rows
from jaato.errors import ConfigError
from jaato.plugins.mcp import manifest
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.pins import Change, Pins
from jaato.plugins.mcp.trusted import Trusted, described, vouched


def trust(desk: Desk, args: Namespace) -> int:
    """Show what is not accepted yet, ask, and accept exactly that."""
    config = desk.named(args.server)
    trusted = Trusted(desk.settings.state_dir)
    if args.revoke:
        trusted.remove(config)
        print_line(f"{config.name} is trusted no longer" if config.scope == "workspace" else own(config))
        return OK
    pending = False
    if not trusted.holds(config):
        pending = True
        if not trust_entry(trusted, config, args.yes):
            return DENIED
    known = manifest.load(desk.settings.cache_dir, config.digest)
    pins = Pins(desk.settings.state_dir)
    changes = pins.judge(config, known).changes if known is not None else ()
    if known is not None and changes:
        show_changes(config, changes)
        if not agreed(f"Accept {counted(changes)} of {config.name}?", args.yes):
            return DENIED
        accepted = pins.accept(config, known, changes)
        print_line(f"accepted {accepted} of {config.name}, as shown; the next change is held back again")
        return OK
    if not pending:
        print_line(
            f"{config.name}: nothing waits to be accepted" if config.scope == "workspace" else own(config)
        )
    return OK


def own(config: ServerConfig) -> str:
    """Why a server of the user's needs no trust."""
    if config.scope == "argument":
        return f"{config.name} is used because you name it; nothing waits to be accepted"
    return f"{config.name} stands in your own {config.origin}, so it may start; nothing waits to be accepted"


def trust_entry(trusted: Trusted, config: ServerConfig, yes: bool) -> bool:
    """Show what a workspace's server runs, and trust it if the answer is yes. Raises `ConfigError`."""
    seen = vouched(config)
    print_line(f"{config.name} is named by {config.origin}, which came with the workspace:")
    print_rows([(f"  {label}", text) for label, text in described(config)])
    if not agreed(f"Let {config.name} start, as shown?", yes):
        return False
    trusted.add(config, seen=seen)
    print_line(f"trusted {config.name}; any change to its entry or to a program shown above asks again")
    return True


def show_changes(config: ServerConfig, changes: tuple[Change, ...]) -> None:
    """Every definition that is held back, with what is different."""
    for change in changes:
        name = f" {visible(change.name)}" if change.name else ""
        print_line(f"{config.name}: the {change.kind}{name} is held back: {change.detail}")
        print_line(change.diff)
        print_line("")


def counted(changes: tuple[Change, ...]) -> str:
    """How many definitions."""
    return "this definition" if len(changes) == 1 else f"these {len(changes)} definitions"


def agreed(question: str, yes: bool) -> bool:
    """Whether the person at the terminal says yes; without one, only `--yes` does. Raises `ConfigError`."""
    if yes:
        return True
    if not sys.stdin.isatty():
        say(f"{question} Nobody is there to ask; look at it, and give --yes.")
        return False
    sys.stdout.flush()
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        answer = sys.stdin.readline()
    except UnicodeDecodeError:
        raise ConfigError("The answer is not text; type y or n.") from None
    return answer.strip().lower() in ("y", "yes")
