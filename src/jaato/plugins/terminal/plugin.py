"""`shell_spawn`, `shell_input`, `shell_read`, `shell_control`, `shell_close` and `shell_list`."""

from __future__ import annotations

import asyncio
import functools
import secrets
import signal
from collections.abc import Coroutine
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import anyio
import msgspec

from jaato.abc.plugin import Host, Plugin
from jaato.errors import ConfigError, InvalidArguments, ToolError
from jaato.plugins.terminal.entry import Typed, typed
from jaato.plugins.terminal.keys import key_bytes
from jaato.plugins.terminal.loop import Loop
from jaato.plugins.terminal.results import ended_fields, listed, shown
from jaato.plugins.terminal.session import Session
from jaato.tools.call import Call
from jaato.tools.processes.command import Command, Limits, shell_of
from jaato.tools.processes.environ import for_commands
from jaato.tools.processes.launch import Launcher
from jaato.tools.processes.streams import terminal
from jaato.tools.reach import environ_of
from jaato.tools.tool import tool

T = TypeVar("T")
MAX_WAIT_S = 120.0
MAX_ROWS, MAX_COLUMNS = 200, 500
MAX_ENDED = 32
ASKING = frozenset(
    "GIT_TERMINAL_PROMPT GIT_ASKPASS SSH_ASKPASS SSH_ASKPASS_REQUIRE SUDO_ASKPASS GCM_INTERACTIVE "
    "DEBIAN_FRONTEND PIP_NO_INPUT EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_MERGE_AUTOEDIT".split()
)
"""What a command without a terminal must not do, and one with a terminal may: ask, and open an editor."""

SIGNALS = {
    "interrupt": signal.SIGINT,
    "quit": signal.SIGQUIT,
    "terminate": signal.SIGTERM,
    "kill": signal.SIGKILL,
    "hangup": signal.SIGHUP,
    "suspend": signal.SIGTSTP,
    "continue": signal.SIGCONT,
}
Wait = Annotated[float, "seconds to wait for the program to want input or end"]


class Options(msgspec.Struct, frozen=True):
    """The configuration: how many programs at once, how long one lives that nobody looks at, their environment."""

    most: int = 16
    idle_s: float = 3600.0
    env: dict[str, str | int | float] = {}
    hide_env: list[str] = []


class TerminalPlugin(Plugin):
    """Programs at terminals of their own. They end with the session that started them, at the latest with jaato.

    Configuration: `most` programs at once, `idle_s` until one that nobody looks at is ended, `env` and `hide_env` as
    for `run`.
    """

    name: ClassVar[str] = "terminal"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        try:
            self.options = msgspec.convert(dict(host.config), Options, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"The configuration of the plugin {self.name} is not valid: {error}.") from None
        self.launcher = Launcher()
        self._loop = Loop()
        self._sessions: dict[str, Session] = {}
        self._guarded: set[str] = set()
        self._lives: set[asyncio.Task[None]] = set()

    @tool(category="system", access="execute")
    async def shell_spawn(
        self,
        command: Annotated[str, "bash command line, such as python3, bash or gdb ./a.out"],
        rows: int = 24,
        columns: int = 80,
        wait_s: Wait = 5.0,
        *,
        call: Call,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an interactive program at a terminal: a REPL, debugger, shell, login prompt or full-screen program.
        Returns session_id, its state (running, awaiting_input, ended) and what the screen shows."""
        check_line(command)
        size = bounded(rows, 2, MAX_ROWS), bounded(columns, 10, MAX_COLUMNS)
        await self._guard(call)
        return await self._there(self._spawn(command, size, waited(wait_s), call))

    @tool(category="system", access="execute")
    async def shell_input(
        self,
        session_id: str,
        text: str = "",
        enter: Annotated[bool | None, "press enter after the text; default: unless keys are given"] = None,
        keys: Annotated[list[str] | None, "keys after the text: ctrl-c, up, tab, escape, f1, …"] = None,
        secret_env: Annotated[
            str | None, "type the value of this environment variable instead; it is never shown"
        ] = None,
        wait_s: Wait = 5.0,
        *,
        call: Call,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Type a line, or press keys, in a program that shell_spawn started. Returns its state and what the screen
        shows anew; awaiting_input means that it wants more, with secret for a password."""
        given = typed(text, enter, keys or [], self._value(secret_env, text))
        return await self._there(self._input(session_id, given, waited(wait_s), call))

    @tool(category="system", access="read")
    async def shell_read(
        self,
        session_id: str,
        wait_s: Wait = 0.0,
        whole: Annotated[bool, "the whole screen, not only what changed"] = False,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """See what a program at a terminal has shown since the last look, and whether it runs, waits for input or has
        ended. Use wait_s for one that is still working."""
        return await self._there(self._read(session_id, waited(wait_s), whole, call))

    @tool(category="system", access="execute")
    async def shell_control(
        self,
        session_id: str,
        action: Literal[
            "interrupt", "quit", "terminate", "kill", "hangup", "suspend", "continue", "eof", "resize"
        ],
        rows: int | None = None,
        columns: int | None = None,
        wait_s: Wait = 1.0,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Signal what runs in the foreground of a terminal, end its input (eof) or change its size. Returns its state
        and what the screen shows anew."""
        return await self._there(self._control(session_id, action, (rows, columns), waited(wait_s), call))

    @tool(category="system", access="read")
    async def shell_close(self, session_id: str, *, call: Call) -> dict[str, Any]:
        """End a program at a terminal with everything it started. Returns how it ended and its last output."""
        return await self._there(self._close(session_id, call))

    @tool(category="system", access="read")
    async def shell_list(self, *, call: Call) -> dict[str, Any]:
        """List the programs at terminals that this session started, with their states."""
        return await self._there(self._list(call))

    def shutdown(self) -> None:
        """End every program, with all that they started."""
        if self._loop.begun:
            self._loop.submit(self._end_all(None)).result()
            self._loop.close()
        self.launcher.close()

    # --- from the caller's loop --------------------------------------------------------------------------------

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this on the loop of the terminals."""
        return await asyncio.wrap_future(self._loop.submit(work))

    async def _guard(self, call: Call) -> None:
        """See to it that what a session starts ends with it."""
        session = call.services.get("session")
        if session is None or call.session_id in self._guarded:
            return
        self._guarded.add(call.session_id)
        try:
            await session.background(functools.partial(self._watch_over, call.session_id))
        except BaseException:
            self._guarded.discard(call.session_id)
            raise

    async def _watch_over(self, owner: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._guarded.discard(owner)
            if self._loop.begun:
                with anyio.CancelScope(shield=True):
                    await self._there(self._end_all(owner))

    def _value(self, name: str | None, text: str) -> str | None:
        """The value of an environment variable that programs have, too."""
        if name is None:
            return None
        if text:
            raise InvalidArguments("Give text or secret_env, not both.", [("/secret_env", "beside text")])
        value = self._environment().get(name)
        if not value:
            raise ToolError(f"There is no environment variable {name[:80]!r} for programs here.")
        return value

    def _environment(self) -> dict[str, str]:
        more = {"TERM": "xterm", **{key: str(value) for key, value in self.options.env.items()}}
        given = environ_of(self.host)
        found = for_commands(given, self.options.hide_env, more)
        kept = {name: given[name] for name in ("EDITOR", "VISUAL", "GIT_EDITOR") if name in given}
        return {name: value for name, value in found.items() if name not in ASKING or name in more} | kept

    # --- on the loop of the terminals --------------------------------------------------------------------------

    async def _spawn(
        self, line: str, size: tuple[int, int], wait_s: float, call: Call
    ) -> tuple[dict[str, Any], dict[str, Any]]:
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
                self._environment(),
                limits=Limits(),
                show=lambda _text: None,
                streams=streams.theirs,
            )
            session = Session(f"t-{secrets.token_hex(4)}", call.session_id, line, command, streams)
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

    def _own(self, session_id: str, call: Call, *, alive: bool = False) -> Session:
        found = self._sessions.get(session_id)
        if found is None or found.owner != call.session_id:
            raise ToolError(f"There is no terminal {session_id[:80]!r}; shell_list shows those there are.")
        if alive and found.ended is not None:
            fields = ended_fields(found)
            raise ToolError(f"The program at {session_id} has ended ({fields}); shell_read shows its output.")
        return found

    async def _input(
        self, session_id: str, given: Typed, wait_s: float, call: Call
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        session = self._own(session_id, call, alive=True)
        data = given.text.replace("\n", "\r").encode() + b"".join(
            key_bytes(key, session.screen.application_keys) for key in given.keys
        )
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

    async def _read(self, session_id: str, wait_s: float, whole: bool, call: Call) -> dict[str, Any]:
        session = self._own(session_id, call)
        return shown(session, await session.settle(wait_s), whole=whole)

    async def _control(
        self, session_id: str, action: str, size: tuple[int | None, int | None], wait_s: float, call: Call
    ) -> dict[str, Any]:
        session = self._own(session_id, call, alive=True)
        match action:
            case "resize":
                rows, columns = size
                session.resize(
                    bounded(rows or session.screen.height, 2, MAX_ROWS),
                    bounded(columns or session.screen.columns, 10, MAX_COLUMNS),
                )
            case "eof":
                await session.send(session.end_of_file())
            case _:
                try:
                    session.signal(SIGNALS[action])
                except OSError as error:
                    raise ToolError(f"It could not be signalled: {error.strerror}.") from None
        return shown(session, await session.settle(wait_s), whole=False)

    async def _close(self, session_id: str, call: Call) -> dict[str, Any]:
        session = self._own(session_id, call)
        await session.close()
        self._sessions.pop(session_id, None)
        return shown(session, session.state(), whole=False)

    async def _list(self, call: Call) -> dict[str, Any]:
        own = [one for one in self._sessions.values() if one.owner == call.session_id]
        return {"sessions": [listed(one) for one in own], "count": len(own)}

    async def _end_all(self, owner: str | None) -> None:
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


def waited(wait_s: float) -> float:
    """How long a call waits at most; what is no number of seconds is none."""
    return min(wait_s, MAX_WAIT_S) if wait_s > 0 else 0.0


def check_line(command: str) -> None:
    """Raise `InvalidArguments` for a command line that no shell can be given."""
    issues = []
    if not command.strip():
        issues.append(("/command", "is empty"))
    if "\0" in command:
        issues.append(("/command", "has a NUL character"))
    if len(command) > 100_000:
        issues.append(("/command", "is too long; write it to a script and run that"))
    if issues:
        raise InvalidArguments(f"Invalid arguments for shell_spawn: command {issues[0][1]}.", issues)
