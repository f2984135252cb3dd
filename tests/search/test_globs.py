"""Globs and ignore rules: the same files as git and ripgrep choose, in linear time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato.errors import InvalidArguments
from jaato.plugins.search.engines import ripgrep
from jaato.plugins.search.globs import Glob, expand, rules_of
from jaato.plugins.search.walk import Limits, Walk
from jaato.tools.cancel import CancelToken
from jaato.tools.paths import Roots

NAMES = ["a", "b", "ab", "a.py", "b.txt", ".h", "build", "x y", "#c", "!d", "A", "[z]", "a\\b"]
LINES = st.one_of(
    st.lists(
        st.sampled_from(["a", "b", "*", "**", "?", "/", "/", ".", "py", "build", "[ab]", "[!a]", "[^b]", "\\", "!", "#",
                         " ", "ab", "[", "]", "x y", "[a-c]", "[]a]", "txt", ".h"]),
        min_size=1, max_size=6,
    ).map("".join),
    st.sampled_from(["*.py", "!a.py", "build/", "/a", "**/b", "a/**", "a/**/b", "!build/", "*", "!*/", "# note", "",
                     "\\#c", "\\!d", "a/", "/*", "!/a", "b.txt ", "**", "**/", "/**", "a*b", "*/a", ".*"]),
)  # fmt: skip
TREE = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple), min_size=1, max_size=10)
IGNORES = st.dictionaries(st.sampled_from(["", "a", "build", "a/a"]), st.lists(LINES, max_size=5), max_size=3)


def plant(home: Path, tree: list[tuple[str, ...]], ignores: dict[str, list[str]]) -> None:
    """Make the files, and the .gitignore files where their directories exist."""
    for names in tree:
        path = home.joinpath(*names)
        if not any(parent.is_file() for parent in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("text\n")
    for directory, lines in ignores.items():
        if (home / directory).is_dir():
            (home / directory / ".gitignore").write_text("\n".join(lines) + "\n")


def walked(home: Path, start: str = ".", *, hidden: bool = True) -> list[str]:
    """What a walk finds."""
    walk = Walk(Roots(home), start, Limits(CancelToken()), hidden=hidden, ignored=False)
    return ["/".join(found.names) for found in walk]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=TREE, ignores=IGNORES)
def test_git_ignores_the_same(
    tmp_path_factory: pytest.TempPathFactory, tree: list[tuple[str, ...]], ignores: dict[str, list[str]]
) -> None:
    """Over random trees and .gitignore files the walk finds exactly the files that git would not ignore."""
    home = tmp_path_factory.mktemp("tree")
    plant(home, tree, ignores)
    environment = {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/bin:/bin"}
    subprocess.run(["git", "init", "-q", "."], cwd=home, check=True, env=environment)
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"],
        cwd=home, check=True, capture_output=True, env=environment,
    )  # fmt: skip
    theirs = sorted(name for name in listed.stdout.decode().split("\0") if name)
    assert sorted(walked(home)) == theirs


def test_ripgrep_finds_the_same_in_the_same_order(tmp_path: Path) -> None:
    """Ignore files at several levels, hidden names and links: the files and their order are ripgrep's."""
    program = ripgrep([], [])
    assert program is not None
    plant(
        tmp_path,
        [("a", "b"), ("a", "a.py"), ("a", ".h"), ("a-b",), ("a.py",), ("build", "a"), ("b", "build", "x y"), ("A",),
         ("a", "a", "b.txt"), (".h", "a"), ("z", "keep.log"), ("z", "drop.log"), ("node", "deep", "er", "f")],
        {"": ["build/", "*.log", "!keep.log", "/node/**/f"], "a": ["!b", "*.txt"]},
    )  # fmt: skip
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "alias").symlink_to("a.py")
    for hidden in (False, True):
        flags = ["--hidden"] if hidden else []
        out = subprocess.run(
            [program.program, "--no-config", "--files", "--sort=path", "--no-require-git", "--no-ignore-global", *flags],
            cwd=tmp_path, check=True, capture_output=True, text=True,
        )  # fmt: skip
        assert walked(tmp_path, hidden=hidden) == out.stdout.splitlines()


def test_what_a_repository_excludes_for_itself_is_ignored(tmp_path: Path) -> None:
    """`.git/info/exclude` holds as for git: from the root down, less than any .gitignore."""
    plant(tmp_path, [("a", "x.log"), ("a", "keep.log"), ("b",), ("private", "n")], {"a": ["!keep.log"]})
    environment = {"HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/bin:/bin"}
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True, env=environment)
    (tmp_path / ".git/info/exclude").write_text("*.log\n/private/\n")
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "--others", "--exclude-standard"],
        cwd=tmp_path, check=True, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert walked(tmp_path) == sorted(listed.stdout.split())
    assert walked(tmp_path, "a") == [".gitignore", "keep.log"]


def test_rules_above_the_start_hold(tmp_path: Path) -> None:
    """A walk that starts below keeps the rules of the directories above it, up to the root."""
    plant(tmp_path, [("a", "b", "x.log"), ("a", "b", "y"), ("a", "c")], {"": ["*.log"], "a": ["/b/y"]})
    assert walked(tmp_path, "a/b") == []
    assert walked(tmp_path, "a") == [".gitignore", "c"]


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.py", ["a.py"], ["d/a.py", "a.pyc"]), ("**/*.py", ["a.py", "d/e/a.py"], ["a.txt"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "a/src/b"]), ("{a,b/c}.t?t", ["a.txt", "b/c.tzt"], ["c.txt"]),
        ("**/test_*/**/*.{js,ts}", ["test_a/x.ts", "q/test_/w/e/x.js"], ["test/x.ts"]), ("[!a]*", ["b1"], ["a1"]),
        (r"\*", ["*"], ["a"]), ("[", ["["], ["a"]), ("{a}", ["{a}"], ["a"]), ("a{,b}", ["a", "ab"], ["abb"]),
        ("**", ["a", "a/b"], []), ("a/**/b", ["a/b", "a/x/y/b"], ["a/xb"]), ("./a", ["a"], ["b"]), ("é*", ["éa"], ["e"]),
        ("{{a,b},c}", ["a", "b", "c"], ["{a"]),
    ],
)  # fmt: skip
def test_globs(pattern: str, fitting: list[str], others: list[str]) -> None:
    """`*` stays in a name, `**` crosses directories, braces choose, brackets and backslashes are known."""
    glob = Glob.of(pattern)
    assert [name for name in [*fitting, *others] if glob.fits(name.split("/"))] == fitting


def test_a_glob_without_a_slash_can_match_anywhere() -> None:
    """As the filter of a search, `*.py` fits at every depth, `/`-globs from the start only."""
    assert Glob.of("*.py", anywhere=True).fits(["a", "b.py"])
    assert not Glob.of("b/*.py", anywhere=True).fits(["a", "b", "c.py"])


@pytest.mark.parametrize(
    "pattern", ["", " ", "/", "../x", "a/../b", "a\0", "{a,b}" * 9, "{" + "a," * 400 + "}", "x" * 1001]
)
def test_refused_globs(pattern: str) -> None:
    """A glob that is empty, climbs, or whose braces multiply is refused before anything is read."""
    with pytest.raises(InvalidArguments):
        Glob.of(pattern)


@pytest.mark.parametrize("pattern", ["{" * 900, "{a,{b,{c,{d" * 50, "}{" * 400, "{,}" * 8])
def test_brace_bombs_end(pattern: str) -> None:
    """Braces that never close, or nest without end, cost no more than their length."""
    assert len(expand(pattern)) <= 256


def test_wildcards_are_linear() -> None:
    """Patterns that make a backtracking matcher run for ages are answered at once."""
    glob = Glob.of("a*" * 100 + "b")
    assert not glob.fits(["a" * 255])
    deep = Glob.of("**/a/" * 60 + "b")
    assert not deep.fits(["a"] * 120)


def test_odd_ignore_files_are_survived() -> None:
    """A .gitignore of noise, or with a byte order mark, gives the rules that make sense."""
    assert rules_of("\ufeff*.log\r\n")[0].fits(["x.log"], False)
    assert not rules_of("[z-a]\n")[0].fits(["b"], False)
    assert rules_of("\\\n//\n#x\n\n   \n") == []


@pytest.mark.parametrize("line", ["[*", "[abc", "[", "x[", "*[", "a/[b", "[!"])
def test_an_unclosed_bracket_ignores_nothing(line: str) -> None:
    """A .gitignore line whose bracket is never closed matches nothing, as git has it; an escaped bracket is a character."""
    assert rules_of(line) == []
    assert len(rules_of("\\[abc\n[a]x\n[]]")) == 3
