"""Compressed streams, read forwards only and no further than a bound. Runs in a process of its own."""

from __future__ import annotations

import io
from typing import IO, Any, Literal

from jaato.errors import ToolError

Packing = Literal["none", "gz", "bz2", "xz", "zst"]
MAGICS: tuple[tuple[bytes, Packing], ...] = (
    (b"\x1f\x8b", "gz"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x5d\x00\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
)
FOREIGN = {
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a\x07": "RAR",
    b"!<arch>": "ar",
    b"\xed\xab\xee\xdb": "RPM",
    b"MSCF": "CAB",
}
MAX_HEADER_BYTES = 1 << 20
CHUNK_BYTES = 1 << 18
MAX_RATIO = 200
FREE_BYTES = 100 << 20
"""Up to this much, any ratio is fine: text can be very regular."""


class ArchiveRefused(ToolError):
    """The file is no archive that can be read, or more than may be unpacked."""

    code = "archive_refused"


def packing_of(start: bytes) -> Packing:
    """How a file is compressed, by its first bytes. Raises `ArchiveRefused` for formats of other programs."""
    for magic, name in FOREIGN.items():
        if start.startswith(magic):
            raise ArchiveRefused(f"This is a {name} archive, which needs its own program. Use run with it.")
    return next((packing for magic, packing in MAGICS if start.startswith(magic)), "none")


def unpacked(file: IO[bytes], packing: Packing) -> IO[bytes]:
    """The decompressed content of a file."""
    match packing:
        case "gz":
            import gzip

            return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]  # it reads as one
        case "bz2":
            import bz2

            return bz2.BZ2File(file)
        case "xz":
            import lzma

            return lzma.LZMAFile(file)
        case "zst":
            return zstandard().ZstdFile(file)  # type: ignore[no-any-return]
    return file


def packed(file: IO[bytes], packing: Packing) -> IO[bytes]:
    """A file to write what is to be compressed to; close it before the file."""
    match packing:
        case "gz":
            import gzip

            return gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0)  # type: ignore[return-value]
        case "bz2":
            import bz2

            return bz2.BZ2File(file, "wb")
        case "xz":
            import lzma

            return lzma.LZMAFile(file, "wb")
        case "zst":
            return zstandard().ZstdFile(file, "wb")  # type: ignore[no-any-return]
    return file


def zstandard() -> Any:
    """The module for Zstandard. Raises `ArchiveRefused` where Python has none."""
    import importlib

    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        raise ArchiveRefused(
            "Zstandard needs Python 3.14. Use run with `zstd -d`, `tar --zstd`, or another format."
        ) from None


class Forward(io.RawIOBase):
    """A stream as `tarfile` reads it: only forwards, and no more than `most` bytes in all.

    A single header is bounded too, so that no archive makes us hold it in memory. Raises `ArchiveRefused`.
    """

    def __init__(self, source: IO[bytes], most: int, packed_bytes: int) -> None:
        super().__init__()
        self._source = source
        self._place = 0
        self._most = most
        self._packed_bytes = max(packed_bytes, 1)

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        if size is None or size < 0 or size > MAX_HEADER_BYTES:
            raise ArchiveRefused("The archive has a header of more than 1 MB, so it is not read on.")
        try:
            data = self._source.read(size)
        except (EOFError, OSError, ValueError) as error:
            raise ArchiveRefused(f"The archive is damaged or cut off: {error}.") from None
        except Exception as error:  # noqa: BLE001 each decompressor has an error of its own
            raise ArchiveRefused(f"The archive is damaged: {error}.") from None
        self._place += len(data)
        if self._place > self._most:
            raise ArchiveRefused(
                f"The archive holds more than {self._most >> 20} MB. Raise max_mb to read on."
            )
        if self._place > FREE_BYTES and self._place > MAX_RATIO * self._packed_bytes:
            raise ArchiveRefused(
                f"The archive unpacks to more than {MAX_RATIO} times its size, as only made-up ones do, so it is not "
                "read on."
            )
        return data

    def tell(self) -> int:
        """How far it has been read."""
        return self._place

    def seek(self, place: int, whence: int = 0) -> int:
        """Pass over bytes. Raises `ArchiveRefused` for a place before."""
        if whence != 0 or place < self._place:
            raise ArchiveRefused("The archive refers back to itself, so it is not read on.")
        while self._place < place:
            if not self.read(min(CHUNK_BYTES, place - self._place)):
                break
        return self._place

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """As far as anyone asks."""
        return True
