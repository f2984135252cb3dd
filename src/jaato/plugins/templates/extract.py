"""Templates embedded in a document: its fenced code blocks that have places to fill in."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from jaato.tools.fences import parts_of

MARKED = re.compile(r"\{\{[^{}\n]{1,500}\}\}|\{%[^{}\n]{1,500}%\}")
UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
SUFFIXES = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "markdown": "md",
    "rust": "rs",
    "ruby": "rb",
    "shell": "sh",
    "bash": "sh",
    "jinja": "j2",
    "jinja2": "j2",
    "csharp": "cs",
    "kotlin": "kt",
    "text": "txt",
}
MAX_TEMPLATES = 50


def templates_in(document: str, path: str) -> list[tuple[str, str]]:
    """The templates embedded in a document as (file name, text), named after it and numbered from 1."""
    stem = UNSAFE.sub("-", PurePosixPath(path).stem).strip("-")[:60] or "document"
    marked = [(language, text) for language, text in parts_of(document).blocks if MARKED.search(text)]
    return [
        (f"{stem}-{number}.{suffix(language)}", text)
        for number, (language, text) in enumerate(marked[:MAX_TEMPLATES], 1)
    ]


def suffix(language: str) -> str:
    """The ending of a file in this language."""
    known = SUFFIXES.get(language)
    return known or (language if re.fullmatch(r"[a-z0-9]{1,10}", language) else "txt")
