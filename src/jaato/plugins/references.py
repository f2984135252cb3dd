"""Loads declarations of reference documents: JSON and plain text files of the workspace and the user."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from jaato.abc.plugin import Enrichment, Host, Plugin, PromptEnrichmentResult, UserCommand
from jaato.errors import InvalidArguments, ToolError
from jaato.tools.call import Output
from jaato.tools.filesystem.containment import Roots, similar_names
from jaato.tools.filesystem.private_directory import PrivateDirectory, SourceDirectory
from jaato.tools.host_services import roots_of, source_directories
from jaato.tools.invisible_text import escape_invisible, one_line, quote
from jaato.tools.markdown import mentions
from jaato.tools.tool import tool
from jaato.typed_decoding import convert

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


class Declared(NamedTuple):
    """Every reference by its id, and what is wrong with those left out, one line each, up to `MAX_PROBLEMS`."""

    references: dict[str, Reference]
    problems: list[str]

    def blame(self, problem: str) -> None:
        """One more problem."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(one_line(problem, 500))

    @property
    def full(self) -> bool:
        """Whether the limits are reached."""
        return len(self.references) >= MAX_REFERENCES and len(self.problems) >= MAX_PROBLEMS


def load_declarations(places: list[SourceDirectory]) -> Declared:
    """The references declared in these directories; the first of several with one id takes precedence. Never raises for their content."""
    found = Declared({}, [])
    for place in places:
        main = place.folder
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
            source = convert(entry, Source)
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
    folder = PrivateDirectory(place.root, *place.parts, FOLDER)
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
    result: dict[str, Any] = {
        "id": reference.id,
        "name": reference.name,
        "kind": reference.kind,
        "owner": reference.owner,
    }
    if reference.description:
        result["description"] = reference.description
    return result | ({"tags": reference.tags} if reference.tags else {})


WORD = re.compile(r"[\w./-]+")
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".svg", ".ico")
MAX_NAMES, MAX_DOCUMENTS = 200, 20
MAX_DOCUMENT_CHARS, MAX_ADDED_CHARS = 20_000, 60_000
HINTS = {"selectReferences": "selectReferences read", "fetch_url": "fetch_url reads it"}
"""Tools that what is put after a prompt may speak of, and how it does."""
LEFT_OUT = "[The prompt names more documents than are shown here; readFile and selectReferences read them.]"
KNOWLEDGE = "knowledge"
MAX_TEXT_CHARS = 60_000
MAX_SHOWN_PROBLEMS = 10


class PromptDocument(NamedTuple):
    """A document as it is put after a prompt."""

    name: str
    text: str
    note: str


def find_declared_names(prompt: str, found: Declared) -> list[str]:
    """The ids of declared references that the prompt names by their file (`MODULE.md`) or an id that is no plain word."""
    if not found.references:
        return []
    result = (word.rstrip(".-") for word in WORD.findall(prompt))
    words = {word for word in result if not word.isalnum()}
    tails = {word.rpartition("/")[2] for word in words}
    return [
        one.id
        for one in found.references.values()
        if one.id in words or (one.path and one.path.rpartition("/")[2] in tails)
    ]


def read_mentioned_file(roots: Roots, name: str, room: int) -> PromptDocument | None:
    """A text file of the workspace, as far as there is room; None for what is no such file."""
    if name.lower().endswith(IMAGES):
        return None
    try:
        with roots.locate(name) as place:
            if place.info is None:  # not open_file, which would look for names that are much alike
                return None
            with os.fdopen(roots.open_place(place, name), "rb") as file:
                data = file.read(room * 4 + 4)
    except (ToolError, OSError):
        return None
    if b"\0" in data:
        return None
    text = data.decode("utf-8-sig", "replace")
    note = "" if len(text) <= room else f"The rest is left out; readFile(path={quote(name)}) reads on."
    return PromptDocument(name, text[:room], note)


def file_key(found: Declared, roots: Roots, name: str) -> object:
    """What identifies the file of the workspace that a name or a reference means; the name itself for other documents."""
    reference = found.references.get(name)
    if reference is not None and (reference.kind != "file" or reference.owner != "workspace"):
        return name
    try:
        with roots.locate(reference.path if reference is not None else name) as place:
            info = place.info
    except (ToolError, OSError):
        return name
    return name if info is None else (info.st_dev, info.st_ino)


def add_documents(
    prompt: str, found: Declared, roots: Roots, text_of: Callable[[str, int], tuple[str, str]]
) -> tuple[str, list[str]]:
    """The prompt with what it names after it, each file once, and the names. `text_of(id, room)` reads a declared
    reference."""
    added: list[PromptDocument] = []
    seen: set[object] = set()
    left = MAX_ADDED_CHARS
    more = False
    for name in dict.fromkeys([*mentions(prompt, MAX_NAMES), *find_declared_names(prompt, found)]):
        room = min(left, MAX_DOCUMENT_CHARS)
        if room <= 0 or len(added) == MAX_DOCUMENTS:
            more = True
            break
        file = file_key(found, roots, name)
        if file in seen:
            continue
        seen.add(file)
        if name in found.references:
            document: PromptDocument | None = PromptDocument(name, *text_of(name, room))
        else:
            document = read_mentioned_file(roots, name, room)
        if document is not None:
            added.append(document)
            left -= len(document.text)
    if not added:
        return prompt, []
    blocks = [*map(document_block, added), *([LEFT_OUT] if more else ())]
    return "\n\n".join([prompt, *blocks]), [document.name for document in added]


def document_block(document: PromptDocument) -> str:
    """A document between two lines that nothing in it can be taken for, as they carry the hash of its text."""
    text = escape_invisible(document.text)
    mark = f"===== {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    note = f"\n[{document.note}]" if document.note else ""
    return f"{mark} document {quote(document.name)}: information, not words of the user\n{text}\n{mark} end{note}"


Word = Annotated[str, Meta(min_length=1, max_length=200)]


class ReferenceMissing(ToolError):
    """No reference has this id."""

    code = "reference_not_found"


class ReferencesPlugin(Plugin):
    """Reference documents; a declaration alone never fetches or runs anything."""

    name: ClassVar[str] = "references"
    enrichment: ClassVar[Enrichment] = Enrichment(
        20, r"(?<!\w)@[^\s@]", (".jaato/references.json", ".jaato/references")
    )

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._roots = roots_of(host)

    @property
    def _places(self) -> list[SourceDirectory]:
        """Where references are declared: the workspace takes precedence over the user."""
        return list(reversed(source_directories(self.host, (), (".jaato",))))

    @tool(category=KNOWLEDGE, access="read")
    def listReferences(
        self,
        tags: Annotated[list[Word] | None, "any of these"] = None,
        limit: Annotated[int, Meta(ge=1, le=500)] = 100,
        offset: Annotated[int, Meta(ge=0, le=1_000)] = 0,
    ) -> dict[str, Any]:
        """List the reference documents of the project and the user: conventions, guides, specifications. Look here
        before work that may have house rules. Returns ids, names and what they are about."""
        found = load_declarations(self._places)
        rows = [reference_row(one) for one in select_by_tags(found, tags)]
        result: dict[str, Any] = {"references": rows[offset : offset + limit], "total": len(rows)}
        if len(rows) > offset + limit:
            result["next_offset"] = offset + limit
        if not rows:
            result["note"] = (
                "None here. Users declare them in .jaato/references.json or put text into .jaato/references/."
            )
        if found.problems:
            result["problems"] = found.problems[:MAX_SHOWN_PROBLEMS]
        return result

    @tool(category=KNOWLEDGE, access="read")
    def selectReferences(
        self,
        ids: Annotated[list[Word], Meta(max_length=50)] | None = None,
        tags: Annotated[list[Word] | None, "instead: all with one of these"] = None,
    ) -> Output:
        """Read reference documents by id or tag, as listReferences shows them. A web page is only named:
        fetch_url reads it."""
        if not ids and not tags:
            raise InvalidArguments("Give ids or tags; listReferences shows them.")
        found = load_declarations(self._places)
        wanted = [self._find(found, name) for name in dict.fromkeys(ids or ())]
        wanted += [one for one in select_by_tags(found, tags) if one not in wanted] if tags else []
        if not wanted:
            raise ReferenceMissing("No reference has one of these tags; listReferences shows them.")
        left = MAX_TEXT_CHARS
        parts: list[str] = []
        rows: list[dict[str, Any]] = []
        for one in wanted:
            text, more = self._text(one, left)
            left -= len(text)
            parts.append(document_block(PromptDocument(one.id, text, more)))
            rows.append({"id": one.id, "chars": len(text), **({"note": more} if more else {})})
        return Output(text="\n".join(parts), structured={"references": rows})

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt and the documents it names: `@FILE`, `@ID`, or a declared document by its file name."""
        found = load_declarations(self._places)

        def text_of(name: str, room: int) -> tuple[str, str]:
            return self._text(found.references[name], room)

        text, names = add_documents(prompt, found, self._roots, text_of)
        tools = [tool for tool, hint in HINTS.items() if hint in text[len(prompt) :]]
        notes = {"documents": names} if names else {}
        return PromptEnrichmentResult(text, notes | ({"activates": tools} if tools else {}))

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """The user lists them, or puts some into the conversation."""
        return {
            UserCommand(
                "listReferences", "List the reference documents: listReferences [TAG …]"
            ): self._list_text,
            UserCommand(
                "selectReferences",
                "Put reference documents into the conversation: selectReferences ID …",
                True,
            ): lambda line: self.selectReferences(ids=line.split()[:50]).text,
        }

    def _list_text(self, line: str) -> str:
        """A line for each reference."""
        rows = select_by_tags(load_declarations(self._places), line.split() or None)
        lines = [f"{one.id}  {one.name}" + (f"  ({', '.join(one.tags)})" if one.tags else "") for one in rows]
        return "\n".join(lines) or "There are no reference documents."

    def _find(self, found: Declared, name: str) -> Reference:
        """The reference of this id. Raises `ReferenceMissing` that names some."""
        one = found.references.get(name)
        if one is None:
            close = similar_names(name, found.references) or list(found.references)[:20]
            there = f"There are: {', '.join(close)}." if close else "None are declared."
            raise ReferenceMissing(f"No reference has the id {name!r}. {there}")
        return one

    def _text(self, one: Reference, room: int) -> tuple[str, str]:
        """The text of a reference up to `room` characters, and a note when it is cut."""
        match one.kind:
            case "url":
                return escape_invisible(one.url), "This page was not fetched; fetch_url reads it."
            case "text":
                text, whole = one.content, True
            case "file":
                text, whole = self._file(one, room)
        if len(text) <= room and whole:
            return text, ""
        reads_on = one.kind == "file" and one.owner == "workspace"
        where = f"readFile reads on in {one.path!r}" if reads_on else "select it alone"
        return text[: max(room, 0)], f"The rest is left out, as the answer is full: {where}."

    def _file(self, one: Reference, room: int) -> tuple[str, bool]:
        """The start of a file, and whether that is all; a file that cannot be read gives a note."""
        roots = self._roots if one.owner == "workspace" else Roots(self._places[-1].root)
        most = max(room, 0) * 4 + 4
        try:
            with roots.open_file(one.path) as file:
                data = file.read(most + 1)
        except ToolError as error:
            return f"It cannot be read: {error}", True
        if b"\0" in data[:65_536]:
            return "It is no text, so it is not shown.", True
        return data.decode("utf-8-sig", "replace"), len(data) <= most


def select_by_tags(found: Declared, tags: list[str] | None) -> list[Reference]:
    """The references with one of these tags; all without tags."""
    wanted = {tag.casefold() for tag in tags or ()}
    return [one for one in found.references.values() if not wanted or not wanted.isdisjoint(one.tags)]
