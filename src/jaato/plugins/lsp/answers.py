"""What servers answer, in whichever of the protocol's shapes, as bounded rows a model reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaato.plugins.lsp.hello import SEVERITIES, SYMBOL_KINDS
from jaato.plugins.lsp.positions import Lines, index_of
from jaato.plugins.lsp.project import Project, location_of, source_line

MAX_TEXT_CHARS = 8_000
MAX_ROWS = 20_000
MAX_DEPTH = 30


def page(name: str, rows: list[dict[str, Any]], offset: int, limit: int) -> dict[str, Any]:
    """One page of rows, with how many there are and where the next begins."""
    shown: dict[str, Any] = {"total": len(rows), name: rows[offset : offset + limit]}
    if offset + limit < len(rows):
        shown["next_offset"] = offset + limit
    return shown


def places(project: Project, answer: Any) -> list[tuple[str, bool, dict[str, Any]]]:
    """The places of an answer, each once, in the workspace first: path, whether it may be read, start."""
    given = answer if isinstance(answer, list) else [answer]
    found: dict[tuple[Any, ...], tuple[str, bool, dict[str, Any]]] = {}
    for one in given[:MAX_ROWS]:
        location = location_of(one)
        if location is None:
            continue
        uri, start = location
        path, readable = project.shown_path(uri)
        line, unit = start.get("line"), start.get("character")
        if type(line) is int and type(unit) is int:
            found[path, line, unit] = (path, readable, start)
    return sorted(found.values(), key=lambda one: (not one[1], one[0], one[2]["line"], one[2]["character"]))


def located(project: Project, answer: Any, offset: int, limit: int) -> dict[str, Any]:
    """A page of places, each with its source line."""
    found = places(project, answer)
    cache: dict[str, Lines | None] = {}
    rows = []
    for path, readable, start in found[offset : offset + limit]:
        text = source_line(project, path, start["line"], cache) if readable else None
        lines = cache.get(path)
        column = (
            index_of(lines.line(start["line"]), start["character"])
            if lines is not None
            else start["character"]
        )
        row = {"path": path, "line": start["line"] + 1, "column": column + 1}
        rows.append({**row, "text": text} if text is not None else {**row, "outside": True})
    files = len({path for path, _, _ in found})
    shown: dict[str, Any] = {"total": len(found), "files": files, "locations": rows}
    if offset + limit < len(found):
        shown["next_offset"] = offset + limit
    return shown


def hover_text(answer: Any) -> str:
    """The text of a hover, of any of its kinds."""
    contents = answer.get("contents") if isinstance(answer, dict) else None
    parts = contents if isinstance(contents, list) else [contents]
    texts = []
    for part in parts[:20]:
        match part:
            case str() as text:
                texts.append(text)
            case {"language": str(language), "value": str(text)}:
                texts.append(f"```{language}\n{text}\n```")
            case {"value": str(text)}:
                texts.append(text)
    whole = "\n\n".join(text.strip() for text in texts if text.strip())
    return whole if len(whole) <= MAX_TEXT_CHARS else whole[:MAX_TEXT_CHARS] + "\n[… cut …]"


def diagnostic_rows(found: Iterable[dict[str, Any]], lines: Lines | None = None) -> list[dict[str, Any]]:
    """Diagnostics as rows, the worst first."""
    rows = []
    for one in found:
        span = one.get("range")
        start = span.get("start") if isinstance(span, dict) else None
        line = start.get("line") if isinstance(start, dict) else None
        if type(line) is not int or not isinstance(one.get("message"), str):
            continue
        row = {"line": line + 1, "severity": severity_of(one), "message": one["message"][:1_000]}
        code = one.get("code")
        if isinstance(code, str | int):
            row["code"] = str(code)[:100]
        if isinstance(one.get("source"), str):
            row["source"] = one["source"][:100]
        if lines is not None:
            row["text"] = lines.line(line).strip()[:240]
        rows.append(row)
    return sorted(rows, key=lambda row: (SEVERITIES.index(row["severity"]), row["line"]))


def severity_of(diagnostic: dict[str, Any]) -> str:
    """The word for a severity; an error where none is given."""
    number = diagnostic.get("severity")
    return SEVERITIES[number - 1] if type(number) is int and 1 <= number <= len(SEVERITIES) else "error"


def kind_of(number: Any) -> str:
    """The word for a symbol's kind."""
    return SYMBOL_KINDS[number - 1] if type(number) is int and 1 <= number <= len(SYMBOL_KINDS) else "symbol"


def symbol_rows(found: Any, depth: int = 0) -> list[dict[str, Any]]:
    """The symbols of a file in the order of its lines, each with its depth; of both of the protocol's shapes."""
    rows: list[dict[str, Any]] = []
    for one in found if isinstance(found, list) else []:
        match one:
            case {"name": str(name), "selectionRange": {"start": {"line": int(line)}}} | {
                "name": str(name),
                "location": {"range": {"start": {"line": int(line)}}},
            }:
                row: dict[str, Any] = {"name": name[:200], "kind": kind_of(one.get("kind")), "line": line + 1}
                end = one.get("range", {}).get("end", {}) if isinstance(one.get("range"), dict) else {}
                if type(end.get("line")) is int:
                    row["end_line"] = end["line"] + 1
                if depth:
                    row["depth"] = depth
                if isinstance(one.get("containerName"), str) and one["containerName"]:
                    row["in"] = one["containerName"][:200]
                rows.append(row)
                if depth < MAX_DEPTH and len(rows) < MAX_ROWS:
                    rows += symbol_rows(one.get("children"), depth + 1)
        if len(rows) > MAX_ROWS:
            break
    return rows[:MAX_ROWS]


def workspace_symbol_rows(project: Project, found: Any) -> list[dict[str, Any]]:
    """The symbols a search found, with where they are."""
    rows = []
    for one in found[:MAX_ROWS] if isinstance(found, list) else []:
        match one:
            case {"name": str(name), "location": {"uri": str(uri)} as location}:
                path, readable = project.shown_path(uri)
                row: dict[str, Any] = {"name": name[:200], "kind": kind_of(one.get("kind")), "path": path}
                match location:
                    case {"range": {"start": {"line": int(line)}}}:
                        row["line"] = line + 1
                if isinstance(one.get("containerName"), str) and one["containerName"]:
                    row["in"] = one["containerName"][:200]
                rows.append(row if readable else {**row, "outside": True})
    return rows
