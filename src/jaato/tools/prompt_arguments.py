"""The arguments of a stored prompt: split as a shell does, and filled into its placeholders."""

from __future__ import annotations

import re

from jaato.errors import InvalidArguments

MAX_FILLED_CHARS = 1_000_000
SLOT = re.compile(r"\{\{\$(\d{1,2})(?::([^{}]*))?\}\}|\$(ARGUMENTS|[1-9])\b")
NUMBERED = re.compile(r"\{\{\$(?!00?[:}])\d|\$[1-9]\b")
"""A placeholder of one argument; for the others a message need not be split."""
QUOTES, ESCAPABLE = "\"'", "\"'\\ "


def parse_arguments(text: str, name: str) -> list[str]:
    """The arguments in what follows the name of a prompt: the words of its first line, and the lines below as the last one.
    Raises `InvalidArguments`."""
    line, _, below = text.partition("\n")
    return split_words(line, name) + ([below.strip()] if below.strip() else [])


def split_words(line: str, name: str) -> list[str]:
    """The words of a line as a shell splits them: one in quotes keeps its blanks, a backslash keeps a quote or a blank. A quote
    inside a word, as in `don't`, is a character of it. Raises `InvalidArguments` for a quote that is not closed."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    letters = iter(line)
    for letter in letters:
        if letter == "\\" and quote != "'":
            following = next(letters, "")
            word = word or []
            word.append(following if following and following in ESCAPABLE else letter + following)
        elif letter == quote:
            quote = ""
        elif quote and word is not None:
            word.append(letter)
        elif letter in QUOTES and (not word or word[-1].endswith("=")):
            word, quote = word or [], letter
        elif not letter.isspace():
            word = word or []
            word.append(letter)
        elif word is not None:
            words.append("".join(word))
            word = None
    if quote:
        raise InvalidArguments(
            f"A quote ({quote}) in the arguments of /{name} is not closed: /{name} {line.strip()[:200]}. Close it, or write "
            f"\\{quote} for the character itself.",
            [("/args", f"has {quote} that is not closed")],
        )
    return words if word is None else [*words, "".join(word)]


def fill_slots(body: str, given: list[str] | str, name: str) -> str:
    """A prompt with its slots filled: `$1`, `{{$1}}`, `{{$1:default}}`, and `$ARGUMENTS` or `{{$0}}` for all. A text is split
    where one of its words is wanted.

    Raises `InvalidArguments` for a slot without a default that nothing was given for, for more than `MAX_FILLED_CHARS`
    characters, and for a quote that is not closed.
    """
    whole = given.strip() if isinstance(given, str) else " ".join(given)
    words = given if isinstance(given, list) else []
    if isinstance(given, str) and NUMBERED.search(body):
        words = parse_arguments(given, name)
    missing: list[int] = []
    room = MAX_FILLED_CHARS

    def fill_bounded(slot: re.Match[str]) -> str:
        nonlocal room
        found = value(slot)
        room -= len(found)
        if room < 0:
            raise InvalidArguments(
                f"The prompt {name} would be longer than {MAX_FILLED_CHARS:,} characters with these arguments.",
                [("/args", "are too long")],
            )
        return found

    def value(slot: re.Match[str]) -> str:
        number, default, plain = slot.groups()
        at = 0 if plain == "ARGUMENTS" else int(number or plain)
        if at == 0:
            return whole or (default or "")
        if 1 <= at <= len(words):
            return words[at - 1]
        if default is None and number is not None:
            missing.append(at)
        return default or ""

    text = SLOT.sub(fill_bounded, body)
    if missing:
        wanted = max(missing)
        raise InvalidArguments(
            f"The prompt {name} needs {wanted} argument{'s' * (wanted > 1)}, {len(words)} given.",
            [("/args", f"needs at least {wanted}")],
        )
    if whole and not SLOT.search(body):
        text = f"{text.rstrip()}\n\n{whole}"
    return text
