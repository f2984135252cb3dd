"""Content codings undone: what came packed, as far as it is wanted."""

from __future__ import annotations

import zlib

from jaato.errors import ToolError

MAX_CODINGS = 3
MAX_MEMBERS = 10_000
SLICE_BYTES = 16_384
"""How much is given to zlib at once: what it hands back at the end of a member is copied, so it stays small."""


class PackedWrong(ToolError):
    """The body is not packed as it says, or in a way that is not undone."""

    code = "web_failed"


def decoded(raw: bytes, coding: str, most_bytes: int) -> tuple[bytes, bool]:
    """The body without its content codings, each of which may unfold to `most_bytes` and no further; whether there
    was more. Raises `PackedWrong`."""
    codings = [
        one.strip().lower() for one in coding.split(",") if one.strip().lower() not in ("", "identity")
    ]
    if len(codings) > MAX_CODINGS:
        raise PackedWrong("The body is packed more than three times; that is not unpacked.")
    cut = False
    for one in reversed(codings):
        if one not in ("gzip", "x-gzip", "deflate"):
            raise PackedWrong(
                f"The body is coded as {one[:40]!r}, which was not asked for. Use run with curl --compressed."
            )
        raw, more = unpacked(raw, one, most_bytes)
        cut = cut or more
    return raw, cut


def unpacked(raw: bytes, coding: str, most_bytes: int) -> tuple[bytes, bool]:
    """One coding undone, up to a bound; of a stream that was cut or breaks off, what there is."""
    found = bytearray()
    view = memoryview(raw)
    at = members = 0
    while at < len(raw):
        members += 1
        if members > MAX_MEMBERS:
            raise PackedWrong(f"The body is packed in more than {MAX_MEMBERS} pieces; that is not unpacked.")
        stream = zlib.decompressobj(zlib.MAX_WBITS | 16 if coding != "deflate" else deflate_window(raw))
        before = len(found)
        try:
            while not stream.eof and at < len(raw):
                piece = view[at : at + SLICE_BYTES]
                found += stream.decompress(piece, most_bytes - len(found) + 1)
                at += len(piece)
                if len(found) > most_bytes:
                    return bytes(found[:most_bytes]), True
        except zlib.error as error:
            if not found:
                raise PackedWrong(f"The body cannot be unpacked: {error}") from None
            return bytes(found), len(found) > before  # what follows a whole stream is no part of it
        if not stream.eof or coding == "deflate":
            return bytes(found), not stream.eof
        at -= len(stream.unused_data)
    return bytes(found), False


def deflate_window(data: bytes) -> int:
    """Whether `deflate` came with zlib's header, as it should, or without, as some servers have it."""
    with_header = len(data) > 1 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    return zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS
