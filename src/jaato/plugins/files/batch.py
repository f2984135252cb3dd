"""Edits of several files at once, all or nothing, and find-and-replace across files."""

from __future__ import annotations

import contextlib
import random
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from jaato.errors import ToolError
from jaato.plugins.files.anchored_edit import Edit, EditRefused, applied
from jaato.plugins.files.diff import unified
from jaato.plugins.files.substitute import Span, check, literal, matches, substituted
from jaato.tools.call import Call
from jaato.tools.cancel import CancelToken
from jaato.tools.control import names_control
from jaato.tools.file_errors import PathRefused
from jaato.tools.files.changes import Changes
from jaato.tools.files.replace import FileChanged
from jaato.tools.files.targets import Change, Loaded
from jaato.tools.files.text import Lined, NotText
from jaato.tools.paths import Roots

MAX_TRIES = 30
MAX_FILES = 200
MAX_SEARCHED_BYTES = 10 << 20
MAX_TOTAL_BYTES = 64 << 20
MAX_DIFF_CHARS = 8000
SKIPPED = ("node_modules", "__pycache__")
Done = TypeVar("Done")


class TooMany(ToolError):
    """The search covers more than one call may."""

    code = "too_many_files"


def patient(work: Callable[[], Done], edits: Sequence[Edit]) -> Done:
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
        text = applied(loaded.text, edit)
        if text == loaded.text:
            raise EditRefused(f"{edit.path!r} would not change: it has this content already.")
        change = Change(target, "updateFile", loaded.seen, loaded.form.encode(text))
        changes.commit([change], call)
        return outcome(change, unified(loaded.text, text))


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
                    stage(changes, steps, edit, open_places, made)
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
        diff = unified(loaded.text if loaded else "", text)[:room]
        room -= len(diff)
        said.append(outcome(change, diff))
    return said


def stage(
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
        steps[target.label] = (change, loaded, applied(text, edit))
    elif target.place.info is None and edit.new_content is not None:
        refuse_slash(edit.path)
        steps[target.label] = (Change(target, "multiFileEdit", None, None), None, edit.new_content)
    else:
        loaded = changes.load(target)
        text = applied(loaded.text, edit)
        steps[target.label] = (Change(target, "multiFileEdit", loaded.seen, None), loaded, text)


def outcome(change: Change, diff: str) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class Search:
    """What to find where: in one file, or in those below a directory that fit the glob."""

    path: str
    glob: str
    pattern: str
    replacement: str
    regex: bool


def replace_all(changes: Changes, search: Search, call: Call, *, dry_run: bool) -> dict[str, Any]:
    """Find and replace, all or nothing; changes nothing in a dry run. Raises `ToolError`s."""
    check(search.pattern, search.replacement, regex=search.regex)
    refuse_surrogates(search.replacement)
    with changes.lock, contextlib.ExitStack() as open_places:
        found = searched(changes, search, call)
        if len(found) > MAX_FILES and not dry_run:
            raise TooMany(
                f"{len(found)} files match; at most {MAX_FILES} can change at once. Narrow path or glob."
            )
        total, number = sum(len(spans) for _, spans in found), len(found)
        files: list[dict[str, Any]] = []
        steps: list[Change] = []
        room = MAX_DIFF_CHARS
        for loaded, spans in found[:MAX_FILES]:
            text = substituted(loaded.text, spans)
            content = loaded.form.encode(text)
            diff = unified(loaded.text, text)[:room]
            room -= len(diff)
            files.append({"path": loaded.target.label, "matches": len(spans), "diff": diff})
            if not dry_run:
                target = open_places.enter_context(changes.target(loaded.target.path))
                steps.append(Change(target, "findAndReplace", loaded.seen, content))
        if steps:
            changes.commit(steps, call)
        for entry, change in zip(files, steps, strict=False):
            entry["backup_id"] = change.record.id if change.record else None
            if change.notes:
                entry["notes"] = change.notes
        said = {"dry_run": dry_run, "matches": total, "matching_files": number, "files": files}
        if dry_run and files:
            said["note"] = "Nothing was changed. Call again with dry_run=false to apply."
        return said


def files_below(roots: Roots, path: str, glob: str, token: CancelToken) -> list[str]:
    """The files that ripgrep takes below a directory, in order of their names; a glob without a slash matches names at
    any depth.

    What is hidden or git-ignored, links, dependencies and control paths are passed over. Raises `InvalidArguments` for
    what is no glob, and `TooMany`.
    """
    from jaato.tools.processes.ripgrep import Ripgrep, SearchLimits, Selection

    limits = SearchLimits(token)
    names = Ripgrep(roots).files(Selection(path, glob, excluded=SKIPPED), limits)
    if limits.stopped is not None:
        raise TooMany(f"There are too many files below {path!r}: {limits.stopped}. Name a smaller directory.")
    return [f"{path}/{name}" for name in names if not names_control(name.split("/"), roots.names)]


def searched(changes: Changes, search: Search, call: Call) -> list[tuple[Loaded, list[Span]]]:
    """Each file that matches, with its matches; a pattern runs over all files at once."""
    whole = stat.S_ISDIR(changes.roots.stat(search.path).st_mode)
    top = search.path.rstrip("/") or "/"
    names = files_below(changes.roots, top, search.glob, call.token) if whole else [search.path]
    batch: list[Loaded] = []
    found: list[tuple[Loaded, list[Span]]] = []
    wanted = search.pattern.replace("\r\n", "\n")
    total = 0
    for name in names:
        call.token.raise_if_cancelled()
        with changes.target(name) as target:
            try:
                if whole and target.info.st_size > MAX_SEARCHED_BYTES:
                    continue
                loaded = changes.load(target)
            except ToolError:
                if whole:
                    continue  # binary, unreadable or gone: not part of the search
                raise
        if search.regex:
            batch.append(loaded)
        else:
            spans = literal(Lined(loaded.text).view, wanted, search.replacement)
            if not spans:
                continue
            found.append((loaded, spans))
        total += len(loaded.text)
        if total > MAX_TOTAL_BYTES:
            raise TooMany("More than 64 MB of text to search or change. Narrow path or glob.")
    if batch:
        texts = [Lined(loaded.text).view for loaded in batch]
        spans_of = matches(texts, search.pattern, search.replacement, call.token)
        found = [(loaded, spans) for loaded, spans in zip(batch, spans_of, strict=True) if spans]
    return found
