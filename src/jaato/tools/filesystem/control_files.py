"""Control files, which decide what runs or what is allowed: whether a path is one, so that no wide grant covers it."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import itertools
import os
import pwd
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from jaato.errors import ConfigError
from jaato.lazy_pattern import lazy_pattern
from jaato.tools.filesystem.atomic import resolve_path

Tier = Literal[1, 2]

AGENTS = """
.jaato .mcp.json .claude .cursor .codex .gemini .opencode opencode.json opencode.jsonc .windsurf .continue .aider.conf.yml
.roo .kiro .amazonq .junie .augment .trae .qwen .crush .crush.json crush.json .goose .clinerules .factory .kilocode .amp .pi
.github/hooks
""".split()
"""Agents: permissions, hooks and servers that they start."""

EDITORS = """
.vscode .idea .zed .fleet .vs .devcontainer .devcontainer.json *.code-workspace *.sublime-project .dir-locals.el .dir-locals-2.el
.emacs .emacs.d .nvim.lua .nvimrc .exrc .vimrc .gvimrc _vimrc _exrc _gvimrc .vim .vimspector.json .helix .kak .kakrc
.config/nvim .config/zed .config/helix
""".split()
"""Editors: tasks, interpreters and scripts that they run when the directory is opened."""

GIT = ".git .gitconfig .hg .hgrc .jj .config/git".split()
"""Version control: `.git` holds the configuration and the hooks; the sandbox decides what of it commands may change."""

TOOLS = """
.envrc .npmrc .yarnrc* .pypirc pip.conf pip.ini .netrc _netrc .pdbrc .pdbrc.py .gdbinit .lldbinit .lldbinit-* .inputrc .editrc
.curlrc _curlrc .wgetrc .tmux.conf .screenrc .irbrc .pryrc .Rprofile .Renviron .psqlrc .sqliterc .my.cnf .mylogin.cnf .ssh
.config/jaato .config/pip .config/fish .config/environment.d .config/autostart .config/systemd .config/gdb
""".split()
"""Tools that read a file of the current directory or the home as soon as they start, with commands or addresses in it."""

SHELLS = """
.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .login .logout .zshrc .zshenv .zprofile .zlogin .zlogout
.kshrc .mkshrc .cshrc .tcshrc .xprofile .xinitrc .xsession .xsessionrc .pam_environment config.fish
""".split()
"""Shells and sessions: run at every login."""

FIRST = (*AGENTS, *EDITORS, *GIT, *TOOLS, *SHELLS)
"""Tier 1: decides what runs, or what is allowed, without being asked for."""

INTERPRETERS = """
*.pth sitecustomize.py usercustomize.py pyvenv.cfg node_modules/.bin .venv/bin .venv/Scripts venv/bin venv/Scripts
.pnpmfile.cjs .cargo/config .cargo/config.toml .bazelrc mise.toml .mise.toml
""".split()
"""What an interpreter or a package manager runs beside the program that was asked for."""

HOOKS = """
.husky .huskyrc .githooks .lefthook lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml .pre-commit-config.yaml
.pre-commit-config.yml .pre-commit-hooks.yaml .gitattributes .gitmodules
""".split()
"""What git hooks run, and what git reads from the tree itself."""

PIPELINES = """
.github/workflows .github/actions .forgejo/workflows .forgejo/actions .gitea/workflows .gitea/actions .gitlab-ci.yml .gitlab/ci
.circleci .buildkite .woodpecker .woodpecker.yml .woodpecker.yaml .drone.yml .travis.yml .cirrus.yml .appveyor.yml appveyor.yml
azure-pipelines.yml bitbucket-pipelines.yml Jenkinsfile cloudbuild.yaml cloudbuild.yml .semaphore .tekton
""".split()
"""Continuous integration: runs elsewhere, with other rights and secrets."""

SECOND = (*INTERPRETERS, *HOOKS, *PIPELINES)
"""Tier 2: runs code too, but ordinary work writes it (`pip install`, `npm install`)."""

IGNORED = dict.fromkeys(
    [0x200C, 0x200D, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF], None
)
WILD = lazy_pattern(r"[*?\[]")
MAX_NAMES = 500


def fold_name(name: str) -> str:
    """The name as a file system that ignores case, trailing dots or invisible characters has it."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name).translate(IGNORED)
    name = name.casefold().split(":", 1)[0].rstrip(" .") if name not in (".", "..") else name
    return ".git" if name == "git~1" else name


class TierNames(msgspec.Struct, frozen=True):
    """The names of one tier, folded: `plain` count at any depth, and so do `globs`; `paths` are several names in a row."""

    plain: frozenset[str]
    globs: re.Pattern[str] | None
    paths: tuple[tuple[str, ...], ...]
    begins: frozenset[str] = frozenset()
    globbed: bool = False
    """How the names in a row begin, and whether one begins with a pattern."""

    @classmethod
    def of(cls, written: Iterable[str]) -> TierNames:
        """Sort what was written into the three kinds."""
        plain: set[str] = set()
        globs: list[str] = []
        paths: list[tuple[str, ...]] = []
        for name in written:
            parts = tuple(part.casefold() for part in name.split("/") if part)
            if len(parts) > 1:
                paths.append(parts)
            elif WILD.search(parts[0]):
                globs.append(fnmatch.translate(parts[0]))
            else:
                plain.add(fold_name(parts[0]))
        begins = frozenset(path[0] for path in paths)
        pattern = re.compile("|".join(globs)) if globs else None
        return cls(frozenset(plain), pattern, tuple(paths), begins, any(map(WILD.search, begins)))

    def has(self, name: str) -> bool:
        """Whether one folded name is among those that count at any depth."""
        return name in self.plain or (self.globs is not None and self.globs.match(name) is not None)

    def match(self, names: Sequence[str]) -> bool:
        """Whether a folded path is, or lies below, one of these."""
        if not self.plain.isdisjoint(names):
            return True
        if self.globs is not None and any(map(self.globs.match, names)):
            return True
        return any(
            match_names(path, names[start : start + len(path)])
            for path in self.paths
            for start in range(len(names) - len(path) + 1)
        )

    def holds(self, names: Sequence[str]) -> bool:
        """Whether a folded path ends like the beginning of one of several names, so that a directory moved there
        brings one."""
        return any(
            match_names(path[:size], names[-size:])
            for path in self.paths
            for size in range(1, len(path))
            if size <= len(names)
        )


def match_names(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Whether names match patterns one by one."""
    return len(pattern) == len(names) and all(
        one == name or (WILD.search(one) is not None and fnmatch.fnmatchcase(name, one))
        for one, name in zip(pattern, names, strict=True)
    )


class ControlNames(msgspec.Struct, frozen=True):
    """The names of both tiers."""

    first: TierNames
    second: TierNames
    more: tuple[str, ...] = ()
    """What the setting `control_files` adds."""


@functools.lru_cache(maxsize=32)
def control_names(more: tuple[str, ...] = ()) -> ControlNames:
    """The names that always count and those of the setting `control_files`: `NAME`, `GLOB` or `DIR/NAME`, with `tier2:`
    in front for the second tier. Raises `ConfigError` for one that cannot be a name."""
    first, second = list(FIRST), list(SECOND)
    if len(more) > MAX_NAMES:
        raise ConfigError(f"control_files has {len(more)} names; at most {MAX_NAMES} are possible.")
    for written in more:
        tier2 = written.startswith("tier2:")
        name = written.removeprefix("tier2:").removeprefix("tier1:").strip().strip("/")
        parts = name.split("/")
        if not name or "\0" in name or any(part in ("", ".", "..", "*", "**") for part in parts):
            raise ConfigError(
                f"control_files: {written!r} is no name of a control file. Write a name, a glob or DIR/NAME relative "
                "to the workspace, such as deploy.sh, *.tf or tier2:ops/run.sh."
            )
        (second if tier2 else first).append(name)
    return ControlNames(TierNames.of(first), TierNames.of(second), more)


STANDARD = control_names(())


ControlChange = Callable[[str], contextlib.AbstractContextManager[None]]
"""What a permitted change of a control file is made in, given its absolute path."""

ORDERS = frozenset({"config", "config.worktree", "hooks"})
"""What git obeys in a repository's own directory."""

SYSTEM = lazy_pattern(r"etc/(?:profile|bash\.bashrc|bashrc|zsh|gitconfig|environment|ld\.so\.preload|cron)")
NAMES = (*sorted(STANDARD.first.plain), ".config")
MAX_ENTRIES = 20_000
MAX_PATH_CHARS = 4_096


def run_unwatched(_path: str) -> contextlib.AbstractContextManager[None]:
    """Change it; nothing watches for control files here."""
    return contextlib.nullcontext()


def names_control(parts: Sequence[str], names: ControlNames = STANDARD, tiers: Tier = 2) -> bool:
    """Whether this path, by its names alone, is a control path of the first tier, or of the first two."""
    written = [fold_name(part) for part in parts]
    if not written:
        return False
    if parts[-1] == "HEAD" or written[-1] == ".config":
        return True  # a HEAD makes a directory a bare git repository, with a config and hooks of its own
    if names.first.match(written) or (tiers == 2 and names.second.match(written)):
        return True
    # in a directory called like a bare repository, `x.git`, git reads orders
    return any(name.endswith(".git") and below in ORDERS for name, below in itertools.pairwise(written))


def is_beside(root: Path, parts: Sequence[str], names: Collection[str], marker: str) -> bool:
    """Whether the resolved path goes through one of these names in a directory that also holds the marker."""
    return any(
        fold_name(part) in names and (root.joinpath(*parts[:index]) / marker).exists()
        for index, part in enumerate(parts)
    )


def in_virtual_environment(root: Path, parts: Sequence[str]) -> bool:
    """Whether the resolved path lies among the programs of a Python environment, whatever its name."""
    return is_beside(root, parts, ("bin", "scripts"), "pyvenv.cfg")


def in_control_directory(root: Path, parts: Sequence[str]) -> bool:
    """Whether the resolved path is control by what lies beside it: in what git takes for a bare repository, or in a Python
    environment."""
    return is_beside(root, parts, ORDERS, "HEAD") or in_virtual_environment(root, parts)


def is_linked_control(info: os.stat_result, roots: Sequence[Path], names: ControlNames = STANDARD) -> bool:
    """Whether a file with several links is a control file; also when there is too much to search."""
    if not stat.S_ISREG(info.st_mode) or info.st_nlink < 2:
        return False
    wanted = (info.st_dev, info.st_ino)
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for path in (home / name for name in names.first.plain):
        try:
            found = os.lstat(path)
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == wanted:
            return True
    left = MAX_ENTRIES
    for root in roots:
        for path, inode in walk_with_inodes(root):
            left -= 1
            if left < 0:
                return True
            if inode == info.st_ino and names_control(path.relative_to(root).parts, names):
                return True
    return False


def walk_with_inodes(root: Path) -> Iterator[tuple[Path, int]]:
    """Everything below a directory with its inode number, links not followed."""
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as listing:
                for entry in listing:
                    yield directory / entry.name, entry.inode()
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(directory / entry.name)
        except OSError:
            continue


def has_control_name(path: str, names: ControlNames = STANDARD, tiers: Tier = 1) -> bool:
    """Whether the path as written goes through a control name."""
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    return names_control(parts, names, tiers) or ("etc" in parts and SYSTEM.search(path) is not None)


def control_path(
    path: str,
    place: str,
    protected: Iterable[Path] = (),
    *,
    names: ControlNames = STANDARD,
    tiers: Tier = 1,
) -> str | None:
    """Which control path a path means: as written, normalised, through links, by identity; None when it
    means none.

    `place` is the workspace, to which it is relative; `protected` are directories whose whole content counts as
    control. A pattern means what it may match. `tiers` says whether the second tier counts too.
    """
    if not path or len(path) > MAX_PATH_CHARS or "\0" in path:
        return None
    if any(
        WILD.search(part) is not None and any(fnmatch.fnmatch(name, part) for name in NAMES)
        for part in path.split("/")
    ):
        return path
    written = os.path.join(place, os.path.expanduser(path) if path.startswith("~") else path)
    inside = path if not os.path.isabs(path) else os.path.relpath(written, place)
    if has_control_name(inside, names, tiers) or has_control_name(os.path.normpath(inside), names, tiers):
        return path
    real = resolve_path(written)
    below = os.path.relpath(real, resolve_path(place))
    if has_control_name(below, names, tiers):
        return below
    if tiers == 2 and in_virtual_environment(Path(resolve_path(place)), Path(below).parts):
        return below
    for directory in protected:
        if real == str(directory) or real.startswith(f"{directory}/"):
            return path
    return is_same_inode(real, resolve_path(place))


def holds_workspace(path: str, place: str, root: str) -> bool:
    """Whether a path is the workspace or a directory above it, so that changing it changes every control
    path."""
    real, root = resolve_path(os.path.join(place, path)), resolve_path(root)
    return root == real or root.startswith(real.rstrip("/") + "/")


def is_same_inode(real: str, root: str) -> str | None:
    """Whether the path, or a directory above it, is a control file under another name: a hard link, a bind
    mount."""
    home = os.path.expanduser("~")
    seen = (f"{root}/{one}" for one in ("", ".git", ".git/hooks", ".jaato"))
    identities = control_identities(root, home, tuple(mtime_of_directory(one) for one in (*seen, home)))
    if not identities:
        return None
    current = real
    while current.startswith(root) and current != root:
        try:
            state = os.stat(current)
        except (OSError, ValueError):
            state = None
        if state is not None and (found := identities.get((state.st_dev, state.st_ino))) is not None:
            return found
        current = os.path.dirname(current)
    return None


def mtime_of_directory(directory: str) -> int:
    """When a directory last gained or lost an entry; 0 when there is none."""
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=16)
def control_identities(root: str, home: str, _changed: tuple[int, ...]) -> dict[tuple[int, int], str]:
    """The device and inode of each control file and directory that exists in a workspace, and of those of the home, which
    may be links to what is there."""
    names = [*NAMES, ".git/config", ".git/hooks"]
    for directory in (".git/hooks", ".jaato"):
        try:
            names += [f"{directory}/{entry}" for entry in os.listdir(os.path.join(root, directory))[:200]]
        except OSError:
            continue
    found: dict[tuple[int, int], str] = {}
    for path, name in (
        *((f"{home}/{one}", f"~/{one}") for one in NAMES),
        *((f"{root}/{one}", one) for one in names),
    ):
        try:
            state = os.stat(path)
        except OSError:
            continue
        found[state.st_dev, state.st_ino] = name
    return found
