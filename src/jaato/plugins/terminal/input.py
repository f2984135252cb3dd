"""Validates terminal input and encodes text and named keys as the bytes a terminal sends."""

from __future__ import annotations

from dataclasses import dataclass

from jaato.errors import InvalidArguments, ToolError
from jaato.tools.permissions.context import MENTION

ARROWS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
PLAIN = {
    "enter": "\r",
    "tab": "\t",
    "shift-tab": "\x1b[Z",
    "escape": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "delete": "\x1b[3~",
    "insert": "\x1b[2~",
    "page-up": "\x1b[5~",
    "page-down": "\x1b[6~",
    "ctrl-space": "\0",
    "ctrl-\\": "\x1c",
    "ctrl-]": "\x1d",
    "ctrl-^": "\x1e",
    "ctrl-_": "\x1f",
}
FUNCTION = {1: "OP", 2: "OQ", 3: "OR", 4: "OS", 5: "[15~", 6: "[17~", 7: "[18~", 8: "[19~", 9: "[20~"}
FUNCTION |= {10: "[21~", 11: "[23~", 12: "[24~"}
SPELLINGS = {
    "return": "enter",
    "esc": "escape",
    "del": "delete",
    "pageup": "page-up",
    "pagedown": "page-down",
}


def encode_text(text: str, *, pasted: bool) -> bytes:
    """What a terminal sends for a text. What an environment variable has beside UTF-8 goes as it is."""
    data = text.replace("\n", "\r").encode("utf-8", "surrogateescape")
    return b"\x1b[200~" + data + b"\x1b[201~" if pasted else data


def key_bytes(name: str, application: bool) -> bytes:
    """What a key sends; `application` when the program asked for its own form of the arrows.

    Raises `InvalidArguments` for a name that is no key.
    """
    spelled = (
        name.strip().lower().replace("control-", "ctrl-").replace("c-", "ctrl-", name.lower()[:2] == "c-")
    )
    spelled = SPELLINGS.get(spelled, spelled)
    if spelled in PLAIN:
        return PLAIN[spelled].encode()
    if spelled in ARROWS:
        return f"\x1b{'O' if application else '['}{ARROWS[spelled]}".encode()
    prefix, _, rest = spelled.partition("-")
    if prefix == "ctrl" and len(rest) == 1 and rest.isascii() and rest.isalpha():
        return bytes([ord(rest) & 0x1F])
    if prefix == "alt" and len(rest) == 1 and rest.isprintable():
        return f"\x1b{name.strip()[-1]}".encode()
    if spelled[:1] == "f" and spelled[1:].isdecimal() and len(spelled) < 4 and int(spelled[1:]) in FUNCTION:
        return f"\x1b{FUNCTION[int(spelled[1:])]}".encode()
    known = "enter, tab, escape, backspace, up, down, left, right, home, end, page-up, page-down, f1, ctrl-c, alt-x"
    raise InvalidArguments(
        f"{name[:40]!r} is no key (characters are text); there are {known} and others like them.",
        [("/keys", f"{name[:40]!r}")],
    )


MAX_TEXT_CHARS = 65_536
MAX_KEYS = 200
KEPT_CHARS = 4096
CLEARING = ("enter", "ctrl-c")


@dataclass(frozen=True, slots=True)
class TypedKeys:
    """Text, then keys. `secret` when the text must never be shown."""

    text: str
    keys: tuple[str, ...]
    secret: bool

    def check(self, before: str) -> None:
        """Raise `ToolError` where this completes a control path that an earlier call started, each harmless alone."""
        line = before + self.text
        found = MENTION.search(line) if before else None
        if found is None or MENTION.search(self.text) or MENTION.search(before):
            return
        raise ToolError(
            f"This would complete {found[0]!r}, which decides what runs later. Clear the line with ctrl-c, then type "
            "it in one call, so that it can be judged as a whole."
        )

    def get_line(self, before: str) -> str:
        """What stands in the line now, as far as it is known."""
        if self.secret or any(key in CLEARING for key in self.keys):
            return ""
        return (before + self.text).rpartition("\n")[2][-KEPT_CHARS:]


def parse_input(text: str, enter: bool | None, keys: list[str], secret: str | None) -> TypedKeys:
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
    return TypedKeys(whole, tuple(pressed), secret is not None)
