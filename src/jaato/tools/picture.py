"""What an image file is, by its bytes: its type and size, and whether it is whole, since providers refuse broken ones."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from jaato.errors import ToolError

PNG = b"\x89PNG\r\n\x1a\n"
FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
"""The JPEG segments that tell width and height."""
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


def look(data: bytes) -> Picture:
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
        raise broken("an image", "it ends too early") from None
    raise ImageRefused(
        "This is no PNG, JPEG, GIF or WebP image. Convert it with run; readFile shows text, SVG too."
    )


def broken(kind: str, why: str) -> ImageRefused:
    """That the image would be refused by whoever is to see it."""
    return ImageRefused(f"This is a damaged file of {kind}: {why}. Make it anew or convert it with run.")


def png(data: bytes) -> Picture:
    """A PNG: every chunk whole, the first telling the size, an end."""
    at = len(PNG)
    width = height = 0
    shows = False
    while True:
        size, kind = struct.unpack_from(">I4s", data, at)
        body = at + 8
        (check,) = struct.unpack_from(">I", data, body + size)
        needed = not kind[0] & 0x20  # decoders skip what is not needed and damaged
        if needed and zlib.crc32(memoryview(data)[at + 4 : body + size]) != check:
            raise broken("PNG", f"a checksum is wrong at byte {at}")
        if not width:
            if kind != b"IHDR":
                raise broken("PNG", "it has no header")
            width, height = struct.unpack_from(">II", data, body)
            if not width or not height:
                raise broken("PNG", "it has no size")
        shows = shows or kind == b"IDAT"
        at = body + size + 4
        if kind == b"IEND":
            if not shows:
                raise broken("PNG", "it has no content")
            return Picture("image/png", width, height)


def jpeg(data: bytes) -> Picture:
    """A JPEG: a frame that tells the size, a scan, an end."""
    at = 2
    size = (0, 0)
    while True:
        if data[at] != 0xFF:
            raise broken("JPEG", f"there is no segment at byte {at}")
        kind = data[at + 1]
        if kind == 0xFF:
            at += 1
            continue
        if kind in BARE:
            at += 2
            continue
        if kind == 0xD9:
            raise broken("JPEG", "it has no content")
        (length,) = struct.unpack_from(">H", data, at + 2)
        if kind in FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = (width, height)
        at += 2 + length
        if kind == 0xDA:
            if data.rfind(b"\xff\xd9") < at:
                raise broken("JPEG", "it ends too early")
            if 0 in size:
                raise broken("JPEG", "it has no size")
            return Picture("image/jpeg", *size)


def gif(data: bytes) -> Picture:
    """A GIF: a size, a first picture, an end."""
    width, height = struct.unpack_from("<HH", data, 6)
    if not width or not height or b"\x2c" not in data[13:]:
        raise broken("GIF", "it has no content")
    if not data.rstrip(b"\0").endswith(b";"):
        raise broken("GIF", "it ends too early")
    return Picture("image/gif", width, height)


def webp(data: bytes) -> Picture:
    """A WebP of any of the three kinds, as long as it says it is."""
    (size,) = struct.unpack_from("<I", data, 4)
    if size + 8 > len(data):
        raise broken("WebP", "it ends too early")
    match data[12:16]:
        case b"VP8X":
            width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
        case _:
            raise broken("WebP", "it has no picture")
    if not width or not height:
        raise broken("WebP", "it has no size")
    return Picture("image/webp", width, height)
