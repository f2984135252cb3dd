"""Which lines of open files match: by ripgrep, or by Python with the same answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from jaato.errors import ToolError
from jaato.plugins.search.letters import Written
from jaato.plugins.search.walk import Limits
from jaato.tools.processes.sandbox.alone import alone, code_of
from jaato.tools.programs import find_program

FD_DIRECTORY = Path("/dev/fd")
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""All a matcher is told: no configuration file, no preprocessor, no path to look for one on."""

RIPGREP_FLAGS = [
    "--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename", "--null", "--text",
    "--no-mmap", "--no-ignore", "--hidden", "--no-pre", "--no-search-zip", "--engine=default", "--threads=2",
    "--no-crlf", "--regex-size-limit=64M", "--dfa-size-limit=64M",
]  # fmt: skip


EVERY = 1 << 31
"""So many lines that all of a file's are named."""
LINE_END = sys.maxsize
"""The column of a match that is nothing but the end of its line."""


class SearchFailed(ToolError):
    """The matcher could not do its work."""

    code = "search_failed"


@dataclass(slots=True)
class Hits:
    """The matching lines of one file: how many, and the first of them as (line, column in bytes), from 1."""

    count: int = 0
    named: list[tuple[int, int]] = field(default_factory=list)


class Engine(Protocol):
    """Finds matching lines. `find` gives the hits of each file in order, the first `most` of all by name at least.

    Ends with what it has when the time is over; `limits.stopped` then says so.
    """

    def find(
        self, wanted: Written, ignore_case: bool, fds: Sequence[int], most: int, limits: Limits
    ) -> list[Hits]: ...


def output_of(
    command: list[str], fds: Sequence[int], given: bytes, limits: Limits
) -> tuple[int | None, bytes, str]:
    """Run a matcher on open files, which are all it sees: its exit code (None: stopped by time), what it wrote, and its
    complaint."""
    with (
        alone(command[0], fds) as start,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as complaint,
    ):
        process = subprocess.Popen(
            [*start.prefix, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=complaint,
            pass_fds=[*fds, *start.descriptors],
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
        forget = limits.token.on_cancel(process.kill)
        code: int | None
        try:
            process.communicate(given, timeout=max(0.05, limits.left_s))
            code = code_of(process.returncode, start.prefix)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            forget()
            process.kill()
            process.wait()
        limits.go_on()
        output.seek(0)
        complaint.seek(0)
        return code, output.read(), complaint.read(4000).decode("utf-8", "replace").strip()


@dataclass(frozen=True, slots=True)
class Ripgrep:
    """ripgrep on descriptors: what to search is settled here, so none of its own rules about files apply."""

    program: str

    def find(
        self, wanted: Written, ignore_case: bool, fds: Sequence[int], most: int, limits: Limits
    ) -> list[Hits]:
        """Count in all files, then ask for the lines of those that are still to be shown."""
        if most == EVERY:
            return self._every(wanted, ignore_case, fds, limits)
        hits = [Hits() for _ in fds]
        positions = {str(FD_DIRECTORY / str(fd)): at for at, fd in enumerate(fds)}
        for name, text in self._run(["--count"], wanted, ignore_case, fds, limits):
            hits[positions[name]].count = int(text)
        named: list[int] = []
        left = most
        for at, hit in enumerate(hits):
            if hit.count and left > 0:
                named.append(fds[at])
                left -= hit.count
        if named and limits.stopped is None:
            for fd in named:
                os.lseek(fd, 0, os.SEEK_SET)
            flags = ["--line-number", "--column", "--max-columns=1", f"--max-count={most}"]
            for name, text in self._run(flags, wanted, ignore_case, named, limits):
                hits[positions[name]].named.append(place_of(text))
        return hits

    def _every(self, wanted: Written, ignore_case: bool, fds: Sequence[int], limits: Limits) -> list[Hits]:
        """Name every line in one run."""
        hits = [Hits() for _ in fds]
        positions = {str(FD_DIRECTORY / str(fd)): at for at, fd in enumerate(fds)}
        flags = ["--line-number", "--column", "--max-columns=1"]
        for name, text in self._run(flags, wanted, ignore_case, fds, limits):
            hits[positions[name]].named.append(place_of(text))
        return [Hits(len(hit.named), hit.named) for hit in hits]

    def _run(
        self, flags: list[str], wanted: Written, ignore_case: bool, fds: Sequence[int], limits: Limits
    ) -> Iterable[tuple[str, str]]:
        """One run: each line it wrote, as file and text."""
        case = "--ignore-case" if ignore_case else "--case-sensitive"
        files = [str(FD_DIRECTORY / str(fd)) for fd in fds]
        command = [self.program, *RIPGREP_FLAGS, case, *flags, f"--regexp={wanted.rust}", "--", *files]
        code, data, complaint = output_of(command, fds, b"", limits)
        if code is not None and code < 0:
            raise SearchFailed(f"ripgrep was ended by signal {-code}. Narrow the search with path or glob.")
        if code == 2 and complaint:
            raise SearchFailed(f"ripgrep refused the search: {complaint[:500]}")
        for line in data.split(b"\n")[:-1]:
            name, mark, text = line.partition(b"\0")
            if mark:
                yield name.decode(), text.decode("utf-8", "replace")


def place_of(text: str) -> tuple[int, int]:
    """Line and column of a match as ripgrep writes them; it gives no column for nothing at the end of a file."""
    line, column, *_ = text.split(":", 2)
    return int(line), int(column) if column.isdecimal() else LINE_END


@dataclass(frozen=True, slots=True)
class Python:
    """Python's `re`, in a process that is ended when the time is over."""

    def find(
        self, wanted: Written, ignore_case: bool, fds: Sequence[int], most: int, limits: Limits
    ) -> list[Hits]:
        """One run over all files."""
        request = {"pattern": wanted.python, "ignore_case": ignore_case, "fds": list(fds), "most": most}
        program = str(Path(__file__).with_name("scan.py"))
        command = [sys.executable, "-I", "-S", "-B", program]
        code, data, complaint = output_of(command, fds, json.dumps(request).encode(), limits)
        hits = [Hits() for _ in fds]
        for line in data.split(b"\n")[:-1]:
            position, count, named = json.loads(line)
            hits[position] = Hits(count, [(number, column) for number, column in named])
        if code not in (0, None) and limits.stopped is None:
            why = complaint.rsplit("\n", 1)[-1][:300] or f"exit code {code}"
            raise SearchFailed(f"The search failed ({why}). Simplify the pattern or narrow the search.")
        return hits


def ripgrep(roots: Iterable[Path], path: Sequence[str]) -> Ripgrep | None:
    """ripgrep as installed beside this Python or on `path`; never one that lies where the session may write."""
    if not FD_DIRECTORY.exists():
        return None
    found = find_program("rg", (sysconfig.get_path("scripts"), *path), tuple(roots))
    return Ripgrep(os.path.realpath(found)) if found is not None else None


def engine_for(roots: Iterable[Path], path: Sequence[str]) -> Engine:
    """The engine to use here."""
    return ripgrep(roots, path) or Python()
