"""`updateFile` and `multiFileEdit`: edits of one file or several at once, all or nothing."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jaato.errors import ToolError
from jaato.plugins.files.anchored_edit import Edit, EditRefused, apply_edit
from jaato.plugins.files.diff import unified_diff
from jaato.tools.call import Call
from jaato.tools.filesystem.edits.atomic_replace import FileChanged
from jaato.tools.filesystem.edits.changes import Change, Changes, Loaded
from jaato.tools.filesystem.edits.text_encoding import NotText
from jaato.tools.filesystem.errors import PathRefused

MAX_TRIES = 30
MAX_FILES = 200
MAX_DIFF_CHARS = 8000
Done = TypeVar("Done")


class TooMany(ToolError):
    """The search covers more than one call may."""

    code = "too_many_files"


def retry_on_change(work: Callable[[], Done], edits: Sequence[Edit]) -> Done:
    """Do the work again while others change its files in between: each edit finds its place anew, or is refused.

    Work that replaces a whole file is not repeated, since it would undo what they did.
    """
    tries = 1 if any(edit.new_content is not None for edit in edits) else MAX_TRIES
    for number in range(1, tries):
        try:
            return work()
        except FileChanged:
            time.sleep(random.uniform(0, 0.01 * min(number, 10)))  # noqa: S311 only so that two do not meet again
    return work()


def edit_one(changes: Changes, edit: Edit, call: Call) -> dict[str, Any]:
    """Make one edit of a file that exists. Raises `ToolError`s."""
    with changes.lock, changes.target(edit.path) as target:
        if target.place.info is None and edit.new_content is not None:
            raise PathRefused(f"{edit.path!r} does not exist. Use writeNewFile to create it.")
        loaded = changes.load(target)
        text = apply_edit(loaded.text, edit)
        if text == loaded.text:
            raise EditRefused(f"{edit.path!r} would not change: it has this content already.")
        change = Change(target, "updateFile", loaded.seen, loaded.form.encode(text))
        changes.commit([change], call)
        return change_result(change, unified_diff(loaded.text, text))


def edit_many(changes: Changes, edits: Sequence[Edit], call: Call) -> list[dict[str, Any]]:
    """Make every edit or none; several of one file apply in order. Raises `ToolError`s that name the edit."""
    paths = list(dict.fromkeys(edit.path for edit in edits))
    if not paths:
        raise EditRefused("edits is empty. Give at least one edit.")
    if len(paths) > MAX_FILES:
        raise TooMany(f"{len(paths)} files in one call; at most {MAX_FILES} are possible. Split the call.")
    made: list[str] = []
    with changes.lock, contextlib.ExitStack() as open_places:
        try:
            steps: dict[str, tuple[Change, Loaded | None, str]] = {}
            for number, edit in enumerate(edits, 1):
                try:
                    stage_edit(changes, steps, edit, open_places, made)
                except ToolError as error:
                    raise EditRefused(
                        f"Edit {number} of {len(edits)}: {error} No file was changed."
                    ) from None
            for change, loaded, text in steps.values():
                change.content = loaded.form.encode(text) if loaded else text.encode()
            next(iter(steps.values()))[0].made = made
            changes.commit([change for change, *_ in steps.values()], call)
        except BaseException:
            changes.unmake(made)
            raise
    room = 2 * MAX_DIFF_CHARS
    said: list[dict[str, Any]] = []
    for change, loaded, text in steps.values():
        diff = unified_diff(loaded.text if loaded else "", text)[:room]
        room -= len(diff)
        said.append(change_result(change, diff))
    return said


def stage_edit(
    changes: Changes,
    steps: dict[str, tuple[Change, Loaded | None, str]],
    edit: Edit,
    open_places: contextlib.ExitStack,
    made: list[str],
) -> None:
    """Apply one edit in memory, on top of the earlier ones of the same file."""
    for text in (edit.new, edit.new_content):
        refuse_surrogates(text or "")
    if edit.new_content is not None and edit.old is None and changes.is_absent(edit.path):
        made += changes.make_parents(edit.path)
    target = open_places.enter_context(changes.target(edit.path))
    before = steps.get(target.label)
    if before is not None:
        change, loaded, text = before
        steps[target.label] = (change, loaded, apply_edit(text, edit))
    elif target.place.info is None and edit.new_content is not None:
        refuse_slash(edit.path)
        steps[target.label] = (Change(target, "multiFileEdit", None, None), None, edit.new_content)
    else:
        loaded = changes.load(target)
        text = apply_edit(loaded.text, edit)
        steps[target.label] = (Change(target, "multiFileEdit", loaded.seen, None), loaded, text)


def change_result(change: Change, diff: str) -> dict[str, Any]:
    """What a tool says of one change."""
    said: dict[str, Any] = {"path": change.target.label, "diff": diff}
    if change.record is not None:
        said["backup_id"] = change.record.id
    if change.notes:
        said["notes"] = change.notes
    return said


def refuse_surrogates(text: str) -> None:
    """Raise `NotText` for text that no encoding can carry."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotText(f"The text has a lone surrogate at position {error.start}. Correct it.") from None


def refuse_slash(path: str) -> None:
    """Raise when a new file's path is that of a directory."""
    if path.endswith("/"):
        raise PathRefused(f"{path!r} ends with a slash. Name a file, or use createDirectory.")
