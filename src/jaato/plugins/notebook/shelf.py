"""Where notebook files are read and written, one at a time, as the file tools do it."""

from __future__ import annotations

import threading
from typing import Any

from jaato.abc.plugin import Host
from jaato.errors import ToolError
from jaato.plugins.notebook.book import MAX_FILE_BYTES, Book, NotebookRefused
from jaato.tools.call import Call
from jaato.tools.file_errors import FileMissing
from jaato.tools.reach import roots_of


class Shelf:
    """The notebook files beneath a session's directories. Safe from any thread; its methods block."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._roots = roots_of(host)
        self._lock = threading.Lock()

    def read(self, path: str) -> Book:
        """The notebook of a file. Raises `NotebookRefused` and other `ToolError`s."""
        with self._roots.open_file(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise NotebookRefused(
                f"{path!r} has more than {MAX_FILE_BYTES >> 20} MB. Clear its outputs first."
            )
        return Book.read(path, data.decode("utf-8", "replace"))

    def record(
        self, path: str, before: Book, cell: int | None, code: str, answer: dict[str, Any], call: Call
    ) -> str:
        """Put what a cell gave into the file as it is now; why that was not done, if it was not.

        The cell has run: whatever is wrong with the file, its result is not lost for it.
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

    def write(self, path: str, document: Book, call: Call) -> None:
        """Write the file as the file tools do, so that it can be undone. Raises `ToolError`s."""
        found = self._host.service("catalog").find("multiFileEdit")
        if found is None:
            raise ToolError("Notebook files are written by the plugin file_edit, which is not exposed here.")
        found.tool.run({"edits": [{"path": path, "new_content": document.text}]}, call)
