"""`findAndReplace`: replaces across files, all or nothing; regular expressions run in a process with a time limit."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from typing import Any

from jaato.errors import ToolError
from jaato.plugins.files.diff import make_unified_diff
from jaato.plugins.files.edits import MAX_DIFF_CHARS, MAX_FILES, TooMany, refuse_surrogates
from jaato.tools.call import Call
from jaato.tools.cancel import CancelToken
from jaato.tools.filesystem.changes import Change, Changes, Loaded
from jaato.tools.filesystem.client_files import files_of
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.control_files import names_control
from jaato.tools.filesystem.text_encoding import NormalizedText

MAX_SEARCHED_BYTES = 10 << 20
MAX_TOTAL_BYTES = 64 << 20
SKIPPED = ("node_modules", "__pycache__")
TIMEOUT_S = 5
MAX_MATCHES = 100_000

WORKER = f"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({TIMEOUT_S}, {TIMEOUT_S}))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
pattern, replacement, texts = json.load(sys.stdin)
found = []
compiled = re.compile(pattern, re.M)
for text in texts:
    spans = []
    for match in compiled.finditer(text):
        new = match.expand(replacement)
        if new != match[0]:
            spans.append((match.start(), match.end(), new))
        if len(spans) > {MAX_MATCHES}:
            sys.exit(3)
    found.append(spans)
json.dump(found, sys.stdout)
"""

Span = tuple[int, int, str]


class PatternRefused(ToolError):
    """The pattern cannot be used."""

    code = "pattern_refused"


def check_pattern(pattern: str, replacement: str, *, regex: bool) -> None:
    """Raise `PatternRefused` for a pattern or replacement that cannot work."""
    if not pattern:
        raise PatternRefused("The pattern is empty. Give the text to find.")
    if regex and len(pattern) + len(replacement) > 10_000:
        raise PatternRefused("The pattern is longer than 10,000 characters. Use a simpler one.")


def find_matches(
    texts: list[str], pattern: str, replacement: str, token: CancelToken, timeout_s: float = TIMEOUT_S
) -> list[list[Span]]:
    """Where a regular expression matches each text, with its expanded replacement.

    Raises `PatternRefused` when it takes more than `timeout_s` seconds or fails.
    """
    import json
    import subprocess
    import sys

    from jaato.tools.processes.sandbox.worker_sandbox import subprocess_code, worker_sandbox

    with worker_sandbox(sys.executable) as start:
        worker = subprocess.Popen(
            [*start.prefix, sys.executable, "-I", "-S", "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=start.descriptors,
        )
    with worker:
        forget = token.on_cancel(worker.kill)
        try:
            out, problem = worker.communicate(
                json.dumps([pattern, replacement, texts]).encode(), timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            worker.kill()
            raise too_slow_error() from None
        finally:
            forget()
    token.raise_if_cancelled()
    code = subprocess_code(worker.returncode, start.prefix)
    if code == 0:
        return [[(a, b, new) for a, b, new in spans] for spans in json.loads(out)]
    if code < 0:
        raise too_slow_error()
    if code == 3:
        raise PatternRefused(
            f"The pattern matches more than {MAX_MATCHES} times in a file. Use a narrower one."
        )
    last = problem.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
    raise PatternRefused(f"The pattern or the replacement failed: {last[:300]}. Correct it and call again.")


def too_slow_error() -> PatternRefused:
    """The refusal of a pattern that explodes."""
    return PatternRefused(
        f"The pattern took more than {TIMEOUT_S} s, perhaps by nested repeats such as (a+)+. Simplify it."
    )


def replace_spans(raw: str, spans: list[Span]) -> str:
    """The text with each span of its view replaced; spans are in order and do not overlap."""
    lined = NormalizedText(raw)
    parts: list[str] = []
    done = 0
    for start, end, new in spans:
        first, last = lined.position(start), lined.position(end)
        parts.append(raw[done:first])
        plain = new.replace("\r\n", "\n")
        parts.append(lined.with_line_ends(raw[first:last], plain, first) if lined.returns else plain)
        done = last
    return "".join([*parts, raw[done:]])


@dataclass(frozen=True, slots=True)
class Search:
    """A search in one file, or in the files below a directory that match the glob."""

    path: str
    glob: str
    pattern: str
    replacement: str
    regex: bool


def replace_all(changes: Changes, search: Search, call: Call, *, dry_run: bool) -> dict[str, Any]:
    """Find and replace, all or nothing; changes nothing in a dry run. Raises `ToolError`s."""
    check_pattern(search.pattern, search.replacement, regex=search.regex)
    refuse_surrogates(search.replacement)
    with changes.stage() as staging:
        found = search_buffers(changes, search, search_files(changes, search, call), call)
        if len(found) > MAX_FILES and not dry_run:
            raise TooMany(
                f"{len(found)} files match; at most {MAX_FILES} can change at once. Narrow path or glob."
            )
        total, number = sum(len(spans) for _, spans in found), len(found)
        files: list[dict[str, Any]] = []
        steps: list[Change] = []
        room = MAX_DIFF_CHARS
        for loaded, spans in found[:MAX_FILES]:
            text = replace_spans(loaded.text, spans)
            content = loaded.form.encode(text)
            diff = make_unified_diff(loaded.text, text)[:room]
            room -= len(diff)
            files.append({"path": loaded.target.label, "matches": len(spans), "diff": diff})
            if not dry_run:
                target = staging.target(loaded.target.path)
                steps.append(Change(target, "findAndReplace", loaded.seen, content, buffer=loaded.buffer))
        if steps:
            changes.commit(steps, call)
        for entry, change in zip(files, steps, strict=False):
            entry["backup_id"] = change.record.id if change.record else None
            if change.notes:
                entry["notes"] = change.notes
        result = {"dry_run": dry_run, "matches": total, "matching_files": number, "files": files}
        if dry_run and files:
            result["note"] = "Nothing was changed. Call again with dry_run=false to apply."
        return result


def list_files(roots: Roots, path: str, glob: str, token: CancelToken) -> list[str]:
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


def search_files(changes: Changes, search: Search, call: Call) -> list[tuple[Loaded, list[Span]]]:
    """Each file that matches, with its matches; a pattern runs over all files at once."""
    whole = is_directory(changes, search)
    top = search.path.rstrip("/") or "/"
    names = list_files(changes.roots, top, search.glob, call.token) if whole else [search.path]
    batch: list[Loaded] = []
    found: list[tuple[Loaded, list[Span]]] = []
    total = 0
    for name in names:
        call.token.raise_if_cancelled()
        with changes.target(name) as target:
            try:
                if whole and target.info.st_size > MAX_SEARCHED_BYTES:
                    continue
                loaded = changes.load(target, None if whole else call)
            except ToolError:
                if whole:
                    continue  # binary, unreadable or gone: not part of the search
                raise
        if search.regex:
            batch.append(loaded)
        else:
            spans = find_text(loaded.text, search)
            if not spans:
                continue
            found.append((loaded, spans))
        total += len(loaded.text)
        if total > MAX_TOTAL_BYTES:
            raise TooMany("More than 64 MB of text to search or change. Narrow path or glob.")
    return found + match_batch(batch, search, call)


def is_directory(changes: Changes, search: Search) -> bool:
    """Whether the files below a directory are searched."""
    return stat.S_ISDIR(changes.roots.stat(search.path).st_mode)


def find_text(text: str, search: Search) -> list[Span]:
    """Where the text of a search occurs, with its replacement."""
    wanted = search.pattern.replace("\r\n", "\n")
    if wanted == search.replacement:
        return []
    places = re.finditer(re.escape(wanted), NormalizedText(text).view)
    return [(place.start(), place.end(), search.replacement) for place in places]


def match_batch(batch: list[Loaded], search: Search, call: Call) -> list[tuple[Loaded, list[Span]]]:
    """The files in which a regular expression matches; it runs over all of them at once."""
    if not batch:
        return []
    texts = [NormalizedText(loaded.text).view for loaded in batch]
    spans_of = find_matches(texts, search.pattern, search.replacement, call.token)
    return [(loaded, spans) for loaded, spans in zip(batch, spans_of, strict=True) if spans]


def search_buffers(
    changes: Changes, search: Search, found: list[tuple[Loaded, list[Span]]], call: Call
) -> list[tuple[Loaded, list[Span]]]:
    """The same with what a client has not saved: of a directory, files are searched on the disk, and those that match also
    in the buffers of a client."""
    if files_of(call) is None or not is_directory(changes, search):
        return found
    again: list[tuple[Loaded, list[Span]]] = []
    batch: list[Loaded] = []
    for loaded, spans in found[:MAX_FILES]:
        with changes.target(loaded.target.path) as target:
            now = changes.load(target, call)
        if now.text == loaded.text:
            again.append((now, spans))
        elif search.regex:
            batch.append(now)
        elif spans := find_text(now.text, search):
            again.append((now, spans))
    return again + match_batch(batch, search, call) + found[MAX_FILES:]
