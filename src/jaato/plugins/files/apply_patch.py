"""`apply_patch`: applies a whole patch or nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaato.errors import ToolError
from jaato.plugins.files.diff import make_unified_diff
from jaato.plugins.files.edits import change_result, refuse_slash
from jaato.plugins.files.find_replace import replace_spans
from jaato.plugins.files.hunk_matching import PlacedHunk, place_hunks
from jaato.plugins.files.patch_parser import FilePatch, Hunk, PatchRefused
from jaato.tools.call import Call
from jaato.tools.filesystem.atomic_replace import FileState
from jaato.tools.filesystem.changes import Change, Changes, Staging, Target
from jaato.tools.filesystem.client_files import Buffer
from jaato.tools.filesystem.text_encoding import Form, NormalizedText

MAX_PATCH_CHARS = 4 << 20
MAX_FILES = 200
MAX_DIFF_CHARS = 16_000
ACTION = "apply_patch"


@dataclass(slots=True)
class StagedFile:
    """The staged state of one file: `text` is None when it is removed; `before` is its text now."""

    path: str
    target: Target | None
    seen: FileState | None
    form: Form
    before: str
    text: str | None
    mode: int | None = None
    buffer: Buffer | None = None
    actions: list[str] = field(default_factory=list)
    hunks: list[dict[str, int | str]] = field(default_factory=list)


def apply(
    changes: Changes, files: Sequence[FilePatch], top: str, call: Call, *, dry_run: bool
) -> dict[str, Any]:
    """Change every file of a patch or none. Raises `ToolError`s that name the file and the hunk."""
    if len(files) > MAX_FILES:
        raise PatchRefused(f"The patch changes {len(files)} files; at most {MAX_FILES} can be. Split it.")
    with changes.stage() as staging:
        work = PatchApplication(changes, top, staging, call, dry_run=dry_run)
        for file in files:
            work.take(file)
        # a file that is made and removed again needs nothing
        stages = [one for one in work.stages.values() if one.seen is not None or one.text is not None]
        steps = [step_of(stage) for stage in stages if stage.target is not None]
        if not dry_run:
            for first in steps[:1]:
                first.made = staging.made
            changes.commit(steps, call)
    room = MAX_DIFF_CHARS
    answer: list[dict[str, Any]] = []
    by_label = {step.target.label: step for step in steps}
    for stage in stages:
        diff = make_unified_diff(stage.before, stage.text or "")[:room]
        room -= len(diff)
        step = by_label.get(stage.target.label) if stage.target is not None else None
        entry = change_result(step, diff) if step is not None else {"path": stage.path, "diff": diff}
        answer.append({**entry, "action": " and ".join(dict.fromkeys(stage.actions)), "hunks": stage.hunks})
    result: dict[str, Any] = {"dry_run": dry_run, "files": answer}
    if dry_run:
        result["note"] = "The patch fits; nothing was changed. Call again with dry_run=false to apply it."
    return result


def step_of(stage: StagedFile) -> Change:
    """The change to commit for a file."""
    assert stage.target is not None
    content = None if stage.text is None else stage.form.encode(stage.text)
    return Change(stage.target, ACTION, stage.seen, content, stage.mode, buffer=stage.buffer)


class PatchApplication:
    """A patch being applied in memory: each file as the parts before have left it."""

    def __init__(self, changes: Changes, top: str, staging: Staging, call: Call, *, dry_run: bool) -> None:
        self._changes = changes
        self._top = top.rstrip("/")
        self._staging = staging
        self._call = call
        self._dry_run = dry_run
        self.stages: dict[str, StagedFile] = {}

    def take(self, file: FilePatch) -> None:
        """Apply one file of the patch. Raises `ToolError`s."""
        if file.old is None:
            self._create(file)
        elif file.new is None:
            self._remove(file)
        elif file.new != file.old:
            self._move(file)
        else:
            stage = self._stage_existing(file.old)
            self._change(stage, file)
            stage.actions.append("changed")

    def _create(self, file: FilePatch) -> None:
        assert file.new is not None
        stage = self._stage_new(file.new)
        added = [hunk for hunk in file.hunks if hunk.lines]
        if any(sign != "+" for hunk in added for sign, _ in hunk.lines):
            raise PatchRefused(
                f"{file.new!r} is new, so each of its lines begins with +. Nothing was changed."
            )
        lines = [text for hunk in added for text in hunk.new]
        is_open = bool(added) and added[-1].new_open
        stage.text = "\n".join(lines) + ("" if is_open or not lines else "\n")
        stage.mode = file.mode if file.mode is not None and file.mode & 0o111 else None
        stage.actions.append("created")
        stage.hunks = [{"line": 1}] if lines else []

    def _remove(self, file: FilePatch) -> None:
        assert file.old is not None
        stage = self._stage_existing(file.old)
        if not file.whole:
            self._change(stage, file)
            if stage.text:
                left = stage.text.count("\n") + 1
                raise PatchRefused(
                    f"{file.old!r} is to be removed, but it has {left} lines the patch does not know of. Nothing was "
                    "changed."
                )
        stage.text = None
        stage.actions.append("removed")

    def _move(self, file: FilePatch) -> None:
        assert file.old is not None
        assert file.new is not None
        source = self._stage_existing(file.old)
        stage = self._stage_new(file.new)
        stage.form, stage.text = source.form, source.text
        stage.mode = source.seen.info.st_mode & 0o777 if source.seen is not None else source.mode
        before = source.text or ""
        self._change(stage, file)
        stage.before = before
        stage.actions.append(f"{'copied' if file.copies else 'moved'} from {source.path}")
        if not file.copies:
            source.text = None
            source.actions.append("moved away")

    def _change(self, stage: StagedFile, file: FilePatch) -> None:
        """Put the hunks into the text."""
        if file.hunks:
            text, placed = apply_hunks(stage.text or "", file.hunks, stage.path)
            stage.text = text
            stage.hunks += [one.facts for one in placed]
        if file.mode is not None:
            stage.mode = file.mode

    def _path(self, name: str) -> str:
        """A name of the patch as a path. Raises `PatchRefused` for one that may not be patched."""
        path = name if self._top in ("", ".") or name.startswith("/") else f"{self._top}/{name}"
        refuse_slash(path)
        self._changes.roots.relative(path)
        if self._changes.roots.is_control(path):
            raise PatchRefused(
                f"{path!r} decides what runs or is allowed, so no patch changes it. Use updateFile, which asks for it "
                "by name. Nothing was changed."
            )
        return path

    def _stage_existing(self, name: str) -> StagedFile:
        """A file as it is now, or as the patch has left it."""
        path = self._path(name)
        known = self.stages.get(path)
        if known is not None:
            if known.text is None:
                raise PatchRefused(
                    f"{path!r} is changed after the patch has removed it. Nothing was changed."
                )
            return known
        try:
            target = self._staging.target(path)
            loaded = self._changes.load(target, self._call)
        except ToolError as error:
            raise PatchRefused(f"{error} Nothing was changed.") from None
        text, buffer = loaded.text, loaded.buffer
        stage = StagedFile(path, target, loaded.seen, loaded.form, text, text, buffer=buffer)
        self.stages[path] = stage
        return stage

    def _stage_new(self, name: str) -> StagedFile:
        """A file that is to be made."""
        path = self._path(name)
        known = self.stages.get(path)
        if known is not None and known.text is None:
            return known
        if known is not None or not self._changes.is_absent(path):
            raise PatchRefused(f"{path!r} exists already, and the patch makes it anew. Nothing was changed.")
        target = buffer = None
        if not self._dry_run:
            target = self._staging.target(path, parents=True)
            buffer = self._changes.load_absent(target, self._call)
        stage = StagedFile(path, target, None, Form(), "", "", buffer=buffer)
        self.stages[path] = stage
        return stage


def apply_hunks(raw: str, hunks: Sequence[Hunk], name: str) -> tuple[str, list[PlacedHunk]]:
    """A text with its hunks applied, and where each was. Raises `PatchRefused`."""
    view = NormalizedText(raw).view
    lines = view.split("\n")
    is_open = bool(lines[-1])  # the last line has no newline at its end
    if not is_open:
        lines.pop()
    placed = place_hunks(lines, hunks, name)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    spans: list[tuple[int, int, str]] = []
    for one in placed:
        at_end = one.end == len(lines)
        begin, end = min(starts[one.first], len(view)), min(starts[one.end], len(view))
        new = "".join(f"{line}\n" for line in one.new)
        if one.first == len(lines) and is_open and new:
            new = f"\n{new}"
        decided = one.hunk.old_open or one.hunk.new_open
        stays_open = one.hunk.new_open if decided else is_open and one.hunk.lines[-1][0] == " "
        if at_end and new and stays_open:
            new = new[:-1]
        spans.append((begin, end, new))
    return replace_spans(raw, spans), placed
