"""One call of an MCP tool: its deadline, which progress extends and a question pauses, and its result as our output."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import math
import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from jaato.abc.asker import Clarification
from jaato.errors import PluginError
from jaato.plugins.mcp.errors import ServerRefusal
from jaato.plugins.mcp.manifest import ToolEntry
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Media
from jaato.tools.call import Call, Output
from jaato.tools.images import IMAGE_TYPES, ImageRefused, check_image
from jaato.tools.schema import Validator

if TYPE_CHECKING:
    import mcp_types as types

MAX_EXTENSIONS = 12
"""How many times its timeout a call may take while it reports progress."""
PROGRESS_EVERY_S = 0.1
MAX_MEDIA_BYTES = 16 << 20
MAX_PARTS = 500
MAX_TEXT_CHARS = 8_000_000
MIME = re.compile(
    r"[A-Za-z0-9][\w!#$&^.+-]{0,63}/[A-Za-z0-9][\w!#$&^.+-]{0,63}(?:; ?[\w=.-]{1,64}){0,4}", re.ASCII
)

Clarify = Callable[[Clarification], Awaitable[list[str | None] | None]]


class Deadline:
    """The deadline of a call: progress extends it, a question to the user pauses it, and there is always an end."""

    def __init__(self, seconds: float) -> None:
        self.scope = anyio.CancelScope()
        self._seconds = seconds
        self._paused = 0
        self._last = anyio.current_time() + seconds * MAX_EXTENSIONS
        self.extend()

    def extend(self) -> None:
        """Restart the timeout: the server has reported progress."""
        if not self._paused:
            self.scope.deadline = min(anyio.current_time() + self._seconds, self._last)

    def pause(self) -> None:
        """Stop the clock while the user is asked."""
        self._paused += 1
        self._left = self._last - anyio.current_time()
        self.scope.deadline = math.inf

    def resume(self) -> None:
        """Continue: the user has answered."""
        self._paused -= 1
        if not self._paused:
            self._last = anyio.current_time() + max(self._left, self._seconds)
            self.extend()


@dataclass(eq=False, slots=True)
class CallContext:
    """A call while it runs: how its user is asked, its deadline, and its progress."""

    call: Call
    clarify: Clarify | None = None
    loop: asyncio.AbstractEventLoop | None = None
    deadline: Deadline | None = None
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the user is asked, so that questions come one after the other."""
    _progress_at: float = 0.0
    _completed: bool = False

    async def ask(self, context: str, questions: list[dict[str, Any]]) -> list[str | None] | None:
        """Ask the user on the session's loop, with the deadline paused; None when no user can answer."""
        if self.clarify is None or self.loop is None:
            return None
        asked = Clarification(id=new_id("q"), call_id=self.call.id, context=context, questions=questions)

        async def put() -> list[str | None] | None:
            assert self.clarify is not None
            return await self.clarify(asked)

        if self.deadline is not None:
            self.deadline.pause()
        try:
            future = asyncio.run_coroutine_threadsafe(put(), self.loop)
            return await asyncio.wrap_future(future)
        finally:
            if self.deadline is not None:
                self.deadline.resume()

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Extend the deadline, and write throttled progress to the output of the call."""
        if self.deadline is not None:
            self.deadline.extend()
        now = anyio.current_time()
        completes = progress == total and not self._completed  # the end is shown at once, and once
        if now - self._progress_at < PROGRESS_EVERY_S and not completes:
            return
        self._progress_at, self._completed = now, self._completed or completes
        share = f"{format_number(progress)}/{format_number(total)}" if total else format_number(progress)
        self.call.output(f"[{share}] {message[:500]}\n" if message else f"[{share}]\n")


CURRENT_CONTEXT: ContextVar[CallContext | None] = ContextVar("jaato_mcp_caller", default=None)


def format_number(number: float) -> str:
    """A number as it is shown; a server may send one that is too large for a float."""
    try:
        return f"{number:g}"
    except OverflowError:
        return "?"


class OutputBuilder:
    """Collects the parts of an answer within bounds: text, and media behind handles."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._texts: list[str] = []
        self._chars = 0
        self._media: list[Media] = []

    def build(self, structured: Any = None) -> Output:
        """The output, with structured data as its text when there is no other."""
        text = "\n".join(self._texts)
        if not text and structured is not None:
            text = json.dumps(structured, ensure_ascii=False)
        return Output(text, structured, tuple(self._media))

    def add_text(self, text: str) -> None:
        """Add text up to the limit."""
        room = MAX_TEXT_CHARS - self._chars
        if room > 0:
            self._texts.append(text[:room])
            self._chars += min(room, len(text))
            if len(text) > room:
                self._texts.append("… the rest was left out: the answer is too long …")

    def add_data(self, mime: str, encoded: str, name: str | None = None) -> None:
        """Add base64 data: images and audio as media, other data as a handle, invalid data as a note."""
        mime = mime if MIME.fullmatch(mime) else "application/octet-stream"
        if len(encoded) > MAX_MEDIA_BYTES * 4 // 3 + 4:
            self.add_text(f"[{mime} of more than {MAX_MEDIA_BYTES >> 20} MB, left out]")
            return
        try:
            content = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            self.add_text(f"[{mime} whose base64 is broken, left out]")
            return
        if mime in IMAGE_TYPES:
            try:
                mime = check_image(content, "Have the server send a smaller one, or another form.").mime
            except ImageRefused as error:
                self.add_text(f"[{mime}, left out: {error}]")
                return
        try:
            handle = self._call.keep(content)
        except LookupError:
            self.add_text(f"[{mime}, {len(content)} bytes, not stored here]")
            return
        if mime in IMAGE_TYPES or mime.startswith("audio/"):
            self._media.append(Media(mime, handle.removeprefix("result:"), len(content), name))
            self.add_text(f"[{mime}, {len(content)} bytes: {handle}]")
        else:
            self.add_text(f"[{mime}, {len(content)} bytes; readFile reads it: {handle}]")

    def add_resource(self, contents: Any) -> None:
        """Add the contents of a resource."""
        text = getattr(contents, "text", None)
        if text is not None:
            self.add_text(f"{contents.uri}:\n{text}")
        else:
            self.add_data(contents.mime_type or "application/octet-stream", contents.blob, str(contents.uri))

    def add_block(self, block: Any) -> None:
        """Add one block of content."""
        match block.type:
            case "text":
                self.add_text(block.text)
            case "image" | "audio":
                self.add_data(block.mime_type, block.data)
            case "resource":
                self.add_resource(block.resource)
            case "resource_link":
                description = f": {block.description}" if block.description else ""
                self.add_text(
                    f"[resource {block.uri} ({block.name}){description}; mcp_read_resource reads it]"
                )


def output_of(result: types.CallToolResult, call: Call) -> Output:
    """The output of a tool. Raises `ServerRefusal` when the tool reports an error."""
    builder = OutputBuilder(call)
    for block in result.content[:MAX_PARTS]:
        builder.add_block(block)
    if len(result.content) > MAX_PARTS:
        builder.add_text(f"… {len(result.content) - MAX_PARTS} more parts were left out …")
    output = builder.build(result.structured_content)
    if result.is_error:
        raise ServerRefusal(output.text or "The tool failed without an error message.")
    return output


def resource_output(result: types.ReadResourceResult, call: Call) -> Output:
    """The contents of a resource."""
    builder = OutputBuilder(call)
    for contents in result.contents[:MAX_PARTS]:
        builder.add_resource(contents)
    return builder.build()


def prompt_output(result: types.GetPromptResult, call: Call) -> Output:
    """The messages of a prompt, each after its role."""
    builder = OutputBuilder(call)
    if result.description:
        builder.add_text(result.description)
    for message in result.messages[:MAX_PARTS]:
        builder.add_text(f"{message.role}:")
        builder.add_block(message.content)
    return builder.build()


def validate_output(entry: ToolEntry, output: Output) -> Output:
    """The output without structured data that does not validate against the tool's declared output schema."""
    if entry.output_schema is None:
        return output
    if output.structured is None:
        why = "there is none"
    else:
        try:
            issues = Validator(entry.output_schema).issues(output.structured)
        except PluginError as error:
            issues = [("", str(error))]
        if not issues:
            return output
        why = "; ".join(f"{path or '/'} {text}" for path, text in issues[:3])
    note = f"[The structured data this tool declares is left out: {why}]"
    return Output(f"{output.text}\n{note}" if output.text else note, None, output.media)
