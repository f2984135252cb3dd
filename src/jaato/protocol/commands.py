"""The closed union of commands that a client sends to the server and to a session."""

# Annotations are not postponed here: msgspec would compile each one as text.

from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from jaato.protocol.messages import Media, Message
from jaato.protocol.specs import Mode


class File(Struct, frozen=True, omit_defaults=True):
    """An image or document that a client sends along; its bytes go into the session's store."""

    name: str
    mime_type: str
    data: bytes


class CommandBase(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every command has; `id` comes back in the reply. Where a session is meant and `session_id` is empty, it is
    the only one the connection has attached to."""

    id: str = ""
    session_id: str = ""


class MessageSend(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="message.send"):
    """Send a message to the agent; while it works, the message waits for the next pause. `once` is an idempotency key of
    the client: a second message with the same key is not taken, so that one whose reply was lost can be sent again."""

    text: str
    attachments: list[Media] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    """Attachments the server does not have yet."""
    once: str = ""
    check_prompt: bool = False
    """Whether a text that begins with `/NAME` is refused when no stored prompt has the name."""


class PermissionResponse(
    CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="permission.response"
):
    """Answer a permission question: y, n, a, t, i, once, never, all, e (with `arguments`) or c (with `comment`)."""

    question_id: str
    answer: str
    arguments: dict[str, Any] | None = None
    comment: str | None = None
    digest: str = ""
    """That of the question, if the client wants to be sure that it answers what it has shown."""


class ClarificationResponse(
    CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="clarification.response"
):
    """Answer the model's questions, in their order; None leaves one open."""

    question_id: str
    answers: list[str | None]


class SessionStop(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.stop"):
    """Stop what the agent is doing, now; with `turn_id` only if that turn still runs, so that a late stop ends no other."""

    turn_id: str = ""


class CommandExecute(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="command.execute"):
    """Run a user command of a plugin."""

    name: str
    arguments: str = ""


class ToolsDisable(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="tools.disable"):
    """Switch tools off (or on again)."""

    tools: list[str]
    disabled: bool = True


class SessionSettle(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.settle"):
    """Wait until working subagents are done and their results are delivered to the agent."""


class TaskStop(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="task.stop"):
    """Stop a background task."""

    task_id: str


class CallStop(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="call.stop"):
    """Stop the command or other program that a running call waits for; the call then fails, and the turn continues."""

    call_id: str


class TurnContinue(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="turn.continue"):
    """Resume a turn that a crash interrupted; calls that had started are not repeated."""


ServedFiles = Literal["read", "write"]
"""Text files that a client serves: read as its unsaved buffers have them, or read and written."""


class SessionAttach(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.attach"):
    """Watch a session, by id, unique prefix or name. `after_seq` is the last event the client has seen, None when it has
    nothing: then, or when it is far behind, the whole state comes first."""

    after_seq: int | None = None
    serves_files: ServedFiles | None = None
    """Whether file tools read text from this client, by `file.request`, as long as it is attached and no other client that
    serves files has attached later."""


class SessionDetach(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.detach"):
    """Detach from a session, which continues."""


class FileResponse(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="file.response"):
    """Answer a `file.request`: with the `content` of a file that was to be read, with neither for one that was written, or
    with the `problem` that prevented it. An answer after the deadline has no effect."""

    request_id: str
    content: str | None = None
    problem: str = ""


class SessionCreate(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.create"):
    """Create a session, and attach to it unless `attach` is false. What is None comes from the user's settings.

    With `session_id` (an id, unique prefix or name), or with `resume`, a stored session is resumed instead, with these
    options; a busy one refuses. `once` as in `message.send`: the same key gives the same session."""

    workspace: str
    name: str | None = None
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    system_prompt: str | None = None
    allow: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)
    yes: bool = False
    read_only: bool = False
    mode: Mode | None = None
    """What runs without a question; `read_only` is the mode `read-only`."""
    sandbox: Literal["workspace-write", "full"] | None = None
    """What a command that a rule allows may reach."""
    allow_domains: list[str] = field(default_factory=list)
    """Hosts that commands which may write reach."""
    add_dirs: list[str] = field(default_factory=list)
    """Directories outside the workspace that they may change; absolute."""
    plugins: list[str] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of this session's tools and providers, beside the server's own."""
    alone: bool = False
    """Whether `environment` is complete, without the variables of the server."""
    interface: str | None = None
    temperature: float | None = None
    effort: Literal["minimal", "low", "medium", "high"] | None = None
    max_output_tokens: int | None = None
    """Tokens one reply of the model may have."""
    stop: list[str] | None = None
    """Texts that end a reply of the model."""
    max_turns: int | None = None
    """Model calls one prompt may take."""
    budget: list[str] = field(default_factory=list)
    """What it may use before the user is asked: `50k tokens per turn`, `$2 per session`, `1h per day`; `more` goes on after
    a budget was used up, `off` removes those of the settings."""
    response_schema: dict[str, Any] | None = None
    history: list[Message] = field(default_factory=list)
    """The messages that a new session begins with."""
    mcp_servers: dict[str, Any] = field(default_factory=dict)
    """Servers of the Model Context Protocol for this session, by name, as in `.mcp.json`; they need no trust, as the client
    gives them."""
    resume: bool = False
    """Resume the newest session of the workspace."""
    passing: bool = False
    """Whether all this holds for this client's visit alone: when it detaches, the session is evicted, its background
    tasks stopped; when its connection is lost, once the session has nothing more to do."""
    attach: bool = True
    serves_files: ServedFiles | None = None
    """As in `session.attach`."""
    once: str = ""


class SessionUpdate(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.update"):
    """Change a session's name, description or model; what is None stays."""

    name: str | None = None
    description: str | None = None
    provider: str | None = None
    model: str | None = None


class SessionFork(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.fork"):
    """Create a session with the events of another one up to `seq`, or to its end. `once` as in `message.send`: the same key
    gives the same session."""

    seq: int | None = None
    name: str | None = None
    once: str = ""


class SessionDelete(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.delete"):
    """Remove a session for good."""


class SessionList(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.list"):
    """The stored sessions, newest first, of one workspace or all; with `query`, those whose text has these words."""

    workspace: str | None = None
    query: str | None = None
    limit: int = 50
    cursor: str | None = None


class HistoryRequest(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="history.request"):
    """The part of the conversation before an event, the newest of it first asked for; None: from the end. With `types`,
    the stored events of these types instead; an answer may then have none, and `before_seq` to ask further back."""

    before_seq: int | None = None
    limit: int = 100
    types: list[str] = field(default_factory=list)


class BlobRequest(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="blob.request"):
    """Bytes of an image, document or long result that an event of the session names: by its SHA-256, or by its handle
    (`result:…`). At most 256 kB come at once."""

    blob: str
    offset: int = 0
    limit: int = 1 << 18


class FilesFind(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="files.find"):
    """Files of the session's workspace whose path has the letters of the query in their order, the best match first; those
    that `.gitignore` names are left out."""

    query: str = ""
    limit: int = 20


class ClientConfig(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="client.config"):
    """What this client is sent: questions that it answers, text as it is streamed, and session information: `session.info`,
    `command.list` and `memory.list`. Without these, `session.info` comes only as a snapshot that replaces events."""

    answers: bool | None = None
    deltas: bool | None = None
    info: bool | None = None


class ServerReload(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="server.reload"):
    """Have the open sessions begin anew, each once it rests, under configuration, permissions and trust as they are now."""


class PairingCreate(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="pairing.create"):
    """Make a link that pairs one browser with the server, with this role; for its owner on its own machine. The server
    listens on loopback from then on, if it does not listen on the network already."""

    role: Literal["viewer", "approver", "owner"] = "owner"


Command = (
    MessageSend
    | PermissionResponse
    | ClarificationResponse
    | SessionStop
    | SessionSettle
    | TaskStop
    | CallStop
    | TurnContinue
    | CommandExecute
    | ToolsDisable
    | SessionAttach
    | SessionDetach
    | FileResponse
    | SessionCreate
    | SessionUpdate
    | SessionFork
    | SessionDelete
    | SessionList
    | HistoryRequest
    | BlobRequest
    | ClientConfig
    | ServerReload
    | PairingCreate
    | FilesFind
)


def resume_command(creation: SessionCreate, session_id: str, *, is_mode_switched: bool) -> SessionCreate:
    """The command that resumes a session after a reconnect, with the options of the one that has opened it. The mode is that of
    the log where it was switched since."""
    again = replace(creation, session_id=session_id, resume=False, name=None)
    return replace(again, mode=None, read_only=False) if is_mode_switched else again
