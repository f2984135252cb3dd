"""A server in a process of its own, to be killed: `python -m tests.server.serve_script HOME SCRIPT` with a script in JSON,
or one for each agent by its name."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import anyio
from tests.subagent.cast import Cast

from jaato.providers.scripted import ScriptedCall, ScriptedProvider, Step
from jaato.runtime.session_options import SessionOptions
from jaato.server.app import ServerOptions, run_server
from jaato.server.http.listeners import bind_unix


def script_of(lines: list[dict[str, object]]) -> list[Step]:
    """Steps from plain data: `{"say": text}` or `{"call": name, "with": arguments}`."""
    return [
        Step(text=str(line["say"]))
        if "say" in line
        else Step(calls=[ScriptedCall(str(line["call"]), dict(line.get("with", {})))])  # type: ignore[call-overload]
        for line in lines
    ]


async def main(home: Path, script: str) -> None:
    """Serve until killed."""
    lines = json.loads(script)
    played = (
        Cast({name: script_of(own) for name, own in lines.items()})
        if isinstance(lines, dict)
        else ScriptedProvider(script_of(lines))
    )
    base = SessionOptions(
        provider=played,
        model="script",
        state_dir=home / "state",
        environ={"HOME": str(home), "PATH": "/usr/bin:/bin"},
    )
    async with run_server(ServerOptions([bind_unix(home / "run/jaato.sock")], base=base)):
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            print("ready", flush=True)
            async for _ in signals:
                return


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
