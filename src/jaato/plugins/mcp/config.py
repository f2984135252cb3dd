"""The MCP servers a user and a workspace have configured: `~/.mcp.json` and the workspace's `.mcp.json`, read with
distrust."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from jaato.errors import ConfigError
from jaato.protocol.specs import SandboxAccess
from jaato.tools.configured import Malformed, Scope, content_of, either_begins, resolved

FILE = ".mcp.json"
MAX_SERVERS = 500

Kind = Literal["stdio", "http", "sse"]


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server as written, its `${VAR}` not filled in (`expanded` does that, for a trusted server only).

    `digest` is the SHA-256 of the entry and, where it is not the user's, of where it stands: an equal entry of another
    workspace is another server. `identity` stays when the entry is edited. `cwd` is empty for the workspace itself.
    `oauth` is as written, `sandbox` what the entry declares; None where it says nothing.
    """

    name: str
    kind: Kind
    scope: Scope
    origin: Path
    digest: str
    identity: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    oauth: dict[str, Any] = {}
    sandbox: SandboxAccess | None = None
    start_timeout_s: float = 30.0
    call_timeout_s: float = 300.0
    idle_timeout_s: float = 600.0
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a configuration that was left out: whose (None: the whole file's), where and why."""

    server: str | None
    origin: Path
    text: str

    def __str__(self) -> str:
        entry = f"server {self.server!r}: " if self.server is not None else ""
        return f"{self.origin}: {entry}{self.text}"


@dataclass(frozen=True, slots=True)
class Found:
    """The servers by name, the user's first, and what was left out."""

    servers: dict[str, ServerConfig]
    problems: tuple[Problem, ...] = ()


class Table(dict[str, Any]):
    """A JSON object that remembers which of its keys came twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.doubled = {name for name in names if names.count(name) > 1} if len(self) < len(names) else set()


def load(workspace: Path, home: Path, owns: Callable[[Path, bytes], bool] | None = None) -> Found:
    """Both files, whatever is in them. A workspace's entry never stands in for the user's of the same name; `owns` says
    whether the user's file counts."""
    user_file, workspace_file = home / FILE, workspace / FILE
    servers, problems = read(user_file, "user", owns=owns)
    if resolved(user_file) != resolved(workspace_file):
        others, more = read(workspace_file, "workspace", within=workspace)
        problems += more
        taken = {plain(name): name for name in servers}
        prefixes = {prefix_of(name): name for name in servers}
        for name, config in others.items():
            mine = servers.get(taken.get(plain(name), ""))
            if mine is None:
                near = next(
                    (one for own, one in prefixes.items() if either_begins(own, prefix_of(name))), None
                )
                if near is None:
                    servers[name] = config
                    continue
                text = f"is left out: its tools could have names of your own server {near!r}; rename it"
                problems.append(Problem(name, workspace_file, text))
            elif substance_of(mine) != substance_of(config):
                text = f"is left out, because your own {user_file} has a server {mine.name!r}; rename one of them"
                problems.append(Problem(name, workspace_file, text))
    return Found(servers, tuple(problems))


def read(
    path: Path,
    scope: Scope,
    *,
    within: Path | None = None,
    owns: Callable[[Path, bytes], bool] | None = None,
) -> tuple[dict[str, ServerConfig], list[Problem]]:
    """The servers of one file and what is wrong with it; a missing file has neither."""
    try:
        entries = entries_of(path, within, owns)
    except Malformed as error:
        return {}, [Problem(None, path, str(error))]
    from jaato.plugins.mcp.entry import server_of

    servers: dict[str, ServerConfig] = {}
    problems: list[Problem] = []
    for number, (name, entry) in enumerate(entries.items()):
        try:
            if number >= MAX_SERVERS:
                raise Malformed(f"is left out: a file has at most {MAX_SERVERS} servers")
            if name in entries.doubled:
                raise Malformed("is there twice; remove one of the two")
            servers[name] = server_of(name, entry, scope, path)
        except Malformed as error:
            problems.append(Problem(shortened(name), path, str(error)))
            if number >= MAX_SERVERS:
                break
    return servers, problems


def entries_of(path: Path, within: Path | None, owns: Callable[[Path, bytes], bool] | None = None) -> Table:
    """The entries of a file by name. Raises `Malformed`."""
    content = content_of(path, within, owns)
    if content is None:
        return Table([])
    document = document_of(content)
    for key in ("mcpServers", "servers"):
        if key in document:
            if not isinstance(document[key], Table) or key in document.doubled:
                raise Malformed(f'"{key}" must be one object, {{name: {{…}}}}; correct it')
            found: Table = document[key]
            return found
    if document:
        raise Malformed('has no "mcpServers"; write {"mcpServers": {name: {…}}}')
    return document


def document_of(content: bytes) -> Table:
    """The JSON object in a file. Raises `Malformed`."""
    try:
        text = content.decode("utf-8-sig")
        document = json.loads(text, object_pairs_hook=Table)
    except UnicodeDecodeError:
        raise Malformed("is not UTF-8 text; save it as UTF-8") from None
    except json.JSONDecodeError as error:
        raise Malformed(
            f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}; correct it there"
        ) from None
    except RecursionError:
        raise Malformed("is nested too deeply for a configuration; correct it") from None
    except ValueError as error:
        raise Malformed(f"is not JSON: {str(error)[:200]}; correct it") from None
    if not isinstance(document, Table):
        raise Malformed('must be an object, {"mcpServers": {name: {…}}}; correct it')
    return document


def substance_of(config: ServerConfig) -> tuple[Any, ...]:
    """What a server is, apart from its name and where it is written."""
    left_out = {"name", "scope", "origin", "digest", "identity"}
    return tuple(getattr(config, name) for name in config.__struct_fields__ if name not in left_out)


def plain(name: str) -> str:
    """A server's name as it is compared: two that a reader or a tool's name could take for one are equal."""
    import unicodedata

    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter if letter.isalnum() else "_" for letter in folded)


def prefix_of(name: str) -> str:
    """How the names of a server's tools begin, and the rules of a user that are meant for them."""
    return (
        "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name) + "__"
    )


def shortened(name: str) -> str:
    """A name as a message has it."""
    from jaato.tools.unseen import visible

    return visible(name if len(name) <= 80 else f"{name[:80]}…")


def search(servers: Mapping[str, ServerConfig], name: str) -> ServerConfig:
    """The server of this name. Raises `ConfigError`, with the names there are."""
    found = servers.get(name)
    if found is None:
        from jaato.tools.names import alike

        near = alike(name, servers) or sorted(servers)[:10]
        hint = f"; is it {' or '.join(map(repr, near))}?" if near else "; none is configured yet."
        raise ConfigError(
            f"There is no MCP server {shortened(name)!r}{hint} `jaato mcp list` shows them, `jaato mcp add` adds one."
        )
    return found
