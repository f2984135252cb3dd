"""Images and documents in the newest message of a request."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from tests.chat_api.api import serving

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Media
from jaato.providers.scripted import Step

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def test_images(tmp_path: Path) -> None:
    """An image in the newest message reaches the model; addresses are not fetched, and what is no image is refused."""

    async def main() -> None:
        seen: list[Any] = []

        def look(request: ModelRequest) -> Step:
            seen.extend(part for part in request.messages[-1].parts if isinstance(part, Media))
            return Step("A pixel.")

        async with serving(tmp_path, [look] * 3) as api:

            async def show(url: str) -> Any:
                content: Any = [
                    {"type": "text", "text": "What?"},
                    {"type": "image_url", "image_url": {"url": url}},
                ]
                return await api.sdk.chat.completions.create(
                    model="jaato", messages=[{"role": "user", "content": content}]
                )

            data = base64.b64encode(PIXEL).decode()
            await show(f"data:image/png;base64,{data}")
            assert [(media.mime_type, media.size_bytes) for media in seen] == [("image/png", len(PIXEL))]
            for url, words in {
                "https://example.com/a.png": "are not fetched",
                "file:///etc/passwd": "are not fetched",
                "data:image/png;base64,????": "not valid base64",
                "data:image/png;base64,AAAA": "no PNG, JPEG",
                "data:image/png,abc": "is base64",
            }.items():
                with pytest.raises(openai.BadRequestError, match=words):
                    await show(url)
            assert len(api.sessions()) == 1, "a refused request makes no session"

    anyio.run(main)


def test_documents(tmp_path: Path) -> None:
    """A PDF document in the newest message reaches the model with its name; another file, and the id of one, are refused."""

    async def main() -> None:
        seen: list[Any] = []

        def look(request: ModelRequest) -> Step:
            seen.extend(part for part in request.messages[-1].parts if isinstance(part, Media))
            return Step("Read.")

        async with serving(tmp_path, [look] * 3) as api:

            async def show(**file: str) -> Any:
                content: Any = [{"type": "text", "text": "Read."}, {"type": "file", "file": file}]
                messages: Any = [{"role": "user", "content": content}]
                return await api.sdk.chat.completions.create(model="jaato", messages=messages)

            data = "data:application/pdf;base64," + base64.b64encode(b"%PDF-1.7 ...").decode()
            await show(filename="a\nb.pdf", file_data=data)
            await show(file_data=data)
            assert [(media.mime_type, media.name) for media in seen] == [
                ("application/pdf", "a b.pdf"),
                ("application/pdf", "document-1.pdf"),
            ]
            for file, words in (
                ({"file_id": "file-1"}, "ids are not fetched"),
                ({"file_data": "data:application/pdf;base64,AAAA"}, "no PDF document"),
                ({"file_data": "JVBERi0xLjc="}, "data:"),
            ):
                with pytest.raises(openai.BadRequestError, match=words):
                    await show(**file)

    anyio.run(main)
