"""The plugin `cli`: `run` runs shell commands in the sandbox, and says what the sandbox refused."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any, ClassVar

import msgspec

from jaato.abc.plugin import Host, Plugin
from jaato.errors import CancelledException, ConfigError, InvalidArguments, ToolError
from jaato.tools.call import Call
from jaato.tools.host_services import environ_of, register_secrets
from jaato.tools.permissions.access import NEED, need_issues
from jaato.tools.processes.command import Command, CommandLimits, Ended, find_shell, signal_name
from jaato.tools.processes.environment import command_environment
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.cleanup import QuarantinedFile, add_to_result
from jaato.tools.processes.sandbox.sandbox import Confinement, sandbox_of
from jaato.tools.processes.streams import join_output
from jaato.tools.tool import tool
from jaato.typed_decoding import convert

ALIAS = {"cmd": "command"}
LONGEST_BYTES = 16 << 20
CPU_S = 4 * 3600
"""Seconds of processor time that one process of a command has, unless it is meant for the background."""

KEEP_ONE = "To keep one running, call run with background=true."
ASKING = "Call again with need ({needs}) and a reason."
MAX_SHOWN = 5
MAX_CHARS = 200
MOUNTED = re.compile(
    r"read-only file ?system|EROFS|unable to open database file|readonly database", re.IGNORECASE
)
FORBIDDEN = re.compile(r"permission denied|EACCES|operation not permitted|EPERM", re.IGNORECASE)
UNREACHED = re.compile(
    r"could(?:n't| not) resolve|temporary failure in name resolution|name or service not known|EAI_AGAIN|ENOTFOUND"
    r"|network is unreachable|ENETUNREACH|nodename nor servname|failed to resolve|failed to lookup address",
    re.IGNORECASE,
)
"""What a line of output looks like where something was refused; `FORBIDDEN` is looked for where the command failed."""


class Environment(msgspec.Struct, frozen=True):
    """The configured environment of commands; `CommandLimits` are read beside it."""

    env: dict[str, str | int | float] = {}
    hide_env: list[str] = []


class ShellPlugin(Plugin):
    """Shell commands, each with everything it starts ended with it.

    Configuration: `bound_bytes`, `cap_bytes`, `grace_s`, `settle_s`, `max_processes` as in `CommandLimits`; `env` is
    added to the environment of every command, `hide_env` lists names that are kept out of it.
    """

    name: ClassVar[str] = "cli"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        given = dict(host.config)
        try:
            self.environment = convert(given, Environment, strict=False)
            self.limits = convert(
                {key: value for key, value in given.items() if key in CommandLimits.__dataclass_fields__},
                CommandLimits,
            )
        except msgspec.ValidationError as error:
            raise ConfigError(f"The configuration of the plugin {self.name} is not valid: {error}.") from None
        self.launcher = WardenClient()
        self.sandbox = sandbox_of(host)
        register_secrets(host, self.environment.env)

    @tool(
        name="run",
        category="system",
        access="execute",
        core=True,
        background_after_s=10.0,
        aliases={"cli_based_tool": ALIAS, "cli_execute": ALIAS, "runCommand": ALIAS},
        confines=True,
        examines="_issues",
    )
    async def run(
        self,
        command: str,
        args: Annotated[list[str] | None, "argv, no shell"] = None,
        timeout_s: float | None = None,
        background: Annotated[bool, "returns a task id"] = False,
        need: Annotated[list[str] | None, NEED] = None,
        reason: str | None = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Run a bash command in the workspace (tests, installs), no stdin or terminal.

        What it leaves running is killed; servers need background.
        """
        argv = self._argv(command, args, timeout_s)
        limits = self.limits
        if not background and not limits.cpu_s:
            limits = dataclasses.replace(limits, cpu_s=CPU_S)
        ended, confinement, removed = await self._run(argv, timeout_s, limits, call)
        if ended.reason in ("stopped", "orphaned"):
            if ended.spool is not None:
                ended.spool.unlink(missing_ok=True)
            raise CancelledException("The command was stopped on request; nothing of it is running.")
        if ended.reason == "failure":
            raise ToolError(start_error(command, args, call, ended))
        value = await render_result(ended, timeout_s, self.limits, call)
        return add_to_result(add_sandbox_refusals(value, confinement, call.access_reason), removed)

    async def _run(
        self, argv: list[str], timeout_s: float | None, limits: CommandLimits, call: Call
    ) -> tuple[Ended, Confinement, list[QuarantinedFile]]:
        """Run a command line as far as the access of the call lets it; what of it was moved away afterwards."""
        confinement = await self.sandbox.confine(call.access, call.workspace, call.session_id, self.launcher)
        more = {key: str(value) for key, value in self.environment.env.items()}
        running = Command(
            argv,
            call.workspace,
            command_environment(environ_of(self.host), self.environment.hide_env, more),
            limits=limits,
            timeout_s=timeout_s,
            show=call.output,
            confinement=confinement,
        )
        forget = call.token.on_cancel(running.stop)
        try:
            ended = await running.run(self.launcher)
        finally:
            forget()
            removed = self.sandbox.finish(running.confinement)
        return ended, running.confinement, removed

    def _issues(self, arguments: dict[str, Any]) -> list[tuple[str, str]]:
        """The problems of the access that a call requests beyond the rules."""
        return need_issues(arguments)

    def shutdown(self) -> None:
        """End the warden; nothing that was started is alive afterwards."""
        self.launcher.close()
        self.sandbox.release()

    def _argv(self, command: str, args: list[str] | None, timeout_s: float | None) -> list[str]:
        issues = []
        if not command.strip():
            issues.append(("/command", "is empty"))
        for text in (command, *(args or ())):
            if "\0" in text:
                issues.append(("/command", "has a NUL character, which no command can have"))
            if not is_text(text):
                issues.append(("/command", "has half a surrogate pair, which is no character"))
            if len(text) > LONGEST_BYTES:
                issues.append(("/command", "is too long for the system; write it to a script and run that"))
        if timeout_s is not None and not timeout_s > 0:
            issues.append(("/timeout_s", "must be above 0"))
        if issues:
            shown = "; ".join(f"{path} {text}" for path, text in issues)
            raise InvalidArguments(f"Invalid arguments for run: {shown}.", issues)
        return [find_shell(), "-c", command] if args is None else [command, *args]


def start_error(command: str, args: list[str] | None, call: Call, ended: Ended) -> str:
    """Why a command could not be started, and what to do."""
    doing, error = ended.stuck
    if doing == "enter" and error in ("No such file or directory", "Not a directory"):
        return f"The workspace {call.workspace} is not there; create it or choose another."
    if doing == "enter":
        return f"Commands cannot run in the workspace {call.workspace}: {error}."
    if doing == "fork for":
        return f"No process could be started for the command: {error}. End some, then try again."
    if error == "No such file or directory" and doing == "run":
        return f"There is no program {command!r} on the PATH. Check its name, or install it."
    if error == "Argument list too long":
        return "The command, or its environment, is too long. Write it to a script file and run that."
    if error == "Permission denied" and doing == "run":
        return f"{command!r} is not executable. Run it with its interpreter, or make it executable."
    program = command if args is not None else "the shell"
    return f"Could not {doing} {program} in {call.workspace}: {error}."


async def render_result(
    ended: Ended, timeout_s: float | None, limits: CommandLimits, call: Call
) -> dict[str, Any]:
    """The result of a command that has ended, for the model."""
    value: dict[str, Any] = {"exit_code": ended.code}
    if ended.code is not None and ended.code < 0:
        value = {"exit_code": 128 - ended.code, "signal": signal_name(-ended.code)}
    head, tail, secrets = ended.head, ended.tail, call.services.get("secrets")
    if secrets is not None and ended.total > len(head):
        head, tail = secrets.trim_ends(head, tail)
    value["output"] = join_output(head, tail, ended.total)
    notes = []
    if ended.total > len(ended.head):
        value["truncated"] = True
        value["output_bytes"] = ended.total
        try:
            notes += await keep_output(ended, call, value)
        finally:
            if ended.spool is not None:
                ended.spool.unlink(missing_ok=True)
    match ended.reason:
        case "timeout":
            value["timed_out"] = True
            notes.append(f"Stopped after {timeout_s:g} s. Give it more time, or run it in the background.")
        case "output":
            size = f"{limits.cap_bytes:,} bytes"
            notes.append(f"Stopped: it printed more than {size}. Filter its output or send it to a file.")
        case "processes":
            notes.append(f"Stopped: it had started more than {limits.max_processes:,} processes.")
        case "lost":
            value["signal"] = "SIGKILL"
            notes.append(
                "It killed the process that supervised it, so it was killed too; its exit code is not known."
            )
        case "silent":
            value["signal"] = "SIGKILL"
            value["timed_out"] = True
            notes.append("Its supervisor did not answer in time, so all of it was killed.")
    if ended.left:
        more = f" and {ended.left_count - len(ended.left)} more" if ended.left_count > len(ended.left) else ""
        notes.append(f"Still running at its exit, so killed: {'; '.join(ended.left)}{more}. {KEEP_ONE}")
    if ended.stuck:
        notes.append(f"Could not be killed yet, and still being tried: {'; '.join(ended.stuck)}.")
    if notes:
        value["note"] = " ".join(notes)
    return {**value, "duration_s": ended.duration_s}


async def keep_output(ended: Ended, call: Call, value: dict[str, Any]) -> list[str]:
    """Keep all of a large output under a handle, or say why that could not be."""
    import anyio.to_thread

    if ended.spool is None:
        reason = f" ({ended.spool_error})" if ended.spool_error else ""
        return [f"The output was cut; the rest could not be kept{reason}."]
    try:
        value["handle"] = await anyio.to_thread.run_sync(call.keep, ended.spool)
    except LookupError:
        return ["The output was cut and the rest not kept. Filter it or send it to a file to see all."]
    return [f"Read all of it with readFile on {value['handle']}."]


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8; what stands for bytes that are no text counts as text."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def add_sandbox_refusals(value: dict[str, Any], confinement: Confinement, why: str = "") -> dict[str, Any]:
    """A command's result with its sandbox, where that only reads and `why`, and with what the sandbox seems to have refused."""
    access = confinement.access
    if access.profile == "full":
        return value
    reading = access.profile == "read-only"
    result: dict[str, Any] = {**value, "sandbox": "read-only"} if reading else dict(value)
    failed = value.get("exit_code") not in (0, None)
    if confinement.offline:
        result["offline"] = f"The hosts that were granted cannot be reached. {confinement.offline}."
    hosts = [f"net:{host}" for host in confinement.refused]
    if not (failed or reading or hosts):
        return result
    writing = ("write",) if reading else ("dir:/PATH", "control")
    lines, needs = find_refusals(str(value.get("output", "")), writing, failed=failed)
    lines, needs = [*lines, *confinement.refused], [*needs, *hosts]
    if lines:
        note = f"Why: {why}. " if reading and why else ""
        note += ASKING.format(needs=", ".join(needs))
        result["refused"] = [*value.get("refused", ()), *lines]
        result["note"] = f"{value['note']} {note}" if "note" in value else note
    return result


def find_refusals(output: str, writing: tuple[str, ...], *, failed: bool) -> tuple[list[str], list[str]]:
    """The lines of an output that show a refusal, each once, and what to ask for; `writing` is that of a file."""
    lines: dict[str, None] = {}
    needs: dict[str, None] = {}
    for line in output.splitlines():
        if MOUNTED.search(line) or (failed and FORBIDDEN.search(line)):
            needs |= dict.fromkeys(writing)
        elif UNREACHED.search(line):
            needs["net:HOST"] = None
        else:
            continue
        if len(lines) < MAX_SHOWN:
            lines[line.strip()[:MAX_CHARS]] = None
    return list(lines), list(needs)
