"""One dialect of regular expressions, written out for ripgrep and for Python so that both match the same lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jaato.plugins.search.bracket import Bracket
from jaato.plugins.search.letters import (
    BOUNDARY_WORD,
    LOST,
    Written,
    both,
    escaped,
    perl_class,
    refuse,
    rust_literal,
)

MAX_PATTERN = 4000
MAX_DEPTH = 50
MAX_REPEAT = 1000
MAX_WEIGHT = 10_000
"""How many literal characters, repetitions written out, a pattern may amount to; a class counts ten."""

QUANTIFIER = re.compile(r"[*+?]|\{([0-9]{1,9})(,([0-9]{0,9}))?\}")
GROUP = re.compile(r"\(\?(?:P?<([A-Za-z_]\w*)>|([ims]*)(:)|([ims]+)\))|\((?!\?)")


def written(pattern: str, *, literal: bool = False) -> Written:
    """The pattern for ripgrep and for Python; raises `InvalidArguments` with the reason when it is in neither.

    Lines are matched without their end. `\\w` is letters, numbers and `_`; `{` that starts no count is itself.
    """
    if not pattern:
        raise refuse("it is empty. Give the text or expression to look for.")
    if len(pattern) > MAX_PATTERN:
        raise refuse(f"it has {len(pattern)} characters; at most {MAX_PATTERN} are possible.")
    if "\0" in pattern or any("\ud800" <= letter <= "\udfff" for letter in pattern):
        raise refuse("it has characters that no text line has (NUL or half a surrogate pair).")
    if literal:
        if "\n" in pattern or "\r" in pattern:
            raise refuse("lines are searched one by one, so it cannot span lines. Search for one of them.")
        return Written("".join(map(rust_literal, pattern)), re.escape(pattern))
    return Translation(pattern).run()


@dataclass(slots=True)
class Frame:
    """A group that is open: the weight of what it has so far."""

    weight: int = 0


class Translation:
    """One pass over a pattern, writing both forms."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.rust: list[str] = []
        self.python: list[str] = []
        self.frames = [Frame()]
        self.atom: int | None = None  # the weight of what a quantifier would repeat

    def run(self) -> Written:
        """Translate to the end."""
        while self.at < len(self.text):
            self.step(self.text[self.at])
        if len(self.frames) > 1:
            raise refuse("a ( is never closed. Close it, or write \\( for the character.")
        self.settle()
        if self.frames[0].weight > MAX_WEIGHT:
            raise refuse("its repetitions multiply to too much. Use smaller counts, or * and +.")
        return Written("".join(self.rust), "".join(self.python))

    def step(self, letter: str) -> None:
        """Translate what starts with this character."""
        match letter:
            case "\\":
                self.escape()
            case "[":
                bracket = Bracket(self.text, self.at)
                form = bracket.run()
                self.emit(*form, 10, bracket.at - self.at)
            case "(":
                self.open_group()
            case ")":
                self.close_group()
            case "|":
                self.emit("|", "|", None)
            case ".":
                self.emit(".", rf"[^\n{LOST}]", 10)
            case "^":
                self.emit("^", "^", None)
            case "$":
                self.emit(r"(?:\r?$)", r"(?:\r?\Z)", None)
            case "\n" | "\r":
                raise refuse(
                    "lines are searched one by one, so it cannot span lines. Search for one of them."
                )
            case _ if letter in "*+?{" and self.quantifier():
                return
            case _:
                self.emit(*both(letter), 1)

    def emit(self, rust: str, python: str, weight: int | None, width: int = 1) -> None:
        """Write one item; `weight` None marks what cannot be repeated."""
        self.settle()
        self.rust.append(rust)
        self.python.append(python)
        self.atom = weight
        self.at += width

    def settle(self) -> None:
        """Count the item before: it is not repeated."""
        self.frames[-1].weight += self.atom or 0
        self.atom = None

    def quantifier(self) -> bool:
        """Translate a repetition; False when this `{` is only a character."""
        found = QUANTIFIER.match(self.text, self.at)
        if found is None:
            return False
        if self.atom is None:
            raise refuse(f"{found[0]!r} repeats nothing. Put something before it, or write \\{found[0][0]}.")
        if found[1] is not None:
            low, high = int(found[1]), int(found[3] or found[1])
            if low > MAX_REPEAT or high > MAX_REPEAT or high < low:
                raise refuse(f"{found[0]} is no count from 0 to {MAX_REPEAT}, lower number first.")
            self.atom *= max(1, high)
            if self.atom > MAX_WEIGHT:
                raise refuse("its repetitions multiply to too much. Use smaller counts, or * and +.")
        self.at = found.end()
        mark = found[0]
        if self.text.startswith("?", self.at):
            mark += "?"
            self.at += 1
        if self.text.startswith(("*", "+", "?"), self.at):
            raise refuse(f"{mark}{self.text[self.at]} repeats a repetition. Group it with (?:…).")
        following = QUANTIFIER.match(self.text, self.at)
        if following is not None:
            raise refuse(f"{mark}{following[0]} repeats a repetition. Group it with (?:…).")
        self.rust.append(mark)
        self.python.append(mark)
        self.settle()
        return True

    def open_group(self) -> None:
        """Translate the start of a group; all become groups that capture nothing."""
        found = GROUP.match(self.text, self.at)
        if found is None:
            raise refuse(
                f"{self.text[self.at : self.at + 4]!r}: look-around, back-references, conditions and "
                "flags other than i, m and s are not supported. Say it without."
            )
        flags = found[2] or found[4] or ""
        if found[4] is not None:
            if self.at != 0:
                raise refuse("flags such as (?i) stand only at the start; use (?i:…) inside.")
            if "i" in flags:
                self.rust.append("(?i)")
                self.python.append("(?i)")
            self.at = found.end()
            return
        if len(self.frames) > MAX_DEPTH:
            raise refuse(f"its groups are more than {MAX_DEPTH} deep.")
        mark = "(?i:" if "i" in flags else "(?:"
        self.emit(mark, mark, None, len(found[0]))
        self.frames.append(Frame())

    def close_group(self) -> None:
        """Translate the end of a group."""
        if len(self.frames) == 1:
            raise refuse("a ) closes nothing. Open it, or write \\) for the character.")
        self.settle()
        weight = self.frames.pop().weight
        self.rust.append(")")
        self.python.append(")")
        self.atom = max(1, weight)
        self.at += 1

    def escape(self) -> None:
        """Translate what starts with a backslash, outside a class."""
        letter = self.text[self.at + 1 : self.at + 2]
        if letter in ("b", "B"):
            inside = rf"(?<={BOUNDARY_WORD})(?!{BOUNDARY_WORD})|(?<!{BOUNDARY_WORD})(?={BOUNDARY_WORD})"
            self.emit(f"\\{letter}", f"(?:{inside})" if letter == "b" else f"(?!{inside})", None, 2)
        elif letter and letter in "dsw":
            rust, python = perl_class(letter)
            self.emit(f"[{rust}]", f"[{python}]", 10, 2)
        elif letter and letter in "DSW":
            rust, python = perl_class(letter.lower())
            self.emit(f"[^{rust}]", f"[^{python}{LOST}]", 10, 2)
        else:
            character, width = escaped(self.text, self.at)
            self.emit(*both(character), 1, width)
