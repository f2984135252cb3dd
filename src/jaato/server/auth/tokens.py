"""Tokens of clients on the network, and the private files that tokens and keys are stored in (as SHA-256 hashes)."""

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
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.protocol.frames import Role
from jaato.server.auth.identity import Identity
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private
from jaato.typed_decoding import decode_json

LOG = logger("server")
TOKENS_FILE = "tokens.json"
OWNER = "server-token"
"""The file with the owner's token, in clear text."""
MCP_TOKEN = "mcp-token"  # noqa: S105 the name of a file
BROWSER = "browser-"
"""How the names of the tokens of paired browsers begin."""
MAX_TOKENS = 1_000
RELOAD_S = 1.0
MAX_TOKEN_FILE_BYTES = 1_000
MAX_FILE_BYTES = 1_000_000
MIN_TOKEN_CHARS = 32
MAX_SECRET_CHARS = 512
SHA256 = re.compile(r"[0-9a-f]{64}")


def load_or_create_token(state_dir: Path, name: str = MCP_TOKEN) -> tuple[str, Path]:
    """The token in a private file, and the path of the file; a missing file is created with a new token.

    Raises `ConfigError` for a file that other users can read or that contains no token, OSError if it cannot be written.
    """
    path = state_dir / name
    with file_lock(path):
        content = read_bounded(path, MAX_TOKEN_FILE_BYTES)
        if content is None:
            token = generate_secret()
            write_private(path, token.encode() + b"\n")
            return token, path
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077 or os.stat(path).st_uid != os.geteuid():
        raise ConfigError(f"Other users can read {path}. Remove it: the next start creates a new token.")
    token = content.decode("ascii", "replace").strip()
    if not MIN_TOKEN_CHARS <= len(token) <= MAX_SECRET_CHARS or not (token.isprintable() and token.isascii()):
        raise ConfigError(f"{path} contains no token. Remove it: the next start creates a new one.")
    return token, path


def generate_secret() -> str:
    """A new secret of 256 bits; never with a leading dash, which a command line would read as an option."""
    while (secret := secrets.token_urlsafe(32)).startswith("-"):
        pass
    return secret


def digest_of(secret: str) -> str:
    """The SHA-256 by which a secret is stored and compared; empty if it is too long or too short to be one."""
    if not 0 < len(secret) <= MAX_SECRET_CHARS:
        return ""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class SecretEntry(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The record of one secret, without the secret itself: its name, which no other in the file has, its SHA-256 in hex, when it
    was made and when it expires (Unix seconds; None: never)."""

    name: str
    sha256: str
    created: float
    expires: float | None = None

    @property
    def expired(self) -> bool:
        """Whether it has expired."""
        return self.expires is not None and time.time() >= self.expires


E = TypeVar("E", bound=SecretEntry)


class SecretFile(Generic[E]):
    """A file of secrets: `{"version": 1, WHAT: […]}`; `one` is the singular of `what`, for error messages."""

    def __init__(self, path: Path, what: str, one: str, entry: type[E], limit: int) -> None:
        self.path = path
        self.what = what
        self._one = one
        self._entry = entry
        self._limit = limit

    def read(self) -> list[E]:
        """The entries. Raises `ConfigError` for a damaged file, or one that other users can read."""
        content = read_bounded(self.path, MAX_FILE_BYTES)
        if content is None:
            return []
        if self.path.stat().st_mode & 0o077:
            raise ConfigError(f"Other users can read {self.path}: chmod 600 {self.path}.")
        remedy = f"Remove it and create the {self.what} again."
        try:
            parts = decode_json(content, dict[str, msgspec.Raw])
            decode_json(parts["version"], int)
            kind: Any = list[self._entry]  # type: ignore[name-defined]
            entries: list[E] = decode_json(parts[self.what], kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as error:
            raise ConfigError(f"{self.path} is not a valid file of {self.what}: {error}. {remedy}") from None
        for entry in entries:
            if SHA256.fullmatch(entry.sha256) is None:  # an empty one would admit clients without a secret
                raise ConfigError(f"{self.path}: {entry.name[:80]!r} has no SHA-256. {remedy}")
        return entries

    def add(self, name: str, make_entry: Callable[[str], E], prefix: str = "") -> str:
        """Create a secret and store its hash, of which `make_entry` makes the entry. The secret is not kept.

        Raises `ConfigError` if the name is taken or the file is full.
        """
        with file_lock(self.path):
            entries = self.read()
            if any(entry.name == name for entry in entries):
                raise ConfigError(f"There is already a {self._one} {name!r}; remove it first.")
            if len(entries) >= self._limit:
                raise ConfigError(f"There are {self._limit} {self.what}; remove some.")
            secret = prefix + generate_secret()
            self._write([*entries, make_entry(digest_of(secret))])
        return secret

    def remove(self, name: str) -> bool:
        """Remove a secret; False if there is none of this name. The file stays even when it is empty."""
        with file_lock(self.path):
            entries = self.read()
            left = [entry for entry in entries if entry.name != name]
            if len(left) < len(entries):
                self._write(left)
            return len(left) < len(entries)

    def _write(self, entries: list[E]) -> None:
        write_private(self.path, msgspec.json.encode({"version": 1, self.what: entries}))


class SecretIndex(Generic[E]):
    """Looks secrets up by hash, in constant time, and reloads their file when it has changed (checked every `reload_s`)."""

    def __init__(self, file: SecretFile[E], reload_s: float, warning: str) -> None:
        self._file = file
        self._path = str(file.path)
        self._reload_s = reload_s
        self._warning = warning
        self._entries: dict[str, E] = {}
        self._stamp: tuple[int, ...] | None = None
        self._checked_at = -reload_s
        self.exists = False
        """Whether the file existed at the last check, even if it is damaged."""

    def find(self, digest: str, *, or_expired: bool = False) -> E | None:
        """The entry of the secret with this hash, unless it has expired."""
        self.refresh()
        entry = self._entries.get(digest)
        if entry is None or not hmac.compare_digest(digest, entry.sha256):
            return None
        return entry if or_expired or not entry.expired else None

    def expire(self) -> None:
        """Check the file again at the next use."""
        self._checked_at = -self._reload_s

    def refresh(self) -> None:
        """Reload the file if it has changed; a damaged file is logged and counts as empty."""
        if self._reload_s:
            now = time.monotonic()
            if now - self._checked_at < self._reload_s:
                return
            self._checked_at = now
        try:
            info = os.stat(self._path)
        except FileNotFoundError:
            self.exists, self._entries, self._stamp = False, {}, None
            return
        except OSError as error:
            if self._stamp is not None:
                self._discard(error)
            self.exists, self._stamp = True, None
            return
        stamp = (info.st_mtime_ns, info.st_size, info.st_ino, info.st_mode)
        if stamp == self._stamp:
            return
        self.exists, self._stamp = True, stamp
        try:
            self._entries = {entry.sha256: entry for entry in self._file.read()}
        except (ConfigError, OSError) as error:
            self._discard(error)

    def _discard(self, error: Exception) -> None:
        LOG.warning("%s: %s", self._warning, error)
        self._entries = {}


class TokenEntry(SecretEntry, frozen=True, omit_defaults=True, kw_only=True):
    """One token and its role."""

    role: Role


class Tokens:
    """Verifies the tokens of one user: the owner's, and those in `tokens.json`, which is reloaded when it changes."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir
        self._index = SecretIndex(tokens_file(state_dir), RELOAD_S, "Only the owner's token is accepted")
        self.reload()

    def verify(self, token: str) -> Identity | None:
        """Who a token identifies; None if it is unknown, expired or was removed."""
        return self._find(digest_of(token))

    def is_valid(self, identity: Identity) -> bool:
        """Whether the token of an earlier `verify` is still accepted, with the same role."""
        return self._find(identity.digest) == identity

    def _find(self, digest: str) -> Identity | None:
        if digest and hmac.compare_digest(digest, self._owner):
            return Identity("owner", "", digest)
        entry = self._index.find(digest)
        return None if entry is None else Identity(entry.role, entry.name, digest)

    def add_browser(self, role: Role, expires: float) -> str:
        """Create the token of a paired browser, accepted at once; those of browsers that have expired are removed. Raises
        `ConfigError`, OSError."""
        name = BROWSER + time.strftime("%Y-%m-%d-") + secrets.token_hex(4)
        file = tokens_file(self._directory)
        for entry in file.read():
            if entry.name.startswith(BROWSER) and entry.expired:
                file.remove(entry.name)
        token = add_token(self._directory, name, role, expires)
        self._index.expire()
        return token

    def reload(self) -> None:
        """Read the owner's token again; a removed file is created with a new one. Raises `ConfigError`."""
        self._owner = digest_of(load_or_create_token(self._directory, OWNER)[0])


class SingleToken:
    """Verifies one token, the owner's."""

    def __init__(self, token: str) -> None:
        self._digest = digest_of(token)

    def verify(self, token: str) -> Identity | None:
        """The owner, for the token. The comparison takes the same time wherever the two differ."""
        digest = digest_of(token)
        return Identity("owner") if digest and hmac.compare_digest(digest, self._digest) else None

    def is_valid(self, _identity: Identity) -> bool:
        """The token does not change while the server runs."""
        return True


def tokens_file(state_dir: Path) -> SecretFile[TokenEntry]:
    """The file of tokens. Its `read` raises `ConfigError`."""
    return SecretFile(state_dir / TOKENS_FILE, "tokens", "token", TokenEntry, MAX_TOKENS)


def add_token(state_dir: Path, name: str, role: Role, expires: float | None) -> str:
    """Create a token, which cannot be shown again. Raises `ConfigError` if the name is taken."""
    return tokens_file(state_dir).add(
        name,
        lambda digest: TokenEntry(name=name, sha256=digest, created=time.time(), expires=expires, role=role),
    )


def remove_token(state_dir: Path, name: str) -> bool:
    """Remove a token; False if there is none of this name."""
    return tokens_file(state_dir).remove(name)
