"""The programs at terminals that one session has started: spawn, input, wait, and what the tools return."""

from __future__ import annotations

import asyncio
import secrets
import signal
from typing import Any

import anyio
import msgspec

from jaato.errors import ToolError
from jaato.plugins.terminal.input import TypedKeys, encode_text, key_bytes
from jaato.plugins.terminal.input_wait import end_of_file
from jaato.plugins.terminal.program import State, TerminalProgram
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call
from jaato.tools.permissions.access import check_reach, sandbox_fields
from jaato.tools.processes.command import Command, CommandLimits, find_shell, signal_name
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import Confinement
from jaato.tools.processes.streams import open_pty

MAX_LINES = 400
MAX_CHARS = 16_000
HIDDEN = "[secret]"
SHORT = 4
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


def render_state(session: TerminalProgram, state: State, *, whole: bool) -> dict[str, Any]:
    """The state of a program and what its screen shows, anew or whole; every part of it is bounded."""
    lines, missed = session.get_changed_lines(whole)
    if session.secrets:  # before anything is cut, so that no part of one is left
        lines = mask_typed("\n".join(lines), session.secrets).split("\n") if lines else lines
    kept = lines[-MAX_LINES:]
    size = 0
    for number in range(len(kept) - 1, -1, -1):
        size += len(kept[number]) + 1
        if size > MAX_CHARS and number < len(kept) - 1:
            kept = kept[number + 1 :]
            break
    value: dict[str, Any] = {"session_id": session.id, "state": state.name, **sandbox_fields(session.access)}
    if state.secret:
        value["secret"] = True
    if session.ended is not None:
        value |= make_end_fields(session)
    value["screen"] = "\n".join(kept)[-MAX_CHARS * 2 :]
    screen = session.screen
    if session.ended is None:
        value["cursor"] = {"row": screen.row + 1, "column": screen.column + 1}
    if screen.grid.aside is not None:
        value["full_screen"] = True
    if len(kept) < len(lines):
        value["omitted_lines"] = len(lines) - len(kept)
    if missed:
        value["missed_bytes"] = missed
    return value


def make_end_fields(session: TerminalProgram) -> dict[str, Any]:
    """How a program ended."""
    ended = session.ended
    assert ended is not None
    value: dict[str, Any] = {}
    if ended.code is not None and ended.code >= 0:
        value["exit_code"] = ended.code
    elif ended.code is not None:
        value["signal"] = signal_name(-ended.code)
    if session.problem:
        value["note"] = session.problem
    elif ended.left:
        value["note"] = f"Still running at its exit, so killed: {'; '.join(ended.left)}."
    if ended.stuck:
        value["note"] = f"Could not be killed yet, and still being tried: {'; '.join(ended.stuck)}."
    return value


def program_row(session: TerminalProgram) -> dict[str, Any]:
    """A program in a few words."""
    state = session.state()
    value: dict[str, Any] = {
        "session_id": session.id,
        "command": session.line[:200],
        "state": state.name,
        "started_at": session.started_at,
        **sandbox_fields(session.access),
    }
    return value | (make_end_fields(session) if session.ended is not None else {})


def mask_typed(text: str, secrets: set[str]) -> str:
    """The text without what was typed where it is not shown, also where the screen's edge has broken it."""
    for secret in sorted(secrets, key=len, reverse=True):
        wanted = "".join(secret.split())
        text = mask_text(text, wanted) if len(wanted) >= SHORT else text.replace(secret, HIDDEN)
    return text


def mask_text(text: str, wanted: str) -> str:
    """The text without this, however many blanks and line ends are between its characters."""
    places = [place for place, char in enumerate(text) if not char.isspace()]
    solid = "".join(text[place] for place in places)
    parts, done, at = [], 0, solid.find(wanted)
    while at >= 0:
        parts += [text[done : places[at]], HIDDEN]
        done = places[at + len(wanted) - 1] + 1
        at = solid.find(wanted, at + len(wanted))
    return "".join([*parts, text[done:]])


class TerminalConfig(msgspec.Struct, frozen=True):
    """The configuration: how many programs at once, how long an unused one lives, their environment."""

    most: int = 16
    idle_s: float = 3600.0
    env: dict[str, str | int | float] = {}
    hide_env: list[str] = []


class Terminals:
    """Every method runs on the loop of the terminals, and raises `ToolError` for what cannot be done."""

    def __init__(self, launcher: WardenClient, options: TerminalConfig) -> None:
        self.launcher = launcher
        self.options = options
        self._sessions: dict[str, TerminalProgram] = {}
        self._tasks: set[asyncio.Task[None]] = set()

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
            streams = open_pty(*size)
        except OSError as error:
            raise ToolError(f"There is no terminal to be had: {error.strerror}.") from None
        try:
            command = Command(
                [find_shell(), "-c", line],
                call.workspace,
                environment,
                limits=CommandLimits(),
                show=lambda _text: None,
                streams=streams.theirs,
                confinement=confinement,
            )
            name = f"t-{secrets.token_hex(4)}"
            session = TerminalProgram(name, call, line, command, streams)
        except BaseException:
            streams.close()
            raise
        self._sessions[session.id] = session
        life = asyncio.get_running_loop().create_task(session.run(self.launcher, self.options.idle_s))
        self._tasks.add(life)
        life.add_done_callback(self._tasks.discard)
        ended = [one.id for one in self._sessions.values() if one.ended is not None]
        for session_id in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._sessions[session_id]
        state = await session.settle(wait_s)
        if session.ended is not None and session.ended.reason == "failure":
            del self._sessions[session.id]
            doing = " ".join(session.ended.stuck) or session.problem
            raise ToolError(f"The program could not be started in {call.workspace}: {doing}.")
        return render_state(session, state, whole=False), {"continuation_id": session.id}

    def access_of(self, session_id: str, owner: str) -> SandboxAccess | None:
        """What the program at a terminal may reach, from any thread; None for one that another session has started."""
        found = self._sessions.get(session_id)
        return found.command.access if found is not None and found.owner == owner else None

    def _get_program(self, session_id: str, call: Call, *, alive: bool = False) -> TerminalProgram:
        found = self._sessions.get(session_id)
        if found is None or found.owner != call.session_id:
            raise ToolError(f"There is no terminal {session_id[:80]!r}; shell_list shows those there are.")
        if alive and found.ended is not None:
            fields = make_end_fields(found)
            raise ToolError(f"The program at {session_id} has ended ({fields}); shell_read shows its output.")
        return found

    async def enter(
        self, session_id: str, given: TypedKeys, wait_s: float, call: Call
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Type text and keys."""
        session = self._get_program(session_id, call, alive=True)
        check_reach(
            session.access,
            call.access,
            f"The program at {session_id}",
            "Start another with shell_spawn, or ask for more for this call.",
        )
        several = "\n" in given.text and not given.secret
        data = encode_text(given.text, pasted=several and session.uses_paste())
        data += b"".join(key_bytes(key, session.screen.application_keys) for key in given.keys)
        given.check(session.typed)
        if given.secret or not session.is_echoing():
            session.secrets.update(line for line in given.text.split("\n") if len(line) >= 4)
        unsent = await session.send(data)
        session.typed = given.get_line(session.typed)
        value = render_state(session, await session.settle(wait_s), whole=False)
        if unsent:
            value["unsent_bytes"] = unsent
            value["note"] = f"The program does not read: {unsent} bytes could not be typed."
        return value, {"continuation_id": session.id}

    async def read(
        self, session_id: str, wait_s: float, whole: bool, call: Call
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read the screen of a program."""
        session = self._get_program(session_id, call)
        return render_state(session, await session.settle(wait_s), whole=whole), {
            "continuation_id": session.id
        }

    async def control(
        self, session_id: str, action: str, size: tuple[int | None, int | None], wait_s: float, call: Call
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Signal it, end its input, give it another size."""
        session = self._get_program(session_id, call, alive=True)
        match action:
            case "resize":
                rows, columns = size
                session.resize(
                    clamp(rows or session.screen.height, 2, MAX_ROWS),
                    clamp(columns or session.screen.columns, 10, MAX_COLUMNS),
                )
            case "eof":
                await session.send(end_of_file(session.streams.input_fd))
            case _:
                try:
                    await session.signal(SIGNALS[action])
                except OSError as error:
                    raise ToolError(f"It could not be signalled: {error.strerror}.") from None
        value = render_state(session, await session.settle(wait_s), whole=False)
        return value, {"continuation_id": session.id}

    async def close(self, session_id: str, call: Call) -> tuple[dict[str, Any], dict[str, Any]]:
        """End a program with everything it started."""
        session = self._get_program(session_id, call)
        await session.close()
        self._sessions.pop(session_id, None)
        return render_state(session, session.state(), whole=False), {"continuation_id": session.id}

    async def listing(self, call: Call) -> dict[str, Any]:
        """The programs of a session."""
        own = [one for one in self._sessions.values() if one.owner == call.session_id]
        return {"sessions": [program_row(one) for one in own], "count": len(own)}

    async def end_all(self, owner: str | None) -> None:
        """End the programs of a session, or all."""
        own = [one for one in self._sessions.values() if owner is None or one.owner == owner]
        async with anyio.create_task_group() as tasks:
            for session in own:
                tasks.start_soon(session.close)
        for session in own:
            self._sessions.pop(session.id, None)


def clamp(value: int, least: int, most: int) -> int:
    """The number within its bounds."""
    return max(least, min(value, most))
