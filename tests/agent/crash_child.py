"""A process that runs a scripted session with side effects and dies by SIGKILL at the event it is told."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
from tests.kit import call, calls, say, session

from jaato.protocol.events import Event
from jaato.tools.tool import tool


@tool(core=True, access="write")
async def effect(name: str) -> str:
    """Leave a mark that cannot be mistaken: one line per run."""
    with Path("effects").open("a") as file:
        file.write(f"{name}\n")
    return f"did {name}"


@tool(core=True, access="write")
def effect_in_thread(name: str) -> str:
    """The same from a worker thread."""
    with Path("effects").open("a") as file:
        file.write(f"{name}\n")
    return f"did {name}"


SCRIPT = [
    call("effect", name="one"),
    calls(("effect", {"name": "two"}), ("effect_in_thread", {"name": "three"}), ("effect", {"name": "four"})),
    call("get_tool_schemas", names=["later"]),
    call("later", name="five"),
    say("done"),
]


@tool(access="write")
async def later(name: str) -> str:
    """A discoverable effect."""
    return await effect(name)


TOOLS = [effect, effect_in_thread, later]


async def main(path: Path, die_at: int) -> None:
    os.chdir(path)
    async with session(path, SCRIPT, TOOLS) as live:
        (path / "session_id").write_text(live.state.session_id)

        def count(event: Event) -> None:
            if event.durable and event.seq == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

        live.journal.bus.listen(count)
        turn = await live.post("go")
        assert turn is not None
        print(live.state.seq)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
