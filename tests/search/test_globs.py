"""Which files a glob and the .gitignore files choose."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.search.desk import call_tool, plant

from jaato.errors import InvalidArguments


def chosen(home: Path, pattern: str, **more: Any) -> list[str]:
    """The files that `glob_files` finds."""
    found: list[str] = call_tool(home, "glob_files", pattern=pattern, **more).structured["files"]
    return found


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.py", ["a.py"], ["d/a.py", "a.pyc"]), ("**/*.py", ["a.py", "d/e/a.py"], ["a.txt"]),
        ("src/**", ["src/a", "src/b/c"], ["a/src/b"]), ("{a,b/c}.t?t", ["a.txt", "b/c.tzt"], ["c.txt"]),
        ("**/test_*/**/*.{js,ts}", ["q/test_/w/e/x.js", "test_a/x.ts"], ["test/x.ts"]), ("[!a]*", ["b1"], ["a1"]),
        (r"\*", ["*"], ["a"]), ("**", ["a/b", "c"], []), ("a/**/b", ["a/b", "a/x/y/b"], ["a/xb"]), ("./x/a", ["x/a"], ["a"]),
        ("é*", ["éa"], ["e"]), ("{{a,b},c}", ["a", "b", "c"], ["d"]), ("!a", ["!a"], ["a"]), ("#a", ["#a"], ["a"]),
        ("**/#a", ["#a", "d/#a"], ["a"]),
    ],
)  # fmt: skip
def test_globs(tmp_path: Path, pattern: str, fitting: list[str], others: list[str]) -> None:
    """`*` stays in a name, `**` crosses directories, braces choose, brackets and backslashes are known."""
    plant(tmp_path, dict.fromkeys([*fitting, *others], ""))
    assert chosen(tmp_path, pattern) == fitting


@pytest.mark.parametrize("pattern", ["", " ", "/", "../x", "a/../b", "{a,..}/b", "a\0", "[a", "x" * 30_000])
def test_refused_globs(tmp_path: Path, pattern: str) -> None:
    """A glob that is empty, climbs, or cannot be read is refused with the reason."""
    with pytest.raises(InvalidArguments, match="The glob cannot be used"):
        chosen(tmp_path, pattern)


def test_a_glob_brings_back_nothing_that_is_hidden_or_ignored(tmp_path: Path) -> None:
    """Ignore files at several levels hold for a glob that fits what they name, as for one that does not; so do those of
    the directories above the start, and what a repository excludes for itself."""
    plant(
        tmp_path,
        {
            ".gitignore": "build/\n*.log\n!keep.log\n/node/**/f\n", "a/.gitignore": "!b.log\n*.txt\n", ".git/info/exclude": "*.tmp\n",
            "a/b.log": "", "a/c.txt": "", "a/d.py": "", "build/x.py": "", "keep.log": "", "drop.log": "", ".h.py": "",
            "node/deep/er/f": "", "x.tmp": "", ".git/y.py": "",
        },
    )  # fmt: skip
    assert chosen(tmp_path, "**") == ["a/b.log", "a/d.py", "keep.log"]
    assert chosen(tmp_path, "**/*.{log,py}") == ["a/b.log", "a/d.py", "keep.log"]
    assert chosen(tmp_path, "*.py", root="a") == ["a/d.py"]
    assert chosen(tmp_path, "*.txt", root="a") == []
    assert chosen(tmp_path, ".*.py") == [".h.py"]
    assert "drop.log" in chosen(tmp_path, "*.log", include_ignored=True)
    assert not [name for name in chosen(tmp_path, "**", include_hidden=True) if name.startswith(".git/")]


def test_git_ignores_the_same(tmp_path: Path) -> None:
    """The files found are those that git would take."""
    plant(
        tmp_path,
        {
            ".gitignore": "*.o\n!keep.o\n/out\nlib/**/gen\n\\#x\n[ab]?.c\n", "src/.gitignore": "*\n!*/\n!*.py\n", "keep.o": "",
            "a.o": "", "out/a": "", "src/out/a.py": "", "src/b.txt": "", "lib/x/gen/y": "", "lib/gen": "", "#x": "", "a1.c": "", "c1.c": "",
        },
    )  # fmt: skip
    environment = {"HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/bin:/bin"}
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True, env=environment)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=tmp_path, check=True, capture_output=True, env=environment,
    )  # fmt: skip
    theirs = sorted(name for name in listed.stdout.decode().split("\0") if name)
    assert sorted(chosen(tmp_path, "**", include_hidden=True)) == theirs
