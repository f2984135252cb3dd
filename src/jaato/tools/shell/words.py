"""Words of a shell line: what they expand to, and a second lexer that must agree with the
parser's."""

from __future__ import annotations

import msgspec

from jaato.lazy_pattern import lazy_pattern

OPERATORS = ("&&", "||", ";;", "|&", "|", ";", "&", "\n", "(", ")")
"""What separates simple commands; anything else that is special makes the second lexer give up."""

RESERVED = frozenset(
    "if then else elif fi for while until do done case esac select function coproc in { } ! [[ ]]".split()
)
GLOB = lazy_pattern(r"[*?\[]")
TILDE = lazy_pattern(r"(?:^|[=:])~")
BRACES = lazy_pattern(r"\{[^{}]*(?:,|\.\.)")
SAFE_AFTER_DOLLAR = frozenset(" \t|)/,.")


class Word(msgspec.Struct, frozen=True):
    """One word. `value` is what it stands for after quotes, None when bash would compute it.

    `glob` says that bash would match it against file names; then `value` is the pattern.
    """

    text: str
    value: str | None
    glob: bool = False

    @property
    def literal(self) -> str | None:
        """The value when it is certain to be exactly this."""
        return None if self.glob else self.value


def read_word(text: str) -> Word:
    """A word from its source text, quotes and backslashes taken off; no value when anything would be
    expanded."""
    value: list[str] = []
    bare: list[str] = []  # the same, what was quoted blanked out
    position = 0
    while position < len(text):
        piece, shown, position = read_piece(text, position)
        if piece is None:
            return Word(text, None)
        value.append(piece)
        bare.append(shown)
    unquoted = "".join(bare)
    if TILDE.search(unquoted) or BRACES.search(unquoted):
        return Word(text, None)
    return Word(text, "".join(value), bool(GLOB.search(unquoted)))


def read_piece(text: str, position: int) -> tuple[str | None, str, int]:
    """One character or quoted run: (its value or None, how it looks unquoted, where the next begins)."""
    char = text[position]
    match char:
        case "\\":
            if position + 1 >= len(text) or text[position + 1] == "\n":
                return None, "", len(text)
            return text[position + 1], "\0", position + 2
        case "'":
            end = text.find("'", position + 1)
            if end < 0:
                return None, "", len(text)
            inner = text[position + 1 : end]
            return inner, "\0" * max(len(inner), 1), end + 1
        case '"':
            return read_double(text, position + 1)
        case "$":
            if position + 1 < len(text):
                return None, "", len(text)
            return "$", "$", position + 1
        case "`" | "|" | "&" | ";" | "<" | ">" | "(" | ")" | " " | "\t" | "\n":
            return None, "", len(text)
    return char, char, position + 1


def read_double(text: str, position: int) -> tuple[str | None, str, int]:
    """The inside of double quotes from `position` on, to behind the closing one."""
    value: list[str] = []
    while position < len(text):
        char = text[position]
        following = text[position + 1 : position + 2]
        match char:
            case '"':
                inner = "".join(value)
                return inner, "\0" * max(len(inner), 1), position + 1
            case "\\" if following in ("$", "`", '"', "\\"):
                value.append(following)
                position += 2
                continue
            case "\\" if following == "\n":
                return None, "", len(text)
            case "$" if following != '"' and following not in SAFE_AFTER_DOLLAR:
                return None, "", len(text)
            case "`":
                return None, "", len(text)
        value.append(char)
        position += 1
    return None, "", len(text)


def word_end(text: str, position: int) -> int:
    """The end of the word that begins at `position`; -1 if its quotes do not close."""
    while position < len(text):
        match text[position]:
            case " " | "\t" | "\n" | "|" | "&" | ";" | "<" | ">" | "(" | ")":
                return position
            case "\\":
                position += 2
            case "'" | '"' as quote:
                position = closing(text, position + 1, quote)
                if position < 0:
                    return -1
            case _:
                position += 1
    return min(position, len(text))


def closing(text: str, position: int, quote: str) -> int:
    """Behind the quote that closes the one before `position`; -1 when there is none."""
    while position < len(text):
        if text[position] == "\\" and quote == '"':
            position += 2
            continue
        if text[position] == quote:
            return position + 1
        position += 1
    return -1


def lex(command: str) -> list[str] | None:
    """The words (as written) and operators of a simple line; redirections as one token with their target.

    None for anything beyond words, quotes, comments, the operators above and plain redirections: the
    caller then
    has only one reading and must ask.
    """
    tokens: list[str] = []
    position = 0
    while position < len(command):
        char = command[position]
        if char in " \t":
            position += 1
        elif char == "#":
            end = command.find("\n", position)
            position = len(command) if end < 0 else end
        elif redirect := REDIRECT.match(command, position):
            if redirect["op"] not in PLAIN_REDIRECTS:
                return None
            end = word_end(command, redirect.end())
            if end <= redirect.end():
                return None
            tokens.append(redirect["fd"] + redirect["op"] + command[redirect.end() : end])
            position = end
        elif char in "|&;\n()":
            operator = next(one for one in OPERATORS if command.startswith(one, position))
            if operator == ";;":
                return None
            tokens.append(operator)
            position += len(operator)
        else:
            end = word_end(command, position)
            if end < 0:
                return None
            tokens.append(command[position:end])
            position = end
    return tokens


REDIRECT = lazy_pattern(r"(?P<fd>[0-9]*)(?P<op>&>>|&>|<<<|<<-|<<|<>|<&|<\(|>\(|>>|>&|>\||<|>)[ \t]*")
PLAIN_REDIRECTS = frozenset((">", ">>", ">&", "&>", "&>>", "<", "<&", ">|"))
