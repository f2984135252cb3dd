"""A process whose session delegates, and which dies by SIGKILL at the event it is told."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
from tests.agent.crash_child import effect
from tests.kit import call, calls, say
from tests.subagent.cast import stage

from jaato.protocol.events import Event

SCRIPTS: dict[str, Any] = {
    "main": [
        calls(
            ("delegate", {"task": "x", "name": "one"}),
            ("effect", {"name": "main"}),
            ("delegate", {"task": "y", "name": "two", "background": True}),
        ),
        call("set_shared_state", key="progress", value=1),
        call("get_subagent_result", agent_id="two", wait_s=30),
        say("done"),
    ],
    "one": [
        calls(("effect", {"name": "one"}), ("delegate", {"task": "z", "name": "deep"})),
        say("one is done"),
    ],
    "two": [call("effect", name="two"), say("two is done")],
    "deep": [call("effect", name="deep"), say("deep is done")],
}


async def main(path: Path, die_at: int) -> None:
    os.chdir(path)
    async with stage(path, SCRIPTS, [effect]) as (live, _cast):
        (path / "session_id").write_text(live.state.session_id)

        def count(event: Event) -> None:
            if event.durable and event.seq == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

        live.journal.bus.listen(count)
        turn = await live.post("go")
        assert turn is not None
        await live.supervisor.all_done()
        print(live.state.seq)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
