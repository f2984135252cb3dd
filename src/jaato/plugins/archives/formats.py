"""Iterates over the members of an archive of any format, with limits against bombs; runs in a sandbox process."""

from __future__ import annotations

import contextlib
import importlib
import os
import stat
import tarfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from jaato.errors import ToolError

PACKINGS = {"gz": "gzip", "bz2": "bz2", "xz": "lzma", "zst": "compression.zstd"}
"""The modules that compress, each with an `open`."""
MAGICS = {
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x5d\x00\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zst",
}
FOREIGN = {
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a\x07": "RAR",
    b"!<arch>": "ar",
    b"\xed\xab\xee\xdb": "RPM",
    b"MSCF": "CAB",
}
MAX_MEMBERS = 50_000
MAX_REPORTED = 50
MAX_LINK_BYTES = 4_096
MAX_DEPTH = 64
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 2_000
CHUNK_BYTES = 1 << 18
MAX_RATIO = 200
FREE_BYTES = 100 << 20
"""Up to this much, any ratio is fine: text can be very regular."""


class ArchiveRefused(ToolError):
    """The file is no archive that can be read, or more than may be unpacked."""

    code = "archive_refused"


class MemberReport:
    """The names of the members that were packed or extracted, and of those left out with the reason; both bounded."""

    def __init__(self) -> None:
        self.count = 0
        self._names: list[str] = []
        self._left_out: list[dict[str, str]] = []

    def add(self, name: str) -> None:
        """Note a member that was packed or extracted."""
        self.count += 1
        if len(self._names) < MAX_REPORTED:
            self._names.append(printable_name(name))

    def leave_out(self, name: str, why: str) -> None:
        """Note a member that was left out."""
        self._left_out.append({"name": printable_name(name), "why": why})

    def fields(self) -> dict[str, Any]:
        """The report as part of a result."""
        result: dict[str, Any] = {"names": self._names}
        if self.count > len(self._names):
            result["more_names"] = self.count - len(self._names)
        if self._left_out:
            result |= {"left_out": self._left_out[:MAX_REPORTED], "left_out_count": len(self._left_out)}
        return result


@dataclass(slots=True)
class Member:
    """One entry as tar has it; its size is -1 where it is unknown. `content` are its bytes if it is a file."""

    info: tarfile.TarInfo
    content: IO[bytes] | None = None
    problem: str | None = None

    @property
    def kind(self) -> str:
        """The kind of the member."""
        if self.info.issym() or self.info.islnk():
            return "link" if self.info.issym() else "hard link"
        return "file" if self.info.isreg() else "directory" if self.info.isdir() else "special"

    def refusal(self) -> str | None:
        """Why it is not extracted, whatever is there already; None when it may be."""
        if self.problem or (problem := name_problem(self.info.name)):
            return self.problem or problem
        if self.kind == "special":
            return "it is a device or pipe"
        return link_problem(self.info.name, self.info.linkname) if self.info.issym() else None


class Archive:
    """An open archive, read once; `format` is `zip`, `tar`, `tar.gz`, …, or `gz`, … for a single compressed file.

    All its members together may have `most_bytes`, and past `FREE_BYTES` no more than `MAX_RATIO` times what it has
    itself. Raises `ArchiveRefused` where it is damaged, foreign or holds too much.
    """

    def __init__(self, file: IO[bytes], name: str, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._packed_bytes = os.fstat(file.fileno()).st_size
        self._taken_bytes = 0
        start = file.read(8)
        file.seek(0)
        foreign = next((FOREIGN[magic] for magic in FOREIGN if start.startswith(magic)), None)
        if foreign is not None:
            raise ArchiveRefused(
                f"This is a {foreign} archive, which needs its own program. Use run with it."
            )
        packing = next((MAGICS[magic] for magic in MAGICS if start.startswith(magic)), "")
        opener = compressor(packing).open if packing else None
        try:
            with archive_errors():
                plain = file if opener is None else opener(file)  # "r|*" copies what is unpacked at each read
                archive = tarfile.open(fileobj=plain, mode="r|", errors="surrogateescape")  # noqa: SIM115 - is read on
                if archive.next() is None:
                    raise ArchiveRefused("It is empty, or zeros.")
            self.format, self._found = f"tar.{packing}".rstrip("."), iterate_tar(archive)
        except ArchiveRefused:
            file.seek(0)
            if opener is not None:
                self.format, self._found = packing, iterate_compressed(opener(file), os.path.basename(name))
            elif zipfile.is_zipfile(file):
                self.format, self._found = "zip", iterate_zip(file)
            else:
                raise ArchiveRefused(
                    "This is no archive: neither zip nor tar, nor compressed by gzip, bzip2, xz or Zstandard."
                ) from None

    def members(self) -> Iterator[Member]:
        """Every member in order; read the content of one before the next."""
        with archive_errors():
            for count, member in enumerate(self._found):
                if count >= MAX_MEMBERS:
                    raise ArchiveRefused(
                        f"The archive has more than {MAX_MEMBERS} members, so it is not read on."
                    )
                if member.content is not None:
                    self._take(max(member.info.size, 0))
                yield member

    def pieces(self, member: Member) -> Iterator[bytes]:
        """The content of a file, piece by piece."""
        with archive_errors(member.info.name):
            while member.content is not None and (piece := member.content.read(CHUNK_BYTES)):
                if member.info.size < 0:
                    self._take(len(piece))
                yield piece

    def _take(self, size: int) -> None:
        self._taken_bytes += size
        if self._taken_bytes > self._most_bytes:
            raise ArchiveRefused(
                f"The archive holds more than {self._most_bytes >> 20} MB. Raise max_mb to read on."
            )
        if self._taken_bytes > max(FREE_BYTES, MAX_RATIO * self._packed_bytes):
            raise ArchiveRefused(
                f"The archive unpacks to more than {MAX_RATIO} times its size, so it is not read on. Use run with its "
                "program if that is meant, as with sparse files."
            )


@contextlib.contextmanager
def archive_errors(name: str = "") -> Iterator[None]:
    """Whatever a reader of archives fails with, as an `ArchiveRefused`."""
    try:
        yield
    except (ToolError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - each format and each compression has errors of its own
        place = f" at {printable_name(name)!r}" if name else ""
        raise ArchiveRefused(
            f"The archive is damaged{place}, or cut off: {printable_name(str(error))[:200]}."
        ) from None


def compressor(packing: str) -> Any:
    """The module of a compression. Raises `ArchiveRefused` where Python has none for Zstandard."""
    try:
        return importlib.import_module(PACKINGS[packing])
    except ImportError:
        raise ArchiveRefused(
            "Zstandard needs Python 3.14. Use run with `zstd -d`, `tar --zstd`, or another format."
        ) from None


def iterate_tar(archive: tarfile.TarFile) -> Iterator[Member]:
    """The members of a tar archive."""
    for info in archive:
        yield Member(info, archive.extractfile(info) if info.isreg() else None)


def iterate_compressed(stream: IO[bytes], name: str) -> Iterator[Member]:
    """The one file in a compressed one."""
    stem, _, suffix = name.rpartition(".")
    info = tarfile.TarInfo(stem if stem and suffix else f"{name}.out")
    info.size = -1
    yield Member(info, stream)


def iterate_zip(file: IO[bytes]) -> Iterator[Member]:
    """The members of a zip archive; one that is encrypted, or compressed in a way Python does not know, says so."""
    with zipfile.ZipFile(file) as archive:
        for zipped in archive.infolist():
            member = Member(as_tar_info(zipped))
            try:
                content = archive.open(zipped)
            except (NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
                member.problem = f"it cannot be unpacked here: {printable_name(str(error))[:200]}"
                yield member
                continue
            with content:
                if member.info.issym():
                    member.info.linkname = content.read(MAX_LINK_BYTES).decode("utf-8", "surrogateescape")
                elif member.info.isreg():
                    member.content = content
                yield member


def as_tar_info(zipped: zipfile.ZipInfo) -> tarfile.TarInfo:
    """A member of a zip archive; programs on Unix write UTF-8 names without saying so."""
    name = zipped.filename
    if not zipped.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode()
    info = tarfile.TarInfo(name)
    mode = zipped.external_attr >> 16
    info.size, info.mode = zipped.file_size, mode & 0o777 or 0o644
    with contextlib.suppress(ValueError, OverflowError):
        info.mtime = time.mktime((*zipped.date_time, 0, 0, -1))
    if zipped.is_dir():
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(mode):
        info.type = tarfile.SYMTYPE
    elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        info.type = tarfile.FIFOTYPE
    return info


def name_problem(name: str) -> str | None:
    """Why a member's name cannot be used below a directory; None when it can."""
    if "\0" in name or name.startswith("\\") or "..\\" in name:
        return "its name is no path"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":" and name[0].isalpha()):
        return "its name is absolute"
    parts = split_name(name)
    if not parts:
        return "it has no name"
    if ".." in parts:
        return "its name leads out of the archive by '..'"
    try:
        sizes = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if len(parts) > MAX_DEPTH or max(sizes) > MAX_NAME_BYTES or sum(sizes) > MAX_PATH_BYTES:
        return "its name is too long or too deep"
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        return "its name has control characters"
    return None


def link_problem(name: str, target: str) -> str | None:
    """Why a symbolic link may not be made; None when it stays below the directory, whatever the others do.

    Going up is allowed only at the start of the target: the link lies in a directory that is none itself. So says
    `tarfile.data_filter`, too, in the newest releases alone: those before let links out that go through others.
    """
    if not target or "\0" in target or "\\" in target or target.startswith("/"):
        return "it is a link to an absolute path"
    parts = split_name(target)
    ups = parts.count("..")
    if ".." in parts[ups:]:
        return "it is a link that goes down and up again"
    if ups > len(split_name(name)) - 1:
        return "it is a link that leads out of the archive"
    return None


def split_name(name: str) -> list[str]:
    """The parts of a member's name."""
    return [part for part in name.split("/") if part not in ("", ".")]


def printable_name(name: str) -> str:
    """A member's name as a message can have it."""
    text = name.encode("utf-8", "replace").decode()
    text = "".join(character if character.isprintable() else "�" for character in text)
    return text if len(text) <= 300 else f"{text[:300]}…"
