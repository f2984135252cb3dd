"""The characters and sets of the search's regular expressions, as ripgrep and as Python write them."""

from __future__ import annotations

import re
from typing import NamedTuple

from jaato.errors import InvalidArguments

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
CODE = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|u\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")


class Written(NamedTuple):
    """The same expression for both engines."""

    rust: str
    python: str


def refuse(why: str) -> InvalidArguments:
    """The error for a pattern that is not in the dialect."""
    return InvalidArguments(f"The pattern cannot be used: {why}", [("/pattern", why)])


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


def escaped(text: str, at: int) -> tuple[str, int]:
    """The character that an escape at `at` stands for, and how long the escape is."""
    letter = text[at + 1 : at + 2]
    if not letter:
        raise refuse("it ends in a backslash. Write \\\\ for the character.")
    if letter in CONTROLS:
        return CONTROLS[letter], 2
    found = CODE.match(text, at + 1)
    if found is not None:
        code = int(next(group for group in found.groups() if group), 16)
        if code in (0, 10) or 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
            raise refuse(f"\\{found[0]} is no character that a line can have.")
        return chr(code), 1 + len(found[0])
    if letter == "n":
        raise refuse("lines are searched one by one, so \\n matches nothing. Search for one line of it.")
    if letter.isalnum():
        raise refuse(f"\\{letter} is not supported. Known: \\d \\s \\w \\D \\S \\W \\b \\B \\t \\r \\xHH.")
    return letter, 2
