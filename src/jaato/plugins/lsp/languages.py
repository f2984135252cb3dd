"""Chooses the language server for a file: the built-in table and the user's settings."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from jaato.errors import ConfigError, ToolError
from jaato.tools.processes.environment import find_program, is_inside, split_search_path


class NoServer(ToolError):
    """No language server is there for the file."""

    code = "no_language_server"


@dataclass(frozen=True)
class Language:
    """A language: which identifier its files have by their suffix, and the commands that may serve it, the best first.

    One whose servers run what a workspace contains (`runs_workspace`) is used only when the user has named it. With
    `knows_shown` they know only the files they were shown.
    """

    name: str
    suffixes: Mapping[str, str]
    commands: tuple[tuple[str, ...], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    runs_workspace: str = ""
    knows_shown: bool = False
    named: bool = False


SCRIPTS = {
    ".ts": "typescript",
    ".tsx": "typescriptreact",
    ".mts": "typescript",
    ".cts": "typescript",
    ".js": "javascript",
    ".jsx": "javascriptreact",
    ".mjs": "javascript",
    ".cjs": "javascript",
}
C_FAMILY = {
    ".c": "c",
    ".h": "c",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".cxx": "cpp",
    ".hpp": "cpp",
    ".hh": "cpp",
    ".m": "objective-c",
}
OFF = {"enabled": False}
ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")

KNOWN = (
    Language(
        "python",
        {".py": "python", ".pyi": "python"},
        (
            ("basedpyright-langserver", "--stdio"),
            ("pyright-langserver", "--stdio"),
            ("pylsp",),
            ("jedi-language-server",),
        ),
        settings={
            "python": {"analysis": {"diagnosticMode": "openFilesOnly", "autoSearchPaths": True}},
            "basedpyright": {"analysis": {"diagnosticMode": "openFilesOnly", "typeCheckingMode": "standard"}},
            "pylsp": {
                "configurationSources": [],
                "plugins": {"flake8": OFF, "pylint": OFF, "pylsp_mypy": OFF, "black": OFF, "ruff": OFF},
            },
        },
    ),
    Language(
        "c",
        C_FAMILY,
        (("clangd", "--background-index=0", "--enable-config=0", "--log=error"),),
        knows_shown=True,
    ),
    Language(
        "go",
        {".go": "go"},
        (("gopls", "serve"),),
        environment={
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly",
            "GOPROXY": "off",
        },
    ),
    Language(
        "typescript",
        SCRIPTS,
        (("typescript-language-server", "--stdio"),),
        runs_workspace="it loads the TypeScript and the plugins of the workspace's node_modules",
    ),
    Language(
        "rust",
        {".rs": "rust"},
        (("rust-analyzer",),),
        settings={
            "rust-analyzer": {
                "cargo": {"buildScripts": {"enable": False}},
                "procMacro": {"enable": False},
                "checkOnSave": False,
            }
        },
        runs_workspace="it runs cargo, which runs what the workspace's configuration names",
    ),
)


def load_languages(named: Iterable[str]) -> list[Language]:
    """The known languages, changed and added to by the user's list. Raises `ConfigError`.

    An entry is a known language (`rust`), one with a command (`python=pylsp`), or a new one (`zig:.zig=zls`).
    """
    found = {language.name: language for language in KNOWN}
    for entry in named:
        head, _, command = entry.partition("=")
        name, _, suffixes = head.strip().partition(":")
        known = found.get(name)
        try:
            argv = tuple(shlex.split(command))
        except ValueError as error:
            raise ConfigError(f"language_servers: {entry!r} cannot be read: {error}.") from None
        ids = {suffix.strip(): name for suffix in suffixes.split(",") if suffix.strip()}
        if not name or (known is None and not (ids and argv)) or any(not s.startswith(".") for s in ids):
            raise ConfigError(
                f"language_servers: {entry!r} is not understood. Write a known language (rust), one with a command "
                "(python=pylsp), or a new one with its suffixes (zig:.zig=zls)."
            )
        changed = known or Language(name, {}, ())
        found[name] = replace(
            changed,
            suffixes={**changed.suffixes, **ids},
            commands=(argv,) if argv else changed.commands,
            named=True,
        )
    return list(found.values())


def find_language(path: str, known: Sequence[Language]) -> Language:
    """The language of a file; the user's setting comes first. Raises `NoServer`."""
    suffix = PurePosixPath(path).suffix.lower()
    for language in sorted(known, key=lambda one: not one.named):
        if suffix in language.suffixes:
            return language
    raise NoServer(
        f"No language server is known for {suffix or 'files without suffix'}. The user can name one in "
        "language_servers; grep_content and ast_search work without."
    )


def find_command(language: Language, environ: Mapping[str, str], roots: Iterable[Path]) -> list[str]:
    """The command of the first server that is installed outside the session's directories. Raises `NoServer`."""
    if language.runs_workspace and not language.named:
        raise NoServer(
            f"The language server for {language.name} is not started by itself, because {language.runs_workspace}. The "
            f'user can allow it: language_servers = ["{language.name}"] in config.toml.'
        )
    refused = [root.resolve() for root in roots]
    for argv in language.commands:
        program = find_server_program(argv[0], environ, refused, by_user=language.named)
        if program is not None:
            return [program, *argv[1:]]
    wanted = " or ".join(argv[0] for argv in language.commands)
    raise NoServer(
        f"The language server for {language.name} is not installed: {wanted} is not on the PATH outside the workspace."
    )


def find_server_program(
    name: str, environ: Mapping[str, str], refused: Sequence[Path], *, by_user: bool
) -> str | None:
    """The program on the PATH of absolute directories, or beside jaato's own Python; never one the session may write."""
    if os.path.isabs(name):
        return name if by_user and os.access(name, os.X_OK) else None
    if "/" in name:
        return None
    path = (*split_search_path(environ.get("PATH")), str(Path(sys.executable).parent))
    return find_program(name, path, refused)


def environment_of(environ: Mapping[str, str], roots: Iterable[Path]) -> dict[str, str]:
    """The environment without a virtual environment that the session may write: servers run the Python in it."""
    refused = [root.resolve() for root in roots]
    return {
        name: value
        for name, value in environ.items()
        if name not in ENVIRONMENTS or not value or not is_inside(Path(value), refused)
    }


def settings_of(language: Language, environ: Mapping[str, str], roots: Iterable[Path]) -> dict[str, Any]:
    """The settings that the server may request: a Python that is not one of the workspace, which it would run."""
    settings = {key: dict(value) for key, value in language.settings.items()}
    if language.name == "python":
        refused = [root.resolve() for root in roots]
        python = find_server_program("python3", environ, refused, by_user=False) or sys.executable
        settings["python"] = {
            **settings.get("python", {}),
            "pythonPath": python,
            "defaultInterpreterPath": python,
        }
    return settings
