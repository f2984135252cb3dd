"""Servers in processes of their own, to be killed, each forked from one that has loaded what a server needs.

`python -m tests.server.serve_script PATH` serves at a Unix socket, as `tests.cli.warm` does. A request is `{"args": [HOME,
SCRIPT]}` with a script in JSON, or one for each agent by its name.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path

import anyio
from tests.cli import warm
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


async def serve(home: Path, script: str) -> None:
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


def main() -> None:
    """Fork for each request; in each forked process, be a server and end."""
    warm.load()
    data, descriptors = warm.fork_on_request(sys.argv[1])
    code = 1
    try:
        warm.take_streams(descriptors)
        home, script = json.loads(data)["args"]
        anyio.run(serve, Path(home), script)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
