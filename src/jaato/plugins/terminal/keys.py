"""Keys by name, as the bytes a terminal sends for them."""

from __future__ import annotations

from jaato.errors import InvalidArguments

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


def typed_bytes(text: str, *, pasted: bool) -> bytes:
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
