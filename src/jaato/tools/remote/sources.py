"""Remote tool sources that a user and a workspace have configured: their files are validated, edited in place, and looked up."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from jaato import settings
from jaato.errors import ConfigError, PermissionDenied
from jaato.lazy_pattern import lazy_pattern
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private
from jaato.tools.host_services import environ_of, service_of
from jaato.tools.permissions.trust import Trust
from jaato.tools.remote.fields import C, JsonObject, Malformed, Scope, SourceConfig, check_shape
from jaato.tools.remote.trust import SourceTrust, refuse_untrusted

if TYPE_CHECKING:
    from jaato.abc.plugin import Host
    from jaato.tools.redaction.redactor import Redactor

MAX_FILE_BYTES = 1_000_000
WORLD_WRITABLE = 0o002
ADDRESS = lazy_pattern(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}(/\S{0,200})?")
"""What is meant as an address, and lacks its scheme."""

Owns = Callable[[Path, bytes], bool]
"""Whether the user's own file at a path counts with this content (`Trust.owns`)."""


class ConfigProblem(msgspec.Struct, frozen=True):
    """Something in a configuration that was left out: whose (None: the whole file's), where and why."""

    noun: str
    name: str | None
    origin: Path
    text: str

    def __str__(self) -> str:
        entry = f"{self.noun} {self.name!r}: " if self.name is not None else ""
        return f"{self.origin}: {entry}{self.text}"


class LoadedSources(msgspec.Struct, Generic[C], frozen=True):
    """The sources by name, the user's first, and what was left out."""

    sources: dict[str, C]
    problems: tuple[ConfigProblem, ...] = ()


def load_sources(
    kind: type[C], user_file: Path, workspace: Path, workspace_file: Path, owns: Owns | None = None
) -> LoadedSources[C]:
    """Both files, whatever is in them. A workspace's entry never stands in for the user's of the same name, or for one
    whose tools could be taken for its own."""
    sources, problems = read_file(kind, user_file, owns=owns)
    if resolve_links(user_file) != resolve_links(workspace_file):
        others, more = read_file(kind, workspace_file, within=workspace)
        problems += more
        own = with_marks(sources.values())
        for name, config in others.items():
            mine = sources.get(name) or find_conflict(own, config)
            if mine is None:
                sources[name] = config
            elif content_of(mine) != content_of(config):
                text = f"is left out: your own {user_file} has {mine.name!r}, whose tools it could be taken for; rename it"
                problems.append(ConfigProblem(kind.SHORT, name, workspace_file, text))
    return LoadedSources(sources, tuple(problems))


def read_file(
    kind: type[C], path: Path, *, within: Path | None = None, owns: Owns | None = None
) -> tuple[dict[str, C], list[ConfigProblem]]:
    """The sources of one file, the user's own or, `within` it, a workspace's, and what is wrong with it; a missing file
    has neither."""
    try:
        entries = entries_of(kind, read_document(path, within, owns))
    except Malformed as error:
        return {}, [ConfigProblem(kind.SHORT, None, path, str(error))]
    scope: Scope = "user" if within is None else "workspace"
    sources: dict[str, C] = {}
    problems: list[ConfigProblem] = []
    for number, (name, entry) in enumerate(entries.items()):
        try:
            if number >= kind.LIMIT:
                raise Malformed(f"is left out: a file has at most {kind.LIMIT} of them")
            if name in entries.duplicates:
                raise Malformed("is there twice; remove one of the two")
            config = kind.parse(name, entry, scope, path)
            twin = find_conflict(with_marks(sources.values()), config) if kind.UNIQUE else None
            if twin is not None:
                raise Malformed(
                    f"is left out: its tools could have names of {twin.name!r}; give it another prefix"
                )
            sources[name] = config
        except Malformed as error:
            problems.append(ConfigProblem(kind.SHORT, display_name(name), path, str(error)))
            if number >= kind.LIMIT:
                break
    return sources, problems


def read_document(path: Path, within: Path | None, owns: Owns | None = None) -> JsonObject:
    """What is in a file, the user's own or, `within` it, a workspace's; empty where there is none. Raises `Malformed`, also
    for what the user does not own with this content."""
    try:
        if within is not None and not resolve_links(path).is_relative_to(resolve_links(within)):
            raise Malformed(
                "leads out of the workspace by a link, which is not followed; put a file in its place"
            )
        content = read_bounded(path, MAX_FILE_BYTES)
        if content is not None and within is None and os.stat(path).st_mode & WORLD_WRITABLE:
            raise Malformed(f"can be written by everybody, so it is not read; chmod 600 {path}")
        if content is not None and within is None and owns is not None and not owns(path, content):
            raise Malformed("has changed since this session began; what it says now counts in the next one")
    except ConfigError as error:
        raise Malformed(str(error).removeprefix(f"{path} ")) from None
    except OSError as error:
        raise Malformed(f"cannot be read: {error.strerror}") from None
    return JsonObject() if content is None else parse_document(content)


def parse_document(content: bytes) -> JsonObject:
    """The JSON object in a file. Raises `Malformed`."""
    try:
        document = json.loads(content.decode("utf-8-sig"), object_pairs_hook=JsonObject)
    except UnicodeDecodeError:
        raise Malformed("is not UTF-8 text; save it as UTF-8") from None
    except RecursionError:
        raise Malformed("is nested too deeply for a configuration; correct it") from None
    except ValueError as error:
        raise Malformed(f"is not JSON: {str(error)[:200]}; correct it") from None
    if not isinstance(document, JsonObject):
        raise Malformed("must be a JSON object; correct it")
    return document


def entries_of(kind: type[C], document: JsonObject) -> JsonObject:
    """The entries by name. Raises `Malformed`."""
    for key in kind.KEYS:
        if key in document:
            if not isinstance(document[key], JsonObject) or key in document.duplicates:
                raise Malformed(f'"{key}" must be one object, {{name: {{…}}}}; correct it')
            found: JsonObject = document[key]
            return found
    if document:
        raise Malformed(f'has no "{kind.KEYS[0]}"; write {{"{kind.KEYS[0]}": {{name: {{…}}}}}}')
    return document


def with_marks(sources: Iterable[C]) -> list[tuple[tuple[str, ...], C]]:
    """Sources with their marks, which take a while to work out."""
    return [(one.marks, one) for one in sources]


def find_conflict(sources: Iterable[tuple[tuple[str, ...], C]], config: C) -> C | None:
    """The source whose tools could have names of this one's."""
    marks = config.marks
    return next((one for others, one in sources if any(map(is_prefix_conflict, others, marks))), None)


def is_prefix_conflict(one: str, other: str) -> bool:
    """Whether a text begins with another, whichever is longer: names that begin so could be taken for each other."""
    return one.startswith(other) or other.startswith(one)


def content_of(config: SourceConfig) -> tuple[Any, ...]:
    """What a source is, apart from its name and where it is written."""
    left_out = {"name", "scope", "origin", "digest", "identity"}
    return tuple(getattr(config, name) for name in config.__struct_fields__ if name not in left_out)


def find_source(config: type[C], sources: Mapping[str, C], name: str) -> C:
    """The source of this name. Raises `ConfigError`, with the names there are."""
    found = sources.get(name)
    if found is None:
        from jaato.tools.filesystem.containment import similar_names

        if near := similar_names(name, sources):
            hint = f"is it {' or '.join(map(repr, near))}?"
        elif ADDRESS.fullmatch(name):
            hint = f"one that is not configured is named by its URL (http://{name})."
        elif sources:
            hint = f"there are {', '.join(map(repr, sorted(sources)[:10]))}."
        else:
            hint = "none is configured yet."
        raise ConfigError(
            f"There is no {config.NOUN} {display_name(name)!r}; {hint} `jaato {config.COMMAND} list` shows them, "
            f"`jaato {config.COMMAND} add` adds one."
        )
    return found


def display_name(name: str) -> str:
    """A name as a message has it."""
    from jaato.tools.invisible_text import escape_all

    return escape_all(name if len(name) <= 80 else f"{name[:80]}…")


def parse_entry(kind: type[C], path: Path, within: Path | None, name: str, entry: dict[str, Any]) -> C:
    """The source that an entry describes which is not in its file yet. Raises `ConfigError`."""
    try:
        return kind.parse(name, JsonObject(entry.items()), "user" if within is None else "workspace", path)
    except Malformed as error:
        raise ConfigError(f"The {kind.NOUN} {name!r} {error}.") from None


def edit_source(
    kind: type[C],
    path: Path,
    within: Path | None,
    name: str,
    entry: dict[str, Any] | None,
    state_dir: Path,
    *,
    replace: bool = False,
) -> None:
    """Put an entry into a file, the user's own or, `within` it, a workspace's, which is made when there is none; with None
    take it out, broken or not. Raises as `edit_file`."""
    if entry is not None:
        parse_entry(kind, path, within, name, entry)

    def change(entries: dict[str, Any]) -> None:
        if entry is None:
            require_entry(kind, entries, name)
            del entries[name]
            return
        if name in entries and not replace:
            raise Malformed(f"has a {kind.SHORT} {name!r} already; give --replace, or another name")
        entries[name] = entry

    edit_file(kind, path, within, state_dir, change)


def require_entry(kind: type[C], entries: dict[str, Any], name: str) -> None:
    """Raise `Malformed` where a file has no entry of this name."""
    if name not in entries:
        listed = f"`jaato {kind.COMMAND} list` shows where each one is"
        raise Malformed(f"has no {kind.SHORT} {name!r}; {listed}")


def edit_file(
    kind: type[C],
    path: Path,
    within: Path | None,
    state_dir: Path,
    change: Callable[[dict[str, Any]], None],
) -> None:
    """Change the entries of a file, whose other content stays. One process at a time, whole or not at all. Raises
    `ConfigError`, also for a `Malformed` of the change, and OSError."""
    target = resolve_links(path)
    if within is not None and not target.is_relative_to(resolve_links(within)):
        raise ConfigError(
            f"{path} leads out of the workspace by a link, which is not written; put a file in its place."
        )
    with file_lock(state_dir / kind.LOCK):
        content = read_bounded(target, MAX_FILE_BYTES)
        try:
            document = parse_document(content) if content is not None else JsonObject()
            key = next((one for one in kind.KEYS if one in document), kind.KEYS[0])
            entries = document.setdefault(key, {})
            if not isinstance(entries, dict):
                raise Malformed(f'has a "{key}" that is no object; correct it')
            change(entries)
            check_shape(document)  # what came twice would be lost
        except Malformed as error:
            raise ConfigError(f"{path} {error}.") from None
        written = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
        if len(written) > MAX_FILE_BYTES:
            raise ConfigError(f"{path} would have more than {MAX_FILE_BYTES:,} bytes; remove some first.")
        # a new file of the user's is private; one of a workspace is there to be shared
        fresh = 0o600 if within is None else 0o644
        mode = stat.S_IMODE(os.stat(target).st_mode) if content is not None else fresh
        write_private(target, written)
        if mode != 0o600:
            target.chmod(mode)


def resolve_links(path: Path) -> Path:
    """The path with its links followed as far as they lead."""
    return Path(os.path.realpath(path))


class SourceContext(msgspec.Struct, frozen=True):
    """Where everything is, the user's environment, and the private addresses the user allows."""

    workspace: Path
    home: Path
    config_dir: Path
    state_dir: Path
    cache_dir: Path
    environ: Mapping[str, str] = {}
    allow_hosts: tuple[str, ...] = ()
    secrets: Redactor | None = None
    """What the session masks: it learns the keys in entries."""
    trust: Trust | None = None
    """What was vouched for when the session began; without it, what is at each moment."""


def source_context(
    workspace: Path,
    environ: Mapping[str, str],
    known: settings.Settings | None = None,
    secrets: Redactor | None = None,
) -> SourceContext:
    """The context of a user and a workspace; without settings, with the user's own directories and no private address."""
    return SourceContext(
        workspace,
        settings.home_of(environ),
        known.config_dir if known else settings.user_dir(environ, "XDG_CONFIG_HOME", ".config"),
        known.state_dir if known else settings.user_dir(environ, "XDG_STATE_HOME", ".local/state"),
        known.cache_dir if known else settings.user_dir(environ, "XDG_CACHE_HOME", ".cache"),
        environ,
        tuple(known["allow_hosts"]) if known else (),
        secrets,
    )


def host_context(host: Host) -> SourceContext:
    """The context of a plugin's session."""
    known, secrets = (service_of(host, name) for name in ("settings", "secrets"))
    return source_context(host.workspace, environ_of(host), known, secrets)


class SourceDirectory(Generic[C]):
    """The sources of one kind by name. Starts nothing and connects to nothing."""

    def __init__(
        self,
        context: SourceContext,
        kind: type[C],
        user_file: Path,
        workspace_file: str,
        trust: SourceTrust[C],
    ) -> None:
        self.context = context
        self.kind = kind
        self.trust = trust
        self._files: dict[Scope, Path] = {"user": user_file, "workspace": context.workspace / workspace_file}
        self.sources: dict[str, C] = {}
        self.problems: tuple[ConfigProblem, ...] = ()
        self.reload()

    def reload(self) -> None:
        """Read the configuration again."""
        user_file, workspace_file = self._files.values()
        found = load_sources(
            self.kind, user_file, self.context.workspace, workspace_file, self.trust.store.owns
        )
        self.sources, self.problems = found.sources, found.problems

    def file(self, scope: Scope) -> tuple[Path, Path | None]:
        """The configuration file of a scope, and the workspace within which it has to be, if any."""
        return self._files[scope], self.context.workspace if scope == "workspace" else None

    def trusts(self, config: C) -> bool:
        """Whether it may be used."""
        try:
            return self.trust.holds(config)
        except ConfigError:
            return False

    def get_configured(self, name: str) -> C:
        """The source of this name. Raises `ConfigError` with what is wrong with it, or the names there are."""
        for problem in self.problems:
            if problem.name == name and name not in self.sources:
                raise ConfigError(str(problem))
        return find_source(self.kind, self.sources, name)

    def get_enabled(self, name: str) -> C:
        """The source of this name, which is not switched off. Raises `ConfigError`."""
        config = self.get_configured(name)
        if config.disabled:
            raise ConfigError(f"The {config.NOUN} {name!r} is switched off in {config.origin}.")
        return config

    def check_trust(self, config: C) -> C:
        """The source, which may be used. Raises `PermissionDenied`."""
        if not self.trusts(config):
            raise PermissionDenied(refuse_untrusted(config))
        return config
