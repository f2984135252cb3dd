"""What a plugin may ask of the subagents of a session: start, continue, cancel and close them, and share values."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypedDict

from msgspec import Struct

from jaato.protocol.specs import AgentBounds, ModelSettings


class ToolChoice(Struct, frozen=True):
    """Tools by name, alias or pattern, and all tools of these plugins."""

    tools: list[str] | None = None
    plugins: list[str] | None = None


class SubagentProfile(TypedDict, total=False):
    """A kind of subagent, for `Agent(subagents={name: profile})`; what it does not say is as the agent has it.

    `description` says what it is for. `instructions` are added to the system prompt, `system_prompt` replaces it. `tools`
    (names and patterns) and `plugins` choose among the agent's tools.
    """

    description: str
    instructions: str
    system_prompt: str
    tools: list[str]
    plugins: list[str]
    deny: list[str]
    read_only: bool
    max_turns: int
    timeout_s: float
    provider: str
    model: str
    temperature: float
    effort: Literal["minimal", "low", "medium", "high"]
    max_output_tokens: int


class SubagentRequest(Struct, frozen=True, kw_only=True):
    """A task for a new subagent, and how it is to be made; what is None is as its parent has it."""

    task: str
    name: str | None = None
    profile: str | None = None
    background: bool = False
    instructions: str | None = None
    """What its system prompt says beside its parent's; with `whole_prompt` in place of it."""
    whole_prompt: bool = False
    provider: str | None = None
    model: str | None = None
    settings: ModelSettings | None = None
    bounds: AgentBounds = AgentBounds()
    choices: tuple[ToolChoice, ...] = ()
    """The tools it may use are those that every choice has; `bounds.tools` is made from them."""
    call_id: str = ""
    """The call that gives it."""
    again: bool = False
    """Whether an earlier process has started that call: its subagent is resumed, and nothing is created twice."""


class Subagents(Protocol):
    """The subagents of a session. `by` is the id of the agent that asks, `who` an agent's id, a name, or a unique prefix.

    Reports are plain data: `agent_id`, `name`, `status`, and what else is known. All raise `ToolError`s that say what to do.
    """

    async def delegate(self, by: str, order: SubagentRequest) -> dict[str, Any]: ...

    async def continue_subagent(
        self, by: str, who: str, message: str, *, background: bool, call_id: str = "", again: bool = False
    ) -> dict[str, Any]:
        """`call_id` and `again` as in an order."""
        ...

    async def result(self, by: str, who: str, wait_s: float) -> dict[str, Any]: ...

    async def cancel(self, by: str, who: str) -> dict[str, Any]: ...

    async def close_subagent(self, by: str, who: str) -> dict[str, Any]: ...

    async def send(self, by: str, who: str, message: str) -> dict[str, Any]: ...

    def list_subagents(self, by: str) -> list[dict[str, Any]]: ...

    def recent_messages(self, by: str, count: int) -> list[tuple[str, str]]: ...

    def shared(self) -> dict[str, tuple[Any, int, str, int]]: ...

    def share(self, by: str, key: str, value: Any, *, gone: bool = False) -> int: ...
