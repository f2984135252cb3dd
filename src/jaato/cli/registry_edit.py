"""`jaato registry add`, `remove` and `trust`."""

from __future__ import annotations

from argparse import Namespace
from contextlib import suppress
from typing import Any

from jaato.cli.ending import DENIED, OK, say
from jaato.cli.mcp import pairs
from jaato.cli.mcp_edit import plain_secrets, variable_for
from jaato.cli.mcp_trust import agreed
from jaato.cli.registry_desk import Desk
from jaato.cli.screen import visible
from jaato.cli.table import print_line, print_rows
from jaato.errors import ConfigError
from jaato.plugins.arp import edit, kept
from jaato.plugins.arp.config import RegistryConfig, mark_of
from jaato.plugins.arp.directory import Directory
from jaato.plugins.arp.entry import registry_of
from jaato.plugins.arp.faults import RegistryUnusable
from jaato.plugins.arp.pins import diff
from jaato.plugins.arp.trusted import described, vouched
from jaato.tools.configured import Malformed, Scope, either_begins


def main(args: Namespace) -> int:
    """Carry out one of them."""
    desk = Desk(args)
    match args.action:
        case "add":
            return add(desk, args)
        case "remove":
            return remove(desk, args)
    return trust(desk, args)


def add(desk: Desk, args: Namespace) -> int:
    """Configure a registry; one of a workspace is trusted as it was just written."""
    if "://" in args.registry:
        raise ConfigError("A name comes first, and is no URL: jaato registry add NAME URL.")
    headers = pairs(args.header, ":", "--header")
    entry: dict[str, Any] = {"url": args.url}
    entry |= {"token": args.token} if args.token else {}
    entry |= {"headers": headers} if headers else {}
    entry |= {"prefix": args.prefix} if args.prefix else {}
    entry |= {"timeout_s": args.timeout} if args.timeout is not None else {}
    path = desk.file(args.scope)
    refuse_twin(desk, args.scope, args.registry, entry)
    edit.add(path, args.scope, args.registry, entry, desk.settings.state_dir, replace=args.replace)
    now = Directory(desk.places)
    config = now.registries.get(args.registry)
    if config is None or config.scope != args.scope:
        why = next(
            (one.text for one in now.problems if one.registry == args.registry), "it is hidden by another"
        )
        say(f"written to {path}, but {why}")
        return OK
    desk.trusted.add(config)
    print_line(f"added {config.name} to {path}; `jaato registry list {config.name}` shows its tools")
    if args.token and "${" not in args.token and not args.token.startswith("keyring:"):
        say(f"the token stands readable in {path}. Write ${{VARIABLE}} there instead, and set that variable.")
    for place, name in plain_secrets(entry):
        say(
            f"{place} {name} holds what looks like a secret, readable in {path}. Write ${{{variable_for(name)}}} "
            "there instead, and set that variable."
        )
    return OK


def refuse_twin(desk: Desk, scope: Scope, name: str, entry: dict[str, Any]) -> None:
    """Raise `ConfigError` for an entry that would be left out because of another registry; what else is wrong with it is
    found where it is written."""
    try:
        mark = mark_of(registry_of(name, entry, scope, desk.file(scope)))
    except Malformed:
        return
    for other in desk.directory.registries.values():
        own_place = (other.name, other.scope) == (name, scope)
        if not own_place and other.scope in ("user", scope) and either_begins(mark_of(other), mark):
            raise ConfigError(
                f"The tools of {name!r} could have names of {other.name!r} in {other.origin}; give it another "
                + ("prefix." if other.name != name else "name.")
            )


def remove(desk: Desk, args: Namespace) -> int:
    """Take a registry out of its file, and forget what is kept of it."""
    config = desk.directory.registries.get(args.registry)
    scope: Scope = args.scope or (
        config.scope if config is not None else scope_of_problem(desk, args.registry)
    )
    path = desk.file(scope)
    edit.remove(path, scope, args.registry, desk.settings.state_dir)
    if config is not None and config.scope == scope:
        kept.forget(desk.settings.cache_dir, config.digest)
        desk.directory.shelf(config).pins.forget()
        if scope == "workspace":
            desk.trusted.remove(config)
    print_line(f"removed {args.registry} from {path}")
    return OK


def scope_of_problem(desk: Desk, name: str) -> Scope:
    """In which file a broken entry stands. Raises `ConfigError` when there is none of this name."""
    for problem in desk.directory.problems:
        if problem.registry == name:
            return "user" if problem.origin == desk.file("user") else "workspace"
    desk.directory.configured(name)
    raise ConfigError(f"There is no registry {name!r}.")


def trust(desk: Desk, args: Namespace) -> int:
    """Show what a workspace's registry is, ask, and have exactly that asked from now on."""
    config = desk.directory.configured(args.registry)
    if args.revoke and config.scope == "workspace":
        desk.trusted.remove(config)
        print_line(f"{config.name} is trusted no longer")
        return OK
    if desk.trusted.holds(config):
        return accept(desk, config, args)
    seen = vouched(config)
    print_line(f"{config.name} is named by {config.origin}, which came with the workspace:")
    print_rows([(f"  {label}", text) for label, text in described(config)])
    if not agreed(f"Let {config.name} be asked, as shown?", args.yes):
        return DENIED
    now = Directory(desk.places).registries.get(args.registry)
    if now is None or vouched(now) != seen:
        raise ConfigError(f"The registry {config.name!r} changed meanwhile; look at it again.")
    desk.trusted.add(now)
    print_line(f"trusted {config.name}; any change of its entry asks again")
    return OK


def accept(desk: Desk, config: RegistryConfig, args: Namespace) -> int:
    """Show which tools have changed since they were last allowed, ask, and have what allowed them hold for them as shown."""
    shelf = desk.directory.shelf(config)
    found = [(pinned, shelf.definitions.at_hand(name)) for name, pinned in shelf.pins.tools.items()]
    changed = [
        (before, now.definition)
        for before, now in found
        if now is not None and shelf.pins.changed(now.definition)
    ]
    if not changed:
        own = "" if config.scope == "workspace" else f" stands in your own {config.origin};"
        print_line(f"{config.name}{own or ':'} nothing waits to be trusted")
        return OK
    with suppress(RegistryUnusable):  # a key that cannot be had is not known to what is masked
        desk.directory.open_way(config)
    for before, definition in changed:
        named = visible(desk.secrets.mask(definition.name))
        print_line(f"{config.name}: {named} has changed since it was last allowed:")
        print_line(desk.secrets.mask(diff(before, definition)))
    if not agreed(f"Let what allows {'it' if len(changed) == 1 else 'them'} hold as shown?", args.yes):
        return DENIED
    shelf.pins.pin(*[definition for _, definition in changed])
    print_line(f"accepted {len(changed)} of {config.name}, as shown; the next change asks again")
    return OK
