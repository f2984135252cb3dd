"""What a call wants typed: checked, and held against what was typed before."""

from __future__ import annotations

from dataclasses import dataclass

from jaato.errors import InvalidArguments, ToolError
from jaato.plugins.terminal.keys import key_bytes
from jaato.tools.touches import MENTION

MAX_TEXT_CHARS = 65_536
MAX_KEYS = 200
KEPT_CHARS = 4096
CLEARING = ("enter", "ctrl-c")


@dataclass(frozen=True, slots=True)
class Typed:
    """Text, then keys. `secret` when the text must never be shown."""

    text: str
    keys: tuple[str, ...]
    secret: bool

    def check(self, before: str) -> None:
        """Raise `ToolError` where this completes a control path that an earlier call has begun, each harmless alone."""
        line = before + self.text
        found = MENTION.search(line) if before else None
        if found is None or MENTION.search(self.text) or MENTION.search(before):
            return
        raise ToolError(
            f"This would complete {found[0]!r}, which decides what runs later. Clear the line with ctrl-c, then type "
            "it in one call, so that it can be judged as a whole."
        )

    def left(self, before: str) -> str:
        """What stands in the line now, as far as it is known."""
        if self.secret or any(key in CLEARING for key in self.keys):
            return ""
        return (before + self.text).rpartition("\n")[2][-KEPT_CHARS:]


def typed(text: str, enter: bool | None, keys: list[str], secret: str | None) -> Typed:
    """The input of a call; enter follows the text unless keys do. Raises `InvalidArguments`."""
    issues = []
    if len(text) > MAX_TEXT_CHARS:
        issues.append(("/text", f"has more than {MAX_TEXT_CHARS:,} characters; write a file instead"))
    if any((ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160 for char in text):
        issues.append(("/text", "has control characters; press keys instead"))
    if any(0xD800 <= ord(char) < 0xE000 for char in text):
        issues.append(("/text", "has half a surrogate pair, which is no character"))
    if len(keys) > MAX_KEYS:
        issues.append(("/keys", f"are more than {MAX_KEYS}"))
    if not text and not keys and secret is None and enter is False:
        issues.append(("/text", "is empty, and no key is pressed"))
    if issues:
        raise InvalidArguments(
            f"Invalid arguments for shell_input: {issues[0][0][1:]} {issues[0][1]}.", issues
        )
    for key in keys:
        key_bytes(key, False)
    whole = text if secret is None else secret
    pressed = list(keys)
    if enter or (enter is None and not keys):
        pressed.insert(0, "enter")
    return Typed(whole, tuple(pressed), secret is not None)
