"""Reads a constrained turn while it is being written: the answer's text, or the call's arguments, as they
come."""

from __future__ import annotations

import json
import re
from typing import Any

from jaato.abc.provider import CallDelta, TextDelta, ThinkingDelta

ANSWER = re.compile(r'\s*\{\s*"answer"\s*:\s*')
STEP = r'\s*\{\s*(?:"step"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*)?'
CALL = re.compile(STEP + r'"tool"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*"args"\s*:\s*')
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
REPLACEMENT = chr(0xFFFD)


class StringDecoder:
    """Decodes the inside of a JSON string in pieces of any size; an escape cut in two waits for its rest."""

    def __init__(self) -> None:
        self.ended = False
        self._held = ""

    def feed(self, text: str) -> str:
        """The characters that are certain after this piece; what follows the closing quote is ignored."""
        text, self._held = self._held + text, ""
        out: list[str] = []
        at = 0
        while at < len(text) and not self.ended:
            if text[at] == '"':
                self.ended = True
            elif text[at] != "\\":
                stop = at
                while stop < len(text) and text[stop] not in '"\\':
                    stop += 1
                out.append(text[at:stop])
                at = stop
            else:
                size, character = escape(text[at : at + 12])
                if size == 0:
                    self._held = text[at:]
                    break
                out.append(character)
                at += size
        return "".join(out)


def escape(text: str) -> tuple[int, str]:
    """The escape that `text` begins with: its length and character, or (0, "") when more is needed to
    know."""
    if len(text) < 2:
        return 0, ""
    if text[1] != "u":
        return 2, ESCAPES.get(text[1], text[1])
    if len(text) < 6:
        return 0, ""
    unit = code(text[2:6])
    if not 0xD800 <= unit < 0xDC00:
        return 6, REPLACEMENT if 0xDC00 <= unit < 0xE000 else chr(unit)
    if "\\u".startswith(text[6:8]):  # a second half may follow
        if len(text) < 12:
            return 0, ""
        low = code(text[8:12])
        if 0xDC00 <= low < 0xE000:
            return 12, chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
    return 6, REPLACEMENT


def code(digits: str) -> int:
    """Four hexadecimal digits as a number; what is none stands for the replacement character."""
    try:
        return int(digits, 16)
    except ValueError:
        return 0xFFFD


class TurnReader:
    """One turn as it is written. `raw` is all of it; `answer` the answer's text so far; `step`
    what a call is for, and `call` its name.

    With `structured` the answer is a JSON value of its own, whose text is given out whole when it is
    complete.
    """

    def __init__(self, *, structured: bool = False) -> None:
        self.raw = ""
        self.answer = ""
        self.step = ""
        self.call: str | None = None
        self._structured = structured
        self._string: StringDecoder | None = None
        self._seen = 0

    def feed(self, text: str) -> list[TextDelta | ThinkingDelta | CallDelta]:
        """What this piece adds for the reader."""
        self.raw += text
        if self._string is not None:
            return self._text(text)
        if self.call is not None:
            return self._arguments()
        if found := ANSWER.match(self.raw):
            rest = self.raw[found.end() :]
            if not self._structured and rest.startswith('"'):
                self._string = StringDecoder()
                return self._text(rest[1:])
        elif found := CALL.match(self.raw):
            self.step, self.call = (str(json.loads(f'"{text or ""}"')) for text in found.groups())
            self._seen = found.end()
            said = [ThinkingDelta(self.step)] if self.step else []
            return [*said, CallDelta(0, self.call, ""), *self._arguments()]
        return []

    def _text(self, text: str) -> list[TextDelta | ThinkingDelta | CallDelta]:
        assert self._string is not None
        said = self._string.feed(text)
        self.answer += said
        return [TextDelta(said)] if said else []

    def _arguments(self) -> list[TextDelta | ThinkingDelta | CallDelta]:
        # the last brace closes the turn, not the arguments: one character is held back until another follows
        stop = len(self.raw) - 1
        if stop <= self._seen:
            return []
        piece, self._seen = self.raw[self._seen : stop], stop
        return [CallDelta(0, self.call or "", piece)]

    def whole(self) -> dict[str, Any] | None:
        """The turn when it is complete: `{"tool", "args"}` or `{"answer"}`; None while it is not."""
        try:
            value = json.loads(self.raw, strict=False)
        except ValueError:
            return None
        return value if isinstance(value, dict) and ("answer" in value or "tool" in value) else None

    def unfinished_arguments(self) -> str:
        """The arguments of a call that was cut off, as far as they came."""
        found = CALL.match(self.raw)
        return self.raw[found.end() :] if found else ""
