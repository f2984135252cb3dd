"""The encoding of a text file, its byte order mark and line ends, preserved byte for byte by an edit."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaato.errors import ToolError

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "latin-1"]
SNIFFED_BYTES = 8192
MAX_ALIGNED_LINES = 3000
ODD = re.compile("[\ud800-\udfff]")
MARKS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

NO_NEWLINE = " ⟨no newline at the end⟩"
"""What a diff shows after a last line without one."""


class NotText(ToolError):
    """The file is binary, or cannot hold what is to be written."""

    code = "not_text"


@dataclass(frozen=True, slots=True)
class Form:
    """How a text lies in its file: byte order mark, encoding, and how odd bytes are carried."""

    mark: bytes = b""
    encoding: Encoding = "utf-8"

    @property
    def errors(self) -> str:
        """The codec's error handler that gives every byte back."""
        return "surrogateescape" if self.encoding == "utf-8" else "surrogatepass"

    @property
    def name(self) -> str:
        """The form in words."""
        return f"{self.encoding} with BOM" if self.mark == codecs.BOM_UTF8 else self.encoding

    def decode(self, data: bytes) -> str:
        """The text of a whole file; `encode` gives the same bytes back."""
        return data[len(self.mark) :].decode(self.encoding, self.errors)

    def encode(self, text: str) -> bytes:
        """The bytes of a whole file; raises `NotText` when the encoding has no such character."""
        try:
            return self.mark + text.encode(self.encoding, self.errors)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise NotText(
                f"The file is {self.name}, which has no {character!r}. Use other characters, or convert "
                "the file to UTF-8 first (for instance with iconv)."
            ) from None


def form_of(data: bytes) -> Form:
    """The form of a file's bytes (all of them, or its first ones). Raises `NotText` for binary data."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            form = Form(mark, encoding)
            if encoding == "utf-8":
                return form if b"\0" not in data[:SNIFFED_BYTES] else binary()
            return form if is_utf16(data[2:], encoding) else binary()
    if b"\0" in data[:SNIFFED_BYTES]:
        return binary()
    try:
        data.decode()
        return Form()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(data) - error.start < 4:
            return Form()  # cut in the middle of a character
    text = data.decode("utf-8", "surrogateescape")
    odd = sum("\udc80" <= character <= "\udcff" for character in text if character > "\x7f")
    whole = sum(not "\udc80" <= character <= "\udcff" for character in text if character > "\x7f")
    return Form() if whole > odd else Form(b"", "latin-1")


def binary() -> Form:
    """Raise: these bytes are no text."""
    raise NotText("The file is binary. Use run with a program that understands its format.")


def is_utf16(data: bytes, encoding: str) -> bool:
    """Whether bytes after a UTF-16 mark are such text."""
    sample = data[:SNIFFED_BYTES]
    return len(data) % 2 == 0 and "\0" not in sample[: len(sample) // 2 * 2].decode(encoding, "surrogatepass")


def display_text(text: str) -> str:
    """Text for the model: one kind of line end, and U+FFFD for bytes that are no character."""
    text = text.replace("\r\n", "\n")
    return text if text.isascii() else ODD.sub("\ufffd", text)


def newlines_of(text: str) -> str:
    """The line ends of a text: `LF`, `CRLF`, `CR`, `mixed` or `none`."""
    crlf = text.count("\r\n")
    lf = text.count("\n") - crlf
    if crlf and lf:
        return "mixed"
    if crlf or lf:
        return "CRLF" if crlf else "LF"
    return "CR" if "\r" in text else "none"


class NormalizedText:
    """A text beside its view with plain `\\n` line ends, in which models think; positions map back."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.view = raw.replace("\r\n", "\n")
        self.returns: list[int] = []
        if len(self.view) != len(raw):
            self.returns = [match.start() - count for count, match in enumerate(re.finditer("\r\n", raw))]

    def position(self, place: int) -> int:
        """Where a position of the view lies in the text itself."""
        return place + bisect_left(self.returns, place)

    def replace(self, start: int, end: int, new: str) -> str:
        """The text with this part of the view replaced; kept lines keep their line ends."""
        first, last = self.position(start), self.position(end)
        new = new.replace("\r\n", "\n")
        if self.returns:
            new = self.with_line_ends(self.raw[first:last], new, first)
        return self.raw[:first] + new + self.raw[last:]

    def with_line_ends(self, old: str, new: str, first: int) -> str:
        """`new` with the line ends of `old`: line by line where both agree, else those around."""
        before, after = lines_of(old), lines_of(new)
        usual = self.usual_end(first)
        ends: list[str] = [usual] * len(after)
        for tag, a, b, c, d in align_lines([strip(line) for line in before], [strip(line) for line in after]):
            if tag in ("equal", "replace"):
                for index in range(c, d):
                    source = before[min(a + index - c, b - 1)]
                    ends[index] = end_of(source) or usual
            elif a > 0:
                for index in range(c, d):
                    ends[index] = end_of(before[a - 1]) or usual
        return "".join(
            strip(line) + (end if line.endswith("\n") else "") for line, end in zip(after, ends, strict=True)
        )

    def usual_end(self, position: int) -> str:
        """The line end of the line at a position, or of the one before it, or the most common one."""
        for found in (self.raw.find("\n", position), self.raw.rfind("\n", 0, position)):
            if found >= 0:
                return "\r\n" if found and self.raw[found - 1] == "\r" else "\n"
        return "\r\n" if self.returns else "\n"


def lines_of(text: str) -> list[str]:
    """The lines with their ends; only `\\n` ends a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def strip(line: str) -> str:
    """A line without its end."""
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def end_of(line: str) -> str:
    """The end of a line, empty when it has none."""
    if line.endswith("\r\n"):
        return "\r\n"
    return "\n" if line.endswith("\n") else ""


def align_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """Which lines stay, as difflib's opcodes; common lines at both ends are found first, so it stays fast."""
    start = 0
    limit = min(len(old), len(new))
    while start < limit and old[start] == new[start]:
        start += 1
    end = 0
    while end < limit - start and old[-1 - end] == new[-1 - end]:
        end += 1
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    middle: list[tuple[str, int, int, int, int]] = []
    if a and b and len(a) + len(b) <= MAX_ALIGNED_LINES:
        import difflib

        middle = [
            (tag, i + start, j + start, k + start, m + start)
            for tag, i, j, k, m in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        ]
    elif a or b:
        tag = "replace" if a and b else "delete" if a else "insert"
        middle = [(tag, start, start + len(a), start, start + len(b))]
    head = [("equal", 0, start, 0, start)] if start else []
    tail = [("equal", len(old) - end, len(old), len(new) - end, len(new))] if end else []
    return [*head, *middle, *tail]


def decodable_prefix(data: bytes) -> bytes | None:
    """Text up to its last complete character; None if it is no text."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        cut = error.start > 0 and error.start >= len(data) - 3 and error.reason == "unexpected end of data"
        return data[: error.start] if cut else None
    return data
