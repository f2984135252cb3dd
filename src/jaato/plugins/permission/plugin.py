"""`PermissionPlugin`: puts the permission gate in front of a `ToolExecutor`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from jaato.abc.asker import Asker
from jaato.abc.plugin import ToolSchema, UserCommand
from jaato.errors import ConfigError
from jaato.plugins.permission.channels import ChannelContext, QueueChannel, make_channel
from jaato.protocol.ids import new_id
from jaato.protocol.specs import SandboxProfile, ToolSpec
from jaato.tools.call import Call
from jaato.tools.permissions.decision import describe_verdict
from jaato.tools.permissions.gate import Decision, Gate, Policy
from jaato.tools.pipeline import LoopNeeded, run_without_loop
from jaato.tools.tool import Tool

if TYPE_CHECKING:
    from jaato.tools.processes.sandbox.sandbox import Sandbox

ASK = "Check whether a tool call would be allowed, asked about or denied, without making it."
PARAMETERS = {
    "type": "object",
    "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["tool"],
}
SHELL_NAMES = {"cli_based_tool": "run", "cli_execute": "run", "runCommand": "run"}


class ThreadTurnstile:
    """A turnstile for threads: it blocks, and therefore never suspends."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock

    async def __aenter__(self) -> None:
        """Wait until no other question is open."""
        self._lock.acquire()

    async def __aexit__(self, *_exc: object) -> None:
        """Admit the next question."""
        self._lock.release()


class PermissionPlugin:
    """A policy file and a channel. `gate` judges calls; `check_permission` is the same for a name and
    arguments.

    `config_path` is relative to `workspace` (default: the current directory) and need not exist. An absolute path outside
    of the workspace is the program's own, and holds as it was read here; later changes only tighten. So does any file with
    `trusted=True`. Another file of the workspace allows nothing until its content is trusted: `jaato permissions trust FILE`.
    `tools` finds the
    tool of a name, to know what it may touch; without it every tool counts as one that may execute. Raises
    `ConfigError` for a damaged file or an unknown channel.
    """

    name: ClassVar[str] = "permission"

    def __init__(
        self,
        config_path: str | Path = ".jaato/permissions.json",
        channel_type: str = "console",
        *,
        workspace: Path | None = None,
        state_dir: Path | None = None,
        trusted: bool | None = None,
        channel: Asker | None = None,
        tools: Callable[[str], Tool | None] | None = None,
    ) -> None:
        self._workspace = (workspace or Path.cwd()).resolve()
        self._state_dir = state_dir if state_dir is not None else default_state_dir()
        self._trusted = trusted
        self._tools = tools
        self._stubs: dict[str, Tool] = {}
        self._lock = threading.RLock()
        self._given = channel
        self._sandbox: Sandbox | None = None
        self._open(Path(config_path), channel_type)

    def _open(self, config_path: Path, channel_type: str) -> None:
        self._config_path = config_path
        path = self._workspace / config_path
        own = config_path.is_absolute() and not is_below(config_path, self._workspace)
        policy = Policy.load(
            path,
            workspace=self._workspace,
            state_dir=self._state_dir,
            trusted=True if own and self._trusted is None else self._trusted,
        )
        kind = policy.channel.type if policy.channel.type and channel_type == "console" else channel_type
        self.channel: Asker = self._given or make_channel(kind, policy.channel, self._places)
        self.gate = Gate(
            policy,
            asker=self.channel,
            workspace=self._workspace,
            turnstile=lambda: ThreadTurnstile(self._lock),
            protected=(self._state_dir,),
            profiles=self._profiles,
        )

    def _profiles(self) -> frozenset[SandboxProfile]:
        """The profiles that a sandbox here enforces."""
        from jaato.settings import environment
        from jaato.tools.processes.sandbox.sandbox import Sandbox

        if self._sandbox is None:
            self._sandbox = Sandbox(self._workspace, environ=environment())
        return self._sandbox.profiles

    def _places(self) -> ChannelContext:
        """The context of the channels `webhook` and `file`, by the user's settings."""
        from jaato.plugins.permission.webhook_file_channels import WebhookNetwork
        from jaato.settings import environment, load
        from jaato.tools.network.addresses import AllowedHosts

        environ = environment()
        allowed = AllowedHosts.of(load(environ=environ)["allow_hosts"])
        return ChannelContext(self._state_dir, WebhookNetwork(environ, allowed))

    def check_permission(self, tool: str, args: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
        """Whether the call may run, asking if need be, and `{decision, reason, method}`; with `arguments`
        if edited,
        `comment` if the user left one. Blocks while a question is open."""
        decision = self._decide(tool, dict(args))
        permission = decision.permission
        answer: dict[str, Any] = {
            "decision": permission.decision,
            "reason": permission.reason,
            "method": permission.method,
        }
        if decision.arguments is not None:
            answer["arguments"] = decision.arguments
        if decision.comment is not None:
            answer["comment"] = decision.comment
        return decision.allowed, answer

    def askPermission(self, tool: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Whether a call would be allowed, asked about or denied: `{tool, access, reason, method}`. No one is asked, and
        nothing runs; without arguments it is judged by its tool alone."""
        found, call = self._call(tool, dict(arguments or {}))
        return describe_verdict(tool, self.gate.explain(call, found))

    def _call(self, name: str, arguments: dict[str, Any]) -> tuple[Tool, Call]:
        """A tool and a call of it, with the arguments as the tool names them."""
        tool = self._tool(name)
        if tool.name == "run" and "cmd" in arguments and "command" not in arguments:
            arguments["command"] = arguments.pop("cmd")
        return tool, Call(new_id("c"), tool.name, arguments, workspace=self._workspace)

    def _decide(self, name: str, arguments: dict[str, Any]) -> Decision:
        tool, call = self._call(name, arguments)
        decision = run_synchronously(self.gate, call, tool)
        if decision.allowed and decision.arguments is not None:
            call.arguments = decision.arguments
            final = run_synchronously(self.gate, call, tool)
            return Decision(final.allowed, final.permission, decision.arguments, final.comment)
        return decision

    def _tool(self, name: str) -> Tool:
        found = self._tools(name) if self._tools else None
        if found is not None:
            return found
        canonical = SHELL_NAMES.get(name, name)
        stub = self._stubs.get(canonical)
        if stub is None:
            aliases: dict[str, Mapping[str, str]] = {
                alias: {"cmd": "command"} for alias, tool in SHELL_NAMES.items() if tool == canonical
            }
            spec = ToolSpec(canonical, "", {"type": "object"})
            stub = self._stubs[canonical] = Tool(spec, refuse_to_run, aliases=aliases)
        return stub

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Take another `config_path` or `channel_type`. Raises `ConfigError`."""
        given = config or {}
        unknown = sorted(given.keys() - {"config_path", "channel_type"})
        if unknown:
            raise ConfigError(f"The permission plugin has no setting {', '.join(unknown)}.")
        if given:
            path = Path(given.get("config_path", self._config_path))
            self._open(path, given.get("channel_type", "console"))

    def shutdown(self) -> None:
        """Close the channel and end temporary grants."""
        self.gate.go_idle()
        if isinstance(self.channel, QueueChannel):
            self.channel.close()

    def get_tool_schemas(self) -> list[Any]:
        """The tool `askPermission`, by which the model learns what a call would be allowed."""
        return [ToolSchema("askPermission", ASK, PARAMETERS, "system")]

    def get_executors(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """The function of `askPermission`."""
        return {"askPermission": lambda args: self.askPermission(args["tool"], args.get("arguments"))}

    def get_system_instructions(self) -> str | None:
        """The model needs none."""
        return None

    def get_auto_approved_tools(self) -> list[str]:
        """`askPermission` itself runs without asking."""
        return ["askPermission"]

    def get_user_commands(self) -> list[UserCommand]:
        """It has no commands."""
        return []


def is_below(path: Path, directory: Path) -> bool:
    """Whether a path is below a directory as it is written, or where its links lead."""
    return path.is_relative_to(directory) or path.resolve().is_relative_to(directory)


def refuse_to_run(_arguments: dict[str, Any], _call: Call) -> Any:
    """A tool that is only asked about."""
    raise LookupError("this tool is known by name only")


def run_synchronously(gate: Gate, call: Call, tool: Tool) -> Decision:
    """Run a check whose strategies never suspend."""
    try:
        return run_without_loop(gate.check(call, tool))
    except LoopNeeded:
        raise ConfigError(
            "A channel with a coroutine `ask` needs an event loop; use one whose `ask` is a plain method."
        ) from None


def default_state_dir() -> Path:
    """The user's state directory."""
    from jaato.settings import environment, user_dir

    return user_dir(environment(), "XDG_STATE_HOME", ".local/state")
