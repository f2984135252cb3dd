"""The environment of commands, without prompts, pagers and provider keys; and finding programs on a PATH."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def find_program(name: str, path: Iterable[str], refused: Sequence[Path] = ()) -> str | None:
    """The first program of this name in absolute directories; None where there is none outside the refused places.

    A program counts as inside a place by its own name, and by where a link leads: both could be changed.
    """
    real = [place.resolve() for place in refused]
    for directory in path:
        found = shutil.which(name, path=directory) if os.path.isabs(directory) else None
        if found is not None and not is_inside(Path(found), real):
            return found
    return None


def is_inside(program: Path, places: Iterable[Path]) -> bool:
    """Whether a program lies in one of these real places, by its own name or where a link leads.

    The environment that jaato itself runs from counts as outside, since no command may change it; the root directory
    is no place, since every program lies there.
    """
    both = (program.parent.resolve() / program.name, program.resolve())
    if both[0].is_relative_to(Path(sys.prefix).resolve()):
        return False
    return any(one.is_relative_to(place) for one in both for place in places if place != place.parent)


def split_search_path(path: str | None) -> list[str]:
    """The directories of a `PATH`."""
    return (path or os.defpath).split(os.pathsep)


PROVIDER_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
"""Keys of model providers. `GITHUB_TOKEN` stays, because `gh` and git need it."""

ASKS = ("PAGER", "EDITOR", "ASKPASS")
"""Suffixes of variables that name pagers, editors and password prompts; those without a neutral value are dropped."""

UNSET = ("COLORTERM", "FORCE_COLOR", "CLICOLOR_FORCE", "GPG_TTY", "SSH_TTY")

NEUTRAL = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "EDITOR": "true",  # leaves the text as it was: a commit without a message is refused, a rebase continues
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "SUDO_ASKPASS": "false",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}


def command_environment(
    environment: Mapping[str, str],
    hidden: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment of a command: neutral, without provider keys and `hidden` names; `extra` overrides."""
    gone = {*PROVIDER_KEYS, *UNSET, *hidden}
    kept = {
        name: value for name, value in environment.items() if name not in gone and not name.endswith(ASKS)
    }
    return {**kept, **NEUTRAL, **(extra or {})}
