"""What a call gave, as it is told to who called: from its result in the log, whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from jaato.errors import JaatoError
from jaato.protocol.messages import Text, ToolResult

MAX_RESULT_BYTES = 8_000_000

Read = Callable[[str, int, int], bytes]


class TooLarge(JaatoError):
    """A result that is too large to be sent."""

    code = "tool.result_too_large"


def value_of(result: ToolResult, read: Read, *, text: bool) -> Any:
    """The data of a result, else its text; `read(handle, offset, limit)` gives what is kept apart, which is no data where
    it is `text`. Raises `TooLarge`, `StoreError`."""
    if result.structured is not None:
        return result.structured
    texts = [part.text for part in result.content if isinstance(part, Text)]
    if not texts:
        return [msgspec.to_builtins(part) for part in result.content] or None
    if result.handle is None:
        return "\n".join(texts)
    data = read(result.handle, 0, MAX_RESULT_BYTES + 1)
    if len(data) > MAX_RESULT_BYTES:
        raise TooLarge(
            f"The tool has run, and its result has more than {MAX_RESULT_BYTES:,} bytes, which are not sent. "
            "Ask for less at once."
        )
    try:
        return data.decode() if text else msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data.decode("utf-8", "replace")
