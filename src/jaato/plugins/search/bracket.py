"""A class of characters, `[…]` or `[^…]`, in a regular expression, written out for ripgrep and for Python."""

from __future__ import annotations

import re

from jaato.plugins.search.letters import (
    LOST,
    POSIX,
    Written,
    escaped,
    perl_class,
    python_literal,
    refuse,
    rust_literal,
)


class Bracket:
    """One class that starts at `at` of the pattern's text; afterwards `at` is behind it."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.rust: list[str] = []
        self.python: list[str] = []
        self.others: list[str] = []  # what Python cannot hold in one class

    def run(self) -> Written:
        """The class for both engines. Raises `InvalidArguments`."""
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        while not self.rust or not self.text.startswith("]", self.at):
            self.item()
        self.at += 1
        body = "".join(self.python)
        choices = [f"[{body}]"] * bool(body) + self.others
        if negated:
            form = f"(?:(?!{'|'.join(choices)})[^\\n{LOST}])" if self.others else f"[^\\n{body}{LOST}]"
        else:
            form = choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"
        return Written(f"[{'^' * negated}{''.join(self.rust)}]", form)

    def item(self) -> None:
        """Translate one item of a class: a named set, a range or a character."""
        rust, python = self.rust, self.python
        posix = re.compile(r"\[:(\^?)([a-z]+):\]").match(self.text, self.at)
        letter = self.text[self.at + 1 : self.at + 2] if self.text.startswith("\\", self.at) else ""
        if posix is not None and posix[2] in POSIX:
            body = POSIX[posix[2]]
            self.at = posix.end()
            rust.append(f"[{posix[1]}{body}]")
            if posix[1]:
                self.others.append(f"[^{body}{LOST}]")
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
                self.others.append(f"[^{inside.python}{LOST}]")
        else:
            low = self.character()
            high = low
            dash = self.text[self.at : self.at + 2]
            if dash.startswith("-") and len(dash) == 2 and dash[1] != "]":
                self.at += 1
                high = self.character()
                if high < low:
                    raise refuse(f"the range {low}-{high} goes backwards. Put the lower character first.")
            for form, made in ((rust, rust_literal), (python, python_literal)):
                form.append(made(low) if low == high else f"{made(low)}-{made(high)}")

    def character(self) -> str:
        """One character of a class, written plainly or escaped."""
        if self.at >= len(self.text):
            raise refuse("a [ is never closed. Close it, or write \\[ for the character.")
        letter = self.text[self.at]
        if letter == "\\":
            if self.text.startswith("\\b", self.at) or self.text[self.at + 1 : self.at + 2] in tuple(
                "dswDSW"
            ):
                raise refuse("a set such as \\d cannot end a range, and \\b stands outside of [ ] only.")
            character, width = escaped(self.text, self.at)
            self.at += width
            return character
        if letter in "\n\r":
            raise refuse("lines are searched one by one, so it cannot span lines. Search for one of them.")
        self.at += 1
        return letter
