"""`ast_search`: code by its structure, in real files, and files that are made to break a parser."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.search.desk import call_tool, plant

from jaato.errors import CancelledException, InvalidArguments, ToolError
from jaato.plugins.search.ast_search import ENDINGS, LANGUAGES, SPELLINGS
from jaato.tools.call import Call

C1 = pytest.mark.spec("C1", "Tool names")
CODE = {
    "a.py": "def f(x):\n    print(x, 1)\n    print(\n        x\n    )\n# print(no)\ns = 'print(no)'\n",
    "src/b.py": "print()\n",
    "src/web.ts": "function f() { console.log(1, two); }\n",
    "src/c.rs": "fn main() { print(1); }\n",
    ".hidden.py": "print(2)\n",
    "built/x.py": "print(3)\n",
    ".gitignore": "built/\n",
    "notes.txt": "print(4)\n",
}


def found(home: Path, pattern: str, **more: Any) -> list[tuple[str, int]]:
    """Where a pattern matches."""
    data = call_tool(home, "ast_search", pattern=pattern, **more).structured
    return [(match["path"], match["line"]) for match in data["matches"]]


@C1
def test_structure_is_found_whatever_its_form(tmp_path: Path) -> None:
    """A call over several lines is a call, one in a comment or a string is none; variables say what they matched."""
    plant(tmp_path, CODE)
    output = call_tool(tmp_path, "ast_search", pattern="print($$$ALL)", language="python", path="a.py")
    data = output.structured
    assert [(match["path"], match["line"], match["end_line"]) for match in data["matches"]] == [
        ("a.py", 2, 2),
        ("a.py", 3, 5),
    ]
    assert data["matches"][0]["variables"] == {"ALL": "x, 1"}
    assert (data["total"], data["files"], data["searched"], data["truncated"]) == (2, 1, 1, False)
    assert output.text.startswith("a.py\n2: print(x, 1)\n    ALL = x, 1\n3: print(\n")
    assert output.text.endswith("[2 matches in 1 of 1 file.]")


@C1
def test_each_file_speaks_its_own_language(tmp_path: Path) -> None:
    """Without a language every file of code is searched in that of its name, as hidden, ignored and other files are
    left out or taken by the same rules as in grep_content."""
    plant(tmp_path, CODE)
    assert found(tmp_path, "print($$$)") == [("a.py", 2), ("a.py", 3), ("src/b.py", 1), ("src/c.rs", 1)]
    assert found(tmp_path, "console.log($A, $B)") == [("src/web.ts", 1)]
    assert found(tmp_path, "print($$$)", path="src", language="py") == [("src/b.py", 1)]
    assert found(tmp_path, "print($$$)", glob="*.rs") == [("src/c.rs", 1)]
    assert found(tmp_path, "print($A)", include_hidden=True, include_ignored=True, language="python") == [
        (".hidden.py", 1), ("a.py", 3), ("built/x.py", 1),
    ]  # fmt: skip
    assert found(tmp_path, "print($A)", path="notes.txt", language="python") == [("notes.txt", 1)]
    text = call_tool(tmp_path, "ast_search", pattern="print($A)", path="notes.txt").text
    assert "give language" in text


def test_every_language_is_one() -> None:
    """All languages that are offered can be searched, and all spellings lead to one."""
    from ast_grep_py import SgRoot

    for language in ENDINGS:
        assert SgRoot("x", language).root() is not None
    assert {*SPELLINGS.values(), *LANGUAGES.values()} <= set(ENDINGS)


def test_what_is_shown_is_bounded(tmp_path: Path) -> None:
    """Many matches are counted and the first shown; a huge one is cut."""
    long = "print(" + ", ".join(f"'{number:0100d}'" for number in range(500)) + ")\n"
    plant(tmp_path, {"many.py": "f(1)\n" * 5000, "one.py": long})
    output = call_tool(tmp_path, "ast_search", pattern="f($A)", max_results=3)
    data = output.structured
    assert (len(data["matches"]), data["total"], data["truncated"]) == (3, 5000, True)
    assert "the first 3 are shown" in output.text
    assert len(call_tool(tmp_path, "ast_search", pattern="print($$$ALL)").text) < 4000


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("$A $B", "Multiple AST nodes"),
        ("$$$", "no pattern"),
        ("class {", "no whole piece of code in python"),
        ("f(" * 5000, "no whole piece of code in python"),
        ("x" * 15_000, "Nothing matches"),
        ("$", "Nothing matches"),
    ],
)
def test_a_pattern_that_is_none_is_explained(tmp_path: Path, pattern: str, said: str) -> None:
    """Nothing is found, and the answer says what is wrong with it."""
    plant(tmp_path, {"a.py": "x = 1\n"})
    output = call_tool(tmp_path, "ast_search", pattern=pattern)
    assert said in output.text
    assert output.structured["total"] == 0


@pytest.mark.parametrize("arguments", [
    {"pattern": ""}, {"pattern": " \n"}, {"pattern": "a\0b"}, {"pattern": "x" * 30_000}, {"pattern": "x", "language": "cobol"},
    {"pattern": "x", "language": "../python"}, {"pattern": "x", "language": ""},
])  # fmt: skip
def test_impossible_questions_are_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """They are told apart from those that have no answer."""
    with pytest.raises(InvalidArguments):
        call_tool(tmp_path, "ast_search", **arguments)


@pytest.mark.parametrize("path", ["..", "/etc", "gone.py", "out.py", "pipe.py"])
def test_nothing_outside_is_searched(tmp_path: Path, path: str) -> None:
    """Other directories, links that lead there, and what is no file are refused or passed over."""
    home = tmp_path / "home"
    plant(tmp_path, {"home/a.py": "print(1)\n", "secret.py": "print(2)\n", "far/b.py": "print(3)\n"})
    (home / "out.py").symlink_to(tmp_path / "secret.py")
    (home / "far").symlink_to(tmp_path / "far")
    os.mkfifo(home / "pipe.py")
    assert found(home, "print($A)") == [("a.py", 1)]
    with pytest.raises(ToolError):
        call_tool(home, "ast_search", pattern="print($A)", path=path)


def test_files_that_are_no_code(tmp_path: Path) -> None:
    """Binary and huge ones are named, broken text and broken code are searched as far as they go."""
    plant(tmp_path, {
        "binary.py": b"\0\1\2" * 1000, "empty.py": b"", "latin.py": b"caf\xe9 = 1\nprint(1)\n", "half.py": "def (\nprint(1)\n",
        "huge.py": b"x = 1\n" * 800_000, "marked.py": "\ufeffprint(1)\n", "wide.py": "print(1)\n".encode("utf-16"),
    })  # fmt: skip
    output = call_tool(tmp_path, "ast_search", pattern="print(1)")
    data = output.structured
    assert [match["path"] for match in data["matches"]] == ["half.py", "latin.py", "marked.py", "wide.py"]
    assert (data["binary"], data["too_large"]) == (["binary.py"], ["huge.py"])
    assert "Too large, not searched: huge.py." in output.text


DEEP = {
    "brackets.py": "x = " + "[" * 60_000 + "]" * 60_000,
    "calls.js": "f(" * 60_000 + ")" * 60_000,
    "open.c": "(" * 60_000,
    "blocks.rs": "fn f() " + "{" * 60_000 + "}" * 60_000,
    "sum.ts": "1" + "+1" * 60_000,
    "chain.py": "a" + ".b()" * 60_000,
    "data.json": '{"a":' * 60_000 + "1" + "}" * 60_000,
    "tags.html": "<div>" * 7_000,
    "lists.yaml": "- " * 20_000,
    "quotes.sh": "$(" * 50_000,
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("pattern", ["print($A)", "$A($A)", "[$$$A]", "$A + $A"])
def test_what_is_nested_without_end_harms_nobody(tmp_path: Path, name: str, pattern: str) -> None:
    """Thousands of levels are searched, or named as too deep; the files beside them are searched all the same."""
    plant(
        tmp_path,
        {name: DEEP[name], "a.py": "f(f)\nprint(1)\n[1]\nb + b\n", "z.py": "f(f)\nprint(1)\n[1]\nb + b\n"},
    )
    data = call_tool(tmp_path, "ast_search", pattern=pattern, max_results=1000).structured
    paths = {match["path"] for match in data["matches"]}
    if not data["truncated"]:
        assert {"a.py", "z.py"} <= paths
    assert data["total"] >= 2


def test_a_search_can_be_cancelled(tmp_path: Path) -> None:
    """Cancelling ends it at once, with the process it runs in."""
    plant(tmp_path, {f"{number}.py": "f(1)\n" * 100_000 for number in range(40)})
    call = Call("c1", "ast_search", {}, workspace=tmp_path)
    timer = threading.Timer(0.3, call.token.cancel)
    timer.start()
    try:
        with pytest.raises(CancelledException):
            call_tool(tmp_path, "ast_search", call=call, pattern="f($A)")
    finally:
        timer.join()


def test_without_the_extra_the_tool_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what to install."""
    plant(tmp_path, {"a.py": "print(1)\n"})
    monkeypatch.setattr(sys, "path", [place for place in sys.path if "site-packages" not in place])
    with pytest.raises(ToolError, match=r"jaato\[code\]"):
        call_tool(tmp_path, "ast_search", pattern="print($A)")


def test_a_file_that_takes_too_long_is_named_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that were to be searched with it are searched without it."""
    monkeypatch.setattr("jaato.plugins.search.ast_search.PART_S", 1.0)
    plant(tmp_path, {"a.html": "<div>" * 60_000, "b.py": "print(1)\n", "z.py": "print(1)\n"})
    output = call_tool(tmp_path, "ast_search", pattern="print($A)")
    assert [match["path"] for match in output.structured["matches"]] == ["b.py", "z.py"]
    assert output.structured["failed"] == ["a.html"]
    assert "too slow to search: a.html." in output.text
