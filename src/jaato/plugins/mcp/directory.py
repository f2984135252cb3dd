"""The configured servers, their trust and their cached manifests, without starting any.

Of the servers a workspace names those may start whose entry and programs a person has vouched for."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.errors import ConfigError, PermissionDenied
from jaato.lazy_pattern import lazy_pattern
from jaato.plugins.mcp.config import FILE, ServerConfig, describe_sandbox, expand_variables, secrets_in
from jaato.plugins.mcp.errors import ServerUnusable
from jaato.plugins.mcp.manifest import Manifest, ToolEntry, save
from jaato.plugins.mcp.manifest import load as load_manifest
from jaato.plugins.mcp.pins import ManifestReview, Pins
from jaato.plugins.mcp.tools import unusable_reason
from jaato.tools.filesystem.atomic import read_bounded
from jaato.tools.invisible_text import escape_all
from jaato.tools.permissions.trust import content_hash
from jaato.tools.remote.sources import (
    SourceContext,
    SourceDirectory,
    edit_file,
    find_conflict,
    require_entry,
    resolve_links,
    with_marks,
)
from jaato.tools.remote.trust import SourceTrust, odd_letters

if TYPE_CHECKING:
    from jaato.plugins.mcp.config import McpServerOptions
    from jaato.plugins.mcp.oauth.callback import Ask
    from jaato.tools.processes.sandbox.sandbox import Sandbox

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
DOTTED = lazy_pattern(r"\w+(?:\.\w+)*")
MAX_PROGRAM_BYTES = 16_777_216
MAX_PROGRAMS = 20
MAX_WORDS = 2_000
SPLIT = lazy_pattern(r"[\s;&|()<>=\"'`{}$,]+|:-")


class ServerTrust(SourceTrust[ServerConfig]):
    """Trust in the servers of workspaces: in the entry, byte for byte, and in the content of each program in the workspace
    that it starts."""

    def content(self, config: ServerConfig) -> bytes:
        """All that trust in a server is bound to. Raises `ConfigError` when a program is too big to be read."""
        lines = [super().content(config).decode()]
        lines += [f"{path} {program_hash(path)}" for path in find_referenced_programs(config)]
        return "\n".join(lines).encode("utf-8", "surrogatepass")

    def describe(self, config: ServerConfig) -> list[tuple[str, str]]:
        """What a person must see before trusting a server: exactly what runs or is reached, and what it is given."""
        rows: list[tuple[str, str]] = []
        if config.kind == "stdio":
            rows.append(("runs", " ".join(quote(part) for part in (config.command, *config.args))))
            rows.append(("in", escape_all(config.cwd) if config.cwd else "the workspace"))
            rows.append(("sandbox", describe_sandbox(config)))
            rows += [
                ("with", f"{escape_all(name)}={escape_all(value)}") for name, value in config.env.items()
            ]
            paths = find_referenced_programs(config)
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


def find_referenced_programs(config: ServerConfig) -> list[Path]:
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


def quote(text: str) -> str:
    """A part of a command line as a shell would need it written, with nothing hidden."""
    import shlex

    return shlex.quote(escape_all(text))


LOADERS = frozenset(
    "BASH_ENV DYLD_INSERT_LIBRARIES ENV GIT_SSH_COMMAND LD_AUDIT LD_LIBRARY_PATH LD_PRELOAD NODE_OPTIONS PATH PERL5OPT "
    "PYTHONHOME PYTHONPATH PYTHONSTARTUP RUBYOPT".split()
)


class Directory(SourceDirectory[ServerConfig]):
    """The servers of one workspace and its user. Starts nothing.

    `ask` asks the user to log in, if there is one; servers are started under `sandbox`, by default that of the user's
    settings. `given` are servers of the embedding program, which come before those of the files; with `only` there are no
    others.
    """

    def __init__(
        self,
        context: SourceContext,
        *,
        ask: Ask | None = None,
        sandbox: Sandbox | None = None,
        given: Mapping[str, ServerConfig] = MappingProxyType({}),
        only: bool = False,
    ) -> None:
        self._ask = ask
        self._given, self._only = given, only
        self._given_sandbox = sandbox
        self._pins = Pins(context.state_dir)
        self._options: dict[str, McpServerOptions] = {}
        self._reviews: dict[str, ManifestReview | None] = {}
        trust = ServerTrust(context.state_dir, context.trust)
        super().__init__(context, ServerConfig, context.home / FILE, FILE, trust)
        if context.trust is not None:
            self._pins.hold(self.sources.values())

    def reload(self) -> None:
        """Read the configuration again."""
        super().reload()
        if self._only:
            self.sources, self.problems = {}, ()
        if self._given:
            own = with_marks(self._given.values())
            others = {name: one for name, one in self.sources.items() if find_conflict(own, one) is None}
            self.sources = {**self._given, **others}
        self._options.clear()
        self._reviews.clear()

    @functools.cached_property
    def _sandbox(self) -> Sandbox:
        from jaato.tools.processes.sandbox.sandbox import Sandbox

        context = self.context
        return self._given_sandbox or Sandbox(
            context.workspace,
            environ=context.environ,
            private=(context.state_dir,),
            allow_hosts=context.allow_hosts,
        )

    def entry(self, name: str) -> ServerConfig:
        """The configuration of a server. Raises `ServerUnusable`, naming those there are."""
        try:
            return self.get_enabled(name)
        except ConfigError as error:
            raise ServerUnusable(str(error)) from None

    def switch(self, name: str, *, disabled: bool) -> str:
        """Disable a server, or enable it again, in the file that configures it and in this directory; returns what was done.
        It needs trust as before. Blocks. Raises `ServerUnusable`, `ConfigError`, OSError."""
        config = self.get_configured(name)
        if config.scope == "argument":
            raise ServerUnusable(
                f"The MCP server {name!r} is in no file: the program that began this session gives it."
            )
        path, within = self.file(config.scope)
        written: list[ServerConfig] = []

        def change(entries: dict[str, Any]) -> None:
            require_entry(ServerConfig, entries, name)
            entry = entries[name]
            ServerConfig.parse(name, entry, config.scope, path)
            if disabled:
                entry["disabled"] = True
            else:
                entry.pop("disabled", None)
                if not entry.get("enabled", True):
                    del entry["enabled"]
            written.append(ServerConfig.parse(name, entry, config.scope, path))

        edit_file(ServerConfig, path, within, self.context.state_dir, change)
        self.sources[name] = msgspec.structs.replace(config, disabled=disabled)
        done = f"The MCP server {name!r} is switched {'off' if disabled else 'on'} in {path}, here and in new sessions."
        if not disabled and not self.trusts(written[0]):
            return f"{done} New sessions need trust in the changed entry: `jaato mcp trust {name}`."
        return done

    def needs_login(self, config: ServerConfig) -> bool:
        """Whether the last request to the server needed a login."""
        if config.kind == "stdio":
            return False
        from jaato.plugins.mcp.oauth.token_store import needs_login

        try:
            return needs_login(expand_variables(config, self.context.environ), self.context.state_dir)
        except ConfigError:
            return False

    def options(self, name: str) -> McpServerOptions:
        """The options to start a server with. Raises `ServerUnusable` for one that is untrusted or lacks a variable."""
        config = self.entry(name)
        try:
            self.check_trust(config)
        except PermissionDenied as error:
            raise ServerUnusable(f"{error} Trust given now takes effect in new sessions.") from None
        options = self._options.get(name)
        if options is None:
            from jaato.plugins.mcp.config import McpServerOptions
            from jaato.plugins.mcp.server_log import LogFile
            from jaato.tools.redaction.redactor import Redactor

            try:
                filled = expand_variables(config, self.context.environ)
            except ConfigError as error:
                raise ServerUnusable(str(error)) from None
            secrets = self.context.secrets or Redactor()
            for key, value in secrets_in(filled).items():
                secrets.add(key, value)
            options = self._options[name] = McpServerOptions(
                filled,
                self.context.environ,
                self.context.workspace,
                self.context.state_dir,
                self._sandbox,
                self.context.allow_hosts,
                LogFile(self.context.state_dir, config),
                self._ask,
                review.manifest.protocol_version if (review := self.review(config)) else "",
                secrets.mask,
                self.context.cache_dir,
            )
        return options

    def review(self, config: ServerConfig) -> ManifestReview | None:
        """The last manifest of a server, without the definitions held back; None without a manifest."""
        if config.name not in self._reviews:
            manifest = load_manifest(self.context.cache_dir, config.digest)
            self._reviews[config.name] = None if manifest is None else self._review(config, manifest)
        return self._reviews[config.name]

    def _review(self, config: ServerConfig, manifest: Manifest) -> ManifestReview:
        if config.scope == "argument":
            return ManifestReview(
                manifest, ()
            )  # the program vouches for it, and has no one to accept a change
        try:
            return self._pins.review(config, manifest)
        except (ConfigError, OSError) as error:
            empty = msgspec.structs.replace(
                manifest, tools=[], prompts=[], instructions="", dropped=[str(error)]
            )
            return ManifestReview(empty, ())

    def tool(self, server: str, name: str) -> ToolEntry | None:
        """A tool of a known server; None when the server is unknown or has no usable one. Raises `ServerUnusable`."""
        review = self.review(self.entry(server))
        return review.tool(name) if review else None

    def missing_tool(self, server: str, name: str) -> ServerUnusable:
        """The error for a tool that `tool` does not find."""
        review = self.review(self.entry(server))
        unknown = f"The MCP server {server!r} has not listed its tools yet."
        return ServerUnusable(review.missing(server, name) if review else unknown)

    def learn(self, manifest: Manifest) -> list[str]:
        """Cache the new manifest of a server and review it; returns the names of its entries. Thread-safe."""
        owners = [config for config in self.sources.values() if config.digest == manifest.digest]
        if not owners:
            return []
        bad = {entry.name: why for entry in manifest.tools if (why := unusable_reason(entry))}
        if bad:
            manifest = msgspec.structs.replace(
                manifest,
                tools=[entry for entry in manifest.tools if entry.name not in bad],
                dropped=[*manifest.dropped, *(f"the tool {name!r}: {why}" for name, why in bad.items())],
            )
        save(self.context.cache_dir, manifest)
        for config in owners:
            self._reviews[config.name] = self._review(config, manifest)
        return [config.name for config in owners]
