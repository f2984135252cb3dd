"""Secret files: the server's token, and files of tokens or keys that are read again when they change."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.server.auth.admission import Pass
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


LOG = logger("server")
MAX_BYTES = 1_000_000
MAX_SECRET_CHARS = 512
SHA256 = re.compile(r"[0-9a-f]{64}")


class Entry(Protocol):
    """One secret, without what would let anybody in."""

    @property
    def name(self) -> str:
        """What it is called; once in a file."""
        ...

    @property
    def sha256(self) -> str:
        """Its SHA-256 in hex."""
        ...

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        ...


E = TypeVar("E", bound=Entry)


class SecretFile(Generic[E]):
    """The file: `{"version": 1, WHAT: […]}`; `one` is what an entry is called."""

    def __init__(self, path: Path, what: str, one: str, entry: type[E], most: int) -> None:
        self.path = path
        self.what = what
        self._one = one
        self._entry = entry
        self._most = most

    def read(self) -> list[E]:
        """The entries. Raises `ConfigError` for a file that is none, or that others can read."""
        content = read_bounded(self.path, MAX_BYTES)
        if content is None:
            return []
        if self.path.stat().st_mode & 0o077:
            raise ConfigError(f"Others can read {self.path}: chmod 600 {self.path}.")
        anew = f"Remove it, and give {self.what} anew."
        try:
            parts = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
            msgspec.json.decode(parts["version"], type=int)
            listed: Any = list[self._entry]  # type: ignore[name-defined]
            entries: list[E] = msgspec.json.decode(parts[self.what], type=listed)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as error:
            raise ConfigError(f"{self.path} is no file of {self.what}: {error}. {anew}") from None
        for entry in entries:
            if SHA256.fullmatch(entry.sha256) is None:  # an empty one would let in whoever has no secret
                raise ConfigError(f"{self.path}: {entry.name[:80]!r} has no SHA-256. {anew}")
        return entries

    def add(self, name: str, made: Callable[[str], E], prefix: str = "") -> str:
        """Give out a secret, of whose hash `made` makes the entry. It is shown now and never again.

        Raises `ConfigError` when the name is taken, or there are too many.
        """
        with file_lock(self.path):
            entries = self.read()
            if any(entry.name == name for entry in entries):
                raise ConfigError(f"There is a {self._one} {name!r} already; remove it first.")
            if len(entries) >= self._most:
                raise ConfigError(f"There are {self._most} {self.what}; remove some.")
            secret = prefix + fresh()
            self._write([*entries, made(digest_of(secret))])
        return secret

    def remove(self, name: str) -> bool:
        """Take a secret away; whether there was one of this name. The file stays where it was the last."""
        with file_lock(self.path):
            entries = self.read()
            left = [entry for entry in entries if entry.name != name]
            if len(left) < len(entries):
                self._write(left)
            return len(left) < len(entries)

    def _write(self, entries: list[E]) -> None:
        write_private(self.path, msgspec.json.encode({"version": 1, self.what: entries}))


class Followed(Generic[E]):
    """What stands in the file, read again when it changes. Finding one costs the same however many there are."""

    def __init__(self, file: SecretFile[E], every_s: float, otherwise: str) -> None:
        self._file = file
        self._path = str(file.path)
        self._every_s = every_s
        self._otherwise = otherwise
        self._entries: dict[str, E] = {}
        self._stamp: tuple[int, ...] | None = None
        self._looked = -every_s
        self.there = False
        """Whether there was a file when it was last looked for, whatever stands in it."""

    def of(self, digest: str) -> E | None:
        """The entry of a secret with this hash, unless its time is over."""
        entry = self.whenever(digest)
        return None if entry is None or entry.expired else entry

    def whenever(self, digest: str) -> E | None:
        """The entry, also when its time is over."""
        self.look()
        entry = self._entries.get(digest)
        return entry if entry is not None and hmac.compare_digest(digest, entry.sha256) else None

    def look(self) -> None:
        """Read the file if it has changed; what is wrong with it is the log's, and nothing in it counts then."""
        if self._every_s:
            now = time.monotonic()
            if now - self._looked < self._every_s:
                return
            self._looked = now
        try:
            info = os.stat(self._path)
        except FileNotFoundError:
            self.there, self._entries, self._stamp = False, {}, None
            return
        except OSError as error:
            if self._stamp is not None:
                self._unread(error)
            self.there, self._stamp = True, None
            return
        stamp = (info.st_mtime_ns, info.st_size, info.st_ino, info.st_mode)
        if stamp == self._stamp:
            return
        self.there, self._stamp = True, stamp
        try:
            self._entries = {entry.sha256: entry for entry in self._file.read()}
        except (ConfigError, OSError) as error:
            self._unread(error)

    def _unread(self, error: Exception) -> None:
        LOG.warning("%s: %s", self._otherwise, error)
        self._entries = {}


def digest_of(secret: str) -> str:
    """How a secret is kept and compared; empty for one that is too long or too short to be any."""
    if not 0 < len(secret) <= MAX_SECRET_CHARS:
        return ""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
