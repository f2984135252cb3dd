"""Files in which a user and a workspace name what is elsewhere, servers and registries: read with distrust."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from jaato.errors import ConfigError
from jaato.tools.atomic import read_small

MAX_FILE_BYTES = 1_000_000
WORLD_WRITABLE = 0o002
PLACE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""A variable of the user's environment, with what stands for it where it is not set."""

Scope = Literal["user", "workspace", "argument"]


class Malformed(Exception):
    """A file or an entry that cannot be used; the text says why and what to do."""


def content_of(
    path: Path, within: Path | None, owns: Callable[[Path, bytes], bool] | None = None
) -> bytes | None:
    """What is in a file, the user's own or, `within` it, a workspace's; None where there is none. Raises `Malformed`, also
    for what the user does not own with this content (`Trust.owns`)."""
    try:
        if within is not None and not resolved(path).is_relative_to(resolved(within)):
            raise Malformed(
                "leads out of the workspace by a link, which is not followed; put a file in its place"
            )
        content = read_small(path, MAX_FILE_BYTES)
        if content is not None and within is None and os.stat(path).st_mode & WORLD_WRITABLE:
            raise Malformed(f"can be written by everybody, so it is not read; chmod 600 {path}")
        if content is not None and within is None and owns is not None and not owns(path, content):
            raise Malformed("has changed since this session began; what it says now counts in the next one")
    except ConfigError as error:
        raise Malformed(str(error).removeprefix(f"{path} ")) from None
    except OSError as error:
        raise Malformed(f"cannot be read: {error.strerror}") from None
    return content


def check_name(name: str, most_chars: int) -> None:
    """Raise `Malformed` for a name that could not be shown or told apart."""
    from jaato.tools.unseen import hidden  # there is an entry: most have none

    if not name.strip() or name != name.strip():
        raise Malformed("needs a name that is not blank and has no space around it")
    if len(name) > most_chars:
        raise Malformed(f"has a name of more than {most_chars} characters; shorten it")
    if hidden(name) or not name.isprintable():
        raise Malformed("has invisible characters in its name; write it without them")


def switch(entry: Mapping[str, Any], key: str, default: bool) -> bool:
    """A yes or no. Raises `Malformed`."""
    value = entry.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise Malformed(f"{key!r} must be true or false")
    return value


def value_of(found: re.Match[str], environ: Mapping[str, str]) -> str | None:
    """What stands for a variable (`PLACE`); None where it is not set and nothing else is said."""
    name, default = found[1], found[2]
    known = environ.get(name)
    return default if known is None or (known == "" and default is not None) else known


def digest_of(value: Any) -> str:
    """The SHA-256 of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def either_begins(one: str, other: str) -> bool:
    """Whether a text begins with another, whichever is longer: names that begin so could be taken for each other."""
    return one.startswith(other) or other.startswith(one)


def resolved(path: Path) -> Path:
    """The path with its links followed as far as they lead."""
    return Path(os.path.realpath(path))
