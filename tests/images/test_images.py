"""`viewImage`: real images reach the model, and nothing that would be refused on the way."""

from __future__ import annotations

import base64
import fnmatch
import os
import struct
import zlib
from pathlib import Path

import anyio
import pytest
from tests.data_workspace import Desk
from tests.kit import call, provider_of, results, say, session

from jaato.errors import ToolError
from jaato.plugins.images import MODELS, ImagesPlugin
from jaato.protocol.messages import Media
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.images import Picture, identify_image

GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
WEBP = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc0\x00\x11\x08\x00\x07\x00\x09\x03"
    + bytes(9)
    + b"\xff\xda\x00\x04ab123\xff\xd9"
)


def png(width: int, height: int) -> bytes:
    """A grey image."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_the_model_gets_the_image_itself(tmp_path: Path) -> None:
    """The result has type and size as text and the bytes as media, in the next request too."""
    data = png(3, 2)

    async def main() -> None:
        script = [call("get_tool_schemas", names=["viewImage"]), call("viewImage", path="a.png"), say("grey")]
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "a.png").write_bytes(data)
        async with session(tmp_path, script, plugins=("introspection", "multimodal")) as live:
            await live.post("look")
            text, media = results(live)[1].content
            assert "image/png, 3 x 2 pixels" in str(text)
            assert isinstance(media, Media)
            assert provider_of(live).requests[-1].read_blob(media.blob) == data

    anyio.run(main)


@pytest.mark.parametrize(
    ("data", "picture"),
    [
        (png(300, 2), Picture("image/png", 300, 2)),
        (GIF, Picture("image/gif", 1, 1)),
        (WEBP, Picture("image/webp", 1, 1)),
        (JPEG, Picture("image/jpeg", 9, 7)),
    ],
)
def test_images_are_known_by_their_bytes_and_must_be_whole(data: bytes, picture: Picture) -> None:
    """Type and size are read from the bytes; the start of an image is refused wherever it was cut."""
    assert identify_image(data) == picture
    for end in range(len(data)):
        with pytest.raises(ToolError):
            identify_image(data[:end])


def test_what_no_decoder_needs_may_be_damaged() -> None:
    """A colour profile with a wrong checksum is skipped by whoever shows the image, so it is no reason to refuse it."""
    whole = png(2, 2)
    damaged = struct.pack(">I4s", 3, b"iCCP") + b"abc" + b"\0\0\0\0"
    assert identify_image(whole[:33] + damaged + whole[33:]) == Picture("image/png", 2, 2)


def test_broken_and_foreign_files_are_refused(tmp_path: Path) -> None:
    """What a provider would refuse, what is too large, and what is no image says what to do instead."""
    desk = Desk(ImagesPlugin, tmp_path / "w")
    wrong = bytearray(png(2, 2))
    wrong[30] ^= 1
    cases = {
        "crc.png": (bytes(wrong), "checksum"),
        "text.png": (b"<svg/>", "readFile"),
        "empty.png": (b"", "readFile"),
        "wide.png": (png(8_001, 1), "8000 a side"),
        "big.png": (bytes((5 << 20) + 1), "5 MB"),
        "ok.gif": (GIF, "session"),
    }
    for name, (data, problem) in cases.items():
        (desk.workspace / name).write_bytes(data)
        with pytest.raises(ToolError, match=problem):
            desk.call("viewImage", path=name)
    (tmp_path / "out.gif").write_bytes(GIF)
    (desk.workspace / "link.gif").symlink_to(tmp_path / "out.gif")
    os.mkfifo(desk.workspace / "pipe.gif")
    for name in ("../out.gif", "link.gif", "pipe.gif", "none.gif", "."):
        with pytest.raises(ToolError):
            desk.call("viewImage", path=name)


def test_models_that_see_nothing_are_not_offered_it(tmp_path: Path) -> None:
    """The plugin is skipped for them with the documented words, and exposed for every model that sees."""
    seeing = "gemini-3-pro-preview gemini-3.5-flash claude-opus-4-5 claude-3-5-haiku-latest gpt-4o gpt-5.2 o3 openai/gpt-4.1"
    blind = "gemini-2.5-flash gpt-3.5-turbo o3-mini o1-mini claude-2.1 llama3.2 qwen3:8b deepseek-r1"
    for model in seeing.split():
        assert any(fnmatch.fnmatchcase(model, glob) for glob in MODELS), model
    for model in blind.split():
        assert not any(fnmatch.fnmatchcase(model, glob) for glob in MODELS), model
    registry = PluginRegistry("gemini-2.5-flash", workspace=tmp_path)
    assert not registry.expose_tool("multimodal")
    assert registry.list_skipped_plugins() == ["multimodal"]
    registry.shutdown()


def chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


HEAD = chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 9, 8, 0, 0, 0, 0))
EXTENDED = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\x09\0\0" * 2


@pytest.mark.parametrize(
    "data",
    [
        png(2, 2)[:8] + HEAD + chunk(b"IDAT", b"no zlib") + chunk(b"IEND", b""),
        png(2, 2)[:8] + chunk(b"IHDR", struct.pack(">II", 9, 9)) + png(2, 2)[33:],
        b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0, 0, 0) + b",;",
        GIF[:13] + b"text that is no block;",
        EXTENDED,
        b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8 " + struct.pack("<I", 10) + b"\x05" * 10,
        b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8L" + struct.pack("<I", 10) + b"\x05" * 10,
    ],
)
def test_what_only_begins_like_an_image_is_refused(data: bytes) -> None:
    """A provider that refused it would refuse every later request of the session too, so the content is looked at."""
    with pytest.raises(ToolError, match="damaged file"):
        identify_image(data)


def test_an_image_larger_than_it_says_is_known(tmp_path: Path) -> None:
    """The frames of a GIF count; a header of any size unpacks nothing beyond a bound; what follows an end does not."""
    at = GIF.index(b",", 13)
    assert identify_image(GIF[: at + 5] + b"\xff\xff\xff\xff" + GIF[at + 9 :]) == Picture(
        "image/gif", 65_535, 65_535
    )
    bomb = chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 0, 0, 0, 0))
    rows = chunk(b"IDAT", zlib.compress(bytes(80 << 20)))
    assert identify_image(png(1, 1)[:8] + bomb + rows + chunk(b"IEND", b"")).width == 100_000
    assert identify_image(GIF + bytes(9)) == Picture("image/gif", 1, 1)
    assert identify_image(png(2, 2) + b"PK\x03\x04") == Picture("image/png", 2, 2)
    framed = EXTENDED[:4] + struct.pack("<I", len(WEBP) + 10) + EXTENDED[8:] + WEBP[12:]
    assert identify_image(framed) == Picture("image/webp", 10, 10)
