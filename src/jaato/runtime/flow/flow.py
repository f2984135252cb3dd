"""`Flow`: an instruction carried out with the tools of registries, for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.agent.session import Session
from jaato.errors import ConfigError, JaatoError
from jaato.protocol.specs import ModelSettings
from jaato.runtime.agent import listed
from jaato.runtime.answers import PermissionHandler, attend
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.flow.records import AnyRecord
from jaato.runtime.flow.replay import replay
from jaato.runtime.flow.result import FlowRun
from jaato.runtime.flow.trace import read_trace
from jaato.runtime.flow.work import Order, Work, nobody, unheard
from jaato.runtime.portal import PORTAL

if TYPE_CHECKING:
    from jaato.abc.provider import Provider


@dataclass(eq=False)
class Flow:
    """An instruction, planned over the tools of registries, carried out step by step, answered from the results.

    `run = await Flow(registries=["http://127.0.0.1:8000"], model="…").run("…")`, or without a loop `Flow(…).run_sync("…")`.
    `registries` are URLs and names of configured ones; without any, all that are configured and trusted are used. `token` is
    for the one that is a URL. Calls ask for permission unless `allow` covers them, `on_permission` allows them, or `yes`.
    `trace` is a file, not there yet, that is written as the flow goes; `on_record` hears each of its records;
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
    on_record: Callable[[AnyRecord], object] = unheard
    trace: str | Path | None = None
    temperature: float | None = None
    effort: Any = None
    base_url: str | None = None
    api_key: str | None = None
    state_dir: str | Path | None = None
    environ: dict[str, str] | None = None
    _work: Work | None = field(default=None, init=False, repr=False)

    async def run(self, instruction: str) -> FlowRun:
        """Carry out one instruction. What fails on the way is in the run: its `status`, its steps, its `error`.

        Raises `ConfigError` for what is configured wrongly, `StoreError` when the log cannot be kept, `JaatoError` while
        another run of this flow is under way.
        """
        if self._work is not None:
            raise JaatoError("This flow is at work; make another one to run two at once.")
        order = Order(
            instruction,
            self._blueprint(),
            texts("registries", self.registries),
            self.token,
            self.max_steps,
            Path(self.trace) if self.trace is not None else None,
            self.on_record,
            self._attend if self.on_permission is not None else nobody,
        )
        self._work = work = Work(order)
        try:
            return await work.run()
        finally:
            self._work = None

    def run_sync(self, instruction: str) -> FlowRun:
        """`run` for programs without an event loop."""
        run: FlowRun = PORTAL.call(self.run(instruction))
        return run

    def stop(self) -> None:
        """Stop the run that is under way; it ends with the status `cancelled`, and what was done is in it."""
        if self._work is not None:
            self._work.stop()

    @staticmethod
    def replay(trace: str | Path) -> FlowRun:
        """Play a trace again, without model and registries, held against what was recorded.

        Raises `ConfigError` for a file that is no trace, and an error of code `flow_differs` where the trace does not play as
        it was recorded. A trace that was cut off gives a run that is `interrupted`.
        """
        return replay(read_trace(Path(trace))).run

    def _attend(self, session: Session) -> Callable[[], None]:
        return attend(session, self.on_permission)

    def _blueprint(self) -> Blueprint:
        return Blueprint(
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
    found = listed(name, given, "Flow")
    for one in found:
        if not isinstance(one, str):
            raise ConfigError(f"Flow's `{name}` has {one!r}, which is no text.")
    return found
