"""What bash really starts is never more than what the analysis saw, whenever it said that a command is
covered."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.permissions.ground import explain, reach

from jaato.tools.shell.parser import parse_command

PROGRAMS = ("git", "ls", "cat", "rm", "sh", "tool")
STUB = '#!/bin/dash\nname=${0##*/}\nIFS=$(printf "\\037")\nprintf "%s\\036" "$name$IFS$*" >>"$RECORD"\n'


@pytest.fixture(scope="module")
def range_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private directory: recording programs, and an empty workspace."""
    root = tmp_path_factory.mktemp("oracle")
    (root / "bin").mkdir()
    (root / "work").mkdir()
    for name in PROGRAMS:
        stub = root / "bin" / name
        stub.write_text(STUB)
        stub.chmod(0o755)
    return root


def started(command: str, root: Path) -> list[list[str]]:
    """The programs, with their arguments, that bash starts for this command."""
    record = root / "record"
    record.write_bytes(b"")
    subprocess.run(
        ["/bin/bash", "--norc", "--noprofile", "-c", command],
        cwd=root / "work",
        env={"PATH": str(root / "bin"), "RECORD": str(record), "HOME": str(root)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    lines = record.read_bytes().split(b"\x1e")
    return [[word.decode("utf-8", "surrogateescape") for word in words(line)] for line in lines if line]


def words(line: bytes) -> list[bytes]:
    """The words of one record: a program without arguments leaves an empty end."""
    found = line.split(b"\x1f")
    return found[:1] if found[1:] == [b""] else found


def check(command: str, root: Path) -> bool:
    """Hold one command against bash; tells whether the rule covers it."""
    before = sorted(os.listdir(root / "work"))
    if reach(command, root / "work", ["git *", "ls *", "cat *"]) != "workspace-write":
        return False
    seen = [[word.value for word in part.words] for part in parse_command(command).parts]
    seen = [one[:1] if one[1:] == [""] else one for one in seen]
    for one in started(command, root):
        assert one in seen, f"{command!r} starts {one}, seen was {seen}"
        assert one[0] in ("git", "ls", "cat"), command
    assert sorted(os.listdir(root / "work")) == before, f"{command!r} made files"
    return True


SPACES = st.sampled_from([" ", " ", " ", "  ", "\t", "\n", ""])
JOINTS = st.sampled_from(
    [" && ", " || ", "; ", " | ", " |& ", "\n", " & ", ";", "|", "&&", " ;; ", "&", " ) ", "( "]
)
BARE = [
    "a",
    "-b",
    "x=1",
    "#c",
    "a#b",
    "\\;",
    "\\ ",
    "'q r'",
    '"q r"',
    "''",
    '""',
    "'\"'",
    '"\'"',
    "a'b'c",
    '"$"',
    "$",
]
SHARP = [
    "$(rm x)",
    "`rm x`",
    '"$(rm x)"',
    "$x",
    "${x}",
    "~",
    "{a,b}",
    "*",
    "[ab]",
    "$'a'",
    '$"a"',
    "\\",
    "'",
    '"',
    "!",
    "${x:-$(rm x)}",
    "$((1+$(rm x)))",
    "a[$(rm x)]=1",
    "{git,rm}",
    "$'\\x3b rm'",
    ">(rm x)",
    '"`rm x`"',
    "@(a|$(rm x))",
]
SIGNS = [
    ">f",
    "2>&1",
    ">/dev/null",
    "2>/dev/null",
    "<f",
    "<(rm x)",
    ">|f",
    "&>f",
    "<<<x",
    "1>&2",
    ">&2",
    "\\\n",
    "}",
]
WORDS = st.sampled_from([*BARE, *BARE, *BARE, *SHARP, *SIGNS, "rm", "sh", "git", "é", "\u00a0"])
HEADS = st.sampled_from(
    ["git", "git", "git", "ls", "cat", "rm", "g''it", "'git'", "X=1 git", "CI=1 git", "time git", "! git"]
)
HEADS_ODD = st.sampled_from(
    [
        "(git",
        "{ git",
        "if git",
        "then git",
        "git()",
        "eval git",
        "command git",
        "\\git",
        "#git",
        ">f git",
        "coproc git",
        "exec git",
        "trap git EXIT;",
        "[[ -v a[$(rm x)] ]] &&",
        "a[$(rm x)]=1 git",
        "git <<<`rm x`",
    ]
)
COMMANDS = st.builds(
    lambda head, pairs: head + "".join(space + word for space, word in pairs),
    st.one_of(HEADS, HEADS, HEADS, HEADS_ODD),
    st.lists(st.tuples(SPACES, WORDS), max_size=4),
)
LINES = st.builds(
    lambda first, rest, end: first + "".join(joint + command for joint, command in rest) + end,
    COMMANDS,
    st.lists(st.tuples(JOINTS, COMMANDS), max_size=3),
    st.sampled_from(["", "", "", ")", ";", " }", "; fi", "\n", " # end", "'", '"']),
)


@pytest.mark.spec("C4", "Permissions")
def test_generated_commands_start_only_what_was_seen(range_: Path) -> None:
    """For any line of a hostile grammar that is allowed, bash starts nothing that the analysis did not
    see."""
    allowed = 0

    @settings(max_examples=600, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(LINES)
    def fuzz(command: str) -> None:
        nonlocal allowed
        allowed += check(command, range_)

    fuzz()
    assert allowed >= 20, "the grammar hardly ever makes a command that is allowed"


@pytest.mark.spec("C4", "Permissions")
@pytest.mark.parametrize(
    "command",
    [
        "git a; git b",
        "git 'a;rm x' \"b|c\" d\\;e",
        "git a#b #; rm x",
        "(git a && git b) | git c",
        "git a \\; rm x",
        "git $'a'",
        "git a\n\n git b\n",
        "CI=1 git a 2>&1 >/dev/null | cat",
        'git "a\\"b" \'c"d\'',
        "git '' \"\"",
        "git a''b\"\"c",
        'git "a\\\\" ; git b',
    ],
)
def test_chosen_commands_start_only_what_was_seen(command: str, range_: Path) -> None:
    """Quotes, comments, groups and separators are read as bash reads them."""
    check(command, range_)


@pytest.mark.parametrize(
    "command",
    ["git " + "a" * 1_000_000, "git a;" * 10_000, "(" * 20_000, "$(" * 10_000, "{ " * 5_000, "git " + "'" * 9_999,
     "git a|" * 4_000 + "git", "`" * 30_000, "if " * 8_000, "git a\x00b", "git \ud800", "<<" * 9_000, "a=(" * 9_000,
     "git " + "${a:-" * 5_000, "[[ " * 9_000, "case x in " * 3_000, "\\" * 30_001, "&" * 30_000, "((" * 15_000],
    ids=lambda text: re.sub(r"\W", "_", text[:12]),
)  # fmt: skip
def test_monstrous_commands_are_never_covered(command: str, range_: Path) -> None:
    """Whatever the size or the nesting, the answer comes in bounded time, no rule covers it, and where something is
    forbidden it is asked about."""
    assert reach(command, range_ / "work", ["git *"]) == "read-only"
    assert explain(command, range_ / "work", ["*"], blacklist={"patterns": ["rm *"]}).effect in (
        "ask",
        "deny",
    )
