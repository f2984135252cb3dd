"""Anchored edits: replaces a text that occurs exactly once, or raises an error that helps to correct it."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from jaato.errors import ToolError
from jaato.plugins.files.diff import make_unified_diff
from jaato.tools.call import Call
from jaato.tools.filesystem.atomic_replace import FileChanged
from jaato.tools.filesystem.changes import Change, Changes, Loaded, Staging
from jaato.tools.filesystem.errors import PathRefused
from jaato.tools.filesystem.text_encoding import NormalizedText, NotText, display_text

MAX_SHOWN = 8
MAX_WINDOWS = 20_000
MAX_EXCERPT_LINES = 12


class EditRefused(ToolError):
    """The edit does not fit the file; nothing was changed."""

    code = "edit_refused"


class Edit(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One edit of one file: `old` to `new` between optional anchors, or the whole `new_content`."""

    path: str
    old: str | None = None
    new: str | None = None
    prologue: str | None = None
    epilogue: str | None = None
    new_content: str | None = None


def edit_problem(edit: Edit, text: str) -> str | None:
    """The problem of an edit of this text, or None."""
    if edit.new_content is not None:
        if edit.old is not None or edit.new is not None:
            return "new_content replaces the whole file; give either it or old and new, not both."
        return None
    if edit.old is None or edit.new is None:
        return (
            "Give old (text that is in the file) and new (what replaces it), or new_content (the whole file)."
        )
    if not edit.old and not edit.prologue and not edit.epilogue and text:
        return "old is empty. Name the text to replace, or give prologue or epilogue to insert new beside it."
    if edit.old == edit.new:
        return "old and new are the same, so nothing would change."
    return None


def apply_edit(text: str, edit: Edit) -> str:
    """The file's text after the edit. Raises `EditRefused` when `old` is missing or ambiguous."""
    problem = edit_problem(edit, text)
    if problem:
        raise EditRefused(f"{edit.path!r}: {problem}")
    if edit.new_content is not None:
        return replace_text(text, edit.new_content)
    old, new = edit.old or "", edit.new or ""
    if not text and not edit.prologue and not edit.epilogue:
        if old:
            raise EditRefused(
                f"{edit.path!r} is empty, so old is not in it. Give its content as new_content."
            )
        return new
    if "\r" in old and text.count(old) == 1 and not edit.prologue and not edit.epilogue:
        return text.replace(old, new)  # the caller spells the line ends out
    lined = NormalizedText(text)
    old = normalize_newlines(old)
    if not old:
        place = insertion_point(lined.view, edit)
        return lined.replace(place, place, new)
    found = find_candidates(lined.view, old, edit)
    if len(found) > 1:
        raise EditRefused(
            f"{edit.path!r}: old {ambiguity_error(lined.view, found)} Add the lines around it to old, or give "
            "prologue (text before it) or epilogue (text after it). Nothing was changed."
        )
    return lined.replace(found[0], found[0] + len(old), new)


def replace_text(text: str, content: str) -> str:
    """The whole text replaced: line ends and the final newline stay unless it spells others out."""
    content = content.removeprefix("\ufeff")
    if "\r\n" in content:
        return content
    lined = NormalizedText(text)
    if lined.view.endswith("\n") and content and not content.endswith("\n"):
        content += "\n"
    return lined.replace(0, len(lined.view), content)


def normalize_newlines(text: str) -> str:
    """Text with `\\n` line ends."""
    return text.replace("\r\n", "\n")


def find_candidates(view: str, old: str, edit: Edit) -> list[int]:
    """Where `old` may be meant: the one place that touches its anchors, else every place between them."""
    found = occurrences(view, old)
    start, end = 0, len(view)
    if edit.prologue or edit.epilogue:
        before, after = normalize_newlines(edit.prologue or ""), normalize_newlines(edit.epilogue or "")
        touching = [
            place
            for place in found
            if view.endswith(before, 0, place) and view.startswith(after, place + len(old))
        ]
        if len(touching) == 1:
            return touching
        start, end = find_anchored_region(view, edit)
    inside = [place for place in found if start <= place and place + len(old) <= end]
    if inside:
        return inside
    if found:
        raise EditRefused(
            f"{edit.path!r}: old is at line {line_numbers(view, found)}, but not between the anchors (lines "
            f"{line_at(view, start)} to {line_at(view, end)}). Correct them. Nothing was changed."
        )
    raise missing_error(view, old, edit, "old")


def find_anchored_region(view: str, edit: Edit) -> tuple[int, int]:
    """From the end of the prologue to the start of the epilogue; each occurs once, or follows the other."""
    start, end = 0, len(view)
    if edit.prologue:
        anchor = normalize_newlines(edit.prologue)
        start = find_unique(view, anchor, edit, "prologue") + len(anchor)
    if edit.epilogue:
        anchor = normalize_newlines(edit.epilogue)
        end = view.find(anchor, start) if edit.prologue else find_unique(view, anchor, edit, "epilogue")
        if end < 0:
            raise missing_error(view, anchor, edit, "epilogue")
    return start, end


def insertion_point(view: str, edit: Edit) -> int:
    """Where to insert when `old` is empty: after the prologue, or before the epilogue."""
    if edit.prologue and edit.epilogue:
        before = normalize_newlines(edit.prologue)
        return find_unique(
            view, before + normalize_newlines(edit.epilogue), edit, "prologue with epilogue"
        ) + len(before)
    start, end = find_anchored_region(view, edit)
    return start if edit.prologue else end


def find_unique(view: str, anchor: str, edit: Edit, role: str) -> int:
    """Where an anchor is; raises `EditRefused` unless it occurs exactly once."""
    found = occurrences(view, anchor)
    if not found:
        raise missing_error(view, anchor, edit, role)
    if len(found) > 1:
        raise EditRefused(
            f"{edit.path!r}: {role} {ambiguity_error(view, found)} Use a longer one. Nothing was changed."
        )
    return found[0]


def ambiguity_error(view: str, places: list[int]) -> str:
    """The message that a text occurs several times."""
    return f"occurs {len(places)} times, at lines {line_numbers(view, places)}."


def line_numbers(view: str, places: list[int]) -> str:
    """The lines of some places, the first few."""
    more = f" and {len(places) - MAX_SHOWN} more" if len(places) > MAX_SHOWN else ""
    return ", ".join(str(line_at(view, place)) for place in places[:MAX_SHOWN]) + more


def occurrences(view: str, text: str) -> list[int]:
    """Every place where the text occurs, overlapping ones too."""
    found: list[int] = []
    place = view.find(text)
    while place >= 0:
        found.append(place)
        place = view.find(text, place + 1)
    return found


def line_at(view: str, place: int) -> int:
    """The number of the line a position is in, from 1."""
    return view.count("\n", 0, place) + 1


def missing_error(view: str, text: str, edit: Edit, role: str) -> EditRefused:
    """The error for a text that does not occur, with the most similar lines: equal but for white space, or close."""
    nearest = nearest_lines(view, text)
    head = f"{edit.path!r}: {role} does not occur in the file. "
    if nearest is None:
        return EditRefused(
            f"{head}Nothing in it is similar; read it again with readFile. Nothing was changed."
        )
    first, last, same = nearest
    there = view.split("\n")[first - 1 : min(last, first + MAX_EXCERPT_LINES - 1)]
    why = "is the same but for white space" if same else "is the nearest"
    excerpt = display_text("\n".join(line[:300] for line in there))
    return EditRefused(
        f"{head}Lines {first} to {last} hold what {why}:\n{excerpt}\nCopy it exactly. Nothing was changed."
    )


def nearest_lines(view: str, text: str) -> tuple[int, int, bool] | None:
    """The lines most like the text, as (first, last, same but for white space), or None."""
    lines = view.split("\n")
    wanted = [without_whitespace(line) for line in text.strip("\n").split("\n")]
    have = [without_whitespace(line) for line in lines]
    size = len(wanted)
    for index in range(len(have) - size + 1):
        if have[index] == wanted[0] and have[index : index + size] == wanted:
            return index + 1, index + size, True
    joined, starts = "", []
    for line in have[:MAX_WINDOWS]:
        starts.append(len(joined))
        joined += line
    place = joined.find("".join(wanted))
    if place >= 0:
        first = bisect_right(starts, place)
        return first, bisect_right(starts, place + len("".join(wanted)) - 1), True
    near = most_similar(have, wanted)
    return None if near is None else (near + 1, min(near + size, len(have)), False)


def without_whitespace(line: str) -> str:
    """A line without white space."""
    return "".join(line.split())


def most_similar(have: list[str], wanted: list[str]) -> int | None:
    """Where the wanted lines would start for most of them to be in place, or by the longest of them."""
    places = {line: index for index, line in enumerate(wanted) if len(line) > 3}
    votes: Counter[int] = Counter()
    for index, line in enumerate(have):
        if line in places:
            votes[max(0, index - places[line])] += len(line)
    if votes:
        return votes.most_common(1)[0][0]
    key = max(wanted, key=len)
    import difflib

    near = difflib.get_close_matches(key[:200], [line[:200] for line in have[:2000]], n=1, cutoff=0.6)
    if not near:
        return None
    return max(0, [line[:200] for line in have].index(near[0]) - wanted.index(key))


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
        loaded = changes.load(target, call)
        text = apply_edit(loaded.text, edit)
        if text == loaded.text:
            raise EditRefused(f"{edit.path!r} would not change: it has this content already.")
        content = loaded.form.encode(text)
        change = Change(target, "updateFile", loaded.seen, content, buffer=loaded.buffer)
        changes.commit([change], call)
        return change_result(change, make_unified_diff(loaded.text, text))


def edit_many(changes: Changes, edits: Sequence[Edit], call: Call) -> list[dict[str, Any]]:
    """Make every edit or none; several of one file apply in order. Raises `ToolError`s that name the edit."""
    paths = list(dict.fromkeys(edit.path for edit in edits))
    if not paths:
        raise EditRefused("edits is empty. Give at least one edit.")
    if len(paths) > MAX_FILES:
        raise TooMany(f"{len(paths)} files in one call; at most {MAX_FILES} are possible. Split the call.")
    steps: dict[str, tuple[Change, Loaded | None, str]] = {}
    with changes.stage() as staging:
        for number, edit in enumerate(edits, 1):
            try:
                stage_edit(changes, steps, edit, staging, call)
            except ToolError as error:
                raise EditRefused(f"Edit {number} of {len(edits)}: {error} No file was changed.") from None
        for change, loaded, text in steps.values():
            change.content = loaded.form.encode(text) if loaded else text.encode()
        next(iter(steps.values()))[0].made = staging.made
        changes.commit([change for change, *_ in steps.values()], call)
    room = 2 * MAX_DIFF_CHARS
    result: list[dict[str, Any]] = []
    for change, loaded, text in steps.values():
        diff = make_unified_diff(loaded.text if loaded else "", text)[:room]
        room -= len(diff)
        result.append(change_result(change, diff))
    return result


def stage_edit(
    changes: Changes,
    steps: dict[str, tuple[Change, Loaded | None, str]],
    edit: Edit,
    staging: Staging,
    call: Call,
) -> None:
    """Apply one edit in memory, on top of the earlier ones of the same file."""
    for text in (edit.new, edit.new_content):
        refuse_surrogates(text or "")
    is_new = edit.new_content is not None and edit.old is None and changes.is_absent(edit.path)
    target = staging.target(edit.path, parents=is_new)
    before = steps.get(target.label)
    if before is not None:
        change, loaded, text = before
        steps[target.label] = (change, loaded, apply_edit(text, edit))
    elif target.place.info is None and edit.new_content is not None:
        refuse_slash(edit.path)
        change = Change(target, "multiFileEdit", None, None, buffer=changes.load_absent(target, call))
        steps[target.label] = (change, None, edit.new_content)
    else:
        loaded = changes.load(target, call)
        change = Change(target, "multiFileEdit", loaded.seen, None, buffer=loaded.buffer)
        steps[target.label] = (change, loaded, apply_edit(loaded.text, edit))


def change_result(change: Change, diff: str) -> dict[str, Any]:
    """The result of one change."""
    result: dict[str, Any] = {"path": change.target.label, "diff": diff}
    if change.record is not None:
        result["backup_id"] = change.record.id
    if change.notes:
        result["notes"] = change.notes
    return result


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
