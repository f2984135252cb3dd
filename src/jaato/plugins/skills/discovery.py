"""Discovers skills and prompt files of the user and the workspace, and reads their front matter."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from jaato.abc.plugin import Host
from jaato.errors import ConfigError, ToolError
from jaato.log import logger
from jaato.tools.call import replace_surrogates
from jaato.tools.catalog import wire_name
from jaato.tools.filesystem.private_directory import PrivateDirectory
from jaato.tools.host_services import roots_of
from jaato.tools.invisible_text import escape_all, find_invisible

FENCE = "---"
KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
MAX_HEAD_LINES = 200
LOG = logger("skills")
SKILL_FILE = "SKILL.md"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,55}")
MAX_FILE_BYTES = 256 * 1024
MAX_DESCRIPTION = 1024
MAX_FOUND = 500
MAX_LISTED = 5_000
MAX_CACHE_BYTES = 4 * 1024 * 1024
PREFIXES: dict[Kind, str] = {"skills": "skill__", "commands": "prompt__"}


class FrontMatter(NamedTuple):
    """A file taken apart: the plain values of its front matter, and the rest."""

    head: dict[str, str]
    body: str


def parse_front_matter(text: str) -> FrontMatter:
    """A file with or without front matter; a value may be quoted, folded (`>`) or kept (`|`), or go on indented.

    What nests deeper is skipped: nothing here needs it.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != FENCE:
        return FrontMatter({}, text)
    for end, line in enumerate(lines[1 : MAX_HEAD_LINES + 1], 1):
        if line.rstrip() == FENCE:
            return FrontMatter(parse_values(lines[1:end]), "\n".join(lines[end + 1 :]).lstrip("\n"))
    return FrontMatter({}, text)


def parse_values(lines: list[str]) -> dict[str, str]:
    """The values of the top level by their keys."""
    found: dict[str, list[str]] = {}
    key = ""
    for line in lines:
        match = KEY.match(line)
        if match is not None:
            key = match[1].lower()
            found[key] = [(match[2] or "").strip()]
        elif key and (line.startswith((" ", "\t")) or not line.strip()):
            found[key].append(line.strip())
    return {key: join_lines(parts) for key, parts in found.items()}


def join_lines(parts: list[str]) -> str:
    """A value from its lines."""
    first, *others = parts
    if first[:1] in (">", "|") and first.rstrip("+-0123456789") in (">", "|"):
        return (" " if first[0] == ">" else "\n").join(others).strip()
    whole = " ".join(part for part in [first, *others] if part)
    if len(whole) > 1 and whole[0] == whole[-1] and whole[0] in "\"'":
        return whole[1:-1]
    return whole


Kind = Literal["skills", "commands"]
Owner = Literal["user", "workspace"]


class SourceDirectory(NamedTuple):
    """A directory of skills or prompts, and whose it is."""

    owner: Owner
    root: Path
    parts: tuple[str, ...]


class Item(msgspec.Struct, frozen=True):
    """One skill or prompt. `parts` leads to its file from the root of its place."""

    name: str
    description: str
    owner: Owner
    root: str
    parts: tuple[str, ...]

    @property
    def folder_root(self) -> Path:
        """The root of its place."""
        return Path(self.root)

    @property
    def folder(self) -> PrivateDirectory:
        """The directory its file is in."""
        return PrivateDirectory(self.folder_root, *self.parts[:-1])


class CachedFile(msgspec.Struct, frozen=True):
    """What a file said when it had this state: its name and description, or what is wrong with it."""

    state: tuple[int, int, int]
    name: str = ""
    description: str = ""
    problem: str = ""


class Discovery(NamedTuple):
    """Every item by its name, and what is wrong with those left out."""

    items: dict[str, Item]
    problems: list[str]


def source_directories(host: Host, kind: Kind) -> list[SourceDirectory]:
    """Where they are: with the user, who comes first, and in the workspace."""
    workspace = SourceDirectory("workspace", roots_of(host).workspace, (".jaato", kind))
    try:
        config_dir: Path = host.service("settings").config_dir
    except KeyError:
        return [workspace]
    return [SourceDirectory("user", config_dir, (kind,)), workspace]


def discover(host: Host, kind: Kind) -> Discovery:
    """All there are; of two with one name the user's counts. Never raises for what is written there."""
    there = list(candidate_files(source_directories(host, kind), kind))
    said = Discovery({}, [])
    if not there:
        return said
    cache = cache_location(host, kind)
    before = load_cache(cache)
    after: dict[str, CachedFile] = {}
    on_wire: set[str] = set()
    for place, parts in there:
        label = "/".join((str(place.root), *parts))
        known = read_item(place, parts, before.get(label), kind)
        if known is None:
            continue
        after[label] = known
        shown, wire = escape_all(label), wire_name(PREFIXES[kind] + known.name)
        if known.problem:
            said.problems.append(escape_all(f"{label}: {known.problem}"))
        elif known.name in said.items:
            said.problems.append(f"{shown}: another one is called {known.name} already.")
        elif wire in on_wire:
            said.problems.append(f"{shown}: another one is called {wire} on the wire.")
        else:
            on_wire.add(wire)
            said.items[known.name] = Item(known.name, known.description, place.owner, str(place.root), parts)
    if after != before and cache is not None:
        save_cache(cache, after)
    for problem in said.problems:
        LOG.warning("Left out: %s", problem)
    return said


def candidate_files(
    where: Iterable[SourceDirectory], kind: Kind
) -> Iterator[tuple[SourceDirectory, tuple[str, ...]]]:
    """Every file that may be one, as the parts of its path; a link is named, so that it can be said to be none."""
    for place in where:
        with contextlib.suppress(OSError), os.scandir(place.root.joinpath(*place.parts)) as listing:
            entries = sorted(islice(listing, MAX_LISTED), key=lambda entry: entry.name)[:MAX_FOUND]
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                linked = entry.is_symlink()
                if kind == "skills" and (linked or entry.is_dir(follow_symlinks=False)):
                    yield place, (*place.parts, entry.name, SKILL_FILE)
                elif kind == "commands" and (linked or entry.is_file(follow_symlinks=False)):
                    yield place, (*place.parts, entry.name)


def read_item(
    place: SourceDirectory, parts: tuple[str, ...], before: CachedFile | None, kind: Kind
) -> CachedFile | None:
    """What a file says of itself; None when there is none."""
    folder = PrivateDirectory(place.root, *parts[:-1])
    try:
        stat = folder.stat(parts[-1])
        if stat is None:
            return None
        state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if before is not None and before.state == state:
            return before
        text = read_text(folder, parts[-1])
    except ToolError as error:
        return CachedFile((0, 0, 0), problem=replace_surrogates(str(error)))
    written = parse_front_matter(text)
    own_name = parts[-2] if kind == "skills" else Path(parts[-1]).stem
    name = written.head.get("name", own_name) if kind == "skills" else own_name
    first = next((line.strip(" #") for line in written.body.splitlines() if line.strip(" #")), "")
    description = written.head.get("description", "") or (first if kind == "commands" else "")
    if NAME.fullmatch(name) is None:
        return CachedFile(
            state, problem=f"{name[:80]!r} is no name: use letters, digits, '.', '_' and '-', at most 56."
        )
    if not description:
        return CachedFile(state, problem="its front matter has no description.")
    return CachedFile(state, name, description[:MAX_DESCRIPTION])


def read_text(folder: PrivateDirectory, name: str) -> str:
    """A file as text. Raises `ToolError`: it is too large, no UTF-8, or has characters nobody sees."""
    data = folder.read(name, MAX_FILE_BYTES)
    label = f"{folder.label}/{name}"
    if data is None:
        raise ToolError(f"{label} is gone.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{label} is not UTF-8 text.") from None
    if codes := find_invisible(text.removeprefix("\ufeff")):
        raise ToolError(
            f"{label} has invisible characters ({', '.join(codes[:3])}), which may say what a reader does not see."
        )
    return text


def cache_location(host: Host, kind: Kind) -> Path | None:
    """Where the state of the files seen last is kept."""
    try:
        cache_dir: Path = host.service("settings").cache_dir
    except (KeyError, AttributeError):
        return None
    return cache_dir / f"{kind}.json"


def load_cache(cache: Path | None) -> dict[str, CachedFile]:
    """The files seen last, by path; none when that cannot be read."""
    from jaato.tools.filesystem.atomic import read_bounded

    if cache is None:
        return {}
    try:
        return msgspec.json.decode(read_bounded(cache, MAX_CACHE_BYTES) or b"{}", type=dict[str, CachedFile])
    except (ConfigError, msgspec.DecodeError):
        return {}


def save_cache(cache: Path, known: dict[str, CachedFile]) -> None:
    """Keep them; a disk that refuses costs only their reading the next time."""
    from jaato.tools.filesystem.atomic import write_private

    with contextlib.suppress(OSError, ValueError):
        write_private(cache, msgspec.json.encode(known))
