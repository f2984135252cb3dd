"""Play, as this user and with one back end, what the permission gate must stop; print the results as JSON.

Arguments: a directory to work in, the back end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.sandbox.attacking import Victim

COMPUTED = [
    'eval "$(printf %s cm0gLXJmIGtlcHQ= | base64 -d)"',
    'sh -c "$(printf %s cm0gLXJmIGtlcHQ= | base64 -d)"',
    "bash <(printf 'r%s -rf kept' m)",
    "find kept -execdir sh -c 'r\"m\" -rf ../kept' \\;",
    "$(printf 'r%s' m) -rf kept",
    "x=rm; $x -rf kept",
    "printf 'r%s -rf kept' m | sh",
    "echo kept | xargs $(printf 'r%s' m) -rf",
    "f() { \"$@\"; }; f r''m -rf kept",
    "python3 -c \"__import__('shutil').rmtree('kept')\" && r\\m -rf kept",
    "printf 'cm0gLXJmIGtlcHQ=' | base64 -d > s; source ./s",
    "bash <<'E'\nrm -rf kept\nE",
    "env r''m -rf kept",
    "printf 'r%s -rf kept' m > s; BASH_ENV=s bash -c :",
    "printf 'r%s -rf kept' m > s; bash --rcfile s -i -c :",
    "printf 'r%s -rf kept' m > s; bash --init-file s -i -c :",
]
"""Lines that compute a command which a rule denies."""

CONTROL = (
    ".claude/settings.json .cursor/mcp.json .codex/config.toml .husky/pre-commit .npmrc .vimrc .pdbrc .mcp.json "
    ".pre-commit-config.yaml evil.pth sitecustomize.py .venv/bin/python src/.venv/bin/head .jaato/permissions.json"
).split()
SOURCE = "src/code.py"
OPTIONS: dict[str, dict[str, Any]] = {
    "rule": {"allow": ["writeNewFile"]},
    "mode": {"mode": "accept-edits"},
}
"""Under which file tools write without a question."""


def compute(place: Path, backend: str) -> dict[str, Any]:
    """The codes of the results of each line, and whether the file is there afterwards."""
    with Victim(place, backend) as victim:
        victim.write({"kept/file": "kept\n"})
        results = victim.run(*COMPUTED, yes=True, deny=("run(rm *)",))
        codes = {line: result.get("code") for line, result in zip(COMPUTED, results, strict=True)}
        return {"codes": codes, "kept": (victim.place / "kept" / "file").exists()}


def write(place: Path, backend: str, options: dict[str, Any]) -> dict[str, Any]:
    """The codes of writing each control file and a source, which of them exist then, and the number of questions."""
    names = [*CONTROL, SOURCE]
    with Victim(place, backend) as victim:
        calls = [("writeNewFile", {"path": name, "content": "evil\n"}) for name in names]
        _, *results = victim.calls(("get_tool_schemas", {"names": ["writeNewFile"]}), *calls, **options)
        written = [name for name in names if (victim.place / name).exists()]
        return {
            "codes": [one.get("code") for one in results],
            "written": written,
            "asked": len(victim.asked),
        }


def main() -> None:
    """Play all of it."""
    place, backend = Path(sys.argv[1]), sys.argv[2]
    found = {"computed": compute(place / "computed", backend)}
    found |= {name: write(place / name, backend, options) for name, options in OPTIONS.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
