"""What a server answered, as a result of ours: text, media behind handles, data for programs."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

from jaato.plugins.mcp.errors import ServerRefusal
from jaato.protocol.messages import Media
from jaato.tools.call import Call, Output
from jaato.tools.images import ImageRefused, identify_image

if TYPE_CHECKING:
    import mcp_types as types

MAX_MEDIA_BYTES = 16 << 20
MAX_PARTS = 500
MAX_TEXT_CHARS = 8_000_000
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MIME = re.compile(
    r"[A-Za-z0-9][\w!#$&^.+-]{0,63}/[A-Za-z0-9][\w!#$&^.+-]{0,63}(?:; ?[\w=.-]{1,64}){0,4}", re.ASCII
)


class Parts:
    """Gathers the parts of an answer."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._texts: list[str] = []
        self._chars = 0
        self._media: list[Media] = []

    def output(self, structured: Any) -> Output:
        """All of it."""
        text = "\n".join(self._texts)
        if not text and structured is not None:
            text = json.dumps(structured, ensure_ascii=False)
        return Output(text, structured, tuple(self._media))

    def text(self, text: str) -> None:
        """Some text, as far as there is room."""
        room = MAX_TEXT_CHARS - self._chars
        if room > 0:
            self._texts.append(text[:room])
            self._chars += min(room, len(text))
            if len(text) > room:
                self._texts.append("… the rest was left out: the answer is too long …")

    def data(self, mime: str, encoded: str, name: str | None = None) -> None:
        """Bytes in base64: an image or sound as media, what cannot be kept as a note."""
        mime = mime if MIME.fullmatch(mime) else "application/octet-stream"
        if len(encoded) > MAX_MEDIA_BYTES * 4 // 3 + 4:
            self.text(f"[{mime} of more than {MAX_MEDIA_BYTES >> 20} MB, left out]")
            return
        try:
            content = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            self.text(f"[{mime} whose base64 is broken, left out]")
            return
        if mime in IMAGES:
            try:
                mime = identify_image(content).mime
            except ImageRefused as error:
                self.text(f"[{mime}, left out: {error}]")
                return
        try:
            handle = self._call.keep(content)
        except LookupError:
            self.text(f"[{mime}, {len(content)} bytes, which nobody keeps here]")
            return
        if mime in IMAGES or mime.startswith("audio/"):
            self._media.append(Media(mime, handle.removeprefix("result:"), len(content), name))
            self.text(f"[{mime}, {len(content)} bytes: {handle}]")
        else:
            self.text(f"[{mime}, {len(content)} bytes; readFile reads it: {handle}]")

    def resource(self, contents: Any) -> None:
        """What a resource holds."""
        text = getattr(contents, "text", None)
        if text is not None:
            self.text(f"{contents.uri}:\n{text}")
        else:
            self.data(contents.mime_type or "application/octet-stream", contents.blob, str(contents.uri))

    def block(self, block: Any) -> None:
        """One block of content."""
        match block.type:
            case "text":
                self.text(block.text)
            case "image" | "audio":
                self.data(block.mime_type, block.data)
            case "resource":
                self.resource(block.resource)
            case "resource_link":
                told = f": {block.description}" if block.description else ""
                self.text(f"[resource {block.uri} ({block.name}){told}; mcp_read_resource reads it]")

    def blocks(self, content: list[Any]) -> None:
        """All blocks, as far as there is room."""
        for block in content[:MAX_PARTS]:
            self.block(block)
        if len(content) > MAX_PARTS:
            self.text(f"… {len(content) - MAX_PARTS} more parts were left out …")


def output_of(result: types.CallToolResult, call: Call) -> Output:
    """The output of a tool. Raises `ServerRefusal` where the tool says that it failed."""
    parts = Parts(call)
    parts.blocks(result.content)
    output = parts.output(result.structured_content)
    if result.is_error:
        raise ServerRefusal(output.text or "The tool failed and did not say why.")
    return output


def resource_output(result: types.ReadResourceResult, call: Call) -> Output:
    """What a resource holds."""
    parts = Parts(call)
    for contents in result.contents[:MAX_PARTS]:
        parts.resource(contents)
    return parts.output(None)


def prompt_output(result: types.GetPromptResult, call: Call) -> Output:
    """The messages of a prompt, each under its role."""
    parts = Parts(call)
    if result.description:
        parts.text(result.description)
    for message in result.messages[:MAX_PARTS]:
        parts.text(f"{message.role}:")
        parts.block(message.content)
    return parts.output(None)
