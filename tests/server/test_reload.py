"""A new configuration reaches the sessions that are open."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
from tests.kit import call, say
from tests.server.serving import Raw, served
from tests.server.test_session_info import begun, ends, over

from jaato.protocol.events import SystemMessage, TurnCompleted


def test_a_session_at_hand_hears_of_a_new_configuration(tmp_path: Path) -> None:
    """After a reload the next turn of a session that was open all the time is under the rules as they are now; one at work
    hears of them after its turn, and one whose configuration is broken goes on under the old one, and is told."""
    rules = tmp_path / "work/.jaato/permissions.json"
    rules.parent.mkdir(parents=True)
    gate = tmp_path / "work/gate"

    def forbid(*names: str) -> None:
        rules.write_text(json.dumps({"version": 1, "blacklist": {"tools": list(names), "patterns": []}}))

    async def main() -> None:
        script = [call("readFile", path="a"), say("1"), call("readFile", path="a"), say("2")]
        script += [
            call("run", command="touch begun; read x < gate"),
            say("3"),
            call("readFile", path="a"),
            say("4"),
        ]
        os.mkfifo(gate)
        (tmp_path / "work/a").write_text("here")
        async with served(tmp_path, script, 0.02, yes=True) as server, server.client() as client:
            session_id = await begun(client, tmp_path)
            before = server.hub.pool.loaded[session_id]
            await turn(client)
            forbid("readFile")
            await client.ask("server.reload")
            after = server.hub.pool.loaded[session_id]
            assert after is not before
            await turn(client)
            assert [event.result.ok for event in ends(client)] == [True, False]
            await client.ask("message.send", text="go")
            while not (tmp_path / "work/begun").exists():
                await anyio.sleep(0.005)
            forbid()
            await client.ask("server.reload")
            assert server.hub.pool.loaded[session_id] is after, "it is at work"
            await anyio.to_thread.run_sync(gate.write_text, "on\n")
            await over(client, 3)
            while server.hub.pool.loaded.get(session_id, after) is after:
                await anyio.sleep(0.005)
            await turn(client)
            assert [event.result.ok for event in ends(client)][2:] == [True, True]
            (tmp_path / "work/.jaato/config.toml").write_text("server = ")
            (tmp_path / ".config/jaato").mkdir(parents=True)
            (tmp_path / ".config/jaato/config.toml").write_text("server = ")
            refused = await client.ask("server.reload")
            assert refused.error is not None
            assert "not valid TOML" in refused.error.message
            told = [event.text for event in client.events if isinstance(event, SystemMessage)]
            told = told or [(await client.until(SystemMessage)).text]  # before the reply, or after it
            assert "cannot be read anew here" in told[-1]
            await turn(client)

    anyio.run(main)


async def turn(client: Raw) -> None:
    """Say something and wait for the end of the turn."""
    before = sum(isinstance(event, TurnCompleted) for event in client.events)
    await client.ask("message.send", text="go")
    await over(client, before + 1)
