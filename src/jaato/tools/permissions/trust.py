"""Trust in files by content: a person approves a hash, and any change needs a new approval."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private

MAX_BYTES = 4_194_304
MAX_OWN_FILES = 1_000


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

    def owns(self, path: Path, content: bytes) -> bool:
        """Whether the user's own file at this path counts with this content."""
        return True

    def is_known(self, path: Path) -> bool:
        """Whether anything is trusted at this path, be it what is there now or not. Raises as `trusts` does."""
        return key_of(path) in self._read()

    def add(self, path: Path, content: bytes) -> None:
        """Trust this content at this path from now on, and no other. Raises `NotAllowed` below a call of a tool."""
        from jaato.tools.processes.call_processes import require_outside_call  # most runs trust nothing

        require_outside_call()
        with file_lock(self.path):
            self._write({**self._read(), key_of(path): content_hash(content)})

    def remove(self, path: Path) -> None:
        """Trust nothing at this path."""
        with file_lock(self.path):
            files = self._read()
            if files.pop(key_of(path), None) is not None:
                self._write(files)

    def _read(self) -> dict[str, str]:
        content = read_bounded(self.path, MAX_BYTES)
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


class SessionTrust(Trust):
    """The trust of a session: what was trusted when it began and still is, and what was trusted in it. What other processes
    add meanwhile counts in the next session.

    `own` are files of the user's that need no trust, or directories of them: they count as they were then. Safe from any
    thread.
    """

    def __init__(self, state_dir: Path, own: Iterable[Path] = ()) -> None:
        super().__init__(state_dir)
        self._files = tuple(own)
        self._held, self._own = self._present(), self._hashes()

    def trusts(self, path: Path, content: bytes) -> bool:
        """Whether exactly this content was trusted at this path, and is. Raises `ConfigError` for a damaged file."""
        now = self._read()
        self._held = {key: digest for key, digest in self._held.items() if now.get(key) == digest}
        return self._held.get(key_of(path)) == content_hash(content)

    def owns(self, path: Path, content: bytes) -> bool:
        """Whether the user's own file at this path is as it was."""
        return self._own.get(key_of(path)) == content_hash(content)

    def add(self, path: Path, content: bytes) -> None:
        """Trust this content from now on, here and in the sessions to come. Raises as `Trust.add`."""
        super().add(path, content)
        self._held = {**self._held, key_of(path): content_hash(content)}

    @property
    def is_current(self) -> bool:
        """Whether a session that began now would have the same."""
        return (self._present(), self._hashes()) == (self._held, self._own)

    def _present(self) -> dict[str, str]:
        try:
            return self._read()
        except ConfigError:
            return {}

    def _hashes(self) -> dict[str, str]:
        """What is in the user's own files that can be read."""
        found: dict[str, str] = {}
        for path in [one for place in self._files for one in files_in(place)]:
            try:
                content = read_bounded(path, MAX_BYTES)
            except (ConfigError, OSError):
                continue
            if content is not None:
                found[key_of(path)] = content_hash(content)
        return found


def files_in(place: Path) -> list[Path]:
    """A file, or what is in a directory."""
    try:
        return sorted(place.iterdir())[:MAX_OWN_FILES]
    except OSError:
        return [place]


def key_of(path: Path) -> str:
    """The key of a file: its real path."""
    return str(path.resolve())
