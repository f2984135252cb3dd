"""Reads a constrained turn while it streams: text of the answer, or arguments of the call, by partial JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from jiter import from_json

from jaato.abc.provider import CallDelta, TextDelta, ThinkingDelta

ARGUMENTS = re.compile(r'"args"\s*:\s*')
"""Where the arguments begin; inside a string its quotes would be escaped."""


class TurnReader:
    """One turn as it is written. `raw` is all of it; `answer` the answer's text so far; `step` what a call is for, and
    `call` its name.

    With `structured` the answer is a JSON value of its own, whose text is given out whole when it is complete.
    """

    def __init__(self, *, structured: bool = False) -> None:
        self.raw = ""
        self.answer = ""
        self.step = ""
        self.call: str | None = None
        self._structured = structured
        self._seen = 0

    def feed(self, text: str) -> list[TextDelta | ThinkingDelta | CallDelta]:
        """What this piece adds for the reader."""
        self.raw += text
        if self.call is not None:
            return self._read_arguments()
        try:
            turn = from_json(self.raw.encode("utf-8", "replace"), partial_mode="trailing-strings")
        except ValueError:  # half a character, for which there is no text
            return []
        if isinstance(answer := turn.get("answer"), str) and not self._structured:
            added, self.answer = answer[len(self.answer) :], answer
            return [TextDelta(added)] if added else []
        if "tool" in turn and (found := ARGUMENTS.search(self.raw)):
            self.step, self.call, self._seen = turn.get("step", ""), turn["tool"], found.end()
            thought = [ThinkingDelta(self.step)] if self.step else []
            return [*thought, CallDelta(0, turn["tool"], ""), *self._read_arguments()]
        return []

    def _read_arguments(self) -> list[TextDelta | ThinkingDelta | CallDelta]:
        # the last brace closes the turn, not the arguments: one character is held back until another follows
        stop = len(self.raw) - 1
        if stop <= self._seen:
            return []
        piece, self._seen = self.raw[self._seen : stop], stop
        return [CallDelta(0, self.call or "", piece)]

    def parse(self) -> dict[str, Any] | None:
        """The turn when it is complete: `{"tool", "args"}` or `{"answer"}`; None while it is not."""
        try:
            value = json.loads(self.raw, strict=False)
        except ValueError:
            return None
        return value if isinstance(value, dict) and ("answer" in value or "tool" in value) else None

    def get_unfinished_arguments(self) -> str:
        """The arguments of a call that was cut off, as far as they came."""
        found = ARGUMENTS.search(self.raw)
        return self.raw[found.end() :] if found else ""
