"""`request_clarification`: questions reach whoever is there, and nobody there is no dead end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from jaato.abc.asker import Clarification
from jaato.errors import InvalidArguments
from jaato.plugins.clarification import ClarificationPlugin
from jaato.protocol.ids import is_id
from jaato.tools.call import Call
from jaato.tools.tool import Tool, tools_of


class Desk:
    """A host without services."""

    workspace = Path()
    config: Mapping[str, Any] = {}

    def service(self, name: str) -> Any:
        raise KeyError(name)


class Person:
    """Somebody who answers from a list, and remembers what was asked."""

    def __init__(self, answers: list[str | None] | None) -> None:
        self.answers = answers
        self.asked: list[Clarification] = []

    async def __call__(self, clarification: Clarification) -> list[str | None] | None:
        await anyio.sleep(0)
        self.asked.append(clarification)
        return self.answers


def the_tool() -> Tool:
    """The plugin's one tool."""
    [found] = tools_of(ClarificationPlugin(Desk()), "clarification")
    return found


def ask(questions: list[Any], person: Person | None) -> Any:
    """Ask these questions of this person."""
    tool = the_tool()
    arguments = {"context": "The name is unclear.", "questions": questions}
    assert tool.issues(arguments) == []

    async def main() -> Any:
        services = {"clarify": person} if person is not None else {}
        return await tool.run(arguments, Call("c1", tool.name, arguments, services=services))

    return anyio.run(main)


@pytest.mark.spec("S0", "Available Categories")
def test_declaration() -> None:
    """It is discoverable, of category communication, asks for no permission, and is described in forty words."""
    spec = the_tool().spec
    assert (spec.name, spec.category) == ("request_clarification", "communication")
    assert (spec.discoverability, spec.access) == ("discoverable", "read")
    assert len(spec.description.split()) <= 40


@pytest.mark.spec("S4", "Separation of Data and Presentation")
def test_answers_come_back_in_pairs() -> None:
    """Each question comes back with its answer as data; how it is shown is the client's."""
    person = Person(["blue", "no"])
    result = ask(["Which colour?", {"question": "Bold?", "choices": ["yes", "no"], "default": "yes"}], person)
    assert result == {"answered": True, "qa_pairs": [["Which colour?", "blue"], ["Bold?", "no"]]}
    [asked] = person.asked
    assert is_id(asked.id, "q")
    assert (asked.call_id, asked.context) == ("c1", "The name is unclear.")
    assert asked.questions == [
        {"question": "Which colour?"},
        {"question": "Bold?", "choices": ["yes", "no"], "default": "yes"},
    ]


@pytest.mark.parametrize("person", [None, Person(None)], ids=["no service", "nobody answers"])
def test_nobody_to_ask(person: Person | None) -> None:
    """With nobody to ask the model is told to go on with its best assumption, or the default, and to state it."""
    result = ask(["Which?", {"question": "Bold?", "default": "yes"}], person)
    assert result["answered"] is False
    assert result["qa_pairs"] == [["Which?", None], ["Bold?", "yes"]]
    assert "best assumption" in result["note"]
    assert "state" in result["note"]


@pytest.mark.parametrize("answers", [["blue"], ["blue", None], ["blue", "  "], ["blue", None, "extra"]])
def test_what_is_left_open(answers: list[str | None]) -> None:
    """Questions the user leaves open, or a client forgets, take their default and are named; extra answers are dropped."""
    result = ask(["Colour?", {"question": "Bold?", "default": "yes"}], Person(answers))
    assert result["qa_pairs"] == [["Colour?", "blue"], ["Bold?", "yes"]]
    assert result["left_open"] == ["Bold?"]


def test_empty_questions_are_refused() -> None:
    """A blank question is refused with its place, before anyone is bothered."""
    person = Person(["x"])
    with pytest.raises(InvalidArguments) as raised:
        ask(["fine?", " "], person)
    assert raised.value.issues[0][0] == "/questions/1"
    assert person.asked == []


@pytest.mark.parametrize(
    "questions", [[], "one?", [1], [{"choices": ["a"]}], [{"question": "a", "choices": "b"}], ["q"] * 21]
)
def test_malformed_questions(questions: Any) -> None:
    """Arguments of another shape do not pass the schema."""
    assert the_tool().issues({"context": "c", "questions": questions})
