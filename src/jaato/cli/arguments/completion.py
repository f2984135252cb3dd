"""`jaato completion`: print the script with which a shell completes command lines, made from the tables of commands."""

from __future__ import annotations

import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from itertools import dropwhile
from typing import Any

from jaato.cli.arguments.parser import PROVIDERS, make_parser
from jaato.cli.arguments.settings import KEYED

FILES = ("FILE", "PATH", "SCRIPT", "TRACE")
DIRECTORIES = ("DIR",)
SESSION_ARGUMENTS = ("session", "sessions")
LIST = "jaato sessions list --names 2>/dev/null"
SESSIONS: Mapping[str, Any] = {
    "bash": "_jaato_complete_sessions",
    "zsh": "_jaato_complete_sessions",
    "fish": f"({LIST})",
    "preamble": {
        # names are compared and quoted here, for compgen -W would expand what is in them
        "bash": f"""
_jaato_complete_sessions() {{
  local name quoted
  while IFS= read -r name; do
    printf -v quoted %q "$name"
    if [[ "$name" == "$1"* || "$quoted" == "$1"* ]]; then printf '%s\\n' "$quoted"; fi
  done < <({LIST})
}}""",
        "zsh": f"""
_jaato_complete_sessions() {{
  local -a names
  names=(${{(f)"$({LIST})"}})
  compadd -a names
}}""",
    },
}
"""Completes the names of the sessions of the current directory, as shtab takes it."""


def main(args: Namespace) -> int:
    """Print the script for a shell."""
    import shtab

    parser = make_parser()
    for action in actions_of(parser):
        complete_values(action, {"file": shtab.FILE, "directory": shtab.DIRECTORY})
    sys.stdout.write(drop_instructions(shtab.complete(parser, args.shell).rstrip() + "\n"))
    return 0


def drop_instructions(script: str) -> str:
    """A script without the comments at its beginning, which name other places for the file than `jaato completion --help`."""
    lines = script.splitlines(keepends=True)
    head = [line for line in lines[:1] if line.startswith("#compdef")]
    return "".join([*head, *dropwhile(lambda line: line.startswith("#") or not line.strip(), lines)])


def actions_of(parser: ArgumentParser) -> Iterator[Action]:
    """The arguments of a parser and of all its commands."""
    for action in parser._actions:  # noqa: SLF001 argparse has no public list of them
        yield action
        if isinstance(action.choices, dict):
            for below in action.choices.values():
                yield from actions_of(below)


def complete_values(action: Action, paths: Mapping[str, Any]) -> None:
    """Say how the values of an argument are completed, where they are not fixed choices."""
    shown = action.metavar if isinstance(action.metavar, str) else ""
    words = shown.split("|")
    if isinstance(action.choices, range):
        action.choices = None  # a number is typed faster
    elif action.choices is not None:
        return
    elif action.dest in SESSION_ARGUMENTS:
        action.complete = SESSIONS  # type: ignore[attr-defined]
    elif any(word in DIRECTORIES for word in words):
        action.complete = paths["directory"]  # type: ignore[attr-defined]
    elif any(word in FILES for word in words):
        action.complete = paths["file"]  # type: ignore[attr-defined]
    elif action.dest == "provider":
        action.choices = KEYED if shown == "PROVIDER" else PROVIDERS
