"""The plugin `references`: tools that list and select documents, and prompts with the documents they mention."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta

from jaato.abc.plugin import Enrichment, Host, Plugin, PromptEnrichmentResult, UserCommand
from jaato.errors import InvalidArguments, ToolError
from jaato.plugins.references.declarations import (
    Declared,
    Reference,
    SourceDirectory,
    load_declarations,
    reference_row,
)
from jaato.tools.call import Output
from jaato.tools.filesystem.containment import Roots, similar_names
from jaato.tools.host_services import roots_of
from jaato.tools.invisible_text import escape_invisible, quote
from jaato.tools.markdown import mentions
from jaato.tools.tool import tool

WORD = re.compile(r"[\w./-]+")
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".svg", ".ico")
MAX_NAMES, MAX_DOCUMENTS = 200, 20
MAX_DOCUMENT_CHARS, MAX_ADDED_CHARS = 20_000, 60_000
LEFT_OUT = "[The prompt names more documents than are shown here; readFile and selectReferences read them.]"
KNOWLEDGE = "knowledge"
MAX_TEXT_CHARS = 60_000
MAX_PROBLEMS = 10


class PromptDocument(NamedTuple):
    """A document as it is put after a prompt."""

    name: str
    text: str
    note: str


def find_declared_names(prompt: str, found: Declared) -> list[str]:
    """The ids of declared references that the prompt names by their file (`MODULE.md`) or an id that is no plain word."""
    if not found.references:
        return []
    said = (word.rstrip(".-") for word in WORD.findall(prompt))
    words = {word for word in said if not word.isalnum()}
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


def add_documents(
    prompt: str, found: Declared, roots: Roots, text_of: Callable[[str, int], tuple[str, str]]
) -> tuple[str, list[str]]:
    """The prompt with what it names after it, and the names. `text_of(id, room)` reads a declared reference."""
    added: list[PromptDocument] = []
    left = MAX_ADDED_CHARS
    more = False
    for name in dict.fromkeys([*mentions(prompt, MAX_NAMES), *find_declared_names(prompt, found)]):
        room = min(left, MAX_DOCUMENT_CHARS)
        if room <= 0 or len(added) == MAX_DOCUMENTS:
            more = True
            break
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
        """Where references are declared: in the workspace, then by the user."""
        places = [SourceDirectory("workspace", self._roots.workspace, (".jaato",))]
        try:
            config_dir = self.host.service("settings").config_dir
        except KeyError:
            return places
        return [*places, SourceDirectory("user", config_dir, ())]

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
        said: dict[str, Any] = {"references": rows[offset : offset + limit], "total": len(rows)}
        if len(rows) > offset + limit:
            said["next_offset"] = offset + limit
        if not rows:
            said["note"] = (
                "None here. Users declare them in .jaato/references.json or put text into .jaato/references/."
            )
        if found.problems:
            said["problems"] = found.problems[:MAX_PROBLEMS]
        return said

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
        wanted = [self._named(found, name) for name in dict.fromkeys(ids or ())]
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
        return PromptEnrichmentResult(text, {"documents": names} if names else {})

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

    def _named(self, found: Declared, name: str) -> Reference:
        """The reference of this id. Raises `ReferenceMissing` that names some."""
        one = found.references.get(name)
        if one is None:
            close = similar_names(name, found.references) or list(found.references)[:20]
            there = f"There are: {', '.join(close)}." if close else "None are declared."
            raise ReferenceMissing(f"No reference has the id {name!r}. {there}")
        return one

    def _text(self, one: Reference, room: int) -> tuple[str, str]:
        """What a reference says, as far as there is room, and what is left out."""
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
        """The start of a file, and whether that is all; a file that cannot be read is said to be so."""
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
