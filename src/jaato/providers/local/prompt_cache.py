"""A cache of prompt states on disk: the fixed prompt is evaluated once, not in every process."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

MAX_STATES = 4
MAX_BYTES = 400_000_000
FORMAT = 1


class SavedStates:
    """Files of prompt state in one folder, the least recently used removed first.

    A state belongs to one model file (its path, size and time) and one prompt; it is only ever an
    optimisation, so whatever goes wrong with it is as if it were not there.
    """

    def __init__(self, folder: Path, model_path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self._model_path = model_path
        self._max_bytes = max_bytes

    def key(self, fixed: list[dict[str, str]], context_tokens: int) -> str:
        """The name of the state of this prompt with this model and engine."""
        from importlib.metadata import version

        stat = self._model_path.stat()
        parts = [
            FORMAT,
            version("xllamacpp"),
            str(self._model_path.resolve()),
            stat.st_size,
            stat.st_mtime_ns,
            context_tokens,
            fixed,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def fetch(self, key: str, target: Path) -> bool:
        """Bring a state to `target`, as a link where possible; returns whether there is one."""
        source = self.folder / f"{key}.state"
        try:
            os.utime(source)
            target.symlink_to(source.resolve())
        except OSError:
            return False
        return True

    def keep(self, key: str, source: Path) -> None:
        """Take over a state file, unless it is larger than all states together may be."""
        if source.is_symlink():
            return
        try:
            if source.stat().st_size > self._max_bytes:
                return
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = self.folder / f".{key}.{os.getpid()}"
            try:
                shutil.move(source, partial)
                partial.chmod(0o600)
                partial.replace(self.folder / f"{key}.state")
            finally:
                partial.unlink(missing_ok=True)
            self._sweep()
        except OSError:
            return

    def remove(self, key: str) -> None:
        """Remove the state of this key, if there is one."""
        try:
            (self.folder / f"{key}.state").unlink(missing_ok=True)
        except OSError:
            return

    def _sweep(self) -> None:
        states = sorted(self.folder.glob("*.state"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        total = 0
        for index, path in enumerate(states):
            total += path.stat().st_size
            if index >= MAX_STATES or total > self._max_bytes:
                path.unlink(missing_ok=True)
