"""A TypeScript client whose connection is lost every few frames has the state of one that never lost it."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import msgspec
from tests.kit import call, say
from tests.page.node import CLIENT, node
from tests.page.test_fold import assert_same
from tests.server.serving import opened, served

from jaato.protocol.events import TurnCompleted
from jaato.protocol.events.state import State
from jaato.settings import environment


def test_many_lost_connections_lose_no_event(tmp_path: Path) -> None:
    """A turn with calls, output and streamed text is followed through dozens of connections; its message is sent once."""
    script = [
        *(call("run", command=f"printf 'output {number} 🙂'") for number in range(12)),
        say("An answer in pieces 🙂. " * 20, chunks=60),
    ]

    async def main() -> None:
        async with served(tmp_path, script) as server, server.client() as watcher:
            session_id = await opened(watcher, tmp_path / "work")
            words = [
                node(),
                "tests/follow.ts",
                f"ws://127.0.0.1:{server.port}/v1/connect",
                session_id,
                "1",
                "Begin.",
            ]
            environ = {**environment(), "JAATO_TOKEN": server.token}
            async with anyio.create_task_group() as group:
                printed: list[bytes] = []

                async def follow() -> None:
                    done = await anyio.run_process(words, cwd=CLIENT, env=environ, check=False)
                    assert done.returncode == 0, done.stderr.decode()
                    printed.append(done.stdout)

                group.start_soon(follow)
                await watcher.until(TurnCompleted)
            found = json.loads(printed[0])
            assert found["lost"] > 5
            there = msgspec.json.decode(json.dumps(found["state"]), type=State)
            here = watcher.states[session_id]
            assert here.turns == 1
            for agent in here.agents.values():
                agent.status = there.agents[agent.id].status  # the last one may still be on its way
            assert_same(there, here)

    anyio.run(main)
