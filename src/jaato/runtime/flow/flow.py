"""`Flow`: an instruction carried out with the tools of registries, as one turn of a session of its own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec.structs import replace

from jaato.agent.inbox import NO_AUTHOR, message_of
from jaato.agent.session import Session
from jaato.agent.turn import Turn
from jaato.errors import ConfigError, JaatoError, ToolError, UnknownTool
from jaato.plugins.arp.config import RegistryConfig, registry_from_url, target_of
from jaato.plugins.arp.directory import Directory
from jaato.plugins.arp.plugin import ArpPlugin, open_directory
from jaato.plugins.arp.tools import RegistryTool
from jaato.protocol.events import TurnCompleted
from jaato.protocol.ids import new_id, trace_id
from jaato.protocol.messages import Problem
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.runtime.embedding.agent import to_tuple
from jaato.runtime.embedding.handlers import PermissionHandler, answer_questions
from jaato.runtime.embedding.portal import PORTAL
from jaato.runtime.flow.planner import ANSWERER, MAX_DESCRIPTION_CHARS, MAX_OFFERED, StepPrompt, context_chars
from jaato.runtime.flow.replay import replay
from jaato.runtime.flow.result import FlowRun, fold
from jaato.runtime.flow.runner import FlowRunner, SessionInvoker
from jaato.runtime.flow.trace import (
    FORMAT,
    MAX_INSTRUCTION_CHARS,
    MOST_STEPS,
    Answering,
    AnyRecord,
    Begun,
    Ended,
    Offer,
    Offered,
    Place,
    Recorder,
    Status,
    read_trace,
)
from jaato.runtime.plugins.lifecycle import PluginHost
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.secrets import session_secrets
from jaato.runtime.session_factory import SessionFactory
from jaato.runtime.session_options import SessionOptions, settings_for, workspace_of
from jaato.runtime.session_store import open_store
from jaato.settings import Settings
from jaato.tools.call import problem_of, replace_surrogates
from jaato.tools.filesystem.containment import Roots
from jaato.tools.invisible_text import one_line
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.tool import Tool
from jaato.version import __version__

if TYPE_CHECKING:
    from jaato.abc.provider import Provider

ENDINGS: dict[str, Status] = {
    "cancelled": "cancelled",
    "interrupted": "cancelled",
    "limit": "limit",
    "length": "limit",
}
REFUSED = Problem(code="model_refused", message="The model refused to answer.")
Ending = tuple[Status, Problem | None]


def ignore(_record: AnyRecord) -> None:
    """Ignore a record."""


def no_responder(_session: Session) -> Callable[[], None]:
    """Leave a session's questions unanswered."""
    return lambda: None


@dataclass(eq=False)
class Flow:
    """An instruction, planned over the tools of registries, carried out step by step, answered from the results.

    `run = await Flow(registries=["http://127.0.0.1:8000"], model="…").run("…")`, or without a loop `Flow(…).run_sync("…")`.
    `registries` are URLs and names of configured ones; without any, all that are configured and trusted are used. `token` is
    for the one that is a URL. Calls ask for permission unless `allow` covers them, `on_permission` allows them, or `yes`.
    `trace` is a file, not there yet, that is written as the flow goes; `on_record` is called with each of its records;
    what fails in it is logged, and ends nothing.
    """

    registries: Sequence[str] = ()
    model: str | None = None
    provider: str | Provider | None = None
    workspace: str | Path | None = None
    name: str | None = None
    token: str = ""
    max_steps: int = 8
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    yes: bool = False
    on_permission: PermissionHandler | None = None
    on_record: Callable[[AnyRecord], object] = ignore
    trace: str | Path | None = None
    temperature: float | None = None
    effort: Any = None
    base_url: str | None = None
    api_key: str | None = None
    state_dir: str | Path | None = None
    environ: dict[str, str] | None = None
    _execution: FlowExecution | None = field(default=None, init=False, repr=False)

    async def run(self, instruction: str) -> FlowRun:
        """Carry out one instruction. What fails on the way is in the run: its `status`, its steps, its `error`.

        Raises `ConfigError` for what is configured wrongly, `StoreError` when the log cannot be kept, `JaatoError` while
        another run of this flow is under way.
        """
        if self._execution is not None:
            raise JaatoError("This flow is at work; make another one to run two at once.")
        execution = FlowExecution(
            instruction,
            self._blueprint(),
            texts("registries", self.registries),
            self.token,
            self.max_steps,
            Path(self.trace) if self.trace is not None else None,
            self.on_record,
            self._attend if self.on_permission is not None else no_responder,
        )
        self._execution = execution
        try:
            return await execution.run()
        finally:
            self._execution = None

    def run_sync(self, instruction: str) -> FlowRun:
        """`run` for programs without an event loop."""
        run: FlowRun = PORTAL.call(self.run(instruction))
        return run

    def stop(self) -> None:
        """Stop the run that is under way; it ends with the status `cancelled`, and what was done is in it."""
        if self._execution is not None:
            self._execution.stop()

    @staticmethod
    def replay(trace: str | Path) -> FlowRun:
        """Play a trace again, without model and registries, held against what was recorded.

        Raises `ConfigError` for a file that is no trace, and an error of code `flow_differs` where the trace does not play as
        it was recorded. A trace that was cut off gives a run that is `interrupted`.
        """
        return replay(read_trace(Path(trace))).run

    def _attend(self, session: Session) -> Callable[[], None]:
        return answer_questions(session, self.on_permission)

    def _blueprint(self) -> SessionOptions:
        return SessionOptions(
            model=self.model,
            provider=self.provider,
            workspace=Path(self.workspace) if self.workspace is not None else None,
            name=self.name,
            allow=texts("allow", self.allow),
            deny=texts("deny", self.deny),
            yes=self.yes,
            settings=ModelSettings(temperature=self.temperature, effort=self.effort),
            base_url=self.base_url,
            api_key=self.api_key,
            state_dir=Path(self.state_dir) if self.state_dir is not None else None,
            environ=self.environ,
        )


def texts(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """An argument that is a list of texts. Raises `ConfigError` for anything else."""
    found = to_tuple(name, given, "Flow")
    for one in found:
        if not isinstance(one, str):
            raise ConfigError(f"Flow's `{name}` has {one!r}, which is no text.")
    return found


@dataclass(eq=False, slots=True)
class FlowExecution:
    """One run of a flow. `stop` ends it wherever it is; what was done is kept. `registries` are names and URLs, none: all
    that are configured; `answer_questions` adds a responder to a session and gives the function that removes it."""

    instruction: str
    blueprint: SessionOptions = field(default_factory=SessionOptions)
    registries: tuple[str, ...] = ()
    token: str = ""
    max_steps: int = 8
    trace: Path | None = None
    on_record: Callable[[AnyRecord], object] = ignore
    answer_questions: Callable[[Session], Callable[[], None]] = no_responder
    fault: str = field(default="", init=False)
    """Why the trace file ends before the flow does."""
    _scope: anyio.CancelScope | None = field(default=None, init=False)
    _session: Session | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.instruction, str):
            raise ConfigError(f"The instruction is text, not {type(self.instruction).__name__}.")
        if not self.instruction.strip():
            raise ConfigError("The instruction is empty; say what is to be done.")
        if len(self.instruction) > MAX_INSTRUCTION_CHARS:
            raise ConfigError(f"The instruction has more than {MAX_INSTRUCTION_CHARS:,} characters.")
        if self.max_steps.__class__ is not int or not 1 <= self.max_steps <= MOST_STEPS:
            raise ConfigError(f"max_steps is a number from 1 to {MOST_STEPS}.")

    def stop(self) -> None:
        """Stop it."""
        if self._session is not None:
            self._session.stop()
        elif self._scope is not None:
            self._scope.cancel()

    async def run(self) -> FlowRun:
        """The whole flow. Raises `ConfigError` for what is configured wrongly, `StoreError` when the log cannot be kept."""
        began, self._scope = time.perf_counter(), anyio.CancelScope()
        workspace = workspace_of(self.blueprint)
        settings = settings_for(self.blueprint, workspace)
        registry = tools_registry(workspace, settings, self.blueprint)
        try:
            tools = choose_registries(registry, self.registries, self.token)
            recorder = Recorder(self.trace, self.on_record, registry.services["secrets"])
            failure: JaatoError | None = None
            try:
                try:
                    status, problem = await self._execute(tools, settings, workspace, recorder)
                except JaatoError as error:
                    failure, status, problem = error, "failed", problem_of(error)
                spent_s = round(time.perf_counter() - began, 6)
                recorder(Ended(status=status, error=problem, duration_s=spent_s))
            finally:
                recorder.close()
                self.fault = recorder.fault
            if failure is not None:
                raise failure
        finally:
            registry.shutdown()
        return fold(recorder.records)

    async def _execute(
        self, tools: RegistryTools, settings: Settings, workspace: Path, recorder: Recorder
    ) -> Ending:
        """Find tools, then carry the flow out in a session; how it ended."""
        secrets = tools.registry.services["secrets"]
        await tools.open()
        begun = Begun(
            format=FORMAT,
            flow_id=new_id("s"),
            instruction=secrets.mask(replace_surrogates(self.instruction)),
            registries=tools.places,
            max_steps=self.max_steps,
            jaato_version=__version__,
        )
        runner = FlowRunner(begun, tools, recorder)
        assert self._scope is not None
        with self._scope:
            problem = await runner.find_tools()
            if problem is not None:
                return "failed", problem
            blueprint = replace(
                self.blueprint, id=begun.flow_id, registry=tools.registry, prompt=ANSWERER, plugins=None
            )
            return await self._in_session(blueprint, settings, workspace, runner)
        return "cancelled", None

    async def _in_session(
        self, blueprint: SessionOptions, settings: Settings, workspace: Path, runner: FlowRunner
    ) -> Ending:
        """Carry the flow out as the turn of a session, which is closed however it ends."""
        async with AsyncExitStack() as stack:
            store = open_store(settings, blueprint.state_dir)
            stack.callback(store.close)
            secrets = session_secrets(settings, blueprint)
            shop = SessionFactory(workspace, settings, store, secrets, state_dir=blueprint.state_dir)
            stack.push_async_callback(close_shielded, shop.close)
            session, leave = await shop.session(blueprint)
            stack.push_async_callback(close_shielded, leave)
            stack.callback(self.answer_questions(session))
            self._session = session
            try:
                return await self._turn(session, runner)
            finally:
                self._session = None

    async def _turn(self, session: Session, runner: FlowRunner) -> Ending:
        failed: list[Problem] = []

        async def body(turn: Turn) -> dict[str, object] | None:
            invoker = SessionInvoker(session, turn)
            state = session.state
            answering = Answering(
                provider=state.provider,
                model=state.model,
                turn_id=turn.id,
                trace_id=trace_id(state.session_id, turn.id),
                room_chars=context_chars(session.model.limit.tokens),
            )
            problem = await runner.run(answering, invoker)
            if problem is not None:
                failed.append(problem)
            return invoker.unrecorded

        message = message_of(runner.begun.instruction, "", (), "user", NO_AUTHOR)
        done = await session.run_turn(message, body)
        return flow_ending(done, failed[0] if failed else None)


async def close_shielded(close: Callable[[], Awaitable[object]]) -> None:
    """Close something, also when the flow is cancelled."""
    with anyio.CancelScope(shield=True):
        await close()


def flow_ending(done: TurnCompleted, failed: Problem | None) -> Ending:
    """How the flow ended whose turn ended so, by the problem of the step that failed."""
    if done.reason == "refusal":
        return "failed", REFUSED
    if done.reason == "error":
        return "failed", done.error
    if done.reason != "stop":
        return ENDINGS[done.reason], done.error
    if failed is None:
        return "ok", None
    return ("denied" if failed.code == "permission_denied" else "failed"), failed


def tools_registry(workspace: Path, settings: Settings, blueprint: SessionOptions) -> PluginRegistry:
    """The plugins of a flow, to which its tools are added. Raises `ConfigError` where those of registries are switched off."""
    if "arp" in settings["disabled_plugins"]:
        raise ConfigError("A flow needs the plugin arp, which the setting disabled_plugins switches off.")
    services = {
        "environ": settings.environ,
        "settings": settings,
        "roots": Roots(workspace, []),
        "secrets": session_secrets(settings, blueprint),
    }
    return PluginRegistry(workspace=workspace, services=services)


MAX_PREFIX_CHARS = 20


class RegistryTools:
    """The tools of some registries, found now and described when a step needs one. `registry` has them for a session."""

    def __init__(
        self, registry: PluginRegistry, directory: Directory, chosen: Sequence[RegistryConfig]
    ) -> None:
        self.registry = registry
        self._directory = directory
        self._secrets: Redactor = registry.services["secrets"]
        self.chosen = tuple(chosen)
        directory.sources = {config.name: config for config in chosen}
        registry.register_plugin(ArpPlugin(PluginHost(registry, {}), directory), expose=True)

    @cached_property
    def places(self) -> list[Place]:
        """The registries, as they may be shown."""
        return [
            Place(config.name, target_of(config), configured=config.scope != "argument")
            for config in self.chosen
        ]

    async def open(self) -> None:
        """Have the keys of the registries be known as secrets, before anything is written down; asks none of them."""
        for config in self.chosen:
            with suppress(ToolError):  # it says so when it is asked
                await self._directory.handle(config).source.open()

    async def offered(self, instruction: str) -> Offered:
        """The tools of the registries that answer; those that serve the instruction first, where there are many."""
        for source in self.registry.catalog.sources.values():
            await source()
        problems = [why for config in self.chosen if (why := self._directory.handle(config).source.failure)]
        tools = {
            tool.name: tool for tool in self.registry.catalog if self._get_registry_tool(tool) is not None
        }
        names = list(tools)
        if len(names) > MAX_OFFERED:
            ranked = [spec.name for spec, _ in self.registry.catalog.search(instruction, MAX_OFFERED + 10)]
            names = list(dict.fromkeys([*(name for name in ranked if name in tools), *names]))[:MAX_OFFERED]
        return Offered(
            tools=[self._offer(tools[name]) for name in names], known=len(tools), problems=problems
        )

    def _get_registry_tool(self, tool: Tool) -> RegistryTool | None:
        """Where a tool is, if its registry answers."""
        match tool.remote:
            case RegistryTool() as registry_tool if not registry_tool.unreachable_reason:
                return registry_tool
        return None

    def _offer(self, tool: Tool) -> Offer:
        assert isinstance(tool.remote, RegistryTool)
        description = tool.spec.description[: MAX_DESCRIPTION_CHARS * 2]
        shown = self._secrets.mask(one_line(description, MAX_DESCRIPTION_CHARS))
        return Offer(tool.name, shown, tool.remote.source.name)

    async def described(self, prompt: StepPrompt, name: str) -> ToolSpec:
        """A tool, whole; its registry is asked where that was not done within the minute. Raises `ToolError`s."""
        found = self.registry.catalog.find(name)
        remote = found.tool.remote if found is not None else None
        if found is None or remote is None:
            raise UnknownTool(f"There is no tool {name!r} any more.")
        tool = found.tool
        await remote.complete(tool)
        tool.background_after_s = None  # the next step waits for what it gives
        masked = self._secrets.mask_data
        return msgspec.structs.replace(
            tool.spec, description=masked(tool.spec.description), parameters=masked(tool.spec.parameters)
        )


def choose_registries(registry: PluginRegistry, wanted: Sequence[str], token: str) -> RegistryTools:
    """The tools of these registries, by name or URL; of all that are configured and trusted where none is named.

    Raises `ConfigError` for one that is not there or switched off and where there is none at all, `PermissionDenied` for one
    that is not trusted.
    """
    directory = open_directory(PluginHost(registry, {}))
    chosen: dict[str, RegistryConfig] = {}
    for one in dict.fromkeys(wanted):
        config = registry_from_url(one, token) if "://" in one else directory.get_trusted(one)
        if any(target_of(config) == target_of(other) for other in chosen.values()):
            continue
        config = make_unique(config, chosen)
        chosen[config.name] = config
    if token and sum(config.scope == "argument" for config in chosen.values()) != 1:
        raise ConfigError(
            "A token is for one registry that is named by its URL; others have theirs configured."
        )
    if not wanted:
        chosen = {config.name: config for config in directory.usable()}
    if not chosen:
        standing = "; ".join(f"{one.name} {directory.state(one)}" for one in directory.sources.values())
        known = f"none of those configured can be used ({standing})" if standing else "none is configured"
        raise ConfigError(
            f"There is no registry to use, for {known}: name one (--registry URL), or add one with `jaato registry add`."
        )
    return RegistryTools(registry, directory, list(chosen.values()))


def make_unique(config: RegistryConfig, others: dict[str, RegistryConfig]) -> RegistryConfig:
    """The registry under a name and a prefix that none of the others has: two of one host may be used at once."""
    taken = {one.name for one in others.values()} | {one.prefix.casefold() for one in others.values()}
    number, name, prefix = 1, config.name, config.prefix
    while name in taken or prefix.casefold() in taken:
        number += 1
        name, prefix = f"{config.name}-{number}", f"{config.prefix[:MAX_PREFIX_CHARS]}-{number}"
    return msgspec.structs.replace(config, name=name, prefix=prefix) if number > 1 else config
