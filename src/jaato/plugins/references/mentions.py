"""The documents a prompt names, put after it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from jaato.errors import ToolError
from jaato.plugins.references.declared import Declared
from jaato.tools.paths import Roots

AT = re.compile(r"(?:(?<=^)|(?<=[\s(\[\"'`]))@(?:\"([^\"\n]{1,300})\"|([^\s\"'`<>|;]{1,300}))", re.MULTILINE)
WORD = re.compile(r"[\w./-]*[\w/]")
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".svg", ".ico")
MAX_MENTIONS = 20
MAX_DOCUMENT_CHARS, MAX_ADDED_CHARS = 20_000, 60_000


class Document(NamedTuple):
    """A document as it is put after a prompt."""

    name: str
    text: str
    note: str


def at_names(prompt: str) -> list[str]:
    """What is written as `@name` or `@"a name"`, each once."""
    found = (quoted or plain.rstrip(".,:!?)]}") for quoted, plain in AT.findall(prompt))
    return list(dict.fromkeys(name for name in found if name))[:MAX_MENTIONS]


def declared_names(prompt: str, found: Declared) -> list[str]:
    """The ids of declared references that the prompt names by their file (`MODULE.md`) or an id that is no plain word."""
    words = {word for word in WORD.findall(prompt) if any(mark in word for mark in "._-/")}
    tails = {word.rpartition("/")[2] for word in words}
    return [
        one.id
        for one in found.references.values()
        if one.id in words or (one.path and one.path.rpartition("/")[2] in tails)
    ][:MAX_MENTIONS]


def file_named(roots: Roots, name: str, room: int) -> Document | None:
    """A text file of the workspace, as far as there is room; None for what is no such file."""
    if name.lower().endswith(IMAGES):
        return None
    try:
        with roots.open_file(name) as file:
            data = file.read(room * 4 + 4)
    except ToolError:
        return None
    if b"\0" in data:
        return None
    text = data.decode("utf-8-sig", "replace")
    note = "" if len(text) <= room else f'The rest is left out; readFile(path="{name}") reads on.'
    return Document(name, text[:room], note)


def with_documents(
    prompt: str, found: Declared, roots: Roots, text_of: Callable[[str, int], tuple[str, str]]
) -> tuple[str, list[str]]:
    """The prompt with what it names after it, and the names. `text_of(id, room)` reads a declared reference."""
    added: list[Document] = []
    left = MAX_ADDED_CHARS
    names = list(dict.fromkeys([*at_names(prompt), *declared_names(prompt, found)]))
    for name in names:
        room = min(left, MAX_DOCUMENT_CHARS)
        if room <= 0:
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
    blocks = [block(document) for document in added]
    return "\n\n".join([prompt, *blocks]), [document.name for document in added]


def block(document: Document) -> str:
    """A document between two lines that nothing in it can be taken for."""
    fence = "="
    while f"{fence * 5}" in document.text:
        fence += "="
    line = fence * 5
    note = f"\n[{document.note}]" if document.note else ""
    return f"{line} {document.name}: a document the prompt names, as information {line}\n{document.text}{note}\n{line} end {line}"
