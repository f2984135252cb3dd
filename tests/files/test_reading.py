"""Reading: windows of lines, honest trailers, images, binaries, handles, and files larger than memory."""

from __future__ import annotations

import base64
import codecs
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.files.desk import Desk

from jaato.errors import ToolError
from jaato.tools.call import Call, Output

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """The tools on an empty workspace."""
    return Desk(tmp_path / "w")


def test_a_short_file_is_its_text_alone(desk: Desk) -> None:
    """What is shown whole has no trailer; an empty file says so."""
    (desk.workspace / "f").write_text("a\nb")
    (desk.workspace / "empty").touch()
    assert desk.read("f") == "a\nb"
    assert desk.read("empty") == "(the file is empty)"


def test_windows_say_what_they_are(desk: Desk) -> None:
    """Offset and limit in lines; the trailer names the lines, how many remain and how to go on."""
    (desk.workspace / "f").write_text("".join(f"{number}\n" for number in range(1, 5001)))
    assert (
        desk.read("f", offset=10, limit=2)
        == "10\n11\n\n[lines 10-11 of 5000; 4989 more, read on with offset=12]"
    )
    assert desk.read("f", offset=-2) == "4999\n5000\n\n[lines 4999-5000, the last ones]"
    assert desk.read("f").endswith("[lines 1-2000 of 5000; 3000 more, read on with offset=2001]")
    with pytest.raises(ToolError, match="has 5000 lines"):
        desk.read("f", offset=5001)
    with pytest.raises(ToolError, match="at least 1"):
        desk.read("f", limit=0)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text=st.text(st.sampled_from("aé\n\r€"), min_size=1, max_size=60),
    encoding=st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]),
    limit=st.integers(1, 5),
)
def test_windows_put_together_are_the_file(tmp_path: Path, text: str, encoding: str, limit: int) -> None:
    """Reading on from trailer to trailer shows every line once, in any encoding."""
    desk = Desk(tmp_path / "w")
    mark = {"utf-8": b"", "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}[encoding]
    (desk.workspace / "f").write_bytes(mark + text.encode(encoding))
    shown, offset = "", 1
    while True:
        said = desk.read("f", offset=offset, limit=limit)
        cut = said.rfind("\n[")
        shown += said[:cut] if cut >= 0 else said
        if "read on with offset=" not in said[cut:]:
            break
        offset += limit
    assert shown == text.replace("\r\n", "\n")


def test_long_lines_are_cut_and_said(desk: Desk) -> None:
    """A line of a megabyte is cut; the lines after it are still right."""
    (desk.workspace / "f").write_text("x" * 1_000_000 + "\nnext\n")
    said = desk.read("f")
    assert len(said) < 3000
    assert "next\n" in said
    assert "1 long lines are cut at 2000" in said
    assert desk.read("f", offset=2).startswith("next\n")


def test_other_encodings_are_named(desk: Desk) -> None:
    """Text that is not plain UTF-8 reads as text, and the trailer says what it is."""
    (desk.workspace / "f").write_bytes(codecs.BOM_UTF16_LE + "héé\r\n".encode("utf-16-le"))
    assert desk.read("f") == "héé\n\n[utf-16-le]"


def test_images_are_shown_and_binaries_named(desk: Desk) -> None:
    """A small image comes as media, its bytes in a blob; other binaries as their type and size."""
    (desk.workspace / "p.png").write_bytes(PIXEL)
    said = desk.call("readFile", path="p.png")
    assert isinstance(said, Output)
    (media,) = said.media
    assert (media.mime_type, media.size_bytes, media.name) == ("image/png", len(PIXEL), "p.png")
    assert desk.blobs[media.blob] == PIXEL
    (desk.workspace / "x.bin").write_bytes(b"\0" * 100)
    assert desk.read("x.bin").startswith("x.bin is application/octet-stream, 100 bytes")
    (desk.workspace / "a.out").write_bytes(b"\x7fELF\2\1\1\0")
    assert "application/x-elf" in desk.read("a.out")
    (desk.workspace / "huge.png").write_bytes(PIXEL + b"\0" * (6 << 20))
    assert "not shown" in desk.read("huge.png")


@pytest.mark.spec("C2", "ToolExecutor (S1)")
def test_handles_are_read_by_bytes(desk: Desk) -> None:
    """A `result:` handle is read on in byte ranges that do not cut characters; an unknown one is an error."""
    handle = desk.keep("aé€".encode() * 50_000)
    said = desk.read(handle, limit=5)
    assert said == "aé\n[bytes 0-2; more follow, read on with offset=3]"
    assert desk.read(handle, offset=3, limit=3).startswith("€\n[bytes 3-5")
    whole, offset = "", 0
    while True:
        said = desk.read(handle, offset=offset)
        body, found, rest = said.rpartition("\n[bytes ")
        whole += body if found else said
        if not found:
            break
        offset = int(rest.rsplit("=", 1)[1][:-1])
    assert whole == "aé€" * 50_000
    with pytest.raises(ToolError, match="no result"):
        Desk(desk.workspace).plugin.readFile("result:00", call=call_without_session())


def call_without_session() -> Call:
    """A call that belongs to no session."""
    return Call(id="c", name="readFile", arguments={})


def test_a_large_file_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """Windows at the start and behind a line of 256 megabytes cost a few megabytes of memory."""
    file = tmp_path / "big"
    with file.open("wb") as out:
        out.write(b"line\n" * 20_000)
        out.truncate(1 << 28)
        out.seek(0, 2)
        out.write(b"\nlast\n")
    script = """
import resource, sys
from pathlib import Path
from tests.files.desk import Desk
desk = Desk(Path(sys.argv[1]))
(desk.workspace / "small").write_text("x")
desk.read("small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert "read on with offset=2001" in desk.read("big")
assert desk.read("big", offset=20002).startswith("last")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16_000  # kB
