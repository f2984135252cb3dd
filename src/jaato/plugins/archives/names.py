"""The names in an archive: which may be written below a directory, and where a link in it may lead."""

from __future__ import annotations

MAX_DEPTH = 64
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 2_000


def problem_of_name(name: str) -> str | None:
    """Why a member's name cannot be used below a directory; None when it can."""
    if "\0" in name or name.startswith("\\") or "..\\" in name:
        return "its name is no path"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":" and name[0].isalpha()):
        return "its name is absolute"
    parts = parts_of(name)
    if not parts:
        return "it has no name"
    if ".." in parts:
        return "its name leads out of the archive by '..'"
    try:
        sizes = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if len(parts) > MAX_DEPTH or max(sizes) > MAX_NAME_BYTES or sum(sizes) > MAX_PATH_BYTES:
        return "its name is too long or too deep"
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        return "its name has control characters"
    return None


def parts_of(name: str) -> list[str]:
    """The parts of a member's name."""
    return [part for part in name.split("/") if part not in ("", ".")]


def problem_of_link(name: str, target: str) -> str | None:
    """Why a symbolic link may not be made; None when it stays below the directory, whatever the others do.

    Going up is allowed only at the start of the target: the link lies in a directory that is none itself.
    """
    if not target or "\0" in target or "\\" in target or target.startswith("/"):
        return "it is a link to an absolute path"
    ups = 0
    down = False
    for part in target.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if down:
                return "it is a link that goes down and up again"
            ups += 1
        else:
            down = True
    if ups > len(parts_of(name)) - 1:
        return "it is a link that leads out of the archive"
    return None


def shown(name: str) -> str:
    """A member's name as a message can have it."""
    text = name.encode("utf-8", "replace").decode()
    text = "".join(character if character.isprintable() else "�" for character in text)
    return text if len(text) <= 300 else f"{text[:300]}…"
