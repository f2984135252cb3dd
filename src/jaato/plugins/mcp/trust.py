"""Which servers may start: of those a workspace names the ones whose entry and programs a person has vouched for."""

from __future__ import annotations

import os
import re
from pathlib import Path

from jaato.plugins.mcp.config import ServerConfig, describe_sandbox
from jaato.tools.filesystem.atomic import read_bounded
from jaato.tools.invisible_text import escape_all
from jaato.tools.permissions.trust import content_hash
from jaato.tools.remote.sources import resolve_links
from jaato.tools.remote.trust import SourceTrust, odd_letters

PROGRAMS = frozenset(
    ".bash .bat .cjs .cmd .exe .fish .jar .js .jsx .lua .mjs .mts .php .pl .ps1 .py .pyz .rb .sh .ts .tsx .wasm .zsh".split()
)
"""How files that are run are called."""
IMPLIED = (".py", ".js", ".cjs", ".mjs", ".ts", ".sh")
"""What an interpreter adds to a name."""
ENTRIES = ("__main__.py", "__init__.py", "index.js", "index.cjs", "index.mjs", "index.ts")
"""What of a folder is run."""
RECIPES_OF = {
    "run": ("package.json", "deno.json"),
    "start": ("package.json",),
    "yarn": ("package.json",),
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "compose": ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"),
    "docker-compose": ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"),
}
"""Words of a command line that run what a file of the project says."""
RECIPES = frozenset(name for names in RECIPES_OF.values() for name in names)
DOTTED = re.compile(r"\w+(?:\.\w+)*")
MAX_PROGRAM_BYTES = 16_777_216
MAX_PROGRAMS = 20
MAX_WORDS = 2_000
SPLIT = re.compile(r"[\s;&|()<>=\"'`{}$,]+|:-")


class ServerTrust(SourceTrust[ServerConfig]):
    """Trust in the servers of workspaces: in the entry, byte for byte, and in the content of each program in the workspace
    that it starts."""

    def content(self, config: ServerConfig) -> bytes:
        """All that trust in a server is bound to. Raises `ConfigError` when a program is too big to be read."""
        lines = [super().content(config).decode()]
        lines += [f"{path} {program_hash(path)}" for path in referenced_programs(config)]
        return "\n".join(lines).encode("utf-8", "surrogatepass")

    def describe(self, config: ServerConfig) -> list[tuple[str, str]]:
        """What a person must see before trusting a server: exactly what runs or is reached, and what it is given."""
        rows: list[tuple[str, str]] = []
        if config.kind == "stdio":
            rows.append(("runs", " ".join(quoted(part) for part in (config.command, *config.args))))
            rows.append(("in", escape_all(config.cwd) if config.cwd else "the workspace"))
            rows.append(("sandbox", describe_sandbox(config)))
            rows += [
                ("with", f"{escape_all(name)}={escape_all(value)}") for name, value in config.env.items()
            ]
            paths = referenced_programs(config)
            rows += [("program", f"{escape_all(str(path))} {program_hash(path)[:19]}") for path in paths]
        else:
            rows.append(("reaches", f"{escape_all(config.url)} ({config.kind})"))
        login = [
            ("login", f"{escape_all(key)}: {escape_all(str(value))}") for key, value in config.oauth.items()
        ]
        return rows + login + super().describe(config)

    def warnings(self, config: ServerConfig) -> list[str]:
        """What a person could overlook in an entry, loaders among it."""
        found = [f"{name} decides which code is loaded" for name in config.env if name.upper() in LOADERS]
        return found + [text for text in map(odd_letters, config.env) if text] + super().warnings(config)


def program_hash(path: Path) -> str:
    """The hash of a program; of one that has gone, that. Raises `ConfigError`."""
    content = read_bounded(path, MAX_PROGRAM_BYTES)
    return content_hash(content) if content is not None else "absent"


def referenced_programs(config: ServerConfig) -> list[Path]:
    """The files in the workspace that a server's command line names and that are run: an exchange of one is a change."""
    if config.kind != "stdio":
        return []
    workspace = resolve_links(config.origin.parent)
    found: dict[Path, None] = {}
    for directory in directories(config, workspace):
        for text, is_command in words_of(config):
            for path in (resolve_links(directory / text), *modules(directory, text)):
                if path == workspace or not path.is_relative_to(workspace) or path.is_dir():
                    continue
                if (
                    is_command
                    or path.suffix.lower() in PROGRAMS
                    or path.name in RECIPES
                    or is_executable(path)
                ):
                    found[path] = None
    return list(found)[:MAX_PROGRAMS]


def directories(config: ServerConfig, workspace: Path) -> list[Path]:
    """Where a server may run: what a variable stands for is not known here, so what follows it counts from the workspace."""
    found = [workspace / config.cwd, workspace / Path(config.cwd).expanduser()]
    if "${" in config.cwd:
        found += [workspace, workspace / config.cwd.rpartition("}")[2].lstrip("/")]
    return list(dict.fromkeys(found))


def modules(directory: Path, text: str) -> list[Path]:
    """The files that an interpreter finds under a name that is none of a file: `-m package.module`, `node folder`, `make`."""
    found = [directory / recipe for recipe in RECIPES_OF.get(text.rpartition("/")[2], ())]
    name = text.partition(":")[0]
    for stem in dict.fromkeys((name, name.replace(".", "/") if DOTTED.fullmatch(name) else name)):
        place = directory / stem
        found += [place.with_name(place.name + suffix) for suffix in IMPLIED if place.name]
        found += [place / entry for entry in ENTRIES] if place.is_dir() else []
    return [path for path in map(resolve_links, found) if path.is_file()]


def words_of(config: ServerConfig) -> list[tuple[str, bool]]:
    """What in a command line could be a path, and whether it is the command: whole parts, and the words within them."""
    found = [(config.command, True)] if os.sep in config.command else []
    for text in (config.command, *config.args):
        words = SPLIT.split(text)
        relative = [word.lstrip("/") for word in words if "${" in text]  # what follows a variable
        found += [(word, False) for word in (text, *words, *relative) if word]
    return list(dict.fromkeys(found))[:MAX_WORDS]


def is_executable(path: Path) -> bool:
    """Whether a regular file that can be started."""
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def quoted(text: str) -> str:
    """A part of a command line as a shell would need it written, with nothing hidden."""
    import shlex

    return shlex.quote(escape_all(text))


LOADERS = frozenset(
    "BASH_ENV DYLD_INSERT_LIBRARIES ENV GIT_SSH_COMMAND LD_AUDIT LD_LIBRARY_PATH LD_PRELOAD NODE_OPTIONS PATH PERL5OPT "
    "PYTHONHOME PYTHONPATH PYTHONSTARTUP RUBYOPT".split()
)
