"""`Agent`: images and large results, kept beside the conversation."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, results, say
from tests.runtime.agents import agent

from jaato.errors import ConfigError
from jaato.protocol.messages import Media

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_an_image_travels_as_a_blob(tmp_path: Path) -> None:
    """An attached image is a media part whose bytes are stored once, by hash."""
    picture = tmp_path / "pixel.png"
    picture.write_bytes(PIXEL)

    async def main() -> None:
        async with agent(tmp_path, [say("a pixel")]) as live:
            await live.run("What is this?", images=[picture])
            part = live.live.state.messages[0].parts[1]
            assert isinstance(part, Media)
            assert part.mime_type == "image/png"
            assert live.live.model.request().read_blob(part.blob) == PIXEL
            with pytest.raises(ConfigError, match="no image"):
                await live.run("And this?", images=[tmp_path / "x.exe"])

    anyio.run(main)


def test_an_image_that_providers_refuse_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    """A damaged image, another file with the name of one, and what is no regular file: the error names it, and the log
    has no message. One with a wrong suffix is sent with its real type."""
    (tmp_path / "cut.png").write_bytes(PIXEL[:40])
    (tmp_path / "text.gif").write_text("<svg/>")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "wrong.jpg").write_bytes(PIXEL)

    async def main() -> None:
        async with agent(tmp_path, [say("a pixel")]) as live:
            for name, problem in (
                ("cut.png", "damaged file"),
                ("text.gif", "no PNG"),
                ("pipe.png", "regular file"),
            ):
                with pytest.raises(ConfigError, match=rf"{name}.*{problem}"):
                    await live.run("What is this?", images=[tmp_path / name])
            assert live.live.state.messages == []
            await live.run("What is this?", images=[tmp_path / "wrong.jpg"])
            part = live.live.state.messages[0].parts[1]
            assert isinstance(part, Media)
            assert part.mime_type == "image/png"

    anyio.run(main)


def test_a_large_result_is_cut_and_read_on_by_its_handle(tmp_path: Path) -> None:
    """The model gets head and tail and a handle that readFile reads; another session cannot."""

    async def main() -> None:
        def big() -> str:
            """A lot of text."""
            return "".join(f"line {n}\n" for n in range(20_000))

        handle = ""

        def read_on(request: Any) -> Any:
            nonlocal handle
            handle = request.messages[-1].parts[0].handle
            return call("readFile", path=handle, offset=150_000, limit=50)

        async with agent(tmp_path, [call("big"), read_on, say("ok")], tools=[big]) as live:
            await live.run("go")
            cut, more = results(live.live)
            assert sum(len(part.text or "") for part in cut.content) < 31_000
            assert "line 19999" in (cut.content[0].text or "")
            assert more.ok, more
            assert "line 14" in (more.content[0].text or "")
        async with agent(tmp_path, [lambda _r: call("readFile", path=handle), say("ok")]) as live:
            await live.run("go")
            assert not results(live.live)[0].ok

    anyio.run(main)
