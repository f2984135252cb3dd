"""A server with a scripted model, in a process that can be killed: `python -m tests.page.serve_page HOME PORT SCRIPT PAUSE`.

SCRIPT is a JSON file with the steps of each agent by its name; PAUSE are the seconds from one piece of text to the next. With
`server.pem` and `server.key` in HOME it speaks TLS.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
from tests.subagent.cast import Cast

from jaato.abc.provider import Chunk, ModelRequest, TextDelta
from jaato.protocol.specs import ModelInfo
from jaato.providers.scripted import Step
from jaato.runtime.session_options import SessionOptions
from jaato.server.app import ServerOptions, run_server
from jaato.server.http.listeners import bind_tcp, bind_unix
from jaato.settings import environment

HOLD = "⏸"
INFO = ModelInfo(
    "claude-sonnet-4-5", "scripted", context_limit=64_000, vision=True, price_input=3.0, price_output=15.0
)


class PacedCast(Cast):
    """Plays its scripts one piece each `pause_s`, by the clock: a late timer delays no other piece. After a piece with HOLD
    it waits until the file `go` exists."""

    go: Path
    pause_s: float

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Play the next line."""
        due = anyio.current_time()
        async for chunk in super().stream(request):
            if isinstance(chunk, TextDelta):
                due += self.pause_s
                await anyio.sleep_until(due)
            yield chunk
            if isinstance(chunk, TextDelta) and HOLD in chunk.text:
                while not self.go.exists():
                    await anyio.sleep(0.02)
                due = anyio.current_time()


async def main(home: Path, port: int, script: Path, pause_s: float) -> None:
    """Serve until stopped."""
    scripts = msgspec.json.decode(script.read_bytes(), type=dict[str, list[Step]])
    cast = PacedCast(scripts, INFO)
    cast.go, cast.pause_s = home / "dates/go", pause_s
    base = SessionOptions(
        provider=cast,
        model="claude-sonnet-4-5",
        state_dir=home / "state",
        environ={"HOME": str(home), "PATH": environment()["PATH"], "JAATO_SANDBOX": "full"},
    )
    certificate = home / "server.pem", home / "server.key"
    tls = certificate if certificate[0].exists() else None
    listeners = [bind_unix(home / "run/jaato.sock"), bind_tcp("127.0.0.1", port)]
    async with run_server(ServerOptions(listeners, base=base, tls=tls, openai=home / "dates")):
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            print("ready", flush=True)
            async for _ in signals:
                return


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
