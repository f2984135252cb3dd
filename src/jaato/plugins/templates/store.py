"""Where templates are: the workspace's own, those extracted from documents, and the user's."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from jaato.errors import ToolError
from jaato.protocol.specs import FileChange
from jaato.tools.fences import parts_of
from jaato.tools.folder import Folder
from jaato.tools.unseen import one_line

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


NAME = re.compile(r"(?:extracted/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
PLACE = (".jaato", "templates")
EXTRACTED = "extracted"
MAX_TEMPLATE_BYTES = 256 << 10


class TemplateMissing(ToolError):
    """No template has this name."""

    code = "template_not_found"


class TemplateTaken(ToolError):
    """A template of this name is there already, or belongs to the user."""

    code = "template_exists"


class Row(NamedTuple):
    """A template in the list: `source` is workspace, extracted or user."""

    name: str
    source: str


class Template(NamedTuple):
    """A template with its text."""

    name: str
    source: str
    text: str


class Shelf:
    """The templates that can be used. Raises `ToolError`s."""

    def __init__(self, workspace: Path, config_dir: Path | None) -> None:
        self.folders = {
            "workspace": Folder(workspace, *PLACE),
            EXTRACTED: Folder(workspace, *PLACE, EXTRACTED),
        }
        if config_dir is not None:
            self.folders["user"] = Folder(config_dir, "templates")
        self.problems: list[str] = []
        """What was wrong with folders the last time they were listed."""

    def rows(self) -> list[Row]:
        """Every template; a user's that the workspace has under the same name is not shown."""
        found: dict[str, Row] = {}
        self.problems.clear()
        for source, folder in self.folders.items():
            try:
                names = folder.names()
            except ToolError as error:  # one folder that cannot be read hides no other
                self.problems.append(one_line(str(error), 500))
                continue
            for name in names:
                if NAME.fullmatch(name):
                    full = f"{EXTRACTED}/{name}" if source == EXTRACTED else name
                    found.setdefault(full, Row(full, source))
        return list(found.values())

    def find(self, name: str) -> Template:
        """The template of this name, with or without what follows its first dot. Raises `TemplateMissing`."""
        rows = {row.name: row for row in self.rows()}
        row = rows.get(name)
        if row is None:
            stems = [row for row in rows.values() if name in (plain(row.name), row.name.rpartition(".")[0])]
            if len(stems) != 1:
                raise TemplateMissing(missing(name, [row.name for row in stems] or sorted(rows)))
            row = stems[0]
        data = self.folders[row.source].read(row.name.rpartition("/")[2], MAX_TEMPLATE_BYTES)
        if data is None:
            raise TemplateMissing(missing(name, []))
        try:
            return Template(row.name, row.source, data.decode())
        except UnicodeDecodeError:
            raise TemplateMissing(f"The template {row.name!r} is no UTF-8 text. Replace it.") from None

    def has(self, name: str, text: str) -> bool:
        """Whether a template of the workspace is just this text already."""
        _, folder, file = self._place(name)
        try:
            return folder.read(file, MAX_TEMPLATE_BYTES) == text.encode("utf-8", "replace")
        except ToolError:
            return False

    def write(self, name: str, text: str, *, overwrite: bool) -> FileChange:
        """Keep a template in the workspace; what became of its file. Raises `TemplateTaken`."""
        source, folder, file = self._place(name)
        data = text.encode("utf-8", "replace")
        if len(data) > MAX_TEMPLATE_BYTES:
            raise ToolError(
                f"The template has {len(data):,} bytes; at most {MAX_TEMPLATE_BYTES:,} are possible."
            )
        with folder.locked():
            known = folder.stat(file) is not None
            if known and not overwrite:
                raise TemplateTaken(f"The template {name!r} exists. Give overwrite=true or another name.")
            folder.write(file, data)
        return FileChange(file_of(source, file), "modified" if known else "created")

    def remove(self, name: str) -> FileChange:
        """Delete a template of the workspace; what became of its file. Raises `TemplateMissing`, and `TemplateTaken`
        for the user's own."""
        row = next((row for row in self.rows() if row.name == name), None)
        if row is None:
            raise TemplateMissing(missing(name, [row.name for row in self.rows()]))
        if row.source == "user":
            raise TemplateTaken(
                f"The template {name!r} is the user's own, for every workspace; ask them to remove it."
            )
        file = name.rpartition("/")[2]
        self.folders[row.source].remove(file)
        return FileChange(file_of(row.source, file), "deleted")

    def _place(self, name: str) -> tuple[str, Folder, str]:
        """The folder and file a name stands for. Raises `ToolError` for what is no name."""
        if not NAME.fullmatch(name) or name == EXTRACTED:
            raise ToolError(
                f"{name[:100]!r} is no template name. Use letters, digits, '.', '_' and '-', as in 'report.md'."
            )
        source = EXTRACTED if name.startswith(f"{EXTRACTED}/") else "workspace"
        return source, self.folders[source], name.rpartition("/")[2]


def file_of(source: str, file: str) -> str:
    """The name of a template's file, as seen from the workspace."""
    return "/".join((*PLACE, *((EXTRACTED,) if source == EXTRACTED else ()), file))


def plain(name: str) -> str:
    """A name without what follows its first dot."""
    return name.partition(".")[0]


def missing(name: str, known: list[str]) -> str:
    """That there is no such template, and which there are."""
    there = f"There are: {', '.join(known[:20])}." if known else "create_template makes one."
    return f"There is no template {name[:100]!r}. {there}"
