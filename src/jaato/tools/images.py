"""Identify an image by its bytes: type, size, and whether it is complete, since providers refuse broken ones."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaato.errors import ToolError
from jaato.tools.invisible_text import one_line

PNG = b"\x89PNG\r\n\x1a\n"
FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
"""The JPEG segments that hold width and height."""
MAX_UNPACKED_BYTES = 64 << 20
"""So much of a PNG is unpacked to see whether it is one."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
PDF = "application/pdf"
PDF_HEAD_BYTES = 1024
"""Where readers of PDF look for its mark."""
MAX_IMAGE_BYTES = 5 << 20
MAX_SIDE = 8_000
"""What every provider takes."""
FRAME_KINDS = (b"VP8 ", b"VP8L", b"ANMF")
BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a segment."""


class ImageRefused(ToolError):
    """The file is no image that can be shown."""

    code = "image_refused"


class Picture(NamedTuple):
    """An image of this type, in pixels."""

    mime: str
    width: int
    height: int


def identify_image(data: bytes) -> Picture:
    """The image in these bytes: PNG, JPEG, GIF or WebP. Raises `ImageRefused` for another file and for a broken one."""
    try:
        if data.startswith(PNG):
            return png(data)
        if data.startswith(b"\xff\xd8\xff"):
            return jpeg(data)
        if data.startswith((b"GIF87a", b"GIF89a")):
            return gif(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return webp(data)
    except (struct.error, IndexError):
        raise refuse_damaged("an image", "it ends too early") from None
    raise ImageRefused("This is no PNG, JPEG, GIF or WebP image.")


def check_image(data: bytes, advice: str) -> Picture:
    """The image in these bytes, if every provider takes it. Raises `ImageRefused` with the advice for one that is too large,
    and for what `identify_image` refuses."""
    if len(data) > MAX_IMAGE_BYTES:
        raise ImageRefused(f"This image has more than {MAX_IMAGE_BYTES >> 20} MB. {advice}")
    try:
        found = identify_image(data)
    except ImageRefused as error:
        raise ImageRefused(f"{error} {advice}") from None
    if max(found.width, found.height) > MAX_SIDE:
        raise ImageRefused(
            f"This image has {found.width} x {found.height} pixels; at most {MAX_SIDE} a side can be shown. {advice}"
        )
    return found


def check_attachment(name: str | None, mime_type: str, data: bytes) -> str:
    """The media type of a file that is sent with a message: of an image as its bytes have it, of another file as given. Raises
    `ImageRefused` for an image or PDF document that a provider would refuse, with every later request of the session too."""
    if mime_type == PDF and b"%PDF-" not in data[:PDF_HEAD_BYTES]:
        raise ImageRefused(f"{one_line(name or 'A document', 200)}: This is no PDF document.")
    if not is_image(mime_type):
        return mime_type
    try:
        return check_image(data, "Scale it down, or convert it to PNG or JPEG.").mime
    except ImageRefused as error:
        raise ImageRefused(f"{one_line(name or 'An image', 200)}: {error}") from None


def is_image(mime_type: str) -> bool:
    """Whether a media type is one of images."""
    return mime_type.strip().lower().startswith("image/")


def refuse_damaged(kind: str, why: str) -> ImageRefused:
    """The error for an image that a provider would refuse."""
    return ImageRefused(f"This is a damaged file of {kind}: {why}.")


def png(data: bytes) -> Picture:
    """A PNG: every chunk whole, the first telling the size, an end."""
    at = len(PNG)
    width = height = 0
    pixels = zlib.decompressobj()
    shown = 0
    while True:
        size, kind = struct.unpack_from(">I4s", data, at)
        body = at + 8
        (check,) = struct.unpack_from(">I", data, body + size)
        needed = not kind[0] & 0x20  # decoders skip what is not needed and damaged
        if needed and zlib.crc32(memoryview(data)[at + 4 : body + size]) != check:
            raise refuse_damaged("PNG", f"a checksum is wrong at byte {at}")
        if not width:
            if kind != b"IHDR" or size != 13:
                raise refuse_damaged("PNG", "it has no header")
            width, height = struct.unpack_from(">II", data, body)
            if not width or not height:
                raise refuse_damaged("PNG", "it has no size")
        if kind == b"IDAT" and shown < MAX_UNPACKED_BYTES:
            shown += count_unpacked(pixels, data[body : body + size], MAX_UNPACKED_BYTES - shown)
        at = body + size + 4
        if kind == b"IEND":
            if not shown:
                raise refuse_damaged("PNG", "it has no content")
            return Picture("image/png", width, height)


def count_unpacked(pixels: Any, packed: bytes, most: int) -> int:
    """How many bytes the next piece of a picture unpacks to, counted up to a limit. Raises `ImageRefused`."""
    count = 0
    try:
        while count < most and packed and (piece := pixels.decompress(packed, min(most, 1 << 20))):
            count += len(piece)
            packed = pixels.unconsumed_tail
    except zlib.error:
        raise refuse_damaged("PNG", "its content cannot be unpacked") from None
    return count


def jpeg(data: bytes) -> Picture:
    """A JPEG: a frame that tells the size, a scan, an end."""
    at = 2
    size = (0, 0)
    while True:
        if data[at] != 0xFF:
            raise refuse_damaged("JPEG", f"there is no segment at byte {at}")
        kind = data[at + 1]
        if kind == 0xFF:
            at += 1
            continue
        if kind in BARE:
            at += 2
            continue
        if kind == 0xD9:
            raise refuse_damaged("JPEG", "it has no content")
        (length,) = struct.unpack_from(">H", data, at + 2)
        if kind in FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = (width, height)
        at += 2 + length
        if kind == 0xDA:
            if data.rfind(b"\xff\xd9") < at:
                raise refuse_damaged("JPEG", "it ends too early")
            if 0 in size:
                raise refuse_damaged("JPEG", "it has no size")
            return Picture("image/jpeg", *size)


def gif(data: bytes) -> Picture:
    """A GIF: a size, pictures no larger than that, an end; perhaps padding."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + colour_table_bytes(flags)
    frames = 0
    while (kind := data[at]) != 0x3B:
        if kind == 0x21:
            at += 2
        elif kind == 0x2C:
            left, top, across, down, flags = struct.unpack_from("<HHHHB", data, at + 1)
            width, height = max(width, left + across), max(height, top + down)
            frames += 1
            at += 11 + colour_table_bytes(flags)
        else:
            raise refuse_damaged("GIF", f"there is no block at byte {at}")
        while data[at]:
            at += 1 + data[at]
        at += 1
    if not width or not height or not frames:
        raise refuse_damaged("GIF", "it has no content")
    return Picture("image/gif", width, height)


def colour_table_bytes(flags: int) -> int:
    """The bytes of the table of colours that these flags announce."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def webp(data: bytes) -> Picture:
    """A WebP of any of the three kinds, as long as it says it is."""
    (size,) = struct.unpack_from("<I", data, 4)
    if size + 8 > len(data):
        raise refuse_damaged("WebP", "it ends too early")
    match data[12:16]:
        case b"VP8X":
            width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
            if not any(kind in FRAME_KINDS for kind in chunks(data, 30)):
                raise refuse_damaged("WebP", "it has no picture")
        case b"VP8L" if data[20] == 0x2F:
            (bits,) = struct.unpack_from("<I", data, 21)
            width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
        case _:
            raise refuse_damaged("WebP", "it has no picture")
    if not width or not height:
        raise refuse_damaged("WebP", "it has no size")
    return Picture("image/webp", width, height)


def chunks(data: bytes, at: int) -> Iterator[bytes]:
    """The kinds of the whole chunks of a RIFF file from a byte on."""
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<4sI", data, at)
        at += 8 + size + size % 2
        if at <= len(data) + size % 2:
            yield kind
