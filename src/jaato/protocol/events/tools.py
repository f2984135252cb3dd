"""Events of tool calls: start, output, end; tools activated; background tasks; files changed."""

from __future__ import annotations

from typing import Any, Literal

from jaato.protocol.events.envelope import Ephemeral, EventBase
from jaato.protocol.events.questions import Permission
from jaato.protocol.messages import ToolResult
from jaato.protocol.specs import FileChange


class ToolCallStart(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.call_start"
):
    """A permitted call is about to run; durable before the tool does anything."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    turn_id: str | None = None
    permission: Permission | None = None
    digest: str | None = None
    origin: dict[str, str] | None = None
    """Where a call over HTTP comes from: `request_id`, `trace_id`, `flow_id`, `step_id`, as far as it says."""


class ToolOutput(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.output"):
    """Output of a running call; `offset` counts the characters before it."""

    call_id: str
    text: str
    offset: int = 0


class ToolCallEnd(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.call_end"):
    """A call has its result; durable before the model sees it."""

    call_id: str
    tool: str
    result: ToolResult
    duration_s: float
    permission: Permission | None = None
    continuation_id: str | None = None
    show_output: bool = True
    show_popup: bool = True
    origin: dict[str, str] | None = None
    """Where a call comes from of which there is no start."""
    arguments: dict[str, Any] | None = None
    """What a call was made with that has run and of which there is no start: it could only read, and was over at once."""


class ToolActivated(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.activated"):
    """Discoverable tools are declared to the model from now on, in this order, after those before them."""

    tools: list[str]


class ToolsStatus(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tools.status"):
    """The tools that are switched off now; declared ones stay declared and answer `tool_disabled`."""

    disabled: list[str]


class BackgroundUpdated(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="background.updated"
):
    """A background task began, ended or was stopped."""

    task_id: str
    tool: str
    plugin: str
    status: Literal["running", "completed", "failed", "cancelled", "interrupted"]
    call_id: str | None = None
    result: ToolResult | None = None


class WorkspaceFilesChanged(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="workspace.files_changed"
):
    """Files that a call or a user command has changed, each once, told with its end: by the file tools, patches, templates,
    notebooks' own files, archives, databases, and by going back to a waypoint or undoing. What a shell command or code of
    a notebook changes is not known here. After a crash it is told what a call had changed, or was about to. `more` were
    left out."""

    files: list[FileChange]
    call_id: str = ""
    """The call that changed them; empty: a user command."""
    more: int = 0
