"""What completes the word at the cursor: commands after `/`, files after `@`, models and sessions after their commands."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jaato.cli.output.console import one_line
from jaato.cli.repl.slash_commands import COMMANDS
from jaato.errors import JaatoError
from jaato.protocol.events import SessionInfo
from jaato.protocol.events.state import State

MAX_SHOWN = 8
MAX_FILES = 50_000
LIST_S = 5.0
CLIENT_COMMANDS = {
    "theme": ("choose colours, light or dark", "change_theme"),
    "keys": ("show all keys", "open('keys')"),
    "search": ("search in the conversation", "open('search')"),
    "history": ("search in messages sent before", "open('history')"),
    "mouse": ("give the mouse to the terminal, or take it", "mouse"),
}
"""Commands of this client alone: their meaning, and the application's action."""
AT_WORD = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")


class Choice(NamedTuple):
    """A completion: the text that replaces the word, and what it means."""

    text: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """The choices for the characters before the cursor, which replace the last `length` of them."""

    choices: Sequence[Choice]
    length: int


def complete_command(line: str, state: State, info: SessionInfo | None) -> Completion | None:
    """The commands that begin as a line does, or the arguments of one that takes a known name."""
    if not line.startswith("/") or "\n" in line:
        return None
    name, blank, rest = line[1:].partition(" ")
    if not blank:
        return Completion(
            [choice for choice in list_commands(state) if choice.text.startswith(line)], len(line)
        )
    known: Iterable[str] = ()
    if name == "model":
        known = info.models if info is not None else ()
    elif name == "resume" and info is not None:
        known = [entry.name or entry.id for entry in info.sessions if entry.workspace == info.workspace]
    elif name == "mode":
        known = ("ask", "accept-edits", "auto", "plan", "read-only")
    fitting = [Choice(one) for one in known if one.startswith(rest) and one_line(one, 200) == one]
    return Completion(fitting, len(rest)) if fitting else None


def list_commands(state: State) -> list[Choice]:
    """The client's commands and those of the session."""
    known = {command.name for command in state.commands}
    own = [Choice(f"/{name}", text) for name, (text, _) in COMMANDS.items()]
    own += [Choice(f"/{name}", text) for name, (text, _) in CLIENT_COMMANDS.items() if name not in known]
    others = [
        Choice(f"/{one_line(command.name, 100)}", one_line(command.description, 200))
        for command in state.commands
        if command.name not in COMMANDS
    ]
    return [*own, *others]


def find_action(text: str, state: State) -> str:
    """The action of a text that is a command of this client alone; empty for any other."""
    name = text.removeprefix("/")
    is_other = name == text or any(command.name == name for command in state.commands)
    return "" if is_other or name not in CLIENT_COMMANDS else CLIENT_COMMANDS[name][1]


def complete_file(line: str, files: Sequence[str]) -> Completion | None:
    """The files that fit the word after `@` at the end of a line, the best first."""
    found = AT_WORD.search(line)
    if found is None:
        return None
    word = found[1]
    return Completion([Choice(f"@{path}") for path in find_best_matches(word, files)], len(word) + 1)


def find_best_matches(word: str, paths: Sequence[str]) -> list[str]:
    """The paths that have the letters of a word in this order: contiguous ones and those in the file's name first."""
    if not word:
        return sorted(paths, key=lambda path: (path.count("/"), path))[:MAX_SHOWN]
    letters = ".*?".join(map(re.escape, word))
    pattern = re.compile(letters, re.IGNORECASE)
    scored = []
    for path in paths:
        if pattern.search(path) is None:
            continue
        base = path.rpartition("/")[2]
        in_name = pattern.search(base)
        span = in_name or pattern.search(path)
        assert span is not None
        length = span.end() - span.start()
        scored.append((in_name is None, length, not base.lower().startswith(word.lower()), len(path), path))
    return [score[-1] for score in sorted(scored)[:MAX_SHOWN]]


def list_files(workspace: Path, stop: threading.Event) -> list[str]:
    """The files of a workspace that `.gitignore` does not exclude, relative to it; none if they cannot be listed."""
    from jaato.tools.cancel import CancelToken
    from jaato.tools.filesystem.containment import Roots
    from jaato.tools.processes.ripgrep import Ripgrep, SearchLimits, Selection

    token = CancelToken()
    if stop.is_set():
        return []
    try:
        limits = SearchLimits(token)
        limits.ends_at = min(limits.ends_at, limits.ends_at - limits.left_s + LIST_S)
        names = Ripgrep(Roots(workspace)).files(Selection("."), limits)
    except (JaatoError, OSError):
        return []
    return [
        name for name in names[:MAX_FILES] if one_line(name, 1_000) == name and not re.search(r"\s", name)
    ]
