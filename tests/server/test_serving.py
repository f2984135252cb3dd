"""A server on real sockets: sessions made, watched and worked in by clients that come and go."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.server.serving import served

from jaato.protocol.codec import encode
from jaato.protocol.events import MessageModel, MessageUser, TurnCompleted
from jaato.protocol.frames import Opened, Taken
from jaato.providers.scripted import Step


@pytest.mark.spec("S4", "2. Server-First Architecture", "S4.server.2")
def test_two_clients_see_one_session(tmp_path: Path) -> None:
    """What one client starts, another sees: the same state, to the byte."""

    async def main() -> None:
        async with (
            served(tmp_path, [Step(text="All is well. " * 20)]) as server,
            server.client("one") as one,
            server.client("two") as two,
        ):
            made = await one.ask("session.create", workspace=str(tmp_path / "work"), name="first")
            assert isinstance(made.result, Opened)
            session_id = made.result.session_id
            await two.ask("session.attach", session_id="first")
            taken = await one.ask("message.send", text="How is it?")
            assert isinstance(taken.result, Taken)
            for client in (one, two):
                if not any(isinstance(event, TurnCompleted) for event in client.events):
                    await client.until(TurnCompleted)
            while server.hub.pool.loaded[session_id].session.is_busy:
                await anyio.sleep(0.01)
            for client in (one, two):
                await client.ask("client.config")  # all that was sent before has come
            assert encode(one.states[session_id]) == encode(two.states[session_id])
            entries = one.states[session_id].entries
            assert [type(entry) for entry in entries] == [MessageUser, MessageModel, TurnCompleted]

    anyio.run(main)
