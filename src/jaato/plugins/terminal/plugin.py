"""The plugin `terminal`: `shell_spawn`, `shell_input`, `shell_read`, `shell_control`, `shell_close`, `shell_list`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

import msgspec

from jaato.abc.plugin import Host, Plugin
from jaato.errors import ConfigError, InvalidArguments, ToolError
from jaato.plugins.terminal.input import parse_input
from jaato.plugins.terminal.terminals import MAX_COLUMNS, MAX_ROWS, TerminalConfig, Terminals, clamp
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call
from jaato.tools.host_services import environ_of, register_secrets
from jaato.tools.permissions.access import NEED, need_issues
from jaato.tools.processes.environment import command_environment
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.loop_thread import LoopThread, SessionCleanup
from jaato.tools.processes.sandbox.cleanup import add_to_result
from jaato.tools.processes.sandbox.sandbox import quarantine_new_control_files, sandbox_of
from jaato.tools.tool import tool
from jaato.typed_decoding import convert

T = TypeVar("T")
MAX_WAIT_S = 120.0
ASKING = frozenset(
    "GIT_TERMINAL_PROMPT GIT_ASKPASS SSH_ASKPASS SSH_ASKPASS_REQUIRE SUDO_ASKPASS GCM_INTERACTIVE "
    "DEBIAN_FRONTEND PIP_NO_INPUT EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_MERGE_AUTOEDIT".split()
)
"""What a command without a terminal must not do, and one with a terminal may: ask, and open an editor."""

Wait = Annotated[float, "seconds to wait for the program to want input or end"]


class TerminalPlugin(Plugin):
    """Programs at terminals of their own. They end with the session that started them, at the latest with jaato.

    Configuration: `most` programs at once, `idle_s` until an unused one is ended, `env` and `hide_env` as
    for `run`.
    """

    name: ClassVar[str] = "terminal"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        try:
            self.options = convert(dict(host.config), TerminalConfig, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"The configuration of the plugin {self.name} is not valid: {error}.") from None
        self.launcher = WardenClient()
        self.sandbox = sandbox_of(host)
        register_secrets(host, self.options.env)
        self._loop_thread = LoopThread("jaato-terminals")
        self._terminals = Terminals(self.launcher, self.options)
        self._cleanup = SessionCleanup(self._end_session)

    @tool(category="system", access="execute", confines=True, examines="_issues")
    async def shell_spawn(
        self,
        command: Annotated[str, "bash command line, such as python3, bash or gdb ./a.out"],
        rows: int = 24,
        columns: int = 80,
        wait_s: Wait = 5.0,
        need: Annotated[list[str] | None, NEED] = None,
        reason: str | None = None,
        *,
        call: Call,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an interactive program at a terminal: a REPL, debugger, shell, login prompt or full-screen program.
        Returns session_id, its state (running, awaiting_input, ended) and what the screen shows."""
        check_line(command)
        size = clamp(rows, 2, MAX_ROWS), clamp(columns, 10, MAX_COLUMNS)
        confinement = await self.sandbox.confine(call.access, call.workspace, call.session_id, self.launcher)
        await self._cleanup.register(call)
        return await self._run_on_loop(
            self._terminals.spawn(command, self._environment(), size, limit_wait(wait_s), call, confinement)
        )

    def _issues(self, arguments: dict[str, Any]) -> list[tuple[str, str]]:
        """What is wrong with what a call asks for beyond what rules give."""
        return need_issues(arguments)

    def _get_reach(self, call: Call) -> SandboxAccess | None:
        """What the program may reach that a call types into; None where there is none."""
        return self._terminals.access_of(str(call.arguments.get("session_id")), call.session_id)

    @tool(category="system", access="execute", reaches="_get_reach")
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
        given = parse_input(text, enter, keys or [], self._get_variable(secret_env, text))
        return await self._run_on_loop(self._terminals.enter(session_id, given, limit_wait(wait_s), call))

    @tool(category="system", access="read")
    async def shell_read(
        self,
        session_id: str,
        wait_s: Wait = 0.0,
        whole: Annotated[bool, "the whole screen, not only what changed"] = False,
        *,
        call: Call,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """See what a program at a terminal has shown since the last look, and whether it runs, waits for input or has
        ended. Use wait_s for one that is still working."""
        return await self._run_on_loop(self._terminals.read(session_id, limit_wait(wait_s), whole, call))

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
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Signal what runs in the foreground of a terminal, end its input (eof) or change its size. Returns its state
        and what the screen shows anew."""
        return await self._run_on_loop(
            self._terminals.control(session_id, action, (rows, columns), limit_wait(wait_s), call)
        )

    @tool(category="system", access="read")
    async def shell_close(self, session_id: str, *, call: Call) -> tuple[dict[str, Any], dict[str, Any]]:
        """End a program at a terminal with everything it started. Returns how it ended and its last output."""
        return await self._run_on_loop(self._terminals.close(session_id, call))

    @tool(category="system", access="read")
    async def shell_list(self, *, call: Call) -> dict[str, Any]:
        """List the programs at terminals that this session started, with their states."""
        return await self._run_on_loop(self._terminals.listing(call))

    def shutdown(self) -> None:
        """End every program with its child processes."""
        if self._loop_thread.begun:
            self._loop_thread.start(self._terminals.end_all(None)).result()
            self._loop_thread.close()
        self.launcher.close()
        self.sandbox.release()

    # --- from the caller's loop --------------------------------------------------------------------------------

    async def _run_on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the terminals' loop, and report control files that a program has made meanwhile."""
        done = await self._loop_thread.run(work)
        removed = quarantine_new_control_files(self.host)
        match done:
            case dict() if removed:
                return cast("T", add_to_result(done, removed))
            case (dict() as value, metadata) if removed:
                return cast("T", (add_to_result(value, removed), metadata))
        return done

    async def _end_session(self, session_id: str) -> None:
        """End the programs of a session that ends."""
        if self._loop_thread.begun:
            await self._run_on_loop(self._terminals.end_all(session_id))

    def _get_variable(self, name: str | None, text: str) -> str | None:
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
        found = command_environment(given, self.options.hide_env, more)
        kept = {name: given[name] for name in ("EDITOR", "VISUAL", "GIT_EDITOR") if name in given}
        return {name: value for name, value in found.items() if name not in ASKING or name in more} | kept


def limit_wait(wait_s: float) -> float:
    """How long a call waits at most; what is no number of seconds is none."""
    return min(wait_s, MAX_WAIT_S) if wait_s > 0 else 0.0


def check_line(command: str) -> None:
    """Raise `InvalidArguments` for a command line that no shell can be given."""
    issues = []
    if not command.strip():
        issues.append(("/command", "is empty"))
    if "\0" in command:
        issues.append(("/command", "has a NUL character"))
    if len(command.encode("utf-8", "replace")) > 100_000:
        issues.append(("/command", "is too long; write it to a script and run that"))
    if any(0xD800 <= ord(char) < 0xE000 for char in command):
        issues.append(("/command", "has half a surrogate pair, which is no character"))
    if issues:
        raise InvalidArguments(f"Invalid arguments for shell_spawn: command {issues[0][1]}.", issues)
