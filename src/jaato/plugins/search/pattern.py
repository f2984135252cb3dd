"""One dialect of regular expressions, written out for ripgrep and for Python so that both match the same lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from jaato.errors import InvalidArguments

MAX_PATTERN = 4000
MAX_DEPTH = 50
MAX_REPEAT = 1000
MAX_WEIGHT = 10_000
"""How many literal characters, repetitions written out, a pattern may amount to; a class counts ten."""

LOST = r"\ud800-\udfff"
"""In Python's text these stand for bytes that are no UTF-8; nothing but themselves matches them."""
SPACE = r"\t\n\x0b\x0c\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
NUMERALS = (
    r"\xb2\xb3\xb9\xbc-\xbe\u09f4-\u09f9\u2070\u2074-\u2079\u2080-\u2089\u2150-\u215f\u2189\u2460-\u249b\u24ea-\u24ff"
    r"\u2776-\u2793\u3192-\u3195\u3220-\u3229\u3248-\u324f\u3251-\u325f\u3280-\u3289\u32b1-\u32bf"
)
"""Numbers that are no digits: Python has them in words, ripgrep sees a word end there."""
BOUNDARY_WORD = rf"(?:[^\W{NUMERALS}]|[\u0300-\u036f])"
POSIX = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\t\n\x0b\x0c\r ",
    "blank": r"\t ", "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9a-fA-F", "word": "a-zA-Z0-9_",
}  # fmt: skip
CONTROLS = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
QUANTIFIER = re.compile(r"[*+?]|\{([0-9]{1,9})(,([0-9]{0,9}))?\}")
GROUP = re.compile(r"\(\?(?:P?<([A-Za-z_]\w*)>|([ims]*)(:)|([ims]+)\))|\((?!\?)")
CODE = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|u\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")


class Written(NamedTuple):
    """The same expression for both engines."""

    rust: str
    python: str


def refuse(why: str) -> InvalidArguments:
    """The error for a pattern that is not in the dialect."""
    return InvalidArguments(f"The pattern cannot be used: {why}", [("/pattern", why)])


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


def rust_literal(letter: str) -> str:
    """One character as ripgrep's syntax has it."""
    if letter.isalnum() or letter in "_ \"'%,/:;<>=@`!" or ord(letter) > 0x9F:
        return letter
    return f"\\x{{{ord(letter):x}}}"


def python_literal(letter: str) -> str:
    """One character as Python's syntax has it, also inside a class."""
    return letter if letter.isalnum() or not letter.isascii() else f"\\x{ord(letter):02x}"


def both(letter: str) -> Written:
    """One character, for either engine."""
    return Written(rust_literal(letter), python_literal(letter))


def perl_class(letter: str) -> Written:
    """`d`, `s` or `w` as the inside of a class."""
    match letter:
        case "d":
            return Written(r"\p{Nd}", r"\d")
        case "s":
            return Written(r"\s", SPACE)
    return Written(r"\p{L}\p{N}_", r"\w")


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
                self.bracket()
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
            character, width = self.escaped()
            self.emit(*both(character), 1, width)

    def escaped(self) -> tuple[str, int]:
        """The character that an escape stands for, and how long the escape is."""
        letter = self.text[self.at + 1 : self.at + 2]
        if not letter:
            raise refuse("it ends in a backslash. Write \\\\ for the character.")
        if letter in CONTROLS:
            return CONTROLS[letter], 2
        found = CODE.match(self.text, self.at + 1)
        if found is not None:
            code = int(next(group for group in found.groups() if group), 16)
            if code in (0, 10) or 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
                raise refuse(f"\\{found[0]} is no character that a line can have.")
            return chr(code), 1 + len(found[0])
        if letter == "n":
            raise refuse("lines are searched one by one, so \\n matches nothing. Search for one line of it.")
        if letter.isalnum():
            raise refuse(
                f"\\{letter} is not supported. Known: \\d \\s \\w \\D \\S \\W \\b \\B \\t \\r \\xHH."
            )
        return letter, 2

    def bracket(self) -> None:
        """Translate a class: `[…]` or `[^…]`."""
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        rust: list[str] = []
        python: list[str] = []
        others: list[str] = []  # what Python cannot hold in one class
        while not rust or not self.text.startswith("]", self.at):
            self.class_item(rust, python, others)
        self.at += 1
        body = "".join(python)
        choices = [f"[{body}]"] * bool(body) + others
        if negated:
            form = f"(?:(?!{'|'.join(choices)})[^\\n{LOST}])" if others else f"[^\\n{body}{LOST}]"
        else:
            form = choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"
        self.emit(f"[{'^' * negated}{''.join(rust)}]", form, 10, 0)

    def class_item(self, rust: list[str], python: list[str], others: list[str]) -> None:
        """Translate one item of a class: a named set, a range or a character."""
        posix = re.compile(r"\[:(\^?)([a-z]+):\]").match(self.text, self.at)
        letter = self.text[self.at + 1 : self.at + 2] if self.text.startswith("\\", self.at) else ""
        if posix is not None and posix[2] in POSIX:
            body = POSIX[posix[2]]
            self.at = posix.end()
            rust.append(f"[{posix[1]}{body}]")
            if posix[1]:
                others.append(f"[^{body}{LOST}]")
            else:
                python.append(body)
        elif letter and letter in "dswDSW":
            inside = perl_class(letter.lower())
            self.at += 2
            if letter.islower():
                rust.append(inside.rust)
                python.append(inside.python)
            else:
                rust.append(f"[^{inside.rust}]")
                others.append(f"[^{inside.python}{LOST}]")
        else:
            low = self.class_character()
            high = low
            dash = self.text[self.at : self.at + 2]
            if dash.startswith("-") and len(dash) == 2 and dash[1] != "]":
                self.at += 1
                high = self.class_character()
                if high < low:
                    raise refuse(f"the range {low}-{high} goes backwards. Put the lower character first.")
            for form, made in ((rust, rust_literal), (python, python_literal)):
                form.append(made(low) if low == high else f"{made(low)}-{made(high)}")

    def class_character(self) -> str:
        """One character of a class, written plainly or escaped."""
        if self.at >= len(self.text):
            raise refuse("a [ is never closed. Close it, or write \\[ for the character.")
        letter = self.text[self.at]
        if letter == "\\":
            if self.text.startswith("\\b", self.at) or self.text[self.at + 1 : self.at + 2] in tuple(
                "dswDSW"
            ):
                raise refuse("a set such as \\d cannot end a range, and \\b stands outside of [ ] only.")
            character, width = self.escaped()
            self.at += width
            return character
        if letter in "\n\r":
            raise refuse("lines are searched one by one, so it cannot span lines. Search for one of them.")
        self.at += 1
        return letter
