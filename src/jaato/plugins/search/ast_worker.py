"""Matches a pattern against syntax trees with ast-grep; runs in a sandbox process."""

from __future__ import annotations

import codecs
import os
import re
from typing import Any

from jaato.errors import ToolError

VARIABLE = re.compile(r"\$\$\$([A-Z][A-Z0-9_]*)|\$([A-Z][A-Z0-9_]*)")
ANY_VARIABLE = re.compile(r"\$+([A-Z_][A-Z0-9_]*)?")
CAUSE = re.compile(r"^ +\d+: (.+)$", re.MULTILINE)
MAX_TEXT = 1000
MAX_VALUE = 200


class ExtraMissing(ToolError):
    """The package that knows syntax trees is not installed."""

    code = "extra_missing"


def find(request: dict[str, Any]) -> dict[str, Any]:
    """The matches in each part of a file of joined code; `refused` says by language why the pattern is none."""
    try:
        from ast_grep_py import SgRoot
    except ImportError:
        raise ExtraMissing("ast_search needs the extra `code`: pip install 'jaato[code]'.") from None
    pattern, most = request["pattern"], request["most"]
    names = [(multiple or single, bool(multiple)) for multiple, single in VARIABLE.findall(pattern)]
    names = list(dict.fromkeys(names))
    plain_code = ANY_VARIABLE.sub(lambda found: f"x{found[1] or ''}", pattern)
    refused: dict[str, str] = {}
    doubtful: set[str] = set()
    files = []
    at = 0
    for language, size in request["parts"]:
        text = decode_source(os.pread(request["fd"], size, at))
        at += size
        matches: list[Any] = []
        if language not in refused:
            root = SgRoot(text, language).root()
            try:
                matches = root.find_all(pattern=pattern)
            except RuntimeError as error:
                complaint = str(error)  # the last cause it names, before the trace some systems add
                causes = CAUSE.findall(complaint.partition("Stack backtrace")[0])
                refused[language] = (causes[-1] if causes else complaint.partition("\n")[0])[:200]
            code = SgRoot(plain_code, language).root()
            if code.kind() == "ERROR" or code.find(kind="ERROR") is not None:  # the parser had to guess
                doubtful.add(language)
        shown = [match_row(match, names) for match in matches[:most]]
        most -= len(shown)
        files.append({"count": len(matches), "matches": shown})
    return {"files": files, "refused": refused, "doubtful": sorted(doubtful)}


def decode_source(data: bytes) -> str:
    """The bytes as text: by their byte order mark, else UTF-8."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def match_row(match: Any, names: list[tuple[str, bool]]) -> dict[str, Any]:
    """A match as data: where it stands (from 1), its text, what the variables stand for."""
    place = match.range()
    variables = {}
    for name, multiple in names:
        found = match.get_multiple_matches(name) if multiple else [match.get_match(name)]
        texts = [node.text() for node in found if node is not None]
        variables[name] = shorten(
            "".join(", " if multiple and one == "," else one for one in texts), MAX_VALUE
        )
    return {
        "line": place.start.line + 1,
        "column": place.start.column + 1,
        "end_line": place.end.line + 1,
        "text": shorten(match.text(), MAX_TEXT),
        "variables": variables,
    }


def shorten(text: str, most: int) -> str:
    """The text, or the start of a long one."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
