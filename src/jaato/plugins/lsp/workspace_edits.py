"""Turns an LSP WorkspaceEdit into new texts of files below the roots; nothing is written here."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from jaato.errors import ToolError
from jaato.plugins.lsp.documents import ServerDocuments, TextPositions
from jaato.tools.filesystem.containment import Roots

MAX_FILES = 200
MAX_EDITS = 20_000
MAX_CHARS = 32 << 20
MAX_DIFF_CHARS = 16_000


class EditRefused(ToolError):
    """The edit cannot or may not be made; nothing was changed."""

    code = "edit_refused"


@dataclass(frozen=True, slots=True)
class NewText:
    """A file, its text now and the text it is to have."""

    path: str
    old: str
    new: str
    edits: int


def new_texts(edit: Any, project: ServerDocuments, roots: Roots) -> list[NewText]:
    """The new text of each file of a WorkspaceEdit. Raises `EditRefused` and other `ToolError`s."""
    found: list[NewText] = []
    room = MAX_CHARS
    by_uri = edits_by_uri(edit)
    if len(by_uri) > MAX_FILES:
        raise EditRefused(
            f"This would change {len(by_uri)} files; at most {MAX_FILES} can be changed at once."
        )
    for uri, edits in by_uri.items():
        path, readable = project.display_path(uri)
        if not readable:
            raise EditRefused(
                f"This would change {path!r}, outside the directories of the session. Nothing was changed."
            )
        if roots.is_control(path):
            raise EditRefused(f"This would change {path!r}, which decides what runs. Nothing was changed.")
        place, old = project.read(path)
        if not project.is_in_sync(place, old):
            raise EditRefused(f"{path!r} has changed meanwhile. Nothing was changed; ask again.")
        new = apply_text_edits(old, edits, path)
        room -= len(new)
        if room < 0:
            raise EditRefused(f"This would write more than {MAX_CHARS >> 20} MB. Nothing was changed.")
        if new != old:
            found.append(NewText(path, old, new, len(edits)))
    return sorted(found, key=lambda one: one.path)


def edits_by_uri(edit: Any) -> dict[str, list[Any]]:
    """The text edits of each file. Raises `EditRefused` for what is none and for files made, moved or removed."""
    by_uri: dict[str, list[Any]] = {}
    match edit:
        case {"documentChanges": list(changes)}:
            for change in changes:
                match change:
                    case {"textDocument": {"uri": str(uri)}, "edits": list(edits)}:
                        by_uri.setdefault(uri, []).extend(edits)
                    case {"kind": str(kind)}:
                        raise EditRefused(
                            f"The language server wants to {kind[:20]} a file, which is not done. Use moveFile and its kind."
                        )
                    case _:
                        raise EditRefused("The language server gave an edit that cannot be understood.")
        case {"changes": dict(changes)}:
            for uri, edits in changes.items():
                if not isinstance(edits, list):
                    raise EditRefused("The language server gave an edit that cannot be understood.")
                by_uri[uri] = edits
        case _:
            raise EditRefused("The language server gave no edit.")
    if sum(len(edits) for edits in by_uri.values()) > MAX_EDITS:
        raise EditRefused(f"The language server gave more than {MAX_EDITS:,} edits. Nothing was changed.")
    return by_uri


def apply_text_edits(text: str, edits: list[Any], path: str) -> str:
    """The text with every edit made, each where it was in the text before. Raises `EditRefused`."""
    lines = TextPositions(text)
    spans: list[tuple[int, int, str]] = []
    for edit in edits:
        match edit:
            case {"range": {"start": dict(start), "end": dict(end)}, "newText": str(new)}:
                try:
                    spans.append((lines.offset(start), lines.offset(end), new))
                except ValueError as error:
                    raise EditRefused(
                        f"The language server gave a wrong edit of {path!r}: {error}."
                    ) from None
            case _:
                raise EditRefused(f"The language server gave an edit of {path!r} that cannot be understood.")
    parts: list[str] = []
    done = 0
    for first, last, new in sorted(spans, key=lambda span: span[:2]):
        if first < done or last < first:
            raise EditRefused(f"The language server's edits of {path!r} overlap. Nothing was changed.")
        parts += [text[done:first], new]
        done = last
    return "".join([*parts, text[done:]])


def preview_diffs(texts: list[NewText]) -> list[dict[str, Any]]:
    """Each file with its diff, as far as there is room."""
    room = MAX_DIFF_CHARS
    shown: list[dict[str, Any]] = []
    for one in texts:
        diff = ""
        if room > 0:
            lines = difflib.unified_diff(
                one.old.splitlines(), one.new.splitlines(), one.path, one.path, "", "", 1, ""
            )
            diff = "\n".join(lines)[:room]
        room -= len(diff)
        shown.append(
            {"path": one.path, "edits": one.edits, "diff": diff or "[left out: the diffs are too long]"}
        )
    return shown
