"""Output of commands that is to be shown; without the protocol's library, which a program that follows one call need not load."""

from __future__ import annotations

from jaato.protocol.messages import ToolResult

MAX_HELD_CHARS = 64_000


def exit_code_of(result: ToolResult) -> int:
    """The exit code of a command; 1 for a call that has failed otherwise."""
    return int(not result.ok) if result.exit_code is None else result.exit_code


class HeldOutput:
    """The output of a call that was not sent yet, the newest of it."""

    def __init__(self) -> None:
        self.end = 0
        """How many characters the call has printed."""
        self._text = ""

    def add(self, offset: int, text: str) -> None:
        """Add the text at an offset, as far as it is new."""
        missing, new_end = max(0, offset - self.end), max(self.end, offset + len(text))
        text = text[max(0, self.end - offset) :]
        if missing:
            text = f"\n[… {missing:,} characters are not shown …]\n{text}"
        self.end = new_end
        self._text = (self._text + text)[-MAX_HELD_CHARS:]

    def take(self) -> str:
        """What was not sent yet."""
        text, self._text = self._text, ""
        return text
