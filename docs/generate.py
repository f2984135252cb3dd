"""Write the parts of `docs/reference/` that come from the code, and what the built-in plugins declare; with --check,
fail where they differ."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from jaato.protocol.codec import json_schema

REFERENCE = Path(__file__).parent / "reference"
TYPES = Path(__file__).parents[1] / "clients/web/src/client/types.ts"


def generators() -> dict[Path, Callable[[], str]]:
    """Every generated file and what makes its text."""
    from docs.generate_api import api_page
    from docs.generate_pages import errors_page, events_page, settings_page
    from docs.generate_tools import known_file, tools_page
    from docs.generate_types import types_file

    from jaato.runtime.plugins.lazy import MANIFESTS

    return {
        REFERENCE / "protocol.schema.json": schema_file,
        MANIFESTS: known_file,
        TYPES: types_file,
        REFERENCE / "tools.md": tools_page,
        REFERENCE / "events.md": events_page,
        REFERENCE / "settings.md": settings_page,
        REFERENCE / "errors.md": errors_page,
        REFERENCE / "api.md": api_page,
    }


def schema_file() -> str:
    """`protocol.schema.json`."""
    return json.dumps(json_schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the files, or say which of them are out of date; returns the exit code."""
    stale = 0
    for path, make in generators().items():
        text = make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if "--check" in arguments:
            print(f"{path} is out of date: run `make docs`.", file=sys.stderr)
            stale = 1
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}", file=sys.stderr)
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
