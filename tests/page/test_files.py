"""Files of a workspace are found by the letters of their paths."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest
from tests.server.serving import opened, served

from jaato.protocol.frames import Files
from jaato.server.sessions.workspace_files import best_matches

PATHS = [
    "README.md",
    "src/app/main.py",
    "src/app/names.py",
    "src/main_page.ts",
    "tests/test_main.py",
    "docs/a/main/x.md",
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("main", ["src/main_page.ts", "src/app/main.py", "tests/test_main.py", "docs/a/main/x.md"]),
        ("app/n", ["src/app/names.py", "src/app/main.py"]),
        ("rdm", ["README.md"]),
        ("sapy", ["src/app/main.py", "src/app/names.py", "tests/test_main.py"]),
        ("zz", []),
        (
            "",
            [
                "README.md",
                "src/main_page.ts",
                "tests/test_main.py",
                "src/app/main.py",
                "src/app/names.py",
                "docs/a/main/x.md",
            ],
        ),
    ],
)
def test_the_best_match_comes_first(query: str, found: list[str]) -> None:
    """The beginning of a name, then a part of it, then of the path, then letters in their order."""
    assert best_matches(PATHS, query, 10) == found
    assert best_matches(PATHS, query, 1) == found[:1]


def test_a_client_finds_files_of_its_session(tmp_path: Path) -> None:
    """Not those that are ignored, hidden or outside, and none that a link leads to."""
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    for name in ("src/one.py", "ignored.py", ".hidden.py", ".gitignore", "two.py"):
        (work / name).write_text("ignored.py\n")
    (tmp_path / "outside.py").write_text("x")
    (work / "linked").symlink_to(tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)

    async def main() -> None:
        async with served(tmp_path, []) as server, server.client() as client:
            session_id = await opened(client, work)
            for query, paths in (("py", ["two.py", "src/one.py"]), ("../outside", []), ("x" * 10_000, [])):
                reply = await client.ask("files.find", session_id=session_id, query=query)
                assert reply.result == Files(paths), reply
            reply = await client.ask("files.find", session_id=session_id, limit=1)
            assert reply.result == Files(["two.py"])

    anyio.run(main)
