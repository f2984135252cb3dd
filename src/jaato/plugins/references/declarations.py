"""Loads declarations of reference documents: JSON and plain text files of the workspace and the user."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import msgspec

from jaato.errors import ToolError
from jaato.tools.filesystem.private_directory import PrivateDirectory
from jaato.tools.invisible_text import one_line

FILE = "references.json"
FOLDER = "references"
TEXTS = (".md", ".markdown", ".txt", ".rst", ".adoc")
MAX_DECLARATION_BYTES = 1 << 20
HEAD_BYTES = 8 << 10
MAX_REFERENCES = 1_000
MAX_PROBLEMS = 50
MAX_TOTAL_BYTES = 8 << 20
"""Of all declarations; a prompt does not wait for more."""
ID = re.compile(r"[^A-Za-z0-9._-]+")


class Reference(msgspec.Struct, frozen=True):
    """One document: a file (`path`), a page (`url`) or words (`content`). `owner` says who declares it."""

    id: str
    name: str
    description: str
    kind: Literal["file", "url", "text"]
    owner: Literal["workspace", "user"]
    tags: list[str] = []
    path: str = ""
    url: str = ""
    content: str = ""


class Source(msgspec.Struct, frozen=True):
    """A declaration as it is written; other fields are allowed and mean nothing here."""

    id: str = ""
    name: str = ""
    description: str = ""
    path: str = ""
    url: str = ""
    content: str = ""
    tags: list[str] = []


class SourceDirectory(NamedTuple):
    """Where references are declared: a directory with `references.json` and `references/`, and what paths mean there.

    `prefix` leads from the root of paths to the directory.
    """

    owner: Literal["workspace", "user"]
    root: Path
    prefix: tuple[str, ...]


class Declared(NamedTuple):
    """Every reference by its id, and what is wrong with those left out, one line each, as far as anybody reads on."""

    references: dict[str, Reference]
    problems: list[str]

    def blame(self, problem: str) -> None:
        """One more problem."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(one_line(problem, 500))

    @property
    def full(self) -> bool:
        """Whether nothing more is taken or told."""
        return len(self.references) >= MAX_REFERENCES and len(self.problems) >= MAX_PROBLEMS


def load_declarations(places: list[SourceDirectory]) -> Declared:
    """What these places declare; of several with one id the first counts. Never raises for what is written there."""
    found = Declared({}, [])
    for place in places:
        main = PrivateDirectory(place.root, *place.prefix)
        try:
            data = main.read(FILE, MAX_DECLARATION_BYTES)
        except ToolError as error:
            found.blame(str(error))
            data = None
        if data is not None:
            add_all(found, place, data, f"{main.label}/{FILE}".lstrip("/"))
        add_files(found, place)
    return found


def add_all(found: Declared, place: SourceDirectory, data: bytes, label: str) -> None:
    """The sources of one JSON file: a list, an object with `sources`, or one source alone."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        found.blame(f"{label} is no JSON: {str(error)[:200]}.")
        return
    listed = value.get("sources", value.get("references", [value])) if isinstance(value, dict) else value
    if not isinstance(listed, list):
        found.blame(f"{label} has no list of sources.")
        return
    for number, entry in enumerate(listed, 1):
        if number > 2 * MAX_REFERENCES or found.full:
            found.blame(f"{label} has more than {2 * MAX_REFERENCES} sources.")
            return
        try:
            source = msgspec.convert(entry, Source)
        except (msgspec.ValidationError, RecursionError) as error:
            found.blame(f"{label}, source {number}: {str(error)[:200]}.")
            continue
        add(found, parse_reference(source, place), f"{label}, source {number}")


def parse_reference(source: Source, place: SourceDirectory) -> Reference | None:
    """A source as a reference; None when it names no document."""
    name = one_line(source.name or source.id or PurePosixPath(source.path).stem or source.url, 200)
    kind: Literal["file", "url", "text"] = "file" if source.path else "url" if source.url else "text"
    if not (source.path or source.url or source.content):
        return None
    return Reference(
        id=make_id(source.id or name),
        name=name,
        description=one_line(source.description, 500),
        kind=kind,
        owner=place.owner,
        tags=[one_line(tag, 64).casefold() for tag in source.tags[:16]],
        path=source.path,
        url=source.url[:2_000],
        content=source.content,
    )


def add_files(found: Declared, place: SourceDirectory) -> None:
    """The text files and single declarations in the directory `references`."""
    folder = PrivateDirectory(place.root, *place.prefix, FOLDER)
    try:
        names = folder.names()
    except ToolError as error:
        found.blame(str(error))
        return
    left = MAX_TOTAL_BYTES
    for number, name in enumerate(names):
        if number >= 2 * MAX_REFERENCES or left <= 0:
            found.blame(f"{folder.label} has more than is looked through; move some elsewhere.")
            return
        ending = PurePosixPath(name).suffix.lower()
        if ending not in (*TEXTS, ".json"):
            continue
        label = f"{folder.label}/{name}"
        try:
            is_json = ending == ".json"
            data = folder.read(name, MAX_DECLARATION_BYTES if is_json else HEAD_BYTES, cut=not is_json) or b""
        except ToolError as error:
            found.blame(str(error))
            continue
        left -= len(data)
        if is_json:
            add_all(found, place, data, label)
            continue
        title, description = find_heading(data.decode("utf-8", "replace"))
        stem = PurePosixPath(name).stem
        reference = Reference(
            make_id(stem),
            title or one_line(stem, 200),
            description,
            "file",
            place.owner,
            path="/".join((*folder.label.split("/"), name)),
        )
        add(found, reference, label)


def add(found: Declared, reference: Reference | None, label: str) -> None:
    """One more reference, unless its id is taken or there are too many."""
    if reference is None or not reference.id:
        found.blame(f"{label} has no id or name, or neither path, url nor content.")
    elif reference.id in found.references:
        found.blame(f"{label}: the id {reference.id!r} is taken.")
    elif len(found.references) >= MAX_REFERENCES:
        found.blame(f"{label}: there are more than {MAX_REFERENCES} references.")
    else:
        found.references[reference.id] = reference


def find_heading(text: str) -> tuple[str, str]:
    """The first heading of a document and the first line of text after it."""
    title = ""
    for line in text[:4_000].splitlines():
        words = line.strip()
        if not words or not words.strip("-=*_~`"):
            continue
        if words.startswith("#") and not title:
            title = one_line(words.lstrip("# "), 200)
        elif not words.startswith("#"):
            return title, one_line(words, 300)
    return title, ""


def make_id(text: str) -> str:
    """An id that is easy to repeat: letters, digits, `.`, `_` and `-`."""
    return ID.sub("-", text).strip("-")[:100]


def reference_row(reference: Reference) -> dict[str, Any]:
    """A reference as it is listed."""
    said: dict[str, Any] = {
        "id": reference.id,
        "name": reference.name,
        "kind": reference.kind,
        "owner": reference.owner,
    }
    if reference.description:
        said["description"] = reference.description
    return said | ({"tags": reference.tags} if reference.tags else {})
