"""Who may come in over TCP: tokens in a private file, each with a role; only their hashes are kept, but the owner's."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.protocol.frames import Role
from jaato.server.admission import Pass
from jaato.server.secret import token_of
from jaato.tools.atomic import locked, read_small, write_private

LOG = logger("server")
NAME = "tokens.json"
OWNER = "server-token"
MAX_BYTES = 1_000_000
MAX_TOKENS = 1_000
MAX_TOKEN_CHARS = 512
READ_EVERY_S = 1.0
SHA256 = re.compile(r"[0-9a-f]{64}")


class TokenEntry(Struct, frozen=True, omit_defaults=True):
    """One token: its SHA-256 in hex, what it allows, until when (Unix seconds; None: for good)."""

    name: str
    role: Role
    sha256: str
    created: float
    expires: float | None = None

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return self.expires is not None and time.time() >= self.expires


class TokenFile(Struct, frozen=True):
    """The file of tokens."""

    version: int
    tokens: list[TokenEntry]


class Tokens:
    """The tokens of one user. The file is read again when it changes, so that one taken away no longer works."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir
        self._entries: list[TokenEntry] = []
        self._stamp: tuple[int, ...] | None = None
        self._looked = -READ_EVERY_S
        self._owner = digest_of(owner_token(state_dir))

    def judge(self, token: str) -> Pass | None:
        """What a token gives; None for one that is unknown, expired or was taken away."""
        return self._of(digest_of(token) if 0 < len(token) <= MAX_TOKEN_CHARS else "")

    def holds(self, held: Pass) -> bool:
        """Whether it still gives that."""
        return self._of(held.digest) == held

    def _of(self, digest: str) -> Pass | None:
        found: Pass | None = None
        for entry in self._current():
            if hmac.compare_digest(digest, entry.sha256) and not entry.expired:
                found = Pass(entry.role, entry.name, digest)
        if hmac.compare_digest(digest, self._owner):
            found = Pass("owner", "", digest)
        return found

    def renew(self) -> None:
        """Read the owner's token again too, which is made anew if its file was removed. Raises `ConfigError`."""
        self._owner = digest_of(owner_token(self._directory))

    def _current(self) -> list[TokenEntry]:
        now = time.monotonic()
        if now - self._looked < READ_EVERY_S:
            return self._entries
        self._looked = now
        try:
            info = (self._directory / NAME).stat()
        except OSError:
            self._entries, self._stamp = [], None
            return self._entries
        stamp = (info.st_mtime_ns, info.st_size, info.st_ino, info.st_mode)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._entries = read_tokens(self._directory)
            except (ConfigError, OSError) as error:
                self._entries = []
                LOG.warning("No token but the owner's lets anybody in: %s", error)
        return self._entries


def digest_of(token: str) -> str:
    """How a token is kept and compared."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def owner_token(state_dir: Path) -> str:
    """The owner's token, made if there is none. Raises `ConfigError` for a file that others can read or holds none."""
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
        tokens = msgspec.json.decode(content, type=TokenFile).tokens
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is no file of tokens: {error}. Remove it, and give tokens anew.") from None
    for entry in tokens:
        if SHA256.fullmatch(entry.sha256) is None:  # an empty one would let in whoever has no token
            raise ConfigError(f"{path}: {entry.name[:80]!r} has no SHA-256. Remove it, and give tokens anew.")
    return tokens


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
