"""Clients that are cut off at random moments, and come back by themselves."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import anyio
import pytest
from tests.client.breaking import Breaking
from tests.server.serving import served

from jaato.client.connection import connect
from jaato.protocol.codec import encode
from jaato.protocol.events import Event
from jaato.providers.scripted import ScriptedCall, Step

CUTS = 100


@pytest.mark.spec("S4", "2. Server-First Architecture", "S4.server.3")
@pytest.mark.spec("C8", "Server and events", "C8.events.2")
def test_many_disconnects_under_load(tmp_path: Path) -> None:
    """However often clients are cut off while a session works, each ends with the server's state, to the byte, and has
    seen every durable event once."""
    choose = random.Random(7)
    text = " ".join(f"word{n}" for n in range(400))
    script = [
        step
        for _ in range(400)
        for step in (Step(calls=[ScriptedCall("list_tools", {})], text="Let me look."), Step(text=text))
    ]

    async def main() -> None:
        async with (
            served(tmp_path, script) as server,
            Breaking(server.path, tmp_path / "breaking") as way,
            connect(way.path, name="one") as one,
            connect(way.path, name="two") as two,
        ):
            mine = await one.create(tmp_path / "work")
            other = await two.attach(mine.id)
            seen: dict[str, list[int]] = {"one": [], "two": []}
            over = asyncio.Event()

            async def watch(name: str, session: object) -> None:
                with session.events() as events:  # type: ignore[attr-defined]
                    async for event in events:
                        if isinstance(event, Event) and event.durable:
                            seen[name].append(event.seq)

            async def work() -> None:
                for _ in range(400):
                    if over.is_set():
                        return
                    await mine.run("go on")

            readers = [asyncio.create_task(watch("one", mine)), asyncio.create_task(watch("two", other))]
            working = asyncio.create_task(work())
            while way.cuts < CUTS and not working.done():
                await asyncio.sleep(choose.uniform(0, 0.03))
                way.cut()
            over.set()
            await working
            live = server.hub.pool.loaded[mine.id].session
            while live.is_busy or not (one.connected and two.connected):
                await asyncio.sleep(0.01)
            room = server.hub.rooms[mine.id]
            for client, session in ((one, mine), (two, other)):
                await client.list()  # what was sent before it has come
                assert encode(session.state) == encode(room.state)
            for reader in readers:
                reader.cancel()
            for name, numbers in seen.items():
                assert numbers == list(range(numbers[0], room.state.seq + 1)), f"{name} has a gap or a double"

    anyio.run(main)
