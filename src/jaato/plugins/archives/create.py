"""Creates tar, zip and compressed archives from files below the roots; runs in a sandbox process."""

from __future__ import annotations

import fnmatch
import io
import os
import shutil
import stat
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from jaato.errors import ToolError
from jaato.plugins.archives.extract import is_selected
from jaato.plugins.archives.formats import ArchiveRefused, MemberReport, compressor, split_name
from jaato.tools.filesystem.containment import Roots

MAX_FILES = 50_000
FORMATS = dict(
    pair.split(":")
    for pair in (
        ".zip:zip .tar:tar .tar.gz:tar.gz .tgz:tar.gz .tar.bz2:tar.bz2 .tbz2:tar.bz2 .tar.xz:tar.xz .txz:tar.xz "
        ".tar.zst:tar.zst"
    ).split()
)
"""The format by the end of an archive's name."""


def format_for(path: str) -> str:
    """The format an archive's name asks for. Raises `ArchiveRefused`."""
    name = path.lower()
    found = next((kind for suffix, kind in FORMATS.items() if name.endswith(suffix)), None)
    if found is None:
        raise ArchiveRefused(f"The name says no format. Let it end in one of {', '.join(FORMATS)}.")
    return found


def create(request: dict[str, Any]) -> dict[str, Any]:
    """Write an archive of files and directories to an open file."""
    roots = Roots(Path(request["roots"][0]), [Path(root) for root in request["roots"][1:]])
    out = os.fdopen(request["fd"], "w+b")
    own = os.fstat(out.fileno())
    work = ArchiveWriter(roots, request["format"], out, request["max_bytes"], (own.st_dev, own.st_ino))
    leaves = is_excluded(request["exclude"] or [])
    for path in request["paths"]:
        base = str(PurePosixPath(path.rstrip("/")).parent) if path.rstrip("/") not in ("", ".") else path
        work.take(path, os.path.relpath(path, base), leaves)
    work.close()
    out.flush()
    os.fsync(out.fileno())
    return work.report(out.tell() if not out.closed else 0)


def is_excluded(patterns: list[str]) -> Callable[[str], bool]:
    """Whether a file is left out: by its path, a pattern, or, wherever it lies, by a name without a slash."""
    fits = is_selected(patterns)
    names = [pattern.strip("/") for pattern in patterns if "/" not in pattern.strip("/")]

    def leaves(name: str) -> bool:
        parts = split_name(name)
        return any(fnmatch.fnmatchcase(part, one) for part in parts for one in names) or fits(name)

    return leaves if patterns else lambda _name: False


class ArchiveWriter:
    """One archive being written."""

    def __init__(self, roots: Roots, kind: str, out: IO[bytes], most: int, own: tuple[int, int]) -> None:
        self._roots = roots
        self._most = most
        self._own = own
        self._taken: set[str] = set()
        self._report = MemberReport()
        self._files = self._bytes = 0
        packing = kind.partition(".")[2]
        self._stream: IO[bytes] | None = compressor(packing).open(out, "wb") if packing else None
        self._archive = (
            zipfile.ZipFile(out, "w")
            if kind == "zip"
            else tarfile.open(fileobj=self._stream or out, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by `close`
        )

    def take(self, path: str, name: str, leaves: Callable[[str], bool], named: bool = True) -> None:
        """Add a file, or a directory and everything in it, in order; links are not followed.

        What cannot be read is left out and reported, unless it was `named`. Raises `ToolError`.
        """
        if name != "." and leaves(name):
            return
        try:
            kind = stat.S_IFMT(self._roots.stat(path, follow=False).st_mode)
            self.add(path, name)
            inner = sorted(entry.name for entry in self._roots.scan(path)) if kind == stat.S_IFDIR else []
        except ArchiveRefused:
            raise
        except ToolError as error:
            if named:
                raise
            self._report.leave_out(name, str(error))
            return
        for one in inner:
            self.take(
                f"{path.rstrip('/')}/{one}", one if name == "." else f"{name}/{one}", leaves, named=False
            )

    def add(self, path: str, name: str) -> None:
        """Add one file, link or directory under a name."""
        if name in (".", "") or name in self._taken:
            return
        self._taken.add(name)
        if len(self._taken) > MAX_FILES:
            raise ArchiveRefused(
                f"There are more than {MAX_FILES} files. Leave some out by exclude, or split them."
            )
        info = self._roots.stat(path, follow=False)
        if (info.st_dev, info.st_ino) == self._own:
            return
        try:
            if stat.S_ISDIR(info.st_mode):
                self._put(name, info, None, "")
            elif stat.S_ISLNK(info.st_mode):
                with self._roots.locate(path, follow=False) as place:
                    self._put(name, info, None, os.readlink(place.name, dir_fd=place.dir_fd))
            elif stat.S_ISREG(info.st_mode):
                with self._roots.open_file(path) as file:
                    self._put(name, os.fstat(file.fileno()), file, "")
            else:
                self._report.leave_out(name, "it is a device, pipe or socket")
                return
        except ArchiveRefused:
            raise
        except ToolError as error:
            self._report.leave_out(name, str(error))
            return
        self._files += not stat.S_ISDIR(info.st_mode)
        self._report.add(name)

    def _put(self, name: str, info: os.stat_result, file: IO[bytes] | None, target: str) -> None:
        """Write one member."""
        size = info.st_size if file is not None else 0
        self._bytes += size
        if self._bytes > self._most:
            raise ArchiveRefused(
                f"The files have more than {self._most >> 20} MB. Raise max_mb, or leave some out."
            )
        content = cast("IO[bytes]", FixedSizeReader(file, size)) if file is not None else None
        if isinstance(self._archive, zipfile.ZipFile):
            put_zip(self._archive, name, info, content, target)
        else:
            put_tar(self._archive, name, info, content, target)

    def close(self) -> None:
        """Write the end. Raises `ArchiveRefused` when nothing was added."""
        if not self._taken:
            raise ArchiveRefused("Nothing is to be packed: the paths are empty or all excluded.")
        self._archive.close()
        if self._stream is not None:
            self._stream.close()

    def report(self, size: int) -> dict[str, Any]:
        """The result: counts, and the names of the members."""
        counts = {"files": self._files, "bytes": self._bytes, "archive_bytes": size}
        return counts | self._report.fields()


def put_tar(
    archive: tarfile.TarFile, name: str, info: os.stat_result, content: IO[bytes] | None, target: str
) -> None:
    """Write a file, directory (no content) or link (a target) to a tar archive."""
    member = tarfile.TarInfo(name)
    member.mode, member.mtime = info.st_mode & 0o777, int(info.st_mtime)
    if target:
        member.type, member.linkname = tarfile.SYMTYPE, target
    elif content is None:
        member.type = tarfile.DIRTYPE
    else:
        member.size = info.st_size
    archive.addfile(member, content)


def put_zip(
    archive: zipfile.ZipFile, name: str, info: os.stat_result, content: IO[bytes] | None, target: str
) -> None:
    """Write a file, directory (no content) or link (a target) to a zip archive."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ToolError("its name is not UTF-8, which zip needs; a tar archive takes it") from None
    is_directory = stat.S_ISDIR(info.st_mode)
    when = time.localtime(max(info.st_mtime, 315_619_200))[:6]  # zip knows no time before 1980
    member = zipfile.ZipInfo(f"{name}/" if is_directory else name, (min(when[0], 2107), *when[1:]))
    member.external_attr = (info.st_mode & 0xFFFF) << 16 | (0x10 if is_directory else 0)
    if content is None:
        archive.writestr(member, target)
        return
    member.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(member, "w", force_zip64=info.st_size > 1 << 31) as out:
        shutil.copyfileobj(content, out, 1 << 18)


class FixedSizeReader(io.RawIOBase):
    """Reads exactly this many bytes of a file that may change meanwhile: cut, or padded with zeros."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__()
        self._file = file
        self._left = size

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        data += bytes(wanted - len(data))
        self._left -= len(data)
        return data
