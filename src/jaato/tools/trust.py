"""Which files a person has vouched for, by content: a change of one byte and they must be vouched for
again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError
from jaato.tools.atomic import locked, read_small, write_private

MAX_BYTES = 4_194_304


def content_hash(content: bytes) -> str:
    """The SHA-256 of a file's content, as `trust.json` holds it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Trust:
    """The user's `trust.json`: for each absolute path the hash of the content that is trusted."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "trust.json"

    def trusts(self, path: Path, content: bytes) -> bool:
        """Whether exactly this content is trusted at this path. Raises `ConfigError` for a damaged file."""
        return self._read().get(key_of(path)) == content_hash(content)

    def known(self, path: Path) -> bool:
        """Whether anything is trusted at this path, be it what is there now or not. Raises as `trusts` does."""
        return key_of(path) in self._read()

    def add(self, path: Path, content: bytes) -> None:
        """Trust this content at this path from now on, and no other."""
        with locked(self.path):
            self._write({**self._read(), key_of(path): content_hash(content)})

    def remove(self, path: Path) -> None:
        """Trust nothing at this path."""
        with locked(self.path):
            files = self._read()
            if files.pop(key_of(path), None) is not None:
                self._write(files)

    def _read(self) -> dict[str, str]:
        content = read_small(self.path, MAX_BYTES)
        if content is None:
            return {}
        try:
            document: Any = json.loads(content)
            files = document["files"]
            return {str(path): str(digest) for path, digest in files.items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ConfigError(
                f'{self.path} is damaged: it should be {{"version": 1, "files": {{path: hash}}}}. '
                "Remove it to trust nothing, and trust again what you know."
            ) from None

    def _write(self, files: dict[str, str]) -> None:
        write_private(
            self.path, json.dumps({"version": 1, "files": files}, indent=2, sort_keys=True).encode() + b"\n"
        )


def key_of(path: Path) -> str:
    """The one name a file has here."""
    return str(path.resolve())
