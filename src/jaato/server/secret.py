"""The token of a door: made once, kept in a private file, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from jaato.errors import ConfigError
from jaato.server.admission import Pass
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private

NAME = "mcp-token"
MAX_BYTES = 1_000
SHORTEST = 32


def token_of(state_dir: Path, name: str = NAME) -> tuple[str, Path]:
    """The token and the file it is kept in, made if there is none.

    Raises `ConfigError` for a file that others can read, or that holds no token, OSError when it cannot be written.
    """
    path = state_dir / name
    with file_lock(path):
        content = read_bounded(path, MAX_BYTES)
        if content is None:
            token = fresh()
            write_private(path, token.encode() + b"\n")
            return token, path
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077 or os.stat(path).st_uid != os.geteuid():
        raise ConfigError(f"Others can read {path}. Remove it: the next start makes a new token.")
    token = content.decode("ascii", "replace").strip()
    if len(token) < SHORTEST or not token.isprintable() or not token.isascii():
        raise ConfigError(f"{path} holds no token. Remove it: the next start makes a new one.")
    return token, path


def fresh() -> str:
    """A new secret of 256 bits; it begins with no dash, by which a command line would take it for an option."""
    while (made := secrets.token_urlsafe(32)).startswith("-"):
        pass
    return made


class OneToken:
    """A judge who knows one token, which is the owner's."""

    def __init__(self, token: str) -> None:
        self._token = token

    def judge(self, token: str) -> Pass | None:
        """The owner's rights, for the token."""
        return Pass("owner") if same(token.encode("utf-8", "surrogatepass"), self._token) else None

    def holds(self, _held: Pass) -> bool:
        """For good."""
        return True


def same(given: bytes, token: str) -> bool:
    """Whether this is the token; the time it takes says nothing about how much of it fits, nor of its length."""
    mine, other = (hashlib.sha256(value).digest() for value in (token.encode(), given))
    return hmac.compare_digest(mine, other)
