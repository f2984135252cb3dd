"""Parses patches into hunks: unified diffs (git's and plain ones) and the form `*** Begin Patch`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jaato.errors import ToolError

ESCAPE = re.compile(r"\\([0-7]{3}|.)")
PREFIX = re.compile(r"^[abciow]/")
NULL = "/dev/null"
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
HEAD = re.compile(r"@@+ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@+ ?(.*)")
NOISE = ("index ", "similarity index ", "dissimilarity index ", "```", "old mode ", "deleted file mode ")


class PatchRefused(ToolError):
    """The patch cannot be understood, or does not fit."""

    code = "patch_refused"


@dataclass(slots=True)
class Hunk:
    """One change: lines by their sign, ` `, `-` or `+`; `start` is the first old line, None when unknown.

    `anchor` is a line that comes before. `ends` says that it reaches the end of the file; the other two, that the old
    or the new text has no newline there.
    """

    start: int | None
    head: str
    anchor: str = ""
    lines: list[tuple[str, str]] = field(default_factory=list)
    ends: bool = False
    old_open: bool = False
    new_open: bool = False

    def mark_open(self) -> None:
        """Note that the line before has no newline at its end."""
        sign = self.lines[-1][0] if self.lines else " "
        self.old_open = self.old_open or sign != "+"
        self.new_open = self.new_open or sign != "-"
        self.ends = True

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that will be there."""
        return [text for sign, text in self.lines if sign != "-"]


@dataclass(slots=True)
class FilePatch:
    """The patch of one file: `old` is None for a new one, `new` for one that is removed."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = field(default_factory=list)
    mode: int | None = None
    copies: bool = False
    whole: bool = False
    """Removed as it is, without naming its lines."""

    @property
    def name(self) -> str:
        """How messages name it."""
        return self.new or self.old or ""


def strip_prefixes(old: str, new: str) -> tuple[str, str]:
    """Two names without the directories git puts before them: `a/` and `b/`, or others, on either side."""
    prefixed = [PREFIX.match(name) is not None for name in (old, new)]
    if NULL in (old, new):
        return PREFIX.sub("", old), PREFIX.sub("", new)
    return (old[2:], new[2:]) if all(prefixed) and old[0] != new[0] else (old, new)


def parse_git_names(rest: str) -> tuple[str | None, str | None]:
    """The two names after `diff --git`, None where they are ambiguous."""
    if rest.startswith('"'):
        end = re.match(r'"((?:[^"\\]|\\.)*)" ', rest)
        return strip_prefixes(unquote(end[0].strip()), parse_path(rest[end.end() :])) if end else (None, None)
    half = (len(rest) - 1) // 2
    old, new = strip_prefixes(rest[:half], rest[half + 1 :])
    if old == new:
        return old, new
    parts = rest.split(" ")
    return strip_prefixes(parts[0], parse_path(parts[1])) if len(parts) == 2 else (None, None)


def parse_path(text: str) -> str:
    """A path as a patch writes it: perhaps quoted, perhaps with a time behind a tab."""
    text = text.partition("\t")[0].rstrip() if not text.startswith('"') else text.rstrip()
    return unquote(text) if text.startswith('"') else text


def unquote(text: str) -> str:
    """A path in git's quotes; its bytes are octal."""
    inner = text[1 : text.rindex('"')] if text.count('"') > 1 else text[1:]

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8)) if len(code) == 3 else LETTERS.get(code, code)

    try:
        return ESCAPE.sub(plain, inner).encode("latin-1").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return inner


def parse_mode(text: str) -> int:
    """A file's mode in git's notation. Raises `PatchRefused` for links and repositories."""
    try:
        mode = int(text, 8)
    except ValueError:
        raise PatchRefused(f"{text[:20]!r} is no mode of a file.") from None
    if mode & 0o170000 not in (0, 0o100000):
        raise PatchRefused(
            "The patch makes a link or a submodule, which is not done here. Use run with git apply."
        )
    return mode & 0o777


def parse_patch(text: str) -> list[FilePatch]:
    """The files of a patch. Raises `PatchRefused`."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    is_envelope = any(line.strip() == "*** Begin Patch" for line in lines)
    found = ApplyPatchParser(lines).files() if is_envelope else UnifiedDiffParser(lines).files()
    if not found:
        raise PatchRefused(
            "There is no change in this patch. Give a unified diff: --- a/file, +++ b/file, @@ -1,3 +1,4 @@, then lines "
            "that begin with a space, - or +."
        )
    return found


class UnifiedDiffParser:
    """A unified diff being read; wrong counts in a hunk's head are put up with."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._place = 0
        self._files: list[FilePatch] = []
        self._git = False
        self._named = False

    def files(self) -> list[FilePatch]:
        """Every file. Raises `PatchRefused`."""
        while self._place < len(self._lines):
            line = self._lines[self._place]
            if line.startswith("diff --git "):
                self._files.append(FilePatch(*parse_git_names(line[len("diff --git ") :])))
                self._git, self._named = True, False
            elif self._is_file_head(self._place):
                self._file_head()
            elif line.startswith("@@"):
                self._hunk(line)
                continue
            elif self._git and not line.startswith(NOISE):
                self._parse_extended_header(line)
            self._place += 1
        return [one for one in self._files if one.old is not None or one.new is not None]

    def _is_file_head(self, place: int) -> bool:
        """Whether `---` and `+++` follow each other here."""
        if place + 1 >= len(self._lines):
            return False
        return self._lines[place].startswith("--- ") and self._lines[place + 1].startswith("+++ ")

    def _file_head(self) -> None:
        """The two names."""
        old, new = (parse_path(self._lines[self._place + step][4:]) for step in (0, 1))
        self._place += 1
        old, new = strip_prefixes(old, new)
        if not self._git or self._named:
            self._files.append(FilePatch(None, None))
        self._named = True
        last = self._files[-1]
        last.old = None if old == NULL else old
        last.new = None if new == NULL else new
        if last.old is None and last.new is None:
            raise PatchRefused("A file is named /dev/null on both sides. Correct the lines --- and +++.")

    def _parse_extended_header(self, line: str) -> None:
        """A line of git's between the names and the hunks."""
        last = self._files[-1]
        words = line.split(" ", 2)
        match words[:2]:
            case ["rename", "from"] | ["copy", "from"]:
                last.old = parse_path(words[2])
            case ["rename", "to"] | ["copy", "to"]:
                last.new = parse_path(words[2])
                last.copies = words[0] == "copy"
            case ["new", "mode"]:
                last.mode = parse_mode(words[2])
            case ["new", "file"]:
                last.old = None
                last.mode = parse_mode(line.rsplit(" ", 1)[-1])
            case ["GIT", "binary"]:
                raise PatchRefused(
                    f"{last.name!r} is a binary patch, which is not applied here. Use run with git apply."
                )
            case ["Binary", "files"] if line.endswith(" differ"):
                raise PatchRefused(
                    f"The patch says of {last.name!r} only that binary files differ. It has no content."
                )

    def _hunk(self, line: str) -> None:
        """A hunk; leaves the place behind it."""
        if not self._files or (self._files[-1].old is None and self._files[-1].new is None):
            raise PatchRefused(
                f"Line {self._place + 1}: a hunk before any file. Begin with --- a/file and +++ b/file."
            )
        match = HEAD.match(line)
        hunk = Hunk(int(match[1]) if match else None, line[:200])
        old, new = (int(match[place]) if match and match[place] else 1 for place in (2, 4))
        self._place += 1
        while self._place < len(self._lines):
            text = self._lines[self._place]
            done = match is not None and old <= 0 and new <= 0
            if self._ends_hunk(text, done or match is None):
                break
            sign, rest = (text[0], text[1:]) if text else (" ", "")
            if sign == "\\":
                hunk.mark_open()
            elif sign in " -+":
                hunk.lines.append((sign, rest))
                old -= sign != "+"
                new -= sign != "-"
            else:
                raise PatchRefused(
                    f"Line {self._place + 1} of the patch, in {line[:60]!r}, begins with neither a space, - nor +: "
                    f"{text[:80]!r}."
                )
            self._place += 1
        if not any(sign in "-+" for sign, _ in hunk.lines):
            raise PatchRefused(
                f"The hunk {line[:60]!r} of {self._files[-1].name!r} changes nothing. Leave it out."
            )
        self._files[-1].hunks.append(hunk)

    def _ends_hunk(self, text: str, done: bool) -> bool:
        """Whether a line is no longer part of the hunk; `done` says that its counts are used up."""
        if text.startswith(("diff --git ", "@@ ", "@@\t")) or text == "@@":
            return True
        if self._is_file_head(self._place):
            after = self._lines[self._place + 2 : self._place + 3]
            return done or (bool(after) and after[0].startswith("@@"))
        if not done:
            return text.startswith("```")
        return text in ("-- ", "--", "") or text[0] not in " -+\\"


class ApplyPatchParser:
    """A patch between `*** Begin Patch` and `*** End Patch`, whose hunks have no numbers."""

    def __init__(self, lines: list[str]) -> None:
        start = next(place for place, line in enumerate(lines) if line.strip() == "*** Begin Patch")
        end = next((place for place, line in enumerate(lines) if line.strip() == "*** End Patch"), len(lines))
        self._lines = lines[start + 1 : end]

    def files(self) -> list[FilePatch]:
        """Every file. Raises `PatchRefused`."""
        found: list[FilePatch] = []
        for number, line in enumerate(self._lines, 2):
            word, _, rest = line.partition(": ")
            match word:
                case "*** Add File":
                    found.append(FilePatch(None, rest.strip(), [Hunk(0, line)]))
                case "*** Delete File":
                    found.append(FilePatch(rest.strip(), None, whole=True))
                case "*** Update File":
                    found.append(FilePatch(rest.strip(), rest.strip()))
                case "*** Move to" if found and found[-1].old is not None:
                    found[-1].new = rest.strip()
                case _:
                    self._line(found, line, number)
        for file in found:
            file.hunks = [hunk for hunk in file.hunks if hunk.lines or file.old is None]
        return found

    def _line(self, found: list[FilePatch], line: str, number: int) -> None:
        """A line of a file."""
        if not found:
            raise PatchRefused(
                f"Line {number}: begin with *** Add File: path, *** Update File: or *** Delete File:."
            )
        hunks = found[-1].hunks
        if line.strip() == "*** End of File" and hunks:
            hunks[-1].ends = True
        elif line.startswith("@@"):
            hunks.append(Hunk(None, line[:200], anchor=line[2:].removeprefix(" ").rstrip("@ ")))
        elif line[:1] in ("", " ", "-", "+"):
            if not hunks:
                hunks.append(Hunk(None, line[:200]))
            hunks[-1].lines.append((line[:1] or " ", line[1:]))
        else:
            raise PatchRefused(
                f"Line {number} of the patch begins with neither a space, - nor +: {line[:80]!r}."
            )
