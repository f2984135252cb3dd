"""Structural code search: collects files and matches their syntax trees in a sandbox process."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from jaato.errors import InvalidArguments, ToolError
from jaato.settings.budgets import format_count
from jaato.tools.filesystem.containment import Roots, display_name
from jaato.tools.processes.ripgrep import SearchLimits, list_names
from jaato.tools.processes.sandbox_process import ResourceLimits, WorkFailed, run_in_sandbox_process

WORK = "jaato.plugins.search.ast_worker:find"
MAX_FILE_BYTES = 4 << 20
SNIFF_BYTES = 8192
MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
FULL_BYTES = 4 << 20
FULL_FILES = 500
MAX_PATTERN_CHARS = 20_000
PART_S = 8.0
MEMORY_BYTES = 2 << 30

ENDINGS = {
    "bash": "sh bash zsh", "c": "c h", "cpp": "cc cpp cxx hpp hh hxx cu", "csharp": "cs", "css": "css", "dart": "dart",
    "elixir": "ex exs", "go": "go", "haskell": "hs", "hcl": "hcl tf", "html": "html htm xhtml", "java": "java",
    "javascript": "js jsx mjs cjs", "json": "json", "kotlin": "kt kts", "lua": "lua", "nix": "nix", "php": "php",
    "python": "py pyi", "ruby": "rb gemspec", "rust": "rs", "scala": "scala sc sbt", "solidity": "sol",
    "swift": "swift", "tsx": "tsx", "typescript": "ts mts cts", "yaml": "yaml yml", "zig": "zig",
}  # fmt: skip
"""The languages, and how the names of their files end."""
LANGUAGES = {f".{ending}": language for language, endings in ENDINGS.items() for ending in endings.split()}
SPELLINGS = {
    "py": "python", "js": "javascript", "ts": "typescript", "jsx": "javascript", "rs": "rust", "golang": "go",
    "c++": "cpp", "c#": "csharp", "cs": "csharp", "rb": "ruby", "sh": "bash", "shell": "bash", "yml": "yaml",
    "kt": "kotlin", "terraform": "hcl",
}  # fmt: skip


@dataclass(slots=True)
class Code:
    """A file that waits to be searched."""

    name: str
    language: str
    data: bytes


@dataclass(slots=True)
class SyntaxMatches:
    """The result of a search: matches to show, and counts of all."""

    matches: list[dict[str, Any]] = field(default_factory=list)
    total: int = 0
    files: int = 0
    searched: int = 0
    large: list[str] = field(default_factory=list)
    binary: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Why the pattern is none, by language."""
    doubtful: set[str] = field(default_factory=set)
    """The languages in which the pattern is no whole piece of code."""


def find_language(name: str | None) -> str | None:
    """A language by one of its names. Raises `InvalidArguments` for one that is not known."""
    if name is None:
        return None
    plain = name.strip().lower()
    plain = SPELLINGS.get(plain, plain)
    if plain not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise InvalidArguments(
            f"The language {name[:40]!r} is not known; there are {known}.", [("/language", "is not known")]
        )
    return plain


def check_pattern(pattern: str) -> None:
    """Raise `InvalidArguments` for what can be no pattern in any language."""
    if not pattern.strip() or len(pattern) > MAX_PATTERN_CHARS or "\0" in pattern:
        raise InvalidArguments(
            f"The pattern must be some code, at most {MAX_PATTERN_CHARS:,} characters, such as print($A).",
            [("/pattern", "is no code")],
        )


def search_trees(
    roots: Roots,
    files: Iterable[tuple[str, str]],
    pattern: str,
    language: str | None,
    forced: bool,
    most: int,
    limits: SearchLimits,
) -> SyntaxMatches:
    """Search files, each given by the name it is shown by and its whole path; with `forced` also those whose name says another
    language."""
    result = SyntaxMatches()
    waiting = collect_code_files(roots, files, language, forced, result, limits)
    while limits.go_on():
        batch: list[Code] = []
        size = 0
        while size < FULL_BYTES and len(batch) < FULL_FILES and (code := next(waiting, None)) is not None:
            batch.append(code)
            size += len(code.data)
        if not batch:
            break
        search_batch(batch, pattern, most, limits, result)
    return result


def collect_code_files(
    roots: Roots,
    files: Iterable[tuple[str, str]],
    language: str | None,
    forced: bool,
    result: SyntaxMatches,
    limits: SearchLimits,
) -> Iterator[Code]:
    """The files that are code of a known language."""
    for name, path in files:
        own = LANGUAGES.get(PurePosixPath(path).suffix.lower())
        speaks = language if forced and language is not None else own
        if speaks is None or (language is not None and speaks != language):
            continue
        try:
            with roots.open_file(path) as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except (ToolError, OSError):
            limits.unread.append(name)
            continue
        if len(data) > MAX_FILE_BYTES:
            result.large.append(name)
        elif b"\0" in data[:SNIFF_BYTES] and not data.startswith(MARKS):
            result.binary.append(name)
        elif data:
            yield Code(name, speaks, data)


def search_batch(
    batch: list[Code], pattern: str, most: int, limits: SearchLimits, result: SyntaxMatches
) -> None:
    """Search some files; where that ends the process, each half by itself, down to the file that did it."""
    if not limits.go_on():
        return
    bounds = ResourceLimits(max(0.5, min(PART_S, limits.left_s)), MEMORY_BYTES, 1 << 20, "Narrow the search.")
    try:
        answers = search_in_sandbox(batch, pattern, max(0, most - len(result.matches)), bounds, limits)
    except WorkFailed as error:
        if error.problem.code == "extra_missing":
            raise
        if len(batch) == 1:
            result.failed.append(batch[0].name)
            return
        middle = len(batch) // 2
        search_batch(batch[:middle], pattern, most, limits, result)
        search_batch(batch[middle:], pattern, most, limits, result)
        return
    for code, answer in zip(batch, answers["files"], strict=True):
        result.searched += 1
        result.total += answer["count"]
        result.files += answer["count"] > 0
        left = max(0, most - len(result.matches))
        result.matches += [{"path": code.name, **match} for match in answer["matches"][:left]]
    result.refused |= answers["refused"]
    result.doubtful.update(answers["doubtful"])


def search_in_sandbox(
    batch: list[Code], pattern: str, most: int, bounds: ResourceLimits, limits: SearchLimits
) -> Any:
    """Search files in a sandbox process. Raises `WorkFailed`."""
    with tempfile.TemporaryFile() as joined:
        for code in batch:
            joined.write(code.data)
        joined.flush()
        parts = [[code.language, len(code.data)] for code in batch]
        request = {"fd": joined.fileno(), "parts": parts, "pattern": pattern, "most": most}
        return run_in_sandbox_process(WORK, request, bounds, limits.token, [joined.fileno()])


def render_matches(result: SyntaxMatches) -> str:
    """The matches as a model reads them: `line: text` below each file's name, and what the variables stand for."""
    rows: list[str] = []
    last = None
    for match in result.matches:
        if match["path"] != last:
            rows.append(("\n" if rows else "") + display_name(match["path"]))
            last = match["path"]
        first, *more = match["text"].split("\n")
        rows.append("\n".join([f"{match['line']}: {first}", *(f"  {line}" for line in more)]))
        variables = "; ".join(f"{name} = {text}" for name, text in match["variables"].items())
        if variables:
            rows.append(f"    {variables}".replace("\n", " "))
    return "\n".join(rows)


def result_notes(result: SyntaxMatches, limits: SearchLimits) -> list[str]:
    """Notes on the result: totals, and files that were not searched."""
    notes = []
    shown, searched = len(result.matches), format_count(result.searched, "file")
    matches = f"{result.total} match{'' if result.total == 1 else 'es'}"
    if result.total > shown:
        notes.append(
            f"{matches} in {format_count(result.files, 'file')}; the first {shown} are shown. Narrow the search."
        )
    elif result.total:
        notes.append(f"{matches} in {result.files} of {searched}.")
    elif limits.stopped is None:
        notes.append(f"Nothing matches in {searched} of code.")
    if not result.total and result.doubtful:
        notes.append(f"The pattern is no whole piece of code in {', '.join(sorted(result.doubtful))}.")
    if result.total and result.refused:
        notes.append(f"No pattern in {', '.join(sorted(result.refused))}.")
    for text, names in (("Too large, not searched", result.large), ("Binary, not searched", result.binary)):
        if names:
            notes.append(f"{text}: {list_names(names)}.")
    if result.failed:
        notes.append(f"Too deeply nested or too slow to search: {list_names(result.failed)}.")
    return notes


def make_structured(result: SyntaxMatches, limits: SearchLimits) -> dict[str, Any]:
    """The result as data for programs."""
    data: dict[str, Any] = {
        "matches": result.matches,
        "total": result.total,
        "files": result.files,
        "searched": result.searched,
        "truncated": len(result.matches) < result.total,
    }
    named = {"too_large": result.large, "binary": result.binary, "failed": result.failed}
    return data | limits.fields() | {key: names[:100] for key, names in named.items() if names}
