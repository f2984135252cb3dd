"""What restoring a waypoint would change, with the counts of lines and a unified diff: nothing is written."""

from __future__ import annotations

from typing import Any

from jaato.errors import ToolError
from jaato.plugins.waypoint.restore import RestoreResult
from jaato.tools.filesystem.changes import MAX_COUNTED_BYTES, Changes, count_changed_lines
from jaato.tools.filesystem.text_encoding import form_of
from jaato.tools.filesystem.transactions import FileReplacement

MAX_DIFF_CHARS = 100_000
"""Characters of the diffs of all files together."""
NO_TEXT = "no text, or too large to compare"


def preview_files(changes: Changes, done: RestoreResult, rows: list[dict[str, Any]]) -> str:
    """The diffs of the files in `rows`, which get the counts `added` and `removed`, or a `note` why there is no diff."""
    from jaato.plugins.files.previews import file_diff  # only who looks at a diff needs it

    steps = {step.path: step for step in done.plan.steps}
    diffs: list[str] = []
    room = MAX_DIFF_CHARS
    for row in rows:
        step = steps.get(row["path"])
        if step is None:
            continue  # it is moved back as it is
        if room <= 0:
            row["note"] = "not compared: the diff is long already"
            continue
        old, new = read_now(changes, step), read_then(changes, step)
        added, removed = count_changed_lines(old, new)
        before, after = text_of(old), text_of(new)
        if added is None or before is None or after is None:
            row["note"] = NO_TEXT
            continue
        row |= {"added": added, "removed": removed}
        diffs.append(file_diff(step.path, None if step.now == "absent" else before, after))
        room -= len(diffs[-1])
    return "\n".join(diffs)


def read_now(changes: Changes, step: FileReplacement) -> bytes | None:
    """What a file holds now; None for what is no file, is too large, or cannot be read."""
    if step.now == "absent":
        return b""
    try:
        with changes.target(step.at, exact=True) as target:
            seen = changes.see(target)
    except ToolError:
        return None
    return seen.data if seen is not None else None


def read_then(changes: Changes, step: FileReplacement) -> bytes | None:
    """What the file would hold; None for what is no file, is too large, or cannot be read."""
    if step.state == "absent":
        return b""
    if step.state != "file" or not step.digest or step.size_bytes > MAX_COUNTED_BYTES:
        return None
    try:
        return changes.backups.content(step.digest)
    except ToolError:
        return None


def text_of(data: bytes | None) -> str | None:
    """Bytes as text; None for what is none."""
    try:
        return None if data is None else form_of(data).decode(data)
    except ToolError:
        return None
