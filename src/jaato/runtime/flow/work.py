"""A flow at work: its tools, its session, its turn, and every way it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

import jaato
from jaato.agent.compose import NOBODY, said
from jaato.agent.session import Session
from jaato.agent.turn import Turn, run_turn
from jaato.errors import ConfigError, JaatoError
from jaato.protocol.events import TurnCompleted
from jaato.protocol.ids import new_id, trace_id
from jaato.protocol.messages import Problem
from jaato.runtime.assemble import open_store, settings_for, workspace_of
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.flow.course import Course
from jaato.runtime.flow.far import FarTools, choose
from jaato.runtime.flow.live import LiveHands
from jaato.runtime.flow.parts import Hands
from jaato.runtime.flow.records import FORMAT, Answering, AnyRecord, Begun, Ended, Status
from jaato.runtime.flow.result import FlowRun, fold
from jaato.runtime.flow.trace import Recorder
from jaato.runtime.flow.words import ANSWERER, MAX_INSTRUCTION_CHARS, MOST_STEPS, room_of
from jaato.runtime.registry import PluginRegistry
from jaato.runtime.secret_values import known_secrets
from jaato.runtime.workshop import Workshop
from jaato.settings import Settings
from jaato.tools.call import clean, problem_of
from jaato.tools.paths import Roots

ENDINGS: dict[str, Status] = {
    "cancelled": "cancelled",
    "interrupted": "cancelled",
    "limit": "limit",
    "length": "limit",
}
REFUSED = Problem(code="model_refused", message="The model refused to answer.")

Attend = Callable[[Session], Callable[[], None]]
HandsOf = Callable[[LiveHands], Hands]


def nobody(_session: Session) -> Callable[[], None]:
    """Nobody answers questions."""
    return lambda: None


def unheard(_record: AnyRecord) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a flow is to be. `registries` are names and URLs, none: all that are configured; `attend` makes somebody answer
    a session's questions and gives the function that ends that; `hands` may put others in the place of the session's."""

    instruction: str
    blueprint: Blueprint = field(default_factory=Blueprint)
    registries: tuple[str, ...] = ()
    token: str = ""
    max_steps: int = 8
    trace: Path | None = None
    heard: Callable[[AnyRecord], object] = unheard
    attend: Attend = nobody
    hands: HandsOf = lambda live: live


class Work:
    """One flow. `stop` ends it wherever it is; what was done is kept."""

    def __init__(self, order: Order) -> None:
        if not isinstance(order.instruction, str):
            raise ConfigError(f"The instruction is text, not {type(order.instruction).__name__}.")
        if not order.instruction.strip():
            raise ConfigError("The instruction is empty; say what is to be done.")
        if len(order.instruction) > MAX_INSTRUCTION_CHARS:
            raise ConfigError(f"The instruction has more than {MAX_INSTRUCTION_CHARS:,} characters.")
        if order.max_steps.__class__ is not int or not 1 <= order.max_steps <= MOST_STEPS:
            raise ConfigError(f"max_steps is a number from 1 to {MOST_STEPS}.")
        self._order = order
        self._scope = anyio.CancelScope()
        self._session: Session | None = None
        self.fault = ""
        """Why the trace file ends before the flow does."""

    def stop(self) -> None:
        """Stop it."""
        if self._session is not None:
            self._session.stop()
        else:
            self._scope.cancel()

    async def run(self) -> FlowRun:
        """The whole flow. Raises `ConfigError` for what is configured wrongly, `StoreError` when the log cannot be kept."""
        order, began = self._order, time.perf_counter()
        workspace = workspace_of(order.blueprint)
        settings = settings_for(order.blueprint, workspace)
        registry = tools_registry(workspace, settings, order.blueprint)
        try:
            tools = choose(registry, order.registries, order.token)
            recorder = Recorder(order.trace, order.heard, registry.services["secrets"])
            try:
                ended = await self._ended(tools, settings, workspace, recorder)
                recorder(
                    Ended(status=ended[0], error=ended[1], duration_s=round(time.perf_counter() - began, 6))
                )
            except JaatoError as error:
                spent_s = round(time.perf_counter() - began, 6)
                recorder(Ended(status="failed", error=problem_of(error), duration_s=spent_s))
                raise
            finally:
                recorder.close()
                self.fault = recorder.fault
        finally:
            registry.shutdown()
        return fold(recorder.records)

    async def _ended(
        self, tools: FarTools, settings: Settings, workspace: Path, recorder: Recorder
    ) -> tuple[Status, Problem | None]:
        """How the flow ends."""
        order = self._order
        secrets = tools.registry.services["secrets"]
        await tools.open()
        begun = Begun(
            format=FORMAT,
            flow_id=new_id("s"),
            instruction=secrets.mask(clean(order.instruction)),
            registries=tools.places,
            max_steps=order.max_steps,
            jaato_version=jaato.__version__,
        )
        course = Course(begun, tools, recorder)
        with self._scope:
            problem = await course.find()
            if problem is not None:
                return "failed", problem
            blueprint = replace(
                order.blueprint, id=begun.flow_id, registry=tools.registry, prompt=ANSWERER, plugins=None
            )
            return await self._in_session(blueprint, settings, workspace, course)
        return "cancelled", None

    async def _in_session(
        self, blueprint: Blueprint, settings: Settings, workspace: Path, course: Course
    ) -> tuple[Status, Problem | None]:
        """Make a session for it, and let go of that however it ends."""
        store = open_store(settings, blueprint.state_dir)
        try:
            secrets = known_secrets(settings, blueprint)
            shop = Workshop(workspace, settings, store, secrets, state_dir=blueprint.state_dir)
            try:
                session, leave = await shop.session(blueprint)
                try:
                    return await self._turn(session, course)
                finally:
                    self._session = None
                    with anyio.CancelScope(shield=True):
                        await leave()
            finally:
                with anyio.CancelScope(shield=True):
                    await shop.close()
        finally:
            store.close()

    async def _turn(self, session: Session, course: Course) -> tuple[Status, Problem | None]:
        """The turn of the session that is the flow."""
        failed: list[Problem] = []

        async def body(session: Session, turn: Turn) -> dict[str, object] | None:
            live = LiveHands(session, turn)
            state = session.state
            answering = Answering(
                provider=state.provider,
                model=state.model,
                turn_id=turn.id,
                trace_id=trace_id(state.session_id, turn.id),
                room_chars=room_of(session.model_info().context_limit),
            )
            problem = await course.take(answering, self._order.hands(live))
            if problem is not None:
                failed.append(problem)
            return live.last

        self._session = session
        message = said(course.instruction, "", (), "user", NOBODY)
        leave = self._order.attend(session)
        try:
            done = await session.occupied(lambda: run_turn(session, message, body))
        finally:
            leave()
        return ending_of(done, failed[0] if failed else None)


def ending_of(done: TurnCompleted, failed: Problem | None) -> tuple[Status, Problem | None]:
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


def tools_registry(workspace: Path, settings: Settings, blueprint: Blueprint) -> PluginRegistry:
    """The plugins of a flow, to which its tools are added. Raises `ConfigError` where those of registries are switched off."""
    if "arp" in settings["disabled_plugins"]:
        raise ConfigError("A flow needs the plugin arp, which the setting disabled_plugins switches off.")
    services = {
        "environ": settings.environ,
        "settings": settings,
        "roots": Roots(workspace, []),
        "secrets": known_secrets(settings, blueprint),
    }
    return PluginRegistry(workspace=workspace, services=services)
