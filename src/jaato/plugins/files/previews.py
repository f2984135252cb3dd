"""Unified diffs of what the file tools would change, for permission questions: nothing is written."""

from __future__ import annotations

from collections.abc import Sequence

from jaato.plugins.files.diff import make_unified_diff
from jaato.plugins.files.edits import MAX_DIFF_CHARS, Edit, apply_edit
from jaato.plugins.files.find_replace import Search, replace_all
from jaato.tools.call import Call
from jaato.tools.filesystem.changes import Changes


def file_diff(path: str, old: str | None, new: str) -> str:
    """The diff of one file with its head; `old` None for a file that is created."""
    before = "/dev/null" if old is None else path
    return f"--- {before}\n+++ {path}\n{make_unified_diff(old or '', new)}"


def preview_edits(changes: Changes, edits: Sequence[Edit], call: Call) -> str:
    """The diffs of edits, those of one file on top of each other. Raises `ToolError` for one that does not fit."""
    texts: dict[str, tuple[str | None, str]] = {}
    for edit in edits:
        if edit.path not in texts:
            is_new = edit.new_content is not None and changes.is_absent(edit.path)
            old = None if is_new else load_text(changes, edit.path, call)
            texts[edit.path] = (old, old or "")
        old, text = texts[edit.path]
        new = edit.new_content if old is None and edit.new_content is not None else apply_edit(text, edit)
        texts[edit.path] = (old, new)
    return join_diffs([file_diff(path, old, new) for path, (old, new) in texts.items()])


def preview_replace(changes: Changes, search: Search, call: Call) -> str:
    """The diffs of a search and replace. Raises `ToolError`."""
    found = replace_all(changes, search, call, dry_run=True)
    return join_diffs([f"--- {one['path']}\n+++ {one['path']}\n{one['diff']}" for one in found["files"]])


def load_text(changes: Changes, path: str, call: Call) -> str:
    """The text of a file, with what a client has not saved. Raises `ToolError`."""
    with changes.target(path) as target:
        return changes.load(target, call).text


def join_diffs(diffs: Sequence[str]) -> str:
    """Several diffs as one, which says where it is cut."""
    text = "\n".join(diffs)
    return (
        text
        if len(text) <= 2 * MAX_DIFF_CHARS
        else f"{text[: 2 * MAX_DIFF_CHARS]}\n… the diff goes on; it is cut here"
    )
