"""Documents of the workspace that a language server has open, and positions in their lines."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from jaato.errors import ToolError
from jaato.plugins.lsp.client import LanguageServer
from jaato.plugins.lsp.languages import Language
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.errors import FileMissing

LINE = re.compile(r"\r\n|\n|\r")
NEAR = 3
SHOWN_CHARS = 240
MAX_TEXT_BYTES = 4 << 20
MAX_OPEN = 50
MAX_SHOWN = 20
MAX_MENTIONS = 40
MENTIONS_S = 2.0
MAX_WATCHED = 10_000
MAX_LOOKED = 200_000
LOOK_S = 0.5
PASSED = frozenset({"node_modules", "__pycache__", "site-packages", "target", "venv", "dist", "build"})
CREATED, CHANGED, DELETED = 1, 2, 3


class SymbolNotFound(ToolError):
    """The symbol is not at the given position."""

    code = "no_such_place"


class TextPositions:
    """A text by its lines, as the protocol counts them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in LINE.finditer(text))]

    def line(self, number: int) -> str:
        """A line from 0, without its end; empty beyond the text."""
        if not 0 <= number < len(self.starts):
            return ""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[number] : end].rstrip("\r\n")

    def offset(self, position: dict[str, Any]) -> int:
        """The index of a position; one beyond a line's end is its end, one beyond the text the text's end.

        Raises ValueError for what is no position.
        """
        number, unit = position.get("line"), position.get("character")
        if type(number) is not int or type(unit) is not int or number < 0 or unit < 0:
            raise ValueError(f"{position!r} is no position")
        if number >= len(self.starts):
            return len(self.text)
        return self.starts[number] + index_at_unit(self.line(number), unit)

    def find_symbol(self, symbol: str | None, line: int | None, column: int | None) -> dict[str, int]:
        """The position that is meant, lines and columns counted from 1. Raises `NoSuchPlace`."""
        if line is not None and not 1 <= line <= len(self.starts):
            raise SymbolNotFound(f"There is no line {line}: the file has {len(self.starts)}.")
        if symbol is None or not symbol.strip():
            if line is None or column is None:
                raise SymbolNotFound("Name the symbol, and the line it is on; or give line and column.")
            return position_at(line - 1, self.line(line - 1), column - 1)
        name = symbol.strip().rsplit(".", 1)[-1].removesuffix("()")
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        if line is None:
            near = range(len(self.starts))
        else:
            near = sorted(  # type: ignore[assignment]  # both are sequences of numbers
                range(max(0, line - 1 - NEAR), min(len(self.starts), line + NEAR)),
                key=lambda n: abs(n - line + 1),
            )
        for number in near:
            found = [match.start() for match in pattern.finditer(self.line(number))]
            if found:
                at = min(found, key=lambda index: abs(index - column + 1)) if column is not None else found[0]
                return position_at(number, self.line(number), at)
        others = [n + 1 for n in range(len(self.starts)) if pattern.search(self.line(n))][:10]
        where = f"; it is on line {', '.join(map(str, others))}" if others else " of this file"
        raise SymbolNotFound(
            f"{name!r} is not on line {line}{where}." if line else f"{name!r} is on no line of this file."
        )

    def word_at(self, position: dict[str, int]) -> str:
        """The name at a position; empty where there is none."""
        text = self.line(position["line"])
        at = index_at_unit(text, position["character"])
        return next((m[0] for m in re.finditer(r"\w+", text) if m.start() <= at <= m.end()), "")


def position_at(number: int, text: str, index: int) -> dict[str, int]:
    """The position of a character of a line."""
    units = len(text[: max(0, index)].encode("utf-16-le", "surrogatepass")) // 2
    return {"line": number, "character": units}


def index_at_unit(text: str, unit: int) -> int:
    """The index of the character at this UTF-16 unit; the end where the text is shorter."""
    if text.isascii():
        return min(unit, len(text))
    passed = 0
    for index, character in enumerate(text):
        if passed >= unit:
            return index
        passed += 2 if ord(character) > 0xFFFF else 1
    return len(text)


class NotSource(ToolError):
    """The file cannot be shown to a language server."""

    code = "not_source"


@dataclass(slots=True)
class OpenDocument:
    """An open file as the server knows it."""

    path: Path
    version: int
    text: str


class ServerDocuments:
    """The files of one server. Blocking reads are short and bounded, so they are made in place."""

    def __init__(self, server: LanguageServer, language: Language, roots: Roots) -> None:
        self.server = server
        self._language = language
        self._roots = roots
        self._open: OrderedDict[str, OpenDocument] = OrderedDict()
        self._seen: dict[str, tuple[int, int]] | None = None
        self._looked_at = 0.0
        self.changes = 0
        """How many times the server was notified of changes by others."""

    def open(self, path: str, *, now: bool = False) -> tuple[str, TextPositions]:
        """Have the server know a file as it is now; gives its URI and text. Raises `ToolError`s.

        `now` has it know all others as they are now, too, not as they were a moment ago.
        """
        place, text = self.read(path)
        uri = place.as_uri()
        self._sync(uri, place, text)
        self.refresh(now=now)
        while len(self._open) > MAX_OPEN:
            old, _ = self._open.popitem(last=False)
            self._close(old)
        return uri, TextPositions(text)

    def any_open_uri(self) -> str | None:
        """The URI of an open file; opens any when none is open; None where there is no file of the language."""
        for name in self._seen or () if not self._open else ():
            try:
                path, text = self.read(name)
            except ToolError:
                continue
            self._sync(path.as_uri(), path, text)
            break
        return next(reversed(self._open), None)

    def open_mentions(self, word: str) -> list[str]:
        """Open the files that contain a word at a server that reads open files only; gives their URIs.

        Raises `NotSource` where there are too many of them.
        """
        if not self._language.knows_shown:
            return []
        found = list(itertools.islice(self.find_mentions(word), MAX_MENTIONS + 1))
        if len(found) > MAX_MENTIONS:
            raise NotSource(
                f"More than {MAX_MENTIONS} files have {word[:80]!r}, too many to show to this language server. "
                "Use grep_content or ast_search."
            )
        for path, text in found:
            self._sync(path.as_uri(), path, text)
        return [path.as_uri() for path, _ in found]

    def find_mentions(self, word: str) -> Iterator[tuple[Path, str]]:
        """The files of the language that have a word, as far as they can be read in bounded time."""
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
        until = time.monotonic() + MENTIONS_S
        for name in self._seen or () if word else ():
            if time.monotonic() > until:
                return
            try:
                path, text = self.read(name)
            except ToolError:
                continue
            if pattern.search(text):
                yield path, text

    def is_in_sync(self, path: Path, text: str) -> bool:
        """Whether the server has the current text of a file; edits would be misplaced otherwise."""
        document = self._open.get(path.as_uri())
        if document is not None:
            return document.text == text
        state = (self._seen or {}).get(str(path))
        try:
            info = path.stat()
        except OSError:
            return False
        return state is None or state == (info.st_mtime_ns, info.st_size)

    def version(self, path: str) -> int:
        """Which version of a file the server has; 0 of one that is not open."""
        try:
            with self._roots.locate(path) as place:
                known = self._open.get(place.path.as_uri())
        except ToolError:
            return 0
        return known.version if known is not None else 0

    def read(self, path: str) -> tuple[Path, str]:
        """The true path and the text of a file below the roots. Raises `ToolError`s."""
        with self._roots.helpful(path), self._roots.locate(path) as place:
            true = place.path
        with self._roots.open_file(path) as file:
            data = file.read(MAX_TEXT_BYTES + 1)
        if len(data) > MAX_TEXT_BYTES:
            raise NotSource(
                f"{path!r} has more than {MAX_TEXT_BYTES >> 20} MB, too much for a language server."
            )
        try:
            return true, data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise NotSource(f"{path!r} is not UTF-8 text, so no language server reads it.") from None

    def refresh(self, *, now: bool = False) -> None:
        """Notify the server of changes on disk, of open files and of others of its language.

        The others are looked at every half second at most, unless it is to be `now`.
        """
        for uri, document in list(self._open.items()):
            try:
                self._sync(uri, *self.read(str(document.path)))
            except ToolError:
                del self._open[uri]
                self._close(uri)
        at = time.monotonic()
        if at - self._looked_at < LOOK_S and self._seen is not None and not now:
            return
        before, self._seen = self._seen, dict(self._files())
        self._looked_at = at
        if before is None:
            return
        changes = [
            {"uri": Path(name).as_uri(), "type": CREATED if name not in before else CHANGED}
            for name, state in self._seen.items()
            if before.get(name) != state
        ]
        changes += [
            {"uri": Path(name).as_uri(), "type": DELETED} for name in before if name not in self._seen
        ]
        if changes:
            self.changes += 1
            self.server.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        for change in changes[:MAX_SHOWN]:  # servers react slowly to changes on disk
            if change["type"] != DELETED:
                try:
                    path, text = self.read(unquote(urlsplit(str(change["uri"])).path))
                except ToolError:
                    continue
                self._sync(path.as_uri(), path, text)

    def display_path(self, uri: str) -> tuple[str, bool]:
        """A URI as a path, relative in the workspace, and whether it may be read here."""
        parts = urlsplit(uri)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            return uri[:500], False
        path = Path(unquote(parts.path))
        try:
            root, rest = self._roots.relative(str(path))
        except ToolError:
            return str(path), False
        return (str(rest) if root == self._roots.workspace else str(path)), True

    def _sync(self, uri: str, path: Path, text: str) -> None:
        known = self._open.get(uri)
        if known is None:
            kind = self._language.suffixes.get(path.suffix.lower(), self._language.name)
            self._open[uri] = OpenDocument(path, 1, text)
            item = {"uri": uri, "languageId": kind, "version": 1, "text": text}
            self.server.notify("textDocument/didOpen", {"textDocument": item})
        elif known.text != text:
            known.version += 1
            known.text = text
            self.server.notify(
                "textDocument/didChange",
                {"textDocument": {"uri": uri, "version": known.version}, "contentChanges": [{"text": text}]},
            )
            self.server.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        if uri in self._open:
            self._open.move_to_end(uri)

    def _close(self, uri: str) -> None:
        self.server.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """The files of the language below the server's root, by path: when each was changed, and its size."""
        count, looked, waiting = 0, 0, [str(self.server.root)]
        while waiting and count < MAX_WATCHED and looked < MAX_LOOKED:
            try:
                with os.scandir(waiting.pop()) as found:
                    for entry in found:
                        looked += 1
                        name = entry.name
                        if entry.is_dir(follow_symlinks=False):
                            if not name.startswith(".") and name not in PASSED:
                                waiting.append(entry.path)
                        elif os.path.splitext(name)[1].lower() in self._language.suffixes:
                            info = entry.stat(follow_symlinks=False)
                            count += 1
                            yield entry.path, (info.st_mtime_ns, info.st_size)
            except OSError:
                continue  # gone meanwhile, or not ours to read


def source_line(
    project: ServerDocuments, path: str, number: int, cache: dict[str, TextPositions | None]
) -> str | None:
    """A line of a file, from 0; None where it cannot be read. `cache` keeps what was read."""
    if path not in cache:
        try:
            cache[path] = TextPositions(project.read(path)[1])
        except (ToolError, FileMissing):
            cache[path] = None
    lines = cache[path]
    return None if lines is None else lines.line(number).strip()[:240]


def location_of(found: Any) -> tuple[str, dict[str, Any]] | None:
    """The URI and start of a Location or LocationLink; None for neither."""
    match found:
        case {"uri": str(uri), "range": {"start": dict(start)}}:
            return uri, start
        case {"targetUri": str(uri), "targetSelectionRange": {"start": dict(start)}}:
            return uri, start
    return None
