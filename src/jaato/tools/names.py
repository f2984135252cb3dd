"""Names of files: shown so that one is not taken for two, and those most like one that is missing."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from itertools import islice

from jaato.errors import ToolError
from jaato.tools.file_errors import FileMissing

MAX_NAMES = 2000
MAX_SUGGESTED = 3
MAX_LEVELS = 20


def shown_name(name: str) -> str:
    """A name or path on one line: line ends, escape sequences, odd bytes and text direction marks spelt out."""
    if name.isprintable():
        return name
    return "".join(letter if letter.isprintable() else spelt(letter) for letter in name)


def spelt(letter: str) -> str:
    """A character as an escape sequence, a byte that is no character as `\\xHH`."""
    if "\udc80" <= letter <= "\udcff":
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")


def missing(path: str, names_in: Callable[[str], Iterable[str]]) -> FileMissing:
    """That nothing has this path, with the paths that may be meant; `names_in` lists a directory."""
    head = f"{path!r} does not exist. "
    parts = path.rstrip("/").split("/")
    for level in range(len(parts) - 1, max(-1, len(parts) - 1 - MAX_LEVELS), -1):
        parent = "/".join(parts[:level])
        try:
            names = list(islice(names_in(parent or ("/" if level else ".")), MAX_NAMES))
        except ToolError:
            continue
        found = [f"{parent}/{name}" if level else name for name in alike(parts[level], names)]
        if found:
            return FileMissing(f"{head}Did you mean {' or '.join(map(repr, found))}?")
        if level < len(parts) - 1:
            head += f"There is no {'/'.join(parts[: level + 1])!r}. "
        break
    return FileMissing(f"{head}Look for it with list_directory or glob_files.")


def alike(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that differ in case or form alone, else those that are much like the wanted one."""
    folded: dict[str, list[str]] = {}
    for name in names:
        folded.setdefault(plain(name), []).append(name)
    key = plain(wanted)
    if key in folded:
        return [name for name in folded[key] if name != wanted][:MAX_SUGGESTED]
    import difflib

    near = [name for name in folded if abs(len(name) - len(key)) <= 1 + len(key) // 4]
    return [name for one in difflib.get_close_matches(key, near, MAX_SUGGESTED, 0.6) for name in folded[one]][
        :MAX_SUGGESTED
    ]


def plain(name: str) -> str:
    """The name as it is compared: without case, trailing spaces and differences of composition."""
    return unicodedata.normalize("NFKC", name).casefold().strip()
