"""Lists and extracts archives below one directory, never outside it; runs in a sandbox process."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaato.errors import ToolError
from jaato.plugins.archives.formats import (
    Archive,
    ArchiveRefused,
    Member,
    MemberReport,
    name_problem,
    printable_name,
    split_name,
)
from jaato.tools.filesystem.atomic import write_all
from jaato.tools.filesystem.atomic_replace import FileState, open_draft
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.control_files import control_names

SPARE_BYTES = 64 << 20
"""What extraction leaves free on the disk."""


def listing(request: dict[str, Any]) -> dict[str, Any]:
    """List an archive without extracting it."""
    archive = Archive(os.fdopen(request["fd"], "rb"), request["path"], request["max_bytes"])
    fits = is_selected(request["members"])
    result: list[dict[str, Any]] = []
    count = total = unsafe = 0
    note = ""
    try:
        for member in archive.members():
            count += 1
            if member.info.size < 0:  # a single compressed file does not say
                member.info.size = sum(map(len, archive.pieces(member)))
            total += member.info.size
            problem = member.refusal()
            unsafe += problem is not None
            if fits(member.info.name) and len(result) < request["limit"]:
                result.append(member_row(member, problem))
    except ArchiveRefused as error:
        note = str(error)
    facts: dict[str, Any] = {
        "format": archive.format,
        "members": count,
        "unpacked_bytes": total,
        "entries": result,
    }
    if unsafe:
        facts["unsafe_members"] = unsafe
    if note:
        facts["problem"] = note
    if len(result) == request["limit"] < count:
        facts |= {"more": True, "note": "Name some by members, such as src/*.py, to see others."}
    return facts


def member_row(member: Member, problem: str | None) -> dict[str, Any]:
    """A member for a list."""
    facts: dict[str, Any] = {"name": printable_name(member.info.name)}
    facts |= {"size_bytes": member.info.size} if member.info.isreg() else {"kind": member.kind}
    if member.info.linkname:
        facts["target"] = printable_name(member.info.linkname)
    if problem:
        facts["unsafe"] = problem
    return facts


def is_selected(patterns: list[str] | None) -> Callable[[str], bool]:
    """Whether a member is wanted: by its name, a directory above it, or a pattern."""
    if not patterns:
        return lambda _name: True

    def fits(name: str) -> bool:
        clean = "/".join(split_name(name))
        return any(
            clean == pattern.strip("/")
            or clean.startswith(pattern.rstrip("/") + "/")
            or fnmatch.fnmatchcase(clean, pattern)
            for pattern in patterns
        )

    return fits


def extract(request: dict[str, Any]) -> dict[str, Any]:
    """Extract an archive below a directory; says what was written and what was left out, and why."""
    archive = Archive(os.fdopen(request["fd"], "rb"), request["path"], request["max_bytes"])
    names = control_names(tuple(request["control_files"]))
    roots = Roots(Path(request["roots"][0]), [Path(root) for root in request["roots"][1:]], names=names)
    work = Extractor(archive, roots, request["destination"], request["overwrite"])
    fits = is_selected(request["members"])
    stopped = ""
    try:
        for member in archive.members():
            if fits(member.info.name):
                work.take(member)
    except ArchiveRefused as error:
        stopped = str(error)
    work.finish()
    return work.report(stopped)


class Extractor:
    """One extraction: directories and files appear as they are met, symbolic links when all files are written."""

    def __init__(self, archive: Archive, roots: Roots, destination: str, overwrite: bool) -> None:
        self._archive = archive
        self._roots = roots
        self._top = destination.rstrip("/") or "/"
        self._overwrite = overwrite
        self._made: set[str] = set()
        self._files: set[str] = set()
        self._links: list[Member] = []
        self._report = MemberReport()
        self._bytes = 0
        self._replaced = 0

    def take(self, member: Member) -> None:
        """Extract one member, or note why not. Raises `ArchiveRefused` when nothing more can be."""
        problem = member.refusal()
        if problem is None:
            try:
                self._take(member)
                return
            except ArchiveRefused:
                raise
            except ToolError as error:
                problem = str(error)
            except OSError as error:
                problem = f"the file system refuses: {error.strerror}"
        self._report.leave_out(member.info.name, problem)

    def _take(self, member: Member) -> None:
        parts = split_name(member.info.name)
        match member.kind:
            case "directory":
                self._directory(parts)
            case "link":
                self._links.append(member)
            case "hard link":
                self._directory(parts[:-1])
                self._copy(member, parts)
            case _:
                self._directory(parts[:-1])
                self._write(parts, member)

    def finish(self) -> None:
        """Make the symbolic links."""
        for member in self._links:
            parts = split_name(member.info.name)
            try:
                self._directory(parts[:-1])
                with self._roots.locate(self._path(parts), follow=False) as place:
                    self._refuse_control(place)
                    if place.info is not None:
                        raise ToolError("something of this name exists")
                    os.symlink(member.info.linkname, place.name, dir_fd=place.dir_fd)
                self._report.add("/".join(split_name(member.info.name)))
            except ToolError as error:
                self._report.leave_out(member.info.name, str(error))
            except OSError as error:
                self._report.leave_out(member.info.name, error.strerror or "it cannot be made")

    def report(self, stopped: str) -> dict[str, Any]:
        """The result of the extraction."""
        result: dict[str, Any] = {
            "destination": self._top,
            "format": self._archive.format,
            "extracted": self._report.count,
            "bytes": self._bytes,
            **self._report.fields(),
        }
        if self._replaced:
            result["replaced"] = self._replaced
        if stopped:
            result["incomplete"] = f"{stopped} What is listed here was extracted and is kept."
        return result

    def _path(self, parts: list[str]) -> str:
        return "/".join([self._top.rstrip("/"), *parts]) if parts else self._top

    def _refuse_control(self, place: Any) -> None:
        if self._roots.holds_control(place):
            raise ToolError("it decides what runs later, so it is not extracted; write it by itself")

    def _above(self) -> None:
        """Make the directories above the destination, as the user named them."""
        root, rest = self._roots.relative(self._top)
        for parent in reversed(rest.parents[:-1]):
            with self._roots.locate(str(root / parent)) as place:
                self._refuse_control(place)
                if place.info is None:
                    os.mkdir(place.name, 0o777, dir_fd=place.dir_fd)

    def _directory(self, parts: list[str]) -> None:
        """Make a directory below the destination and those above it; none of them may be a link."""
        if not self._made:
            self._above()
        for depth in range(len(parts) + 1):
            path = self._path(parts[:depth])
            if path in self._made:
                continue
            with self._roots.locate(path, follow=depth == 0) as place:
                if not place.is_root:
                    self._refuse_control(place)
                if place.info is None:
                    try:
                        os.mkdir(place.name, 0o777, dir_fd=place.dir_fd)
                    except FileExistsError:
                        pass
                elif not stat.S_ISDIR(place.info.st_mode):
                    raise ToolError("a link or a file is in the way of its directory")
            self._made.add(path)

    def _write(self, parts: list[str], member: Member) -> None:
        """Write a file under another name, then let it appear; nothing is overwritten unless that was asked for."""
        path = self._path(parts)
        with self._roots.locate(path, follow=False) as place:
            self._refuse_control(place)
            if place.info is not None and not (self._overwrite and stat.S_ISREG(place.info.st_mode)):
                raise ToolError("it exists already; overwrite=true replaces files")
            mode = 0o777 if member.info.mode & 0o100 else 0o666
            with open_draft(place, path, place.dir_fd, mode) as draft:
                size = self._pour(draft.fd, member)
                if member.info.mtime > 0:
                    with contextlib.suppress(OSError, OverflowError, ValueError):
                        os.utime(draft.fd, (member.info.mtime, member.info.mtime))
                if place.info is None:
                    draft.publish_new(durable=False)
                else:
                    draft.publish_over(FileState(place.info), durable=False)
            self._replaced += place.info is not None
        self._files.add(path)
        self._bytes += size
        self._report.add("/".join(split_name(member.info.name)))

    def _pour(self, fd: int, member: Member) -> int:
        """Write the content; raises `ArchiveRefused` when it becomes too much."""
        size = 0
        for piece in self._archive.pieces(member):
            room = os.fstatvfs(fd)
            if room.f_bavail * room.f_frsize < SPARE_BYTES + len(piece):
                raise ArchiveRefused("The disk is nearly full.")
            write_all(fd, piece)
            size += len(piece)
        return size

    def _copy(self, member: Member, parts: list[str]) -> None:
        """A hard link: a copy of the file it names, which must be one of this archive."""
        if (
            name_problem(member.info.linkname) is not None
            or self._path(split_name(member.info.linkname)) not in self._files
        ):
            raise ToolError("it is a hard link to what is no extracted file of this archive")
        with self._roots.open_file(self._path(split_name(member.info.linkname))) as source:
            member.info.mode, member.info.size = os.fstat(source.fileno()).st_mode & 0o777, -1
            self._write(parts, Member(member.info, source))
