"""`glob_files`, `grep_content` and `ast_search`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar

from jaato.abc.plugin import Host, Plugin
from jaato.plugins.search.engines import Engine, engine_for
from jaato.plugins.search.globs import Glob
from jaato.plugins.search.grep import Result, Search, listed, rendered, structured
from jaato.plugins.search.pattern import written
from jaato.plugins.search.trees import (
    check_pattern,
    language_named,
    notes_of,
    rendered_trees,
    search_trees,
    structured_trees,
)
from jaato.plugins.search.walk import Found, Limits, Walk
from jaato.tools.call import Call, Output, clean
from jaato.tools.names import shown_name
from jaato.tools.paths import Roots
from jaato.tools.reach import roots_of
from jaato.tools.tool import tool

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
        self.engine: Engine | None = None
        """What searches content; None until the first search finds out."""

    def set_workspace_path(self, path: str) -> None:
        """Search beneath this directory from now on."""
        if self.roots.move(Path(path)):
            self.engine = None  # which program may be trusted depends on what is in reach

    def engine_here(self) -> Engine:
        """The engine for content; a program that lies in reach of the session is never one."""
        if self.engine is None:
            self.engine = engine_for(self.roots.paths, os.get_exec_path())
        return self.engine

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
        glob = Glob.of(pattern)
        most = bounded(max_results, MAX_RESULTS)
        limits = Limits(call.token)
        hidden = include_hidden or wants_hidden(pattern)
        walk = Walk(self.roots, root, limits, hidden=hidden, ignored=include_ignored)
        paths: list[str] = []
        total = 0
        for found in walk:
            if glob.fits(found.names):
                total += 1
                if len(paths) < most:
                    paths.append(shown_path(walk, found.names))
        notes = []
        if total > len(paths):
            notes.append(f"{total} files; the first {len(paths)} are shown. Narrow the pattern or root.")
        if not total:
            notes.append("No file matches." + ("" if "/" in pattern else f" Deeper ones: **/{pattern}"))
            notes += bracket_note(pattern)
        notes += ignored_note(walk)
        text = "\n".join([*map(shown_name, paths), *(f"[{note}]" for note in notes + trouble(limits))])
        data: dict[str, Any] = {"files": paths, "total": total, "truncated": total > len(paths)}
        return Output(clean(text), data | ({"stopped": limits.stopped} if limits.stopped is not None else {}))

    @tool(
        category="search",
        access="read",
        examples=({"pattern": "def main\\(", "path": "src", "glob": "*.py", "context": 2},),
    )
    def grep_content(
        self,
        pattern: Annotated[str, "regular expression, matched line by line"],
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
        limits = Limits(call.token)
        most = bounded(max_results, MAX_RESULTS)
        shown = bounded(context, MAX_CONTEXT, 0)
        notes: list[str] = []
        wanted = written(pattern, literal=literal)
        search = Search(wanted, ignore_case, shown, most, self.engine_here(), limits)
        if stat.S_ISDIR(self.roots.stat(path).st_mode):
            hidden = include_hidden or (glob is not None and wants_hidden(glob))
            walk = Walk(self.roots, path, limits, hidden=hidden, ignored=include_ignored)
            result = search.run(named(walk, Glob.of(glob, anywhere=True) if glob is not None else None))
            if not result.total:
                notes += ignored_note(walk)
            if glob is not None and not result.searched:
                notes += [f"The glob {glob!r} chooses no file with text.", *bracket_note(glob)]
        else:
            self.roots.open_file(path).close()  # says why, where it is no regular file
            with self.roots.locate(path) as place:
                name = shown_below(self.roots, place.path.parts)
                result = search.run([(name, Found((place.name,), place.dir_fd))])
        limits.unread += result.unread
        text = "\n\n".join(part for part in (rendered(result), remarks(result, limits, notes)) if part)
        return Output(clean(text), structured(result, limits))

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
        wanted = language_named(language)
        limits = Limits(call.token)
        most = bounded(max_results, MAX_RESULTS)
        notes: list[str] = []
        if stat.S_ISDIR(self.roots.stat(path).st_mode):
            hidden = include_hidden or (glob is not None and wants_hidden(glob))
            walk = Walk(self.roots, path, limits, hidden=hidden, ignored=include_ignored)
            files = named(walk, Glob.of(glob, anywhere=True) if glob is not None else None)
            result = search_trees(files, pattern, wanted, False, most, limits)
            notes += ignored_note(walk) if not result.total else []
        else:
            self.roots.open_file(path).close()  # says why, where it is no regular file
            with self.roots.locate(path) as place:
                only = (shown_below(self.roots, place.path.parts), Found((place.name,), place.dir_fd))
                result = search_trees([only], pattern, wanted, True, most, limits)
            if (
                not result.searched
                and wanted is None
                and not (result.large or result.binary or result.failed)
            ):
                notes.append("Its language cannot be told by its name; give language.")
        if result.refused and not result.total:
            reasons = "; ".join(f"{name}: {why}" for name, why in sorted(result.refused.items())[:3])
            notes.append(f"This is no pattern ({reasons}). Write one whole expression or statement.")
        notes = [*notes_of(result, limits), *notes, *trouble(limits)]
        text = "\n\n".join(
            part for part in (rendered_trees(result), "\n".join(f"[{n}]" for n in notes)) if part
        )
        return Output(clean(text), structured_trees(result, limits))


def bounded(value: int, most: int, least: int = 1) -> int:
    """The number within its bounds."""
    return max(least, min(value, most))


def wants_hidden(pattern: str) -> bool:
    """Whether a part of the pattern itself asks for a leading dot."""
    return any(part.startswith(".") and part not in (".", "..") for part in pattern.split("/"))


def shown_below(roots: Roots, parts: tuple[str, ...]) -> str:
    """A path as it is shown: below the workspace by its rest, elsewhere whole."""
    home = roots.workspace.parts
    if parts[: len(home)] == home:
        return sendable("/".join(parts[len(home) :])) or "."
    return sendable(str(PurePosixPath(*parts)))


def sendable(path: str) -> str:
    """The path, or where bytes in it are no UTF-8 a form that says which."""
    return path if clean(path) == path else shown_name(path)


def shown_path(walk: Walk, names: tuple[str, ...]) -> str:
    """A found file's path as it is shown."""
    return shown_below(walk.roots, (*walk.root.parts, *walk.base, *names))


def named(walk: Walk, glob: Glob | None) -> Iterator[tuple[str, Found]]:
    """The files of a walk that a glob chooses, each with the path it is shown by."""
    for found in walk:
        if glob is None or glob.fits(found.names):
            yield shown_path(walk, found.names), found


def ignored_note(walk: Walk) -> list[str]:
    """That a walk has passed over what git ignores, if it has."""
    if not walk.left_out:
        return []
    return [f"{walk.left_out} files or directories are git-ignored; include_ignored looks there too."]


def bracket_note(pattern: str) -> list[str]:
    """That a bracket is a set of characters, where a glob that chose nothing has one."""
    return ["[…] is one of some characters; write \\[ for a bracket itself."] if "[" in pattern else []


def remarks(result: Result, limits: Limits, more: list[str]) -> str:
    """What a reader must know beside the lines: how many there are, and what was not searched."""
    notes = []
    if result.total > result.shown:
        notes.append(
            f"{result.total} matching lines in {result.files} files; the first {result.shown} are shown. "
            "Narrow with path, glob or a longer pattern."
        )
    elif result.total:
        notes.append(f"{result.total} matching lines in {result.files} of {result.searched} files.")
    elif limits.stopped is None:
        notes.append(f"No line matches in {result.searched} files.")
    if result.binary:
        notes.append(f"Binary, not searched: {listed(result.binary)}.")
    if result.large:
        notes.append(f"Too large, not searched: {listed(result.large)}. Use run with a program that streams.")
    return "\n".join(f"[{note}]" for note in notes + more + trouble(limits))


def trouble(limits: Limits) -> list[str]:
    """What ended the search early or kept it out."""
    notes = []
    if limits.stopped is not None:
        notes.append(
            f"Stopped: {limits.stopped}; there may be more. Start in a smaller directory, or simplify the pattern."
        )
    if limits.unread:
        notes.append(f"Could not be read: {listed(limits.unread)}.")
    return notes
