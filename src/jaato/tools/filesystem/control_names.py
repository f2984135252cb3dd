"""Names of control files in two tiers, and matching a path against them."""

from __future__ import annotations

import fnmatch
import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from jaato.errors import ConfigError

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
"""Version control: `.git` holds the configuration and the hooks; what of it commands may change is told apart by the sandbox."""

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
"""Tier 1: decides what runs, or what is allowed, without anybody asking for it."""

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
WILD = re.compile(r"[*?\[]")
MAX_NAMES = 500


def fold_name(name: str) -> str:
    """The name as a file system that ignores case, trailing dots or invisible characters has it."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name).translate(IGNORED)
    name = name.casefold().split(":", 1)[0].rstrip(" .") if name not in (".", "..") else name
    return ".git" if name == "git~1" else name


@dataclass(frozen=True, slots=True)
class TierNames:
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


@dataclass(frozen=True, slots=True)
class ControlNames:
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


STANDARD = control_names()
