"""Stored prompts: `processCommand`, and each of them as an entry of the catalogue."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.skills.test_skills import SkillDesk, plugin, put, use

from jaato.errors import InvalidArguments, ToolError
from jaato.plugins.skills import SlashCommandPlugin
from jaato.tools.prompt_arguments import fill_slots, split_words


@pytest.fixture
def desk(tmp_path: Path) -> SkillDesk:
    """A workspace with one stored prompt."""
    put(
        tmp_path / "w/.jaato/commands/review.md",
        "---\ndescription: Look for bugs.\n---\nReview $1 for {{$2:bugs}}.\n",
    )
    put(tmp_path / "config/commands/plain", "# Say hello\n\nGreet everybody.\n")
    return SkillDesk(SlashCommandPlugin, tmp_path / "w")


@pytest.mark.spec("C1", "Tool names")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"command_name": "review", "args": ["a.py"]}, "Review a.py for bugs."),
     ({"command_name": "/review", "args": "a.py leaks"}, "Review a.py for leaks."),
     ({"command_name": "review.md"}, "Review  for bugs."), ({"command_name": "plain"}, "Greet everybody."),
     ({"command_name": "plain", "args": ["Ann", "Bob"]}, "Ann Bob")],
)  # fmt: skip
def test_a_prompt_is_filled_in(desk: SkillDesk, arguments: dict[str, Any], text: str) -> None:
    """Found by name, with or without its slash and ending; the arguments go where it wants them, else to its end."""
    assert text in desk.call("processCommand", **arguments).text


def test_whose_words_they_are(desk: SkillDesk) -> None:
    """A prompt of the workspace says so, the user's own does not."""
    assert "written in this workspace" in desk.call("processCommand", command_name="review").text
    assert "written in this workspace" not in desk.call("processCommand", command_name="plain").text


def test_one_that_is_not_there(desk: SkillDesk) -> None:
    """The refusal names those there are; one written since is found."""
    with pytest.raises(ToolError, match="review"):
        desk.call("processCommand", command_name="reviw")
    with pytest.raises(ToolError, match="No stored prompt"):
        desk.call("processCommand", command_name="../../etc/passwd")
    put(desk.workspace / ".jaato/commands/late.md", "Late.")
    assert "Late." in desk.call("processCommand", command_name="late").text


def test_each_prompt_is_an_entry_of_the_catalogue(tmp_path: Path, desk: SkillDesk) -> None:
    """Its description is that of the front matter or its first line; its call gives the text."""
    made = plugin(tmp_path, SlashCommandPlugin)
    found = {tool.name: tool.spec for tool in made.offered()}
    assert {name: spec.description for name, spec in found.items()} == {
        "prompt__review": "Look for bugs.",
        "prompt__plain": "Say hello",
    }
    assert {spec.category for spec in found.values()} == {"prompt"}
    assert "Review x.py for bugs." in use(made, "prompt__review", args=["x.py"]).text


def test_slots() -> None:
    """Each form of a slot, and one for which nothing was given."""
    assert fill_slots("$1 {{$2}} $ARGUMENTS {{$0}} $10 $$", ["a", "b"], "p") == "a b a b a b $10 $$"
    assert fill_slots("{{$0:all}} {{$1:}}", [], "p") == "all "
    assert fill_slots("{{$00}} {{$01}}", ["a", "b"], "p") == "a b a"
    assert fill_slots("{{$00}}", "isn't \"it", "p") == "isn't \"it"


def test_a_prompt_cannot_be_filled_without_bound() -> None:
    """A prompt that repeats a long argument thousands of times is refused before it is built."""
    tracemalloc.start()
    with pytest.raises(InvalidArguments, match="1,000,000 characters"):
        fill_slots("$ARGUMENTS $1 {{$0}}" * 10_000, ["x" * 10_000] * 20, "bomb")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
    assert len(fill_slots("$1" * 50, ["x" * 10_000], "long")) == 500_000
    assert fill_slots("$1 costs $5", ["it"], "p") == "it costs "
    assert fill_slots("no slots {{x", ["$1"], "p") == "no slots {{x\n\n$1"
    with pytest.raises(InvalidArguments, match="needs 2 arguments, 1 given"):
        fill_slots("{{$1}} {{$2}}", ["a"], "p")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        (" a  b\tc ", ["a", "b", "c"]),
        ('"b c" d', ["b c", "d"]),
        ('\'b "c"\' "it\'s"', ['b "c"', "it's"]),
        ('"" x', ["", "x"]),
        ("don't use 5\" nails", ["don't", "use", '5"', "nails"]),
        ('--title="a b"', ["--title=a b"]),
        (r"a\ b \"c \d+ \\ C:\dir", ["a b", '"c', r"\d+", "\\", r"C:\dir"]),
        (r"'a\' \\", ["a\\", "\\"]),
        ("end\\", ["end\\"]),
        ('"a"b', ["ab"]),
        ("\\=\"a b\" ='c d'", ["\\=a b", "=c d"]),
    ],
)
def test_arguments_are_split_as_in_a_shell(line: str, words: list[str]) -> None:
    """Quotes keep blanks, backslashes keep quotes and blanks; an apostrophe inside a word is one."""
    assert split_words(line, "p") == words


@pytest.mark.parametrize("line", ['"b c', "x 'y z", 'a="b', '"a\\"'])
def test_a_quote_that_is_not_closed(line: str) -> None:
    """The message says which, where, and how to write the character itself."""
    with pytest.raises(
        InvalidArguments, match=r"in the arguments of /p is not closed.*for the character itself"
    ):
        split_words(line, "p")


def test_a_long_argument_in_quotes_is_split_in_time() -> None:
    """As many steps as characters: a megabyte that was pasted in quotes does not block the event loop."""
    pasted = 'it\'s \\"so\\" ' * 200_000
    assert split_words(f'"{pasted}" x', "p") == ['it\'s "so" ' * 200_000, "x"]


def test_a_text_is_split_only_where_it_must() -> None:
    """A prompt that takes all arguments gets them as they were typed, quotes and lines included."""
    typed = """ why isn't "this\n  working """
    for body in ("$ARGUMENTS", "{{$0}}", "{{$0:none}}"):
        assert fill_slots(body, typed, "p") == typed.strip()
    assert fill_slots("Explain.", typed, "p") == f"Explain.\n\n{typed.strip()}"
    with pytest.raises(InvalidArguments):
        fill_slots("$1 of $ARGUMENTS", typed, "p")
    assert fill_slots("$2|$1", '"a b" \n rest of\nit', "p") == "rest of\nit|a b"
