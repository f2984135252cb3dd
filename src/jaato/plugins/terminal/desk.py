"""The programs at terminals that run, as far as they are managed on their own loop."""

from __future__ import annotations

import asyncio
import secrets
import signal
from typing import Any

import anyio
import msgspec

from jaato.errors import ToolError
from jaato.plugins.terminal.foreground import end_of_file
from jaato.plugins.terminal.input import Typed, key_bytes, typed_bytes
from jaato.plugins.terminal.results import ended_fields, listed, shown
from jaato.plugins.terminal.session import Session
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call
from jaato.tools.processes.command import Command, Limits, shell_of
from jaato.tools.processes.launch import Launcher
from jaato.tools.processes.sandbox.access import check_reach
from jaato.tools.processes.sandbox.sandbox import Confinement
from jaato.tools.processes.streams import terminal

MAX_ROWS, MAX_COLUMNS = 200, 500
MAX_ENDED = 32
SIGNALS = {
    "interrupt": signal.SIGINT,
    "quit": signal.SIGQUIT,
    "terminate": signal.SIGTERM,
    "kill": signal.SIGKILL,
    "hangup": signal.SIGHUP,
    "suspend": signal.SIGTSTP,
    "continue": signal.SIGCONT,
}


class Options(msgspec.Struct, frozen=True):
    """The configuration: how many programs at once, how long one lives that nobody looks at, their environment."""

    most: int = 16
    idle_s: float = 3600.0
    env: dict[str, str | int | float] = {}
    hide_env: list[str] = []


class Desk:
    """Every method runs on the loop of the terminals, and raises `ToolError` for what cannot be done."""

    def __init__(self, launcher: Launcher, options: Options) -> None:
        self.launcher = launcher
        self.options = options
        self._sessions: dict[str, Session] = {}
        self._lives: set[asyncio.Task[None]] = set()

    async def spawn(
        self,
        line: str,
        environment: dict[str, str],
        size: tuple[int, int],
        wait_s: float,
        call: Call,
        confinement: Confinement,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start a program."""
        alive = sum(one.ended is None for one in self._sessions.values())
        if alive >= self.options.most:
            raise ToolError(
                f"{alive} programs are running at terminals, which is the most. End one with shell_close."
            )
        try:
            streams = terminal(*size)
        except OSError as error:
            raise ToolError(f"There is no terminal to be had: {error.strerror}.") from None
        try:
            command = Command(
                [shell_of(), "-c", line],
                call.workspace,
                environment,
                limits=Limits(),
                show=lambda _text: None,
                streams=streams.theirs,
                confinement=confinement,
            )
            name = f"t-{secrets.token_hex(4)}"
            session = Session(name, call, line, command, streams)
        except BaseException:
            streams.close()
            raise
        self._sessions[session.id] = session
        life = asyncio.get_running_loop().create_task(session.live(self.launcher, self.options.idle_s))
        self._lives.add(life)
        life.add_done_callback(self._lives.discard)
        self._forget_old()
        state = await session.settle(wait_s)
        if session.ended is not None and session.ended.reason == "failure":
            del self._sessions[session.id]
            doing = " ".join(session.ended.stuck) or session.problem
            raise ToolError(f"The program could not be started in {call.workspace}: {doing}.")
        return shown(session, state, whole=False), {"continuation_id": session.id}

    def _forget_old(self) -> None:
        """Keep only the last of those that have ended."""
        ended = [one.id for one in self._sessions.values() if one.ended is not None]
        for session_id in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._sessions[session_id]

    def access_of(self, session_id: str, owner: str) -> SandboxAccess | None:
        """What the program at a terminal may reach, from any thread; None for one that its asker has not started."""
        found = self._sessions.get(session_id)
        return found.command.access if found is not None and found.owner == owner else None

    def _own(self, session_id: str, call: Call, *, alive: bool = False) -> Session:
        found = self._sessions.get(session_id)
        if found is None or found.owner != call.session_id:
            raise ToolError(f"There is no terminal {session_id[:80]!r}; shell_list shows those there are.")
        if alive and found.ended is not None:
            fields = ended_fields(found)
            raise ToolError(f"The program at {session_id} has ended ({fields}); shell_read shows its output.")
        return found

    async def enter(
        self, session_id: str, given: Typed, wait_s: float, call: Call
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Type something."""
        session = self._own(session_id, call, alive=True)
        check_reach(
            session.access,
            call.access,
            f"The program at {session_id}",
            "Start another with shell_spawn, or ask for more for this call.",
        )
        several = "\n" in given.text and not given.secret
        data = typed_bytes(given.text, pasted=several and session.pastes())
        data += b"".join(key_bytes(key, session.screen.application_keys) for key in given.keys)
        given.check(session.typed)
        if given.secret or not session.echoes():
            session.secrets.update(line for line in given.text.split("\n") if len(line) >= 4)
        unsent = await session.send(data)
        session.typed = given.left(session.typed)
        value = shown(session, await session.settle(wait_s), whole=False)
        if unsent:
            value["unsent_bytes"] = unsent
            value["note"] = f"The program does not read: {unsent} bytes could not be typed."
        return value, {"continuation_id": session.id}

    async def read(self, session_id: str, wait_s: float, whole: bool, call: Call) -> dict[str, Any]:
        """Look at a program."""
        session = self._own(session_id, call)
        return shown(session, await session.settle(wait_s), whole=whole)

    async def control(
        self, session_id: str, action: str, size: tuple[int | None, int | None], wait_s: float, call: Call
    ) -> dict[str, Any]:
        """Signal it, end its input, give it another size."""
        session = self._own(session_id, call, alive=True)
        match action:
            case "resize":
                rows, columns = size
                session.resize(
                    bounded(rows or session.screen.height, 2, MAX_ROWS),
                    bounded(columns or session.screen.columns, 10, MAX_COLUMNS),
                )
            case "eof":
                await session.send(end_of_file(session.streams.input_fd))
            case _:
                try:
                    await session.signal(SIGNALS[action])
                except OSError as error:
                    raise ToolError(f"It could not be signalled: {error.strerror}.") from None
        return shown(session, await session.settle(wait_s), whole=False)

    async def close(self, session_id: str, call: Call) -> dict[str, Any]:
        """End a program with everything it started."""
        session = self._own(session_id, call)
        await session.close()
        self._sessions.pop(session_id, None)
        return shown(session, session.state(), whole=False)

    async def listing(self, call: Call) -> dict[str, Any]:
        """The programs of a session."""
        own = [one for one in self._sessions.values() if one.owner == call.session_id]
        return {"sessions": [listed(one) for one in own], "count": len(own)}

    async def end_all(self, owner: str | None) -> None:
        """End the programs of a session, or all."""
        own = [one for one in self._sessions.values() if owner is None or one.owner == owner]
        async with anyio.create_task_group() as tasks:
            for session in own:
                tasks.start_soon(session.close)
        for session in own:
            self._sessions.pop(session.id, None)


def bounded(value: int, least: int, most: int) -> int:
    """The number within its bounds."""
    return max(least, min(value, most))
