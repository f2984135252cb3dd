"""Finds files of a session's workspace by the letters of their paths, for completion in clients."""

from __future__ import annotations

import time
from pathlib import Path

import anyio

from jaato.tools.cancel import CancelToken
from jaato.tools.filesystem.containment import Roots

LISTED_FOR_S = 10.0
"""How long a list of files is used again: a client asks at every key."""
MAX_WORKSPACES = 8
MAX_CONSIDERED = 50_000
MAX_FOUND = 100
MAX_QUERY_CHARS = 200
LIMIT_S = 5.0


class WorkspaceFiles:
    """The files of the workspaces that were asked about last; those that `.gitignore` names are left out."""

    def __init__(self) -> None:
        self._listed: dict[str, tuple[float, list[str]]] = {}

    async def find(self, workspace: str, query: str, limit: int) -> list[str]:
        """The paths with the letters of a query in their order, the best match first. Raises `ToolError`s."""
        now = time.monotonic()
        listed_at, paths = self._listed.pop(workspace, (-LISTED_FOR_S, []))
        if now - listed_at >= LISTED_FOR_S:
            paths, listed_at = await anyio.to_thread.run_sync(list_files, workspace), time.monotonic()
        self._listed[workspace] = (listed_at, paths)
        while len(self._listed) > MAX_WORKSPACES:
            del self._listed[next(iter(self._listed))]
        wanted = query[:MAX_QUERY_CHARS].lower()
        return await anyio.to_thread.run_sync(best_matches, paths, wanted, min(max(limit, 1), MAX_FOUND))


def list_files(workspace: str) -> list[str]:
    """The files of a workspace. Raises `ToolError`s."""
    from jaato.tools.processes.ripgrep import Ripgrep, SearchLimits, Selection  # few sessions complete paths

    limits = SearchLimits(CancelToken(), ends_at=time.monotonic() + LIMIT_S)
    return Ripgrep(Roots(Path(workspace))).files(Selection("."), limits)[:MAX_CONSIDERED]


def best_matches(paths: list[str], query: str, limit: int) -> list[str]:
    """The best matches of a query in lower case."""
    ranked = [(rank, path) for path in paths if (rank := rank_of(path.lower(), query)) is not None]
    return [path for _, path in sorted(ranked)[:limit]]


def rank_of(path: str, query: str) -> tuple[int, int, int] | None:
    """How well a path fits, less is better; None if it has not all letters in their order."""
    name = path.rpartition("/")[2]
    at = name.find(query)
    if at >= 0:
        return (0 if at == 0 else 1, path.count("/"), len(path))
    if query in path:
        return 2, path.count("/"), len(path)
    start = position = -1
    for letter in query:
        position = path.find(letter, position + 1)
        if position < 0:
            return None
        start = position if start < 0 else start
    return 3, position - start, len(path)
