"""Remote sources added to a configuration file, removed from it and trusted, shown before anything is accepted."""

from __future__ import annotations

import re
import sys
from typing import Any

from jaato.cli.ending import DENIED, OK, say
from jaato.cli.output.tables import print_line, print_rows
from jaato.cli.sources.sources import SourceCommands
from jaato.errors import ConfigError
from jaato.tools.remote.fields import C, Scope
from jaato.tools.remote.sources import (
    edit_source,
    find_conflict,
    parse_entry,
    with_marks,
)

SECRET = re.compile(r"key|token|secret|password|passwd|credential|authorization|cookie", re.IGNORECASE)


def add(commands: SourceCommands[C]) -> int:
    """Configure a source; one of a workspace is trusted as it was just written."""
    directory, args, name = commands.directory, commands.args, commands.name
    entry = commands.entry()
    path, within = directory.file(args.scope)
    refuse_conflict(commands, parse_entry(directory.kind, path, within, name, entry))
    state_dir = directory.context.state_dir
    edit_source(directory.kind, path, within, name, entry, state_dir, replace=args.replace)
    directory.reload()
    config = directory.sources.get(name)
    if config is None or config.scope != args.scope:
        why = next((one.text for one in directory.problems if one.name == name), "it is hidden by another")
        say(f"written to {path}, but {why}")
        return OK
    directory.trust.add(config)
    print_line(
        f"added {name} to {path}; `jaato {config.COMMAND} {commands.tools_hint} {name}` shows its tools"
    )
    commands.added(config)
    for field in plain_secrets(entry):
        say(
            f"{field} holds what looks like a secret, readable in {path}. Write ${{{variable_for(field)}}} there "
            "instead, and set that variable."
        )
    return OK


def refuse_conflict(commands: SourceCommands[C], config: C) -> None:
    """Raise `ConfigError` for a source that would be left out because of another one."""
    others = [
        one
        for one in commands.directory.sources.values()
        if (one.name, one.scope) != (config.name, config.scope) and one.scope in ("user", config.scope)
    ]
    other = find_conflict(with_marks(others), config) if commands.directory.kind.UNIQUE else None
    if other is not None:
        raise ConfigError(
            f"The tools of {config.name!r} could have names of {other.name!r} in {other.origin}; give it another "
            + ("prefix." if other.name != config.name else "name.")
        )


def plain_secrets(entry: dict[str, Any]) -> list[str]:
    """Which variables, headers and tokens seem to hold a secret as it is."""
    texts = {"token": entry.get("token", "")} | entry.get("env", {}) | entry.get("headers", {})
    return [
        name
        for name, text in texts.items()
        if SECRET.search(name) and text and "${" not in text and not text.startswith("keyring:")
    ]


def variable_for(name: str) -> str:
    """What a variable for this secret could be called."""
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "SECRET"


def remove(commands: SourceCommands[C]) -> int:
    """Take a source out of its file, and forget what is kept of it."""
    directory, name = commands.directory, commands.name
    config = directory.sources.get(name)
    scope: Scope = commands.args.scope or (config.scope if config else scope_of_problem(commands))
    path, within = directory.file(scope)
    edit_source(directory.kind, path, within, name, None, directory.context.state_dir)
    if config is not None and config.scope == scope:
        commands.forget(config)
        if scope == "workspace":
            directory.trust.remove(config)
    print_line(f"removed {name} from {path}")
    return OK


def scope_of_problem(commands: SourceCommands[C]) -> Scope:
    """In which file a broken entry stands. Raises `ConfigError` when there is none of this name."""
    directory = commands.directory
    for problem in directory.problems:
        if problem.name == commands.name:
            return "user" if problem.origin == directory.file("user")[0] else "workspace"
    return directory.configured(commands.name).scope


def trust(commands: SourceCommands[C]) -> int:
    """Show what is not accepted yet, ask, and accept exactly that."""
    config, directory, yes = commands.find(), commands.directory, commands.args.yes
    is_own = config.scope != "workspace"
    if commands.args.revoke:
        directory.trust.remove(config)
        print_line(own(commands, config) if is_own else f"{config.name} is trusted no longer")
        return OK
    is_new = not directory.trust.holds(config)
    if is_new and not trust_entry(commands, config):
        return DENIED
    changes, accept = commands.changes(config)
    if changes:
        for headline, diff in changes:
            print_line(f"{config.name}: {headline}")
            print_line(f"{diff}\n")
        counted = "this definition" if len(changes) == 1 else f"these {len(changes)} definitions"
        if not agreed(f"Accept {counted} of {config.name}?", yes):
            return DENIED
        accept()
        print_line(f"accepted {len(changes)} of {config.name}, as shown; the next change asks again")
    elif not is_new:
        print_line(own(commands, config) if is_own else f"{config.name}: nothing waits to be accepted")
    return OK


def own(commands: SourceCommands[C], config: C) -> str:
    """Why a source of the user's needs no trust."""
    if config.scope == "argument":
        return f"{config.name} is used because you name it; nothing waits to be accepted"
    return f"{config.name} stands in your own {config.origin}, so it may {commands.verb}; nothing waits to be accepted"


def trust_entry(commands: SourceCommands[C], config: C) -> bool:
    """Show what a workspace's source is, and trust it if the answer is yes. Raises `ConfigError`."""
    directory = commands.directory
    seen = directory.trust.content(config)
    print_line(f"{config.name} is named by {config.origin}, which came with the workspace:")
    print_rows([(f"  {label}", text) for label, text in directory.trust.describe(config)])
    if not agreed(f"Let {config.name} {commands.verb}, as shown?", commands.args.yes):
        return False
    directory.reload()
    directory.trust.add(directory.configured(config.name), seen=seen)
    print_line(f"trusted {config.name}; any change of what is shown above asks again")
    return True


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
