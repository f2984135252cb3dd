"""Many passages through the script, each with its own deaths, several at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from tests.kill.play import Zygote, play, zygote
from tests.kill.script import ACTS
from tests.kill.verdict import complaints

AT_ONCE = 4
Deaths = tuple[int, ...]


@dataclass
class Report:
    """What many passages have come to."""

    boundaries: int = 0
    """Of the undisturbed passage."""
    events: int = 0
    """Durable ones of the undisturbed passage, in both of its sessions, those that were copied into the fork left out."""
    passages: int = 0
    killed: int = 0
    wrong: dict[Deaths, list[str]] = field(default_factory=dict)


async def passages(place: Path, choose: Callable[[int], Iterable[Deaths]]) -> Report:
    """One undisturbed passage, then those that `choose` gives for so many boundaries. What went well leaves nothing."""
    report = Report()
    async with zygote() as made:
        await one(made, place, (), report)
        home = place / "undisturbed"
        made.load((home / "modules").read_text().split("\n"))
        await made.loaded.wait()
        limit = anyio.Semaphore(AT_ONCE)

        async def some(deaths: Deaths) -> None:
            async with limit:
                await one(made, place, deaths, report)

        async with anyio.create_task_group() as group:
            for deaths in choose(report.boundaries):
                group.start_soon(some, deaths)
    return report


async def one(made: Zygote, place: Path, deaths: Deaths, report: Report) -> None:
    """One passage, and what is to be said of it."""
    home = place / ("-".join(map(str, deaths)) or "undisturbed")
    try:
        played = await play(made, home, deaths)
        found = complaints(played, list(ACTS))
    except Exception as error:
        log = home / "server.log"
        said = log.read_text()[-2000:] if log.exists() else ""
        report.wrong[deaths] = [f"{type(error).__name__}: {error}", said]
        return
    report.passages += 1
    report.killed += sum(status == -9 for status in played.statuses)
    if found:
        report.wrong[deaths] = found
    if not deaths:
        report.boundaries = played.boundaries
        report.events = sum(map(len, played.seen.values())) + next(iter(played.since.values()))
    elif not found:
        shutil.rmtree(home)
