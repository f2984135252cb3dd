"""Commands that are sent again, because the reply was lost with the connection or with the server: carried out once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
from tests.agent.crash_child import effect
from tests.kit import call, reopened, say, session
from tests.server.serving import served

from jaato.protocol.events import Event, MessageUser, ToolCallEnd
from jaato.protocol.frames import Opened, Taken
from jaato.providers.scripted import Step


def test_what_is_sent_again_to_the_next_server_is_known(tmp_path: Path) -> None:
    """A session that was created or forked, and a message that was taken, are the same ones for the next server on the
    store when their `once` comes again: nothing is made or said twice."""
    commands: list[tuple[str, dict[str, Any]]] = []
    results: list[list[Opened | Taken]] = []

    async def main() -> None:
        for _ in range(2):
            async with served(tmp_path, [Step(text="yes")] * 9) as server, server.client() as client:
                if not commands:
                    commands.append(
                        ("session.create", {"workspace": str(tmp_path / "work"), "once": "one word"})
                    )
                heard: list[Opened | Taken] = []
                for command, fields in commands:
                    reply = await client.ask(command, **fields)
                    assert isinstance(reply.result, Opened | Taken), reply.error
                    heard.append(reply.result)
                if len(commands) == 1:
                    assert isinstance(heard[0], Opened)
                    commands.append(("message.send", {"text": "hello", "once": "w" * 200}))
                    commands.append(("session.fork", {"seq": 4, "once": "another"}))
                    for command, fields in commands[1:]:
                        fields["session_id"] = heard[0].session_id
                        reply = await client.ask(command, **fields)
                        assert isinstance(reply.result, Opened | Taken), reply.error
                        heard.append(reply.result)
                results.append(heard)
                rows = server.hub.store.sessions()
        first, second = results
        assert [one.again for one in first] == [False] * 3
        assert [one.again for one in second] == [True] * 3
        assert len(rows) == 2
        for before, after in zip(first, second, strict=True):
            if isinstance(before, Taken) and isinstance(after, Taken):
                assert before.seq == after.seq
            elif isinstance(before, Opened) and isinstance(after, Opened):
                assert before.session_id == after.session_id
        async with served(tmp_path, []) as server, server.client() as client:
            refused = await client.ask("session.create", workspace=str(tmp_path / "work"), once="w" * 201)
            assert refused.error is not None
            assert re.search(r"at most 200 characters", refused.error.message)
            for row in server.hub.store.sessions():
                said = [one for one in server.hub.store.read(row.id) if isinstance(one, MessageUser)]
                assert len(said) == 1

    anyio.run(main)


def test_a_background_call_that_a_crash_cut_off_has_an_end(tmp_path: Path) -> None:
    """A call in the background that had begun when the process died is interrupted, in the log and for every view; it runs
    in nobody's eyes for ever."""

    async def main() -> None:
        begun = anyio.Event()

        async def slow(name: str) -> str:
            """Never end."""
            begun.set()
            await anyio.sleep_forever()
            return name

        script = [call("start_background", tool="slow", args={"name": "x"}), say("done")]
        plugins = ("introspection", "background")
        tools = [effect, slow]
        async with session(tmp_path, script, tools, plugins, deferred=False) as live:
            session_id = live.state.session_id
            await live.post("go")
            await begun.wait()
            assert live.state.started
            live.suspend()  # nothing is written from now on, as if it had died
        async with reopened(tmp_path, session_id, [say("so")], tools, plugins, deferred=False) as live:
            assert not live.state.started
            ends = [
                event
                for event in live.journal.store.read(session_id)
                if isinstance(event, Event) and isinstance(event, ToolCallEnd) and event.tool == "slow"
            ]
            assert [end.result.error.code for end in ends if end.result.error] == ["interrupted"]

    anyio.run(main)
