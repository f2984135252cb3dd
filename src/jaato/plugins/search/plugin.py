"""The plugin `search`: `glob_files`, `grep_content` and `ast_search`."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar

from jaato.abc.plugin import Host, Plugin
from jaato.plugins.search.ast_search import (
    check_pattern,
    find_language,
    make_structured,
    render_matches,
    result_notes,
    search_trees,
)
from jaato.settings.budgets import format_count
from jaato.tools.call import Call, Output, replace_surrogates
from jaato.tools.filesystem.containment import Roots, display_name
from jaato.tools.host_services import roots_of
from jaato.tools.processes.ripgrep import Line, Pattern, Ripgrep, SearchLimits, Selection
from jaato.tools.tool import tool

MAX_LINE = 400


@dataclass(slots=True)
class Result:
    """The matching lines shown, and counts of everything."""

    lines: dict[str, Sequence[Line]] = field(default_factory=dict)
    total: int = 0
    files: int = 0
    searched: int = 0
    shown: int = 0

    def add(self, name: str, lines: list[Line], most: int) -> None:
        """Show the lines of a file up to the last match there is room for."""
        room = most - self.shown
        matches = [at for at, line in enumerate(lines) if line.is_match]
        if len(matches) > room:
            lines, matches = lines[: matches[room]], matches[:room]
        if matches:
            self.lines[name] = lines
            self.shown += len(matches)


def shorten_line(line: Line) -> str:
    """The text of a line, of a long one the part around its match."""
    text = line.text
    if len(text) <= MAX_LINE:
        return text
    start = max(0, min(line.column - MAX_LINE // 4, len(text) - MAX_LINE))
    end = start + MAX_LINE
    return f"{'…' * (start > 0)}{text[start:end]}{'…' * (end < len(text))} ({len(text)} characters)"


def render_lines(result: Result) -> str:
    """The lines as a model reads them: `number: match` and `number- neighbour` below each file's name."""
    blocks: list[str] = []
    for name, lines in result.lines.items():
        block = [display_name(name)]
        last = lines[0].number - 1
        for line in lines:
            if line.number > last + 1 and any(not other.is_match for other in lines):
                block.append("--")
            block.append(f"{line.number}{':' if line.is_match else '-'} {shorten_line(line)}")
            last = line.number
        blocks.append("\n".join(block))
    return "\n\n".join(blocks)


def count_remarks(result: Result, limits: SearchLimits) -> list[str]:
    """How many lines there are beside those that are shown."""
    lines = f"{format_count(result.total, 'matching line')} in"
    searched = format_count(result.searched, "file")
    if result.total > result.shown:
        more = f"the first {result.shown} are shown. Narrow with path, glob or a longer pattern."
        return [f"{lines} {format_count(result.files, 'file')}; {more}"]
    if result.total:
        return [f"{lines} {result.files} of {searched}."]
    return [f"No line matches in {searched}."] if limits.stopped is None else []


def structured_result(result: Result, limits: SearchLimits) -> dict[str, Any]:
    """The result as data for programs."""
    matches = [
        {"path": name, "line": line.number, "text": shorten_line(line)}
        for name, lines in result.lines.items()
        for line in lines
        if line.is_match
    ]
    data: dict[str, Any] = {
        "matches": matches,
        "total": result.total,
        "files": result.files,
        "searched": result.searched,
        "truncated": result.shown < result.total,
    }
    return data | limits.fields()


def add_notes(text: str, notes: Sequence[str]) -> str:
    """The text with remarks below it."""
    return "\n\n".join(part for part in (text, "\n".join(f"[{note}]" for note in notes)) if part)


MAX_RESULTS = 1000
MAX_CONTEXT = 20


class SearchPlugin(Plugin):
    """Files by name and by content, in the workspace and what was granted beside it.

    The host's service `roots` says what that is; without it, the host's workspace and the setting `granted`.
    """

    name: ClassVar[str] = "search"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.roots = roots_of(host)
        self.ripgrep = Ripgrep(self.roots)

    def set_workspace_path(self, path: str) -> None:
        """Search below this directory from now on."""
        self.roots.move(Path(path))

    @tool(category="filesystem", access="read", examples=({"pattern": "src/**/*.{ts,tsx}"},))
    def glob_files(
        self,
        pattern: Annotated[str, "such as **/*.py or src/{a,b}/*.ts; without / only the root's own files"],
        root: Annotated[str, "directory to start in"] = ".",
        max_results: int = 100,
        include_hidden: bool = False,
        include_ignored: Annotated[bool, "also what .gitignore leaves out"] = False,
        *,
        call: Call,
    ) -> Output:
        """Find or locate all files of a name or kind. Returns their paths, sorted; hidden and git-ignored ones are left out."""
        glob = pattern if "/" in pattern or pattern == "**" else f"/{pattern}"
        limits = SearchLimits(call.token)
        hidden = include_hidden or wants_hidden(pattern)
        found = self.ripgrep.files(Selection(root, glob, hidden, include_ignored), limits)
        total = len(found)
        paths = [name for name, _ in self.name_paths(root, found[: clamp(max_results, MAX_RESULTS)])]
        notes = []
        if total > len(paths):
            notes.append(f"{total} files; the first {len(paths)} are shown. Narrow the pattern or root.")
        if not total:
            notes.append("No file matches." + ("" if "/" in pattern else f" Deeper ones: **/{pattern}"))
            notes += glob_notes(pattern, include_ignored)
        text = "\n".join([*map(display_name, paths), *(f"[{note}]" for note in notes + limits.notes())])
        data: dict[str, Any] = {"files": paths, "total": total, "truncated": total > len(paths)}
        return Output(replace_surrogates(text), data | limits.fields())

    @tool(
        category="search",
        access="read",
        examples=({"pattern": "def main\\(", "path": "src", "glob": "*.py", "context": 2},),
    )
    def grep_content(
        self,
        pattern: Annotated[str, "regular expression of ripgrep, matched line by line"],
        path: Annotated[str, "file or directory"] = ".",
        glob: Annotated[str | None, "only files like this, such as *.py or src/**/*.ts"] = None,
        ignore_case: bool = False,
        literal: Annotated[bool, "the pattern is plain text"] = False,
        context: Annotated[int, "lines to show around each match"] = 0,
        max_results: int = 100,
        include_hidden: bool = False,
        include_ignored: bool = False,
        *,
        call: Call,
    ) -> Output:
        """Search or grep the contents of files: find text or code. Returns matching lines by file, sorted by path,
        and the total; hidden, git-ignored and binary files are left out."""
        limits = SearchLimits(call.token)
        wanted = Pattern(pattern, literal, ignore_case)
        notes: list[str] = []
        result = Result()
        if self.is_directory(path):
            hidden = include_hidden or (glob is not None and wants_hidden(glob))
            selection = Selection(path, glob, hidden, include_ignored)
            files = self.ripgrep.files(selection, limits)
            counts = self.ripgrep.counts(selection, wanted, limits)
            counted = [(name, counts[name]) for name in files if name in counts]
            if not counted:
                notes += glob_notes(glob or "", include_ignored)
        else:
            files = [""]
            count = self.ripgrep.count(path, wanted, limits)
            counted = [("", count)] if count else []
        result.searched, result.files = len(files), len(counted)
        result.total = sum(count for _, count in counted)
        most = clamp(max_results, MAX_RESULTS)
        shown = dict(self.name_paths(path, [name for name, _ in first_files(counted, most)]))
        names = {place: name for name, place in shown.items()}
        around = clamp(context, MAX_CONTEXT, 0)
        for place, lines in self.ripgrep.lines([*names], wanted, around, most, limits):
            result.add(names[place], lines, most)
        if counted and files == [""] and not result.shown and limits.go_on():
            return Output(
                f"[{display_name(path)} is binary and was not searched.]", structured_result(Result(), limits)
            )
        notes = [*count_remarks(result, limits), *notes, *limits.notes()]
        return Output(
            replace_surrogates(add_notes(render_lines(result), notes)), structured_result(result, limits)
        )

    @tool(category="search", access="read")
    def ast_search(
        self,
        pattern: Annotated[
            str, "code with variables: $A is one node, $$$B any number, such as open($PATH, $$$MORE)"
        ],
        language: Annotated[
            str | None, "such as python or typescript; default: by each file's extension"
        ] = None,
        path: Annotated[str, "file or directory"] = ".",
        glob: Annotated[str | None, "only files like this, such as src/**/*.ts"] = None,
        max_results: int = 100,
        include_hidden: bool = False,
        include_ignored: bool = False,
        *,
        call: Call,
    ) -> Output:
        """Match source code by its syntax tree (AST): calls, definitions, statements of a form, whatever their formatting.
        Returns each place with its line, the code and what the variables stand for."""
        check_pattern(pattern)
        wanted = find_language(language)
        limits = SearchLimits(call.token)
        most = clamp(max_results, MAX_RESULTS)
        notes: list[str] = []
        if self.is_directory(path):
            hidden = include_hidden or (glob is not None and wants_hidden(glob))
            files = self.ripgrep.files(Selection(path, glob, hidden, include_ignored), limits)
            named = self.name_paths(path, files)
            result = search_trees(self.roots, named, pattern, wanted, False, most, limits)
            notes += [] if result.total else glob_notes(glob or "", include_ignored)
        else:
            named = self.name_paths(path, [""])
            result = search_trees(self.roots, named, pattern, wanted, True, most, limits)
            if (
                not result.searched
                and wanted is None
                and not (result.large or result.binary or result.failed)
            ):
                notes.append("Its language cannot be determined by its name; give language.")
        if result.refused and not result.total:
            reasons = "; ".join(f"{name}: {why}" for name, why in sorted(result.refused.items())[:3])
            notes.append(f"This is no pattern ({reasons}). Write one whole expression or statement.")
        notes = [*result_notes(result, limits), *notes, *limits.notes()]
        return Output(
            replace_surrogates(add_notes(render_matches(result), notes)), make_structured(result, limits)
        )

    def is_directory(self, path: str) -> bool:
        """Whether it is one; else a regular file. Raises `ToolError` for what is neither."""
        if stat.S_ISDIR(self.roots.stat(path).st_mode):
            return True
        self.roots.open_file(path).close()
        return False

    def name_paths(self, start: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Files below a directory: each by the name it is shown by and by its whole path."""
        with self.roots.locate(start) as place:
            top = PurePosixPath(place.root.path, *place.parts)
        for name in names:
            path = top / name
            yield display_path(self.roots, path.parts), str(path)


def first_files(counted: Sequence[tuple[str, int]], most: int) -> Iterator[tuple[str, int]]:
    """The files whose lines are shown, up to so many lines."""
    for name, count in counted:
        if most <= 0:
            return
        yield name, count
        most -= count


def clamp(value: int, most: int, least: int = 1) -> int:
    """The number within its bounds."""
    return max(least, min(value, most))


def wants_hidden(pattern: str) -> bool:
    """Whether a part of the pattern itself asks for a leading dot."""
    return any(part.startswith(".") and part not in (".", "..") for part in pattern.split("/"))


def display_path(roots: Roots, parts: tuple[str, ...]) -> str:
    """A path as it is shown: below the workspace by its rest, elsewhere whole."""
    home = roots.workspace.parts
    if parts[: len(home)] == home:
        return encodable_path("/".join(parts[len(home) :])) or "."
    return encodable_path(str(PurePosixPath(*parts)))


def encodable_path(path: str) -> str:
    """The path, or where bytes in it are no UTF-8 a form that says which."""
    return path if replace_surrogates(path) == path else display_name(path)


def glob_notes(pattern: str, ignored: bool) -> list[str]:
    """Why a glob may have chosen nothing."""
    notes = ["[…] is one of some characters; write \\[ for a bracket itself."] if "[" in pattern else []
    return notes if ignored else [*notes, "What git ignores was left out; include_ignored looks there too."]
