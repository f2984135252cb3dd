"""Notebook files in nbformat 4: their cells, read and written under a lock."""

from __future__ import annotations

import json
import secrets
import threading
from typing import Any

from jaato.abc.plugin import Host
from jaato.errors import ToolError
from jaato.tools.call import Call
from jaato.tools.filesystem.errors import FileMissing
from jaato.tools.host_services import roots_of

MAX_FILE_BYTES = 64 << 20


class NotebookRefused(ToolError):
    """The file is no valid notebook."""

    code = "notebook_refused"


class NotebookDocument:
    """The document of a notebook file."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    @classmethod
    def empty(cls) -> NotebookDocument:
        """A new notebook for Python."""
        return cls(
            {
                "cells": [],
                "metadata": {
                    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                    "language_info": {"name": "python"},
                },
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        )

    @classmethod
    def read(cls, path: str, text: str) -> NotebookDocument:
        """The notebook in this text. Raises `NotebookRefused`."""
        try:
            document = json.loads(text)
            cells = document["cells"]
            whole = isinstance(cells, list) and document["nbformat"] == 4
            whole = whole and all(
                isinstance(cell, dict) and isinstance(cell["cell_type"], str) and source_of(cell) is not None
                for cell in cells
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise NotebookRefused(f"{path!r} is no notebook of format 4. Convert it, or name a new file.")
        language = language_of(document)
        if "python" not in language.lower():
            raise NotebookRefused(
                f"{path!r} is a notebook for {language[:40]!r}; only Python can be run here."
            )
        return cls(document)

    @property
    def text(self) -> str:
        """The file."""
        return (
            json.dumps(self.document, indent=1, ensure_ascii=False).encode("utf-8", "replace").decode() + "\n"
        )

    def source(self, number: int) -> str:
        """The code of a cell, counted from 1 over all cells. Raises `NotebookRefused`."""
        cells = self.document["cells"]
        if not 1 <= number <= len(cells):
            raise NotebookRefused(
                f"There is no cell {number}: the notebook has {len(cells)}, counted from 1."
            )
        if cells[number - 1]["cell_type"] != "code":
            raise NotebookRefused(f"Cell {number} is {cells[number - 1]['cell_type']}, not code.")
        return source_of(cells[number - 1]) or ""

    def find(self, number: int) -> str | None:
        """The code of a cell, None where there is no such cell of code."""
        try:
            return self.source(number)
        except NotebookRefused:
            return None

    def record(self, number: int | None, code: str, count: Any, outputs: list[dict[str, Any]]) -> int:
        """Store the outputs of a cell, of a new one at the end without a number. Gives the number."""
        cells = self.document["cells"]
        given = {"execution_count": count, "outputs": [split_output_lines(output) for output in outputs]}
        if number is not None:
            cells[number - 1].update(given)
            return number
        cell = {"cell_type": "code", "metadata": {}, **given, "source": code.splitlines(keepends=True)}
        minor = self.document.get("nbformat_minor")
        if isinstance(minor, int) and minor >= 5:
            cell["id"] = secrets.token_hex(4)
        cells.append(cell)
        return len(cells)


def language_of(document: dict[str, Any]) -> str:
    """The language its cells are in, Python where it does not say."""
    match document.get("metadata"):
        case {"kernelspec": {"language": str(language)}} if language:
            return language
        case {"language_info": {"name": str(language)}} if language:
            return language
    return "python"


def source_of(cell: dict[str, Any]) -> str | None:
    """The text of a cell, or None when it has none."""
    match cell.get("source"):
        case str() as text:
            return text
        case list() as lines if all(isinstance(line, str) for line in lines):
            return "".join(lines)
    return None


def split_output_lines(output: dict[str, Any]) -> dict[str, Any]:
    """An output with its texts as lists of lines, as the format has them."""
    match output:
        case {"output_type": "stream", "text": str(text)}:
            return {**output, "text": text.splitlines(keepends=True)}
        case {"data": dict(data)}:
            return {
                **output,
                "data": {
                    kind: value.splitlines(keepends=True) if kind.startswith("text/") else value
                    for kind, value in data.items()
                },
            }
    return output


class NotebookFiles:
    """The notebook files below a session's directories. Safe from any thread; its methods block."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._roots = roots_of(host)
        self._lock = threading.Lock()

    def read(self, path: str) -> NotebookDocument:
        """The notebook of a file. Raises `NotebookRefused` and other `ToolError`s."""
        with self._roots.open_file(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise NotebookRefused(
                f"{path!r} has more than {MAX_FILE_BYTES >> 20} MB. Clear its outputs first."
            )
        return NotebookDocument.read(path, data.decode("utf-8", "replace"))

    def record(
        self,
        path: str,
        before: NotebookDocument,
        cell: int | None,
        code: str,
        answer: dict[str, Any],
        call: Call,
    ) -> str:
        """Store the outputs of a cell in the current file; returns why not, if that failed.

        An invalid file does not lose the result of the cell, which has run.
        """
        try:
            with self._lock:  # two notebooks may have one file
                try:
                    document = self.read(path)
                except FileMissing:
                    document = before
                if cell is not None and document.find(cell) != code:
                    return (
                        f"Cell {cell} of {path} has changed meanwhile, so its outputs were not written there."
                    )
                document.record(cell, code, answer.get("count"), answer.get("outputs", []))
                self.write(path, document, call)
        except (ToolError, OSError) as error:
            return f"What the cell gave could not be written to {path}: {error}"
        return ""

    def write(self, path: str, document: NotebookDocument, call: Call) -> None:
        """Write the file as the file tools do, so that it can be undone. Raises `ToolError`s."""
        found = self._host.service("catalog").find("multiFileEdit")
        if found is None:
            raise ToolError("Notebook files are written by the plugin file_edit, which is not exposed here.")
        found.tool.run({"edits": [{"path": path, "new_content": document.text}]}, call)
