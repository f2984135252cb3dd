"""Data that describes tools, models, grants, plans, sessions and clients."""

# Annotations are not postponed here: msgspec would compile each one as text.

from typing import Any, Literal

from msgspec import Struct, field

Discoverability = Literal["core", "discoverable"]
Access = Literal["read", "write", "execute", "network"]
"""What a tool may touch; `read` is allowed by default, the others ask."""


class ToolSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool as a model or a client sees it; `parameters` is its JSON Schema 2020-12, whole."""

    name: str
    description: str
    parameters: dict[str, Any]
    category: str = "uncategorized"
    discoverability: Discoverability = "discoverable"
    access: Access = "execute"
    examples: list[dict[str, Any]] = field(default_factory=list)


class ModelInfo(Struct, frozen=True, gc=False, omit_defaults=True):
    """What is known of a model; limits in tokens, prices in US dollars per million tokens, None when unknown. `priced_by`
    names who sells it at published prices (`openai`, `anthropic`, `google`), where the provider has none of its own."""

    id: str
    provider: str
    context_limit: int | None = None
    output_limit: int | None = None
    vision: bool = False
    thinking: bool = False
    price_input: float | None = None
    price_cached_input: float | None = None
    price_output: float | None = None
    priced_by: str | None = None


LimitSource = Literal["setting", "catalogue", "server", "learned", "assumed"]
"""Where the limit of a context comes from: the user, what is known of the model, its server, a refusal, or nowhere."""


class ContextBlock(Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of a model's context and its size: `system`, `instructions` of a plugin, `tools`, `user`, `enrichment`,
    `assistant`, `thinking`, `calls`, `results`, `summary`."""

    kind: str
    tokens: int
    name: str = ""


class FileTouch(Struct, frozen=True, gc=False, omit_defaults=True):
    """A file that tools have read, changed, or were given (`used`), and the SHA-256 of its content afterwards, where that is
    known."""

    path: str
    change: Literal["read", "used", "created", "modified", "deleted"]
    sha256: str = ""


class CommandRun(Struct, frozen=True, gc=False, omit_defaults=True):
    """A command that has ended, and its exit code, where there is one."""

    command: str
    exit_code: int | None = None


class ContextRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a log says of a conversation, each list with the newest last: what was asked, which constraints the user has
    set, how turns ended, files, commands, decisions, calls by tool (how many succeeded and failed), and the newest calls."""

    goal: str = ""
    requests: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    files: list[FileTouch] = field(default_factory=list)
    commands: list[CommandRun] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    tools: dict[str, tuple[int, int]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)


class ModelSettings(Struct, frozen=True, gc=False, omit_defaults=True):
    """How to sample: each None leaves it to the provider."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    effort: Literal["minimal", "low", "medium", "high"] | None = None
    stop: list[str] | None = None
    response_schema: dict[str, Any] | None = None


class AgentBounds(Struct, frozen=True, gc=False, omit_defaults=True):
    """How a subagent is held narrower than the agent that made it. `tools` are the names it may use, None: all of its
    parent's; `deny` are names or globs it may not."""

    tools: list[str] | None = None
    deny: list[str] = []
    read_only: bool = False
    max_turns: int | None = None
    timeout_s: float | None = None


Scope = Literal["call", "once", "turn", "idle", "session", "always"]
SandboxProfile = Literal["read-only", "workspace-write", "full"]
"""How far a process may reach, from least to most. `full` is no sandbox."""


Mode = Literal["ask", "accept-edits", "auto", "plan", "read-only"]
"""What runs without a question: see the setting `mode`."""


class SandboxAccess(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a process is started with: its profile and what is opened beyond it.

    `domains` are hosts the proxy connects it to (`pypi.org`, `*.npmjs.org`, `host:8443`, `*` for every public host),
    `paths` absolute directories or files outside the workspace that it may change; `control` lets it change the control
    files of the workspace.
    """

    profile: SandboxProfile = "read-only"
    domains: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    control: bool = False


class SandboxView(Struct, frozen=True, gc=False, omit_defaults=True):
    """How the commands of a session are confined: the back end (empty: none), the profiles, the mode, and what the user has
    opened to all that may write. `full` says that a rule allows commands without a sandbox."""

    backend: str = ""
    profiles: list[SandboxProfile] = field(default_factory=list)
    mode: Mode = "ask"
    domains: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    full: bool = False


class Grant(Struct, frozen=True, gc=False, omit_defaults=True):
    """A decision that outlives its question.

    `shape` is what it covers: for a shell command its structure, for others the exact arguments or None for the tool.
    """

    id: str
    effect: Literal["allow", "deny"]
    tool: str
    scope: Scope
    shape: str | None = None
    workspace: str | None = None
    created_by: str = ""
    evidence: str = ""
    expires: str | None = None
    created_at: str = ""
    access: SandboxAccess | None = None
    """What a command that it covers may reach; None: the workspace."""


class PlanStep(Struct, frozen=True, gc=False, omit_defaults=True):
    """One step of a plan."""

    id: str
    description: str
    status: Literal["pending", "in_progress", "completed", "failed", "skipped"] = "pending"
    result: str | None = None


class Plan(Struct, frozen=True, gc=False, omit_defaults=True):
    """A plan: what is to be done, step by step."""

    id: str
    title: str
    steps: list[PlanStep]
    status: Literal["draft", "active", "completed", "failed", "cancelled"] = "draft"
    summary: str | None = None


class SessionEntry(Struct, frozen=True, gc=False, omit_defaults=True):
    """A stored session as a list shows it; times are ISO 8601 UTC."""

    id: str
    workspace: str
    name: str | None
    description: str | None
    provider: str
    model: str
    created_at: str
    updated_at: str
    last_seq: int
    is_loaded: bool = False
    busy: bool = False
    interrupted: bool = False
    """Whether a server shutdown or crash interrupted its work: `turn.continue` resumes it."""
    questions: int = 0
    """How many questions wait in it for an answer."""
    found: str | None = None
    """Where the words of a search stand in it."""

    @property
    def cursor(self) -> str:
        """This row's place in the list, newest first: what `before` of the next page is."""
        return f"{self.updated_at} {self.id}"


class ClientView(Struct, frozen=True, gc=False, omit_defaults=True):
    """A client that is attached to a session."""

    id: str
    name: str
    role: Literal["viewer", "approver", "owner"]
    answers: bool = True


Owner = Literal["user", "model"]


class Waypoint(Struct, frozen=True, gc=False, omit_defaults=True):
    """A point of a session to come back to: who made it, from which it went on, and how far the conversation was.

    `mark` is where it stands in the backups of the workspace. A `ceiling` was made by a restore, of what was there before.
    """

    id: str
    description: str
    owner: Owner
    parent: str | None = None
    created_at: str = ""
    message_count: int = 0
    turn_index: int = 0
    preview: str = ""
    mark: str = ""
    ceiling: bool = False


class CommandEntry(Struct, frozen=True, gc=False, omit_defaults=True):
    """A command the user can type after `/`: `parameters` is how its arguments are written, where its plugin says so."""

    name: str
    description: str
    parameters: str = ""
    plugin: str = ""
    is_prompt: bool = False
    """Whether it is a stored prompt: it is sent as a message, `/NAME ARGUMENTS`, and not executed."""


class MemoryEntry(Struct, frozen=True, gc=False, omit_defaults=True):
    """A note that is kept about a workspace: its beginning in one line, not its content; `at` is ISO 8601 UTC."""

    id: str
    description: str
    tags: list[str] = []
    at: str = ""


class FileChange(Struct, frozen=True, gc=False, omit_defaults=True):
    """A file that is no longer as it was. `path` is relative to the workspace, absolute outside of it. A directory stands
    for all that is in it. Lines that the new content has and the old one had not are `added`, the other way `removed`:
    None where they were not counted."""

    path: str
    change: Literal["created", "modified", "deleted"]
    added: int | None = None
    removed: int | None = None
    directory: bool = False

    def then(self, later: "FileChange") -> "FileChange | None":
        """Both changes as one; None where the file came and went."""
        match self.change, later.change:
            case "created", "deleted":
                return None
            case ("created", _) | (_, "deleted"):
                change = self.change if later.change != "deleted" else later.change
            case _:
                change = "modified"
        counted = self.change != "deleted" and later.change == "modified"
        added = plus(self.added, later.added) if counted else None
        removed = plus(self.removed, later.removed) if counted else None
        return FileChange(self.path, change, added, removed, later.directory)


def plus(one: int | None, other: int | None) -> int | None:
    """A sum, unknown where a part of it is."""
    return None if one is None or other is None else one + other
