"""Which git commands only read, in a repository whose configuration starts no program."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from jaato.tools.shell_words import Word

MAX_CONFIG_BYTES = 262_144
MAX_INDEX_BYTES = 16_777_216
HOOK = "hooks/post-index-change"
"""What git runs when a reading command refreshes the index."""
GITLINK = b"\x00\x00\xe0\x00"

LOG = frozenset(
    "oneline graph decorate no-decorate all branches tags remotes stat shortstat numstat name-only "
    "name-status patch "
    "no-patch pretty format abbrev-commit no-abbrev-commit max-count skip since until after before "
    "author committer "
    "grep all-match invert-grep regexp-ignore-case merges no-merges first-parent reverse date follow "
    "summary dirstat "
    "date-order topo-order author-date-order relative-date raw color no-color unified word-diff "
    "cached staged "
    "diff-filter minimal patience histogram ignore-all-space ignore-space-change ignore-blank-lines "
    "function-context "
    "find-renames find-copies abbrev exit-code quiet check full-index binary no-renames no-ext-diff "
    "no-textconv "
    "name-rev left-right cherry-mark boundary source left-only right-only merge-base text relative".split()
)
COMMANDS: dict[str, tuple[str, frozenset[str]]] = {
    # subcommand: short options that may appear, long options that may appear
    "status": (
        "sbuvz",
        frozenset("short branch porcelain long verbose untracked-files ignored show-stash".split()),
    ),
    "log": ("npqsSGiLEFMCwbzUtcm0123456789", LOG),
    "show": ("npqsMCwbzUtcm0123456789", LOG),
    "diff": ("pqsMCwbzUaRt0123456789", LOG),
    "shortlog": ("nsec0123456789", frozenset("numbered summary email group".split())),
    "blame": (
        "bcelLnpstwMC",
        frozenset("porcelain line-porcelain show-email show-name show-number date".split()),
    ),
    "ls-files": (
        "cdmoiszutvk",
        frozenset("cached deleted modified others ignored stage exclude-standard".split()),
    ),
    "ls-tree": ("drtlz", frozenset("long name-only name-status full-name full-tree".split())),
    "rev-parse": (
        "",
        frozenset(
            "abbrev-ref short verify show-toplevel is-inside-work-tree git-dir symbolic all branches".split()
        ),
    ),
    "rev-list": (
        "n0123456789",
        frozenset("count all max-count left-right since until no-merges merges".split()),
    ),
    "describe": ("", frozenset("all tags always dirty abbrev long match contains".split())),
    "merge-base": ("a", frozenset("all is-ancestor fork-point octopus".split())),
    "cat-file": ("tpse", frozenset()),
    "grep": (
        "niIwvlLhHcEFGPeABC0123456789",
        frozenset("line-number ignore-case count cached word-regexp".split()),
    ),
}
VALUED = {
    "log": "nSGLMCU",
    "show": "nSGLMCU",
    "diff": "SGLMCU",
    "grep": "ABCme",
    "blame": "LMC",
    "status": "u",
}
"""The short options that take a value, by subcommand."""
LISTING = {
    # subcommand: what may follow, so that it lists and changes nothing
    "branch": re.compile(
        r"(-a|-r|-v|-vv|-l|--list|--all|--remotes|--show-current|--no-color|--verbose)( \1)*"
    ),
    "tag": re.compile(r"-l|--list|-n\d*"),
    "remote": re.compile(r"-v|--verbose"),
    "stash": re.compile(r"list"),
    "worktree": re.compile(r"list|--porcelain"),
    "config": re.compile(r"--list|-l|--local"),
}
BRANCH_WORDS = frozenset(
    "-a -r -v -vv -l -av -avv --list --all --remotes --show-current --no-color --verbose".split()
)
EXECUTES = re.compile(
    rb"fsmonitor|hookspath|sshcommand|gitproxy|pager|external|textconv|\bfilter\b|\bclean\b|smudge|process|editor|"
    rb"askpass|gpg|showsignature|helper|uploadpack|promisor|partialclone|include|worktreeconfig|\bworktree\b|"
    rb"\bcommand\b|alternate|attributesfile|\bdriver\b|\bcmd\b|\bvcs\b",
    re.IGNORECASE,
)
"""Words of a git configuration by which a reading command can be made to run something."""


def git_doubt(words: tuple[Word, ...], places: tuple[str, ...]) -> str | None:
    """Why this git command may do more than read; None when it reads only."""
    rest = list(words)
    while rest and rest[0].literal in ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"):
        rest.pop(0)
    if not rest:
        return "git without a subcommand"
    command = rest.pop(0).literal
    if command in LISTING:
        doubt = listing_doubt(command, rest)
    elif command in COMMANDS:
        doubt = flags_doubt(command, rest)
    else:
        doubt = f"git {command} is not known to read only"
    if doubt:
        return doubt
    return next((found for place in places if (found := repository_doubt(place))), None)


def listing_doubt(command: str, words: list[Word]) -> str | None:
    """Why a command that can list may change something here."""
    values = [word.literal or "?" for word in words]
    if command == "branch":
        bad = next((value for value in values if value not in BRANCH_WORDS), None)
        return None if bad is None else f"git branch {bad} may change something"
    if command in ("stash", "worktree", "config") and not values:
        return f"git {command} may change something"
    bad = next((value for value in values if not LISTING[command].fullmatch(value)), None)
    return None if bad is None else f"git {command} {bad} may change something"


def flags_doubt(command: str, words: list[Word]) -> str | None:
    """Why an option of a reading command may do more."""
    short, long = COMMANDS[command]
    valued = VALUED.get(command, "")
    for word in words:
        text = word.value
        if text is None:
            return f"{word.text} is computed by the shell"
        if text == "--":
            return None
        if text.startswith("--"):
            if text[2:].partition("=")[0] not in long or word.glob:
                return f"git {command} {text} is not known to read only"
        elif text.startswith("-") and len(text) > 1 and (word.glob or not bundled(text[1:], short, valued)):
            return f"git {command} {text} is not known to read only"
    return None


def bundled(letters: str, short: str, valued: str) -> bool:
    """Whether a group of short options holds known ones only, up to one that takes the rest as its value."""
    for letter in letters:
        if letter not in short:
            return False
        if letter in valued:
            return True
    return True


def repository_doubt(place: str) -> str | None:
    """Why a reading git command in this directory may run a program: the repository's own configuration."""
    found = repository(os.path.realpath(place))
    if found is None:
        return None
    for path in found:
        if path.endswith(HOOK) and os.path.lexists(path):
            return f"{path} would be run"
        try:
            state = os.stat(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{path} cannot be read ({error.strerror})"
        if doubt := content_doubt(path, state.st_mtime_ns, state.st_size, state.st_ino):
            return doubt
    return None


def repository(place: str) -> list[str] | None:
    """The files that decide what git does in this directory: configurations and the index."""
    current = place
    while True:
        dot_git = os.path.join(current, ".git")
        if os.path.isdir(dot_git):
            return settings_of(dot_git)
        if os.path.isfile(dot_git):
            return linked(dot_git)
        if all(os.path.exists(os.path.join(current, name)) for name in ("HEAD", "objects", "refs")):
            return settings_of(current)
        parent = os.path.dirname(current)
        if parent == current:
            return None
        current = parent


def linked(dot_git: str) -> list[str]:
    """The same for a linked worktree, whose `.git` is a file that names a directory."""
    text = Path(dot_git).read_bytes()[:4096].decode("utf-8", "replace").strip()
    directory = os.path.join(os.path.dirname(dot_git), text.removeprefix("gitdir:").strip())
    shared = os.path.join(directory, "commondir")
    if not os.path.isfile(shared):
        return settings_of(directory)
    common = os.path.join(directory, Path(shared).read_bytes()[:4096].decode("utf-8", "replace").strip())
    return [*settings_of(directory), *settings_of(common)]


def settings_of(directory: str) -> list[str]:
    """The files of one repository directory that matter."""
    return [os.path.join(directory, name) for name in ("config", "config.worktree", "index", HOOK)]


@functools.lru_cache(maxsize=64)
def content_doubt(path: str, _mtime_ns: int, size: int, _inode: int) -> str | None:
    """What in this file may make git run a program."""
    is_index = path.endswith("/index")
    if size > (MAX_INDEX_BYTES if is_index else MAX_CONFIG_BYTES):
        return f"{path} is too large to look at"
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    if is_index:
        return (
            "the repository has submodules, whose own configuration git would follow"
            if GITLINK in content
            else None
        )
    if found := EXECUTES.search(content):
        return f"{path} mentions {found[0].decode('ascii', 'replace')}, by which git may run a program"
    return None
