"""Who may come in over TCP: tokens in a private file, each with a role; only their hashes are kept, but the owner's."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from jaato.errors import ConfigError
from jaato.protocol.frames import Role
from jaato.tools.atomic import locked, read_small, write_private

NAME = "tokens.json"
OWNER = "server-token"
MAX_BYTES = 1_000_000
MAX_TOKENS = 1_000
MAX_TOKEN_CHARS = 512
READ_EVERY_S = 1.0


class TokenEntry(Struct, frozen=True, omit_defaults=True):
    """One token: its SHA-256 in hex, what it allows, until when (Unix seconds; None: for good)."""

    name: str
    role: Role
    sha256: str
    created: float
    expires: float | None = None


class TokenFile(Struct, frozen=True):
    """The file of tokens."""

    version: int
    tokens: list[TokenEntry]


class Tokens:
    """The tokens of one user. The file is read again when it changes, so that one taken away no longer works."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir
        self._entries: list[TokenEntry] = []
        self._stamp: tuple[float, int] | None = None
        self._looked = -READ_EVERY_S
        self._owner = digest_of(owner_token(state_dir))

    def judge(self, token: str) -> tuple[Role, str] | None:
        """The role and name of a token; None for one that is unknown, expired or was taken away."""
        given = digest_of(token) if 0 < len(token) <= MAX_TOKEN_CHARS else ""
        found: tuple[Role, str] | None = None
        if hmac.compare_digest(given, self._owner):
            found = ("owner", "")
        for entry in self._current():
            fits = hmac.compare_digest(given, entry.sha256)
            if fits and (entry.expires is None or time.time() < entry.expires):
                found = (entry.role, entry.name)
        return found

    def _current(self) -> list[TokenEntry]:
        now = time.monotonic()
        if now - self._looked >= READ_EVERY_S:
            self._looked = now
            path = self._directory / NAME
            try:
                info = path.stat()
                stamp = (info.st_mtime, info.st_size)
            except FileNotFoundError:
                self._entries, self._stamp = [], None
                return self._entries
            if stamp != self._stamp:
                self._entries, self._stamp = read_tokens(self._directory), stamp
        return self._entries


def digest_of(token: str) -> str:
    """How a token is kept and compared."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def owner_token(state_dir: Path) -> str:
    """The owner's token, made if there is none. Raises `ConfigError` for a file that others can read or holds none."""
    from jaato.server.mcp.secret import token_of

    return token_of(state_dir, OWNER)[0]


def read_tokens(state_dir: Path) -> list[TokenEntry]:
    """The tokens that were given out. Raises `ConfigError` for a file that is none, or that others can write."""
    path = state_dir / NAME
    content = read_small(path, MAX_BYTES)
    if content is None:
        return []
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"Others can read {path}: chmod 600 {path}.")
    try:
        return msgspec.json.decode(content, type=TokenFile).tokens
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is no file of tokens: {error}. Remove it, and give tokens anew.") from None


def add_token(state_dir: Path, name: str, role: Role, expires: float | None) -> str:
    """Give out a token; it is shown now and never again. Raises `ConfigError` when the name is taken."""
    with locked(state_dir / NAME):
        entries = read_tokens(state_dir)
        if any(entry.name == name for entry in entries):
            raise ConfigError(f"There is a token {name!r} already; remove it first.")
        if len(entries) >= MAX_TOKENS:
            raise ConfigError(f"There are {MAX_TOKENS} tokens; remove some.")
        token = secrets.token_urlsafe(32)
        entries.append(TokenEntry(name, role, digest_of(token), time.time(), expires))
        write_private(state_dir / NAME, msgspec.json.encode(TokenFile(1, entries)))
    return token


def remove_token(state_dir: Path, name: str) -> bool:
    """Take a token away; whether there was one of this name."""
    with locked(state_dir / NAME):
        entries = read_tokens(state_dir)
        left = [entry for entry in entries if entry.name != name]
        if len(left) < len(entries):
            write_private(state_dir / NAME, msgspec.json.encode(TokenFile(1, left)))
        return len(left) < len(entries)
