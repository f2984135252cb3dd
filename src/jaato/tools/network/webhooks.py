"""Sign webhook bodies: HMAC with a key in a private file, over a nonce that prevents replay."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
from pathlib import Path

from jaato.errors import ConfigError
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private

SIGNATURE = "Jaato-Signature"
SHORTEST = 32


def signature(key: bytes, nonce: str, body: bytes) -> str:
    """The signature of a body with this nonce."""
    return "v1=" + hmac.new(key, nonce.encode() + b"." + body, hashlib.sha256).hexdigest()


def key_of(path: Path) -> bytes:
    """The key in a file, made if there is none. Raises `ConfigError` for a file that others can read, OSError when it
    cannot be written."""
    content = read_bounded(path, 1_000)
    if content is None:
        with file_lock(path):
            content = read_bounded(path, 1_000)
            if content is None:
                content = secrets.token_urlsafe(32).encode() + b"\n"
                write_private(path, content)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"Others can read {path}. Remove it: the next use makes a new key.")
    key = content.strip()
    if len(key) < SHORTEST:
        raise ConfigError(f"{path} holds no key. Remove it: the next use makes a new one.")
    return key
