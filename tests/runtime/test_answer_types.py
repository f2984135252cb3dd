"""`Agent`: permission answers as types, text as it comes, the type of a result, and events by their public name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, assert_type

import anyio
import pytest
from tests.kit import call, calls, results, say
from tests.runtime.agents import agent

import jaato.protocol.events
from jaato import Allow, AllowAlways, AllowTurn, Deny, DenyAlways, Plugin, ProviderError, Result, tool
from jaato.events import PermissionRequested
from jaato.protocol.events import __all__ as names
from jaato.providers.scripted import Answer, Step


def write(path: str, content: str = "x") -> Step:
    """A reply that asks to write a file."""
    return call("writeNewFile", path=path, content=content)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_answers_are_types(tmp_path: Path, asynchronous: bool) -> None:
    """`Allow` lets a call run, also with other arguments; the reason of `Deny` reaches the model, as does what is wrong with
    the arguments of an `Allow`."""
    edited = Allow({"path": "d", "content": "edited"})
    answers: list[Any] = [Allow(), Deny("no b here"), edited, Deny(), Allow({"path": 3})]

    def decide(question: PermissionRequested) -> Any:
        return answers.pop(0)

    async def decide_later(question: PermissionRequested) -> Any:
        await anyio.sleep(0)
        return decide(question)

    async def main() -> None:
        script: list[Answer] = [write("a"), write("b"), write("c"), write("e"), write("f"), say("done")]
        handler = decide_later if asynchronous else decide
        async with agent(tmp_path, script, on_permission=handler) as live:
            live.live.activate(["writeNewFile"])
            await live.run("go")
            found = results(live.live)
            assert [result.ok for result in found] == [True, False, True, False, False]
            assert "no b here" in found[1].result
            assert "/path" in found[4].result
        work = tmp_path / "work"
        assert sorted(path.name for path in work.iterdir() if path.is_file()) == ["a", "d"]
        assert (work / "d").read_text() == "edited"

    anyio.run(main)


class Picky(Plugin):
    """A tool whose check of its arguments raises for some."""

    name = "picky"

    @tool(access="write", core=True, examines="_issues")
    def keep(self, entry: dict[str, str]) -> str:
        """Keep an entry."""
        return entry["key"]

    def _issues(self, arguments: dict[str, Any]) -> list[tuple[str, str]]:
        return [] if arguments["entry"]["key"] else [("/entry/key", "is empty")]


def test_an_edit_that_cannot_be_examined_denies_the_call(tmp_path: Path) -> None:
    """A tool's own check that raises for edited arguments leaves no question that is never answered."""
    script: list[Answer] = [call("keep", entry={"key": "k"}), say("done")]

    async def main() -> None:
        async with agent(
            tmp_path, script, plugins=[Picky], on_permission=lambda _: Allow({"entry": {}})
        ) as live:
            with anyio.fail_after(20):
                await live.run("go")
            [found] = results(live.live)
            assert not found.ok
            assert "KeyError" in found.result

    anyio.run(main)


@pytest.mark.parametrize(
    ("answer", "asked", "allowed"),
    [
        (Allow(), [2, 1], True),
        (AllowTurn(), [1, 1], True),
        (AllowAlways(), [1, 0], True),
        (Deny("no"), [2, 1], False),
        (DenyAlways(), [1, 0], False),
        ("y", [2, 1], True),
    ],
    ids=repr,
)
def test_how_long_an_answer_holds(tmp_path: Path, answer: Any, asked: list[int], allowed: bool) -> None:
    """For the call, the turn, or from now on."""
    questions: list[str] = []

    async def main() -> None:
        def decide(question: PermissionRequested) -> Any:
            questions.append(question.tool)
            return answer

        script: list[Answer] = [write("a"), write("b"), say("one"), write("c"), say("two")]
        async with agent(tmp_path, script, on_permission=decide) as live:
            live.live.activate(["writeNewFile"])
            await live.run("go")
            first = len(questions)
            await live.run("again")
            assert [first, len(questions) - first] == asked
            assert {result.ok for result in results(live.live)} == {allowed}

    anyio.run(main)


def test_what_is_no_answer_denies_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """True is no answer: the call is denied, and the log says what would be one."""

    async def main() -> None:
        def decide(_question: PermissionRequested) -> Any:
            return True

        async with agent(tmp_path, [write("a"), say("done")], on_permission=decide) as live:
            live.live.activate(["writeNewFile"])
            await live.run("go")
            assert not results(live.live)[0].ok
            assert "True is no answer; give Allow()" in caplog.text

    anyio.run(main)


def test_text_comes_in_pieces(tmp_path: Path) -> None:
    """The model's text alone, with an empty line between two replies; an error is raised as by `run`."""

    async def main() -> None:
        script: list[Answer] = [
            Step(text="Let me look.", thinking="hm", calls=calls(("get_environment", {})).calls, chunks=3),
            say("All is well.", chunks=2),
            Step(text="I am", error="provider_authentication"),
        ]
        async with agent(tmp_path, script) as live:
            pieces = [piece async for piece in live.stream_text("go")]
            assert "".join(pieces) == "Let me look.\n\nAll is well."
            assert len(pieces) == 6
            text = live.stream_text("again")
            assert await anext(text) == "I am"
            with pytest.raises(ProviderError):
                await anext(text)

    anyio.run(main)


def test_leaving_the_text_stops_the_turn(tmp_path: Path) -> None:
    """As with `stream`; and what held for the run alone ends with it."""

    async def main() -> None:
        async with agent(tmp_path, [say("one two three", chunks=13), say("next")], model="usual") as live:
            text = live.stream_text("go", model="other")
            async for _piece in text:
                break
            await text.aclose()
            assert live.live.state.model == "usual"
            assert (await live.run("again")).text == "next"

    anyio.run(main)


@dataclasses.dataclass
class City:
    """A structured answer."""

    name: str


def test_a_type_checker_knows_the_type_of_the_data(tmp_path: Path) -> None:
    """`mypy` holds these: it checks the tests, too."""
    one = agent(tmp_path, [say('{"name": "Bern"}'), say('["Bern"]'), say("Bern"), say('{"name": "Bern"}')])
    assert_type(one.run_sync("A city.", output_type=City), Result[City])
    assert_type(one.run_sync("Cities.", output_type=list[str]).data, list[str])
    assert_type(one.run_sync("A city."), Result[None])

    async def main() -> None:
        async with one:
            result = await one.run("A city.", output_type=City)
            assert_type(result.data, City)
            assert result.data == City("Bern")

    anyio.run(main)


def test_the_events_have_a_public_name() -> None:
    """`jaato.events` has what `jaato.protocol.events` has."""
    found: dict[str, Any] = {}
    exec("from jaato.events import *", found)
    for name in names:
        assert found[name] is getattr(jaato.protocol.events, name)
