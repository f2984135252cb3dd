"""Strategies that fail, hang, lie or harm whoever looks at them: the turn goes on without them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.compaction.test_room import Strategy, collections, forget, texts
from tests.kit import say, session

from jaato.abc.compactor import GCConfig, GCResult
from jaato.agent.compaction.setup import CompactionSetup
from jaato.protocol.messages import Message, Text


def exits() -> Any:
    raise SystemExit(3)


def interrupts() -> Any:
    raise KeyboardInterrupt


class Hostile(BaseException):
    """One that harms whoever looks at it."""

    def __str__(self) -> str:
        raise SystemExit(4)

    __repr__ = __str__


class Shy:
    """A value nobody can show."""

    def __repr__(self) -> str:
        raise Hostile


def hostile() -> Any:
    raise Hostile


class Endless(list[Any]):
    """A list that has no end."""

    def __iter__(self) -> Any:
        while True:
            time.sleep(0.001)
            yield Message("user", [Text("more")])


WRONG: dict[str, tuple[Any, str]] = {
    "raises": (lambda _history: 1 / 0, "ZeroDivisionError"),
    "exits": (lambda _history: exits(), "SystemExit"),
    "interrupts": (lambda _history: interrupts(), "KeyboardInterrupt"),
    "raises what cannot be shown": (lambda _history: hostile(), "Hostile"),
    "gives what cannot be shown": (lambda _history: (Shy(),), "Hostile when shown"),
    "gives nothing": (lambda _history: (None,), "(history, GCResult)"),
    "gives text": (lambda _history: ("all", GCResult()), "not a str"),
    "gives strings": (lambda _history: (["all"], GCResult()), "has a str among"),
    "turns the order round": (lambda history: (history[::-1], GCResult()), "another order"),
    "repeats": (lambda history: ([history[0], history[0]], GCResult()), "one of them twice"),
    "cannot be stored": (
        lambda history: ([Message("user", [Text(object())])], GCResult()),  # type: ignore[arg-type]  # the point
        "cannot be stored",
    ),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_broken_strategy_is_left_out_and_the_turn_goes_on(tmp_path: Path, case: str) -> None:
    """The turn ends well, the history is whole, the log names the strategy and what it did."""
    keep, words = WRONG[case]

    async def main() -> None:
        async with session(tmp_path, [say("one"), say("two"), say("three")]) as live:
            await live.post("a")
            strategy = Strategy(keep)
            live.compaction.use(CompactionSetup(strategy, GCConfig()))
            for text in ("b", "c"):
                turn = await live.post(text)
                assert turn is not None
                assert turn.reason == "stop"
            assert strategy.collected == 1
            (event,) = collections(live)
            assert "mine is left out" in (event.problem or "")
            assert words in (event.problem or "")
            assert len(live.state.messages) == 6

    anyio.run(main)


def test_a_history_without_an_end_is_not_waited_for(tmp_path: Path) -> None:
    """What a strategy gives is looked at within its time too, apart from the loop."""

    async def main() -> None:
        endless: list[Any] = Endless()
        async with session(tmp_path, [say("one"), say("two")]) as live:
            live.compaction.use(
                CompactionSetup(Strategy(lambda _history: endless), GCConfig(), collecting_s=0.05)
            )
            turn = await live.post("a")
            assert turn is not None
            assert turn.reason == "stop"
            (event,) = collections(live)
            assert "has not answered" in (event.problem or "")

    anyio.run(main)


class Nameless(Strategy):
    """One whose name cannot be had."""

    @property
    def name(self) -> str:  # type: ignore[override]  # the point
        raise Hostile


@pytest.mark.parametrize(
    "result",
    [
        GCResult(notification=Shy()),  # type: ignore[arg-type]  # the point
        GCResult(success=False, error=Shy()),  # type: ignore[arg-type]
        GCResult(success=False, error="no room \ud800"),
    ],
)
def test_remarks_that_are_no_text_and_a_name_that_cannot_be_had_harm_nobody(
    tmp_path: Path, result: GCResult
) -> None:
    """The turn goes on, whatever a strategy says of itself."""

    async def main() -> None:
        async with session(tmp_path, [say("one" * 500), say("two")]) as live:
            await live.post("a")
            live.compaction.use(CompactionSetup(Nameless(lambda _history: ([], result)), GCConfig()))
            turn = await live.post("b")
            assert turn is not None
            assert turn.reason == "stop"
            assert len(collections(live)) == 1

    anyio.run(main)


def test_a_strategy_that_hangs_is_left_out(tmp_path: Path) -> None:
    """After its time the turn goes on without it."""

    async def main() -> None:
        strategy = Strategy(forget, lambda: time.sleep(5))
        async with session(tmp_path, [say("one"), say("two")]) as live:
            live.compaction.use(CompactionSetup(strategy, GCConfig(), asking_s=0.05))
            turn = await live.post("a")
            assert turn is not None
            assert turn.reason == "stop"
            (event,) = collections(live)
            assert "has not answered" in (event.problem or "")

    anyio.run(main)


def test_a_strategy_cannot_change_what_it_is_shown(tmp_path: Path) -> None:
    """It works on copies: what it does to the parts of a message changes nothing."""

    def vandal(history: list[Message]) -> Any:
        for message in history:
            message.parts.clear()
        return 1 / 0

    async def main() -> None:
        async with session(tmp_path, [say("one"), say("two")]) as live:
            await live.post("a")
            live.compaction.use(CompactionSetup(Strategy(vandal), GCConfig()))
            await live.post("b")
            assert texts(live) == ["a", "one", "b", "two"]

    anyio.run(main)
