"""The members of an archive one after the other, whatever its format. Runs in a process of its own."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Literal, cast

from jaato.plugins.archives.streams import (
    CHUNK_BYTES,
    FREE_BYTES,
    MAX_RATIO,
    ArchiveRefused,
    Forward,
    packing_of,
    unpacked,
)

Kind = Literal["file", "directory", "link", "hard link", "special"]
MAX_MEMBERS = 50_000
MAX_LINK_BYTES = 4_096
BLOCK = 512


@dataclass(slots=True)
class Member:
    """One entry: `mode` its permissions, `target` where a link leads, `content` its bytes if it is a file."""

    name: str
    kind: Kind
    size: int = 0
    mode: int = 0o644
    modified: float = 0.0
    target: str = ""
    content: IO[bytes] | None = None
    problem: str | None = None


def format_of(file: IO[bytes]) -> str:
    """`zip`, `tar`, `tar.gz`, …, or `gz`, … for a single compressed file. Raises `ArchiveRefused`."""
    import zipfile

    file.seek(0)
    start = file.read(BLOCK)
    packing = packing_of(start)
    if packing == "none":
        if is_tar(start):
            return "tar"
        file.seek(0)
        if zipfile.is_zipfile(file):
            return "zip"
        raise ArchiveRefused(
            "This is no archive: neither zip nor tar, nor compressed by gzip, bzip2, xz or Zstandard."
        )
    file.seek(0)
    first = Forward(unpacked(file, packing), BLOCK, BLOCK).read(BLOCK)
    return f"tar.{packing}" if is_tar(first) else packing


def is_tar(block: bytes) -> bool:
    """Whether a first block is that of a tar archive: its checksum says so."""
    if len(block) < BLOCK or not any(block):
        return False
    try:
        given = int(block[148:156].strip(b" \0"), 8)
    except ValueError:
        return False
    return given == sum(block[:148]) + 8 * ord(" ") + sum(block[156:])


def members(file: IO[bytes], kind: str, name: str, most: int) -> Iterator[Member]:
    """Every member in order; read the content of one before the next. `most` bounds the bytes unpacked in all.

    Raises `ArchiveRefused` where the archive is damaged or holds too much.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    found = zipped(file, most, size) if kind == "zip" else streamed(file, kind, name, most, size)
    for count, member in enumerate(found):
        if count >= MAX_MEMBERS:
            raise ArchiveRefused(f"The archive has more than {MAX_MEMBERS} members, so it is not read on.")
        yield member


def streamed(file: IO[bytes], kind: str, name: str, most: int, size: int) -> Iterator[Member]:
    """The members of a tar archive, or the one file of a compressed one."""
    packing = packing_of(file.read(BLOCK))
    file.seek(0)
    stream = Forward(unpacked(file, packing), most, size)
    if not kind.startswith("tar"):
        inner = os.path.basename(name)
        stem, _, suffix = inner.rpartition(".")
        yield Member(
            stem if stem and suffix else f"{inner}.out", "file", -1, content=cast("IO[bytes]", stream)
        )
        return
    yield from tarred(stream)


def tarred(stream: Forward) -> Iterator[Member]:
    """The members of a tar archive."""
    import tarfile

    try:
        with tarfile.TarFile(fileobj=stream, mode="r", errorlevel=2, errors="surrogateescape") as archive:
            while (info := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # they are not looked at again, and there may be many
                yield from_tar(archive, info)
    except RecursionError:
        raise ArchiveRefused("The archive is damaged: headers of headers without end.") from None
    except (tarfile.TarError, EOFError, ValueError, OverflowError, KeyError, IndexError) as error:
        raise ArchiveRefused(f"The archive is damaged or cut off: {str(error)[:200]}.") from None


def from_tar(archive: object, info: object) -> Member:
    """A member of a tar archive as one of ours."""
    import tarfile

    assert isinstance(archive, tarfile.TarFile)
    assert isinstance(info, tarfile.TarInfo)
    mode, modified = info.mode & 0o777, float(info.mtime)
    if info.isdir():
        return Member(info.name, "directory", mode=mode, modified=modified)
    if info.issym() or info.islnk():
        return Member(info.name, "link" if info.issym() else "hard link", 0, mode, modified, info.linkname)
    if not info.isreg():
        return Member(info.name, "special", modified=modified)
    return Member(info.name, "file", info.size, mode, modified, content=archive.extractfile(info))


def zipped(file: IO[bytes], most: int, size: int) -> Iterator[Member]:
    """The members of a zip archive."""
    import zipfile

    try:
        with zipfile.ZipFile(file) as archive:
            total = 0
            for info in archive.infolist():
                mode = info.external_attr >> 16
                modified = moment(info.date_time)
                if info.is_dir():
                    yield Member(name_of(info), "directory", modified=modified)
                    continue
                total += info.file_size
                if total > most:
                    raise ArchiveRefused(
                        f"The archive holds more than {most >> 20} MB. Raise max_mb to read on."
                    )
                if total > FREE_BYTES and total > MAX_RATIO * size:
                    raise ArchiveRefused(
                        f"The archive unpacks to more than {MAX_RATIO} times its size, so it is not read on."
                    )
                member = Member(name_of(info), "file", info.file_size, mode & 0o777 or 0o644, modified)
                if stat.S_ISLNK(mode):
                    member.kind = "link"
                elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                    member.kind = "special"
                if info.flag_bits & 1:
                    member.problem = "it is encrypted; use run with unzip -P"
                    yield member
                    continue
                yield from opened(archive, info, member)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, ValueError, IndexError, KeyError) as error:
        raise ArchiveRefused(f"The archive is damaged or cut off: {str(error)[:200]}.") from None


def name_of(info: object) -> str:
    """A name in a zip archive; programs on Unix write UTF-8 without saying so."""
    import zipfile

    assert isinstance(info, zipfile.ZipInfo)
    if info.flag_bits & 0x800 or info.filename.isascii():
        return info.filename
    try:
        return info.filename.encode("cp437").decode()
    except UnicodeError:
        return info.filename


def opened(archive: object, info: object, member: Member) -> Iterator[Member]:
    """A member of a zip archive, open while it is worked on."""
    import zipfile

    assert isinstance(archive, zipfile.ZipFile)
    assert isinstance(info, zipfile.ZipInfo)
    try:
        content = archive.open(info)
    except (NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        member.problem = f"it cannot be unpacked: {str(error)[:100]}"
        yield member
        return
    with content:
        if member.kind == "link":
            member.target = content.read(MAX_LINK_BYTES).decode("utf-8", "surrogateescape")
        else:
            member.content = content
        yield member


def pieces(member: Member) -> Iterator[bytes]:
    """The content of a file, piece by piece. Raises `ArchiveRefused` when it is damaged or longer than it says."""
    import zipfile
    import zlib

    left = member.size
    while member.content is not None:
        try:
            piece = member.content.read(CHUNK_BYTES)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
            raise ArchiveRefused(
                f"The archive is damaged at {member.name[:200]!r}: {str(error)[:200]}."
            ) from None
        if not piece:
            return
        left -= len(piece)
        if member.size >= 0 and left < 0:
            raise ArchiveRefused(f"The archive is damaged: {member.name[:200]!r} is longer than it says.")
        yield piece


def moment(parts: tuple[int, int, int, int, int, int]) -> float:
    """When a member of a zip archive was modified, as seconds; 0 for what is no date."""
    import time

    try:
        return time.mktime((*parts, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0
