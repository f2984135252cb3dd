"""The interface of a plugin: the native class with `@tool` methods, and the documented protocol with schemas and executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import msgspec

from jaato.protocol.specs import Discoverability

ENTRY_POINT_GROUPS: dict[str, str] = {
    "tool": "jaato.plugins",
    "gc": "jaato.gc_plugins",
    "session": "jaato.session_plugins",
    "model_provider": "jaato.model_providers",
}


class UserCommand(NamedTuple):
    """A command the user types; the model cannot call it. Shared output joins the conversation. A description that ends with
    a colon, the name and how the arguments are written (`Go on with a session: resume ID`) tells these to clients."""

    name: str
    description: str
    share_with_model: bool = False


class PromptEnrichmentResult(NamedTuple):
    """A prompt after a plugin has looked at it. `activates` in the metadata names tools that what was added speaks of: they are
    declared to the model from now on."""

    prompt: str
    metadata: dict[str, Any] = {}


@dataclass(frozen=True)
class ToolSchema:
    """A tool's declaration in the documented form."""

    name: str
    description: str
    parameters: dict[str, Any] = field(default_factory=dict)
    category: str | None = None
    discoverability: Discoverability = "discoverable"


@runtime_checkable
class ToolPlugin(Protocol):
    """The documented shape of a tool plugin. Optional methods are looked for once, when it is registered:

    `get_model_requirements`, `subscribes_to_prompt_enrichment`, `enrich_prompt`, `get_enrichment_priority`,
    `subscribes_to_tool_result_enrichment`, `enrich_tool_result(tool_name, result)`,
    `set_plugin_registry`, `set_session`, `set_workspace_path`, and those of `BackgroundCapable`.
    """

    @property
    def name(self) -> str: ...

    def get_tool_schemas(self) -> Sequence[Any]: ...

    def get_executors(self) -> Mapping[str, Callable[[dict[str, Any]], Any]]: ...

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def get_system_instructions(self) -> str | None: ...

    def get_auto_approved_tools(self) -> list[str]: ...

    def get_user_commands(self) -> list[UserCommand]: ...


class Host(Protocol):
    """What the runtime offers a plugin: where it works and its part of the configuration."""

    @property
    def workspace(self) -> Path: ...

    @property
    def config(self) -> Mapping[str, Any]: ...

    def service(self, name: str) -> Any:
        """Something of the runtime by name (`catalog`, `background`, `search`, …); raises KeyError."""
        ...


class Enrichment(msgspec.Struct, frozen=True):
    """When a plugin is asked to enrich a prompt: lower `priority` first; only for a prompt in which `pattern` is found, or
    where one of the files `present` is there below the workspace; always without both.

    The pattern is searched on the loop, so it must take one pass over a prompt of any length. `instant` plugins neither
    read files nor wait, and are asked there too, which spares each turn a thread."""

    priority: int = 50
    pattern: str = ""
    present: tuple[str, ...] = ()
    instant: bool = False
    refuses: bool = False
    """Whether the `ToolError` of a built-in plugin refuses the message, instead of leaving the plugin out."""


class Plugin:
    """The native form: subclass it, take the host, mark methods with `@tool`; `shutdown` runs once at the end."""

    name: ClassVar[str] = ""
    instructions: ClassVar[str] = ""
    """What the model must know to use the tools together; costs context, so usually empty."""
    looks_at: ClassVar[tuple[str, ...]] = ()
    """Patterns below the workspace, or with `~/` below the user's home, or with `config:` below the user's configuration
    directory: where a file fits one a built-in plugin is made at its exposure, because it offers what is written there or
    puts right what was left half done. Without any it is made when one of its tools is first called."""
    enrichment: ClassVar[Enrichment | None] = None
    """When and in which order `enrich_prompt`, which a plugin that sets this has, is asked."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """Commands the user can type, each with the function that runs it on the rest of the line."""
        return {}

    def offered(self) -> list[Any]:
        """Tools beside the marked methods, asked for once; the registry's `renew` exchanges them later."""
        return []

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """What the model is to read in place of this prompt: usually the prompt and something after it."""
        return PromptEnrichmentResult(prompt)

    enriches_results: ClassVar[tuple[str, ...]] = ()
    """The tools whose results `enrich_result` sees, by name; `*` for all. A plugin that waits to be made sees none."""

    def enrich_result(self, call: Any, value: Any) -> Any:
        """What a call gave, with what this plugin knows about it; may be a coroutine. The value itself is not changed."""
        return value

    def shutdown(self) -> None:
        """Let go of everything; called once."""


class TaskStatus(StrEnum):
    """Where a background task stands."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskHandle(msgspec.Struct, frozen=True):
    """A background task that was started; `created_at` is ISO 8601 UTC."""

    task_id: str
    plugin_name: str
    tool_name: str
    created_at: str


class TaskResult(msgspec.Struct, frozen=True):
    """What became of a task so far."""

    task_id: str
    status: TaskStatus
    result: Any = None
    error: str | None = None


@runtime_checkable
class BackgroundCapable(Protocol):
    """A plugin whose tools can run in the background; thresholds in seconds, None for never by itself."""

    def supports_background(self, tool_name: str) -> bool: ...

    def get_auto_background_threshold(self, tool_name: str) -> float | None: ...

    def start_background(self, tool_name: str, args: dict[str, Any]) -> TaskHandle: ...

    def register_running_task(
        self, future: Future[Any], tool_name: str, args: dict[str, Any]
    ) -> TaskHandle: ...

    def get_status(self, task_id: str) -> TaskStatus: ...

    def get_result(self, task_id: str) -> TaskResult: ...

    def cancel(self, task_id: str) -> bool: ...
