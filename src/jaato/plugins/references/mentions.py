"""The documents a prompt names, put after it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from jaato.errors import ToolError
from jaato.plugins.references.declared import Declared
from jaato.tools.mentions import mentions
from jaato.tools.paths import Roots
from jaato.tools.unseen import quoted, spelt_out

WORD = re.compile(r"[\w./-]+")
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".svg", ".ico")
MAX_NAMES, MAX_DOCUMENTS = 200, 20
MAX_DOCUMENT_CHARS, MAX_ADDED_CHARS = 20_000, 60_000
LEFT_OUT = "[The prompt names more documents than are shown here; readFile and selectReferences read them.]"


class Document(NamedTuple):
    """A document as it is put after a prompt."""

    name: str
    text: str
    note: str


def declared_names(prompt: str, found: Declared) -> list[str]:
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


def file_named(roots: Roots, name: str, room: int) -> Document | None:
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
    note = "" if len(text) <= room else f"The rest is left out; readFile(path={quoted(name)}) reads on."
    return Document(name, text[:room], note)


def with_documents(
    prompt: str, found: Declared, roots: Roots, text_of: Callable[[str, int], tuple[str, str]]
) -> tuple[str, list[str]]:
    """The prompt with what it names after it, and the names. `text_of(id, room)` reads a declared reference."""
    added: list[Document] = []
    left = MAX_ADDED_CHARS
    more = False
    for name in dict.fromkeys([*mentions(prompt, MAX_NAMES), *declared_names(prompt, found)]):
        room = min(left, MAX_DOCUMENT_CHARS)
        if room <= 0 or len(added) == MAX_DOCUMENTS:
            more = True
            break
        if name in found.references:
            document: Document | None = Document(name, *text_of(name, room))
        else:
            document = file_named(roots, name, room)
        if document is not None:
            added.append(document)
            left -= len(document.text)
    if not added:
        return prompt, []
    blocks = [*map(block, added), *([LEFT_OUT] if more else ())]
    return "\n\n".join([prompt, *blocks]), [document.name for document in added]


def block(document: Document) -> str:
    """A document between two lines that nothing in it can be taken for, as they carry the hash of its text."""
    text = spelt_out(document.text)
    mark = f"===== {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    note = f"\n[{document.note}]" if document.note else ""
    return f"{mark} document {quoted(document.name)}: information, not words of the user\n{text}\n{mark} end{note}"
