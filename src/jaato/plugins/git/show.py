"""A file or directory as it was at a revision."""

from __future__ import annotations

from typing import Any

from jaato.errors import ToolError
from jaato.plugins.git import records
from jaato.plugins.git.repository import Repository

MAX_ENTRIES = 500
MAX_FILE_BYTES = 8_000_000
MAX_SHOWN_CHARS = 60_000
LISTING_BYTES = 1_048_576


async def tree(here: Repository, top: str, path: str) -> dict[str, Any] | str:
    """The blob at a path of a tree, or what is there when it is no file. Raises `ToolError` when nothing is."""
    (inside,) = here.inside([path])
    if inside == ".":
        return await listing(here, top)
    written = await here.read(["ls-tree", "-z", "--full-tree", top, "--", inside], LISTING_BYTES)
    record = written.data.partition(b"\0")[0]
    if not record:
        raise ToolError(f"No {path!r} at that revision; git_show with path . lists what there is.")
    mode, kind, name = record.partition(b"\t")[0].split()
    match kind:
        case b"tree":
            return await listing(here, name.decode())
        case b"commit":
            return {"submodule": name.decode()}
    if mode == b"120000":
        target = await here.read(["cat-file", "blob", name.decode()], 4096)
        return {"link_to": records.shown(target.data)}
    return name.decode()


async def listing(here: Repository, name: str) -> dict[str, Any]:
    """The entries of a directory; directories end in a slash."""
    written = await here.read(["ls-tree", "-z", "--full-tree", name, "--"], LISTING_BYTES)
    entries = []
    for record in records.fields(written.data, written.cut):
        about, _, entry = record.partition(b"\t")
        entries.append(records.shown(entry) + ("/" if about.split()[1] == b"tree" else ""))
    found: dict[str, Any] = {"entries": entries[:MAX_ENTRIES]}
    return found | ({"entries_total": len(entries)} if len(entries) > MAX_ENTRIES or written.cut else {})


async def blob(here: Repository, name: str, offset: int, limit: int) -> dict[str, Any]:
    """The lines of a file's content, from 1."""
    written = await here.read(["cat-file", "blob", name], MAX_FILE_BYTES)
    if b"\0" in written.data[:8000]:
        size = (await here.read(["cat-file", "-s", name], 100)).data.decode().strip()
        return {"binary": True, "size_bytes": int(size)}
    lines = written.data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    chosen = records.text(b"\n".join(lines[offset - 1 : offset - 1 + limit]))
    found: dict[str, Any] = {"text": chosen[:MAX_SHOWN_CHARS], "lines_total": len(lines)}
    if len(chosen) > MAX_SHOWN_CHARS or offset - 1 + limit < len(lines) or written.cut:
        found["truncated"] = "There is more; ask for other lines with offset and limit."
    return found
