"""Who may come in over TCP: tokens in a private file, each with a role; only their hashes are kept, but the owner's."""

from __future__ import annotations

import hmac
import time
from pathlib import Path

from msgspec import Struct

from jaato.protocol.frames import Role
from jaato.server.auth.admission import Pass
from jaato.server.auth.secret_file import Followed, SecretFile, digest_of, token_of

NAME = "tokens.json"
OWNER = "server-token"
MAX_TOKENS = 1_000
READ_EVERY_S = 1.0


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


class Tokens:
    """The tokens of one user. The file is read again when it changes, so that one taken away no longer works."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir
        self._given = Followed(tokens_in(state_dir), READ_EVERY_S, "No token but the owner's lets anybody in")
        self._owner = digest_of(owner_token(state_dir))

    def judge(self, token: str) -> Pass | None:
        """What a token gives; None for one that is unknown, expired or was taken away."""
        return self._of(digest_of(token))

    def holds(self, held: Pass) -> bool:
        """Whether it still gives that."""
        return self._of(held.digest) == held

    def _of(self, digest: str) -> Pass | None:
        if hmac.compare_digest(digest, self._owner):
            return Pass("owner", "", digest)
        entry = self._given.of(digest)
        return None if entry is None else Pass(entry.role, entry.name, digest)

    def renew(self) -> None:
        """Read the owner's token again too, which is made anew if its file was removed. Raises `ConfigError`."""
        self._owner = digest_of(owner_token(self._directory))


def owner_token(state_dir: Path) -> str:
    """The owner's token, made if there is none. Raises `ConfigError` for a file that others can read or holds none."""
    return token_of(state_dir, OWNER)[0]


def tokens_in(state_dir: Path) -> SecretFile[TokenEntry]:
    """The file of tokens."""
    return SecretFile(state_dir / NAME, "tokens", "token", TokenEntry, MAX_TOKENS)


def read_tokens(state_dir: Path) -> list[TokenEntry]:
    """The tokens that were given out. Raises `ConfigError` for a file that is none, or that others can read."""
    return tokens_in(state_dir).read()


def add_token(state_dir: Path, name: str, role: Role, expires: float | None) -> str:
    """Give out a token; it is shown now and never again. Raises `ConfigError` when the name is taken."""
    return tokens_in(state_dir).add(name, lambda digest: TokenEntry(name, role, digest, time.time(), expires))


def remove_token(state_dir: Path, name: str) -> bool:
    """Take a token away; whether there was one of this name."""
    return tokens_in(state_dir).remove(name)
