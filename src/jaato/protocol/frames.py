"""Frames of a connection beside commands and events: the handshake (`hello`, `welcome`), and what each command is replied."""

# Annotations are not postponed here: msgspec would compile each one as text.

from typing import Any, Literal

import msgspec
from msgspec import Struct

from jaato.errors import ConnectionFault, JaatoError, from_code
from jaato.protocol.commands import (
    BlobRequest,
    ClarificationResponse,
    Command,
    CommandExecute,
    FileResponse,
    FilesFind,
    HistoryRequest,
    MessageSend,
    PairingCreate,
    PermissionResponse,
    SessionAttach,
    SessionCreate,
    SessionFork,
    SessionList,
)
from jaato.protocol.events import Event
from jaato.protocol.messages import Problem
from jaato.protocol.specs import SessionEntry

PROTOCOL = 1
MAX_HELLO_BYTES = 4_096
HELLO_S = 5.0
MAX_FRAME_BYTES = 16 << 20
"""The longest frame of an owner; images go in messages, so it is not small."""
MAX_OTHERS_FRAME_BYTES = 1 << 20
"""The longest of a viewer or an approver, who may edit a call's arguments and sends nothing larger."""
NOT_UNDERSTOOD, NOT_LET_IN, OTHER_PROTOCOL = 4400, 4401, 4426
"""Close codes."""
Role = Literal["viewer", "approver", "owner"]
"""What a client may do: watch, also answer questions, everything. The server knows it by the token."""


class Hello(Struct, frozen=True, tag="hello", tag_field="type", omit_defaults=True):
    """The first frame of a client. `token` only where it did not come in a header."""

    protocol: int
    client: str = ""
    name: str = ""
    """The name of its user, to be shown to others."""
    token: str = ""


class Welcome(Struct, frozen=True, tag="welcome", tag_field="type", omit_defaults=True):
    """The server's answer to `hello`."""

    protocol: int
    server: str
    client_id: str
    role: Role
    state_dir: str = ""
    """The directory of the sessions; sent to clients of the same machine."""
    home: str = ""
    """The home directory of the server's account; clients show paths below it with `~`."""


class Opened(Struct, frozen=True, tag="opened", tag_field="type", omit_defaults=True):
    """The session that was made, found or attached to. Attached, its state or what was missed comes next."""

    session_id: str
    seq: int
    name: str | None = None
    again: bool = False
    """Whether it was made by an earlier command with the same `once`."""
    before: int = 0
    """The last event the session had before it was made or opened by this command."""
    provider: str = ""
    model: str = ""
    reason: str = ""
    """Which provider and model answer, and why these; where a session was made or opened."""
    agent_id: str = ""
    """The agent that gets the messages."""
    notice: str = ""
    """A notice for the user: another session has the same name, or the log is damaged."""
    workspace: str = ""
    """The directory it works in; where a session was made or opened."""


class Taken(Struct, frozen=True, tag="taken", tag_field="type", omit_defaults=True):
    """A message is in the log: it has opened a turn, or waits for the next pause."""

    seq: int
    queued: bool = False
    again: bool = False


class Settled(Struct, frozen=True, tag="settled", tag_field="type", omit_defaults=True):
    """Whether this answer was the one that counted, and else whose it was."""

    accepted: bool
    by: str = ""
    answer: str = ""


class Said(Struct, frozen=True, tag="said", tag_field="type", omit_defaults=True):
    """The output of a user command."""

    text: str


class Done(Struct, frozen=True, tag="done", tag_field="type", omit_defaults=True):
    """Success; `notice` is for the user: another session has the name just given."""

    notice: str = ""


class Sessions(Struct, frozen=True, tag="session.list", tag_field="type", omit_defaults=True):
    """One page of stored sessions."""

    sessions: list[SessionEntry]
    cursor: str | None = None


class History(Struct, frozen=True, tag="history", tag_field="type", omit_defaults=True):
    """A part of the conversation, oldest first; `before_seq` asks for what comes before, None when nothing does."""

    events: list[Event]
    before_seq: int | None = None


class Blob(Struct, frozen=True, tag="blob", tag_field="type", omit_defaults=True):
    """Some bytes of a blob from `offset`, and how many it has."""

    size_bytes: int
    data: bytes
    offset: int = 0


class Files(Struct, frozen=True, tag="files", tag_field="type", omit_defaults=True):
    """Files that were found: paths relative to the workspace."""

    paths: list[str]


class Pairing(Struct, frozen=True, tag="pairing", tag_field="type", omit_defaults=True):
    """A link for one browser; it is valid once, and for some seconds."""

    url: str
    valid_s: float


Result = Opened | Taken | Settled | Said | Done | Sessions | History | Blob | Pairing | Files


class FileRequest(Struct, frozen=True, tag="file.request", tag_field="type", omit_defaults=True):
    """A request to a client that serves files, which answers it with `file.response` within `timeout_s`: to read a text file,
    or to write `content` to it and save it. The path is relative to the workspace, or absolute."""

    id: str
    session_id: str
    path: str
    timeout_s: float
    content: str | None = None


class Reply(Struct, frozen=True, tag="reply", tag_field="type", omit_defaults=True):
    """The answer to the command with this id: a result, or what went wrong."""

    id: str
    result: Result | None = None
    error: Problem | None = None


HELLO: msgspec.json.Decoder[Hello] = msgspec.json.Decoder(Hello)
"""Decodes the first frame of a client that is not authenticated yet, and no other."""
FRAMES: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Welcome | Reply | FileRequest | Event)
"""Reads what a server sends."""


def answer_kind(command: Command) -> type[Result]:
    """The kind of result a command has."""
    match command:
        case SessionCreate() | SessionAttach() | SessionFork():
            return Opened
        case MessageSend():
            return Taken
        case PermissionResponse() | ClarificationResponse() | FileResponse():
            return Settled
        case CommandExecute():
            return Said
        case SessionList():
            return Sessions
        case HistoryRequest():
            return History
        case BlobRequest():
            return Blob
        case PairingCreate():
            return Pairing
        case FilesFind():
            return Files
    return Done


def answer(command: Command, reply: Reply) -> Result | JaatoError:
    """The outcome of a command: its result, or the error the server answers with; `ConnectionFault` for a reply that
    answers something else."""
    if reply.error is not None:
        return from_code(reply.error.code, reply.error.message)
    wanted = answer_kind(command)
    if isinstance(reply.result, wanted):
        return reply.result
    got = "nothing" if reply.result is None else type(reply.result).__name__
    return ConnectionFault(
        f"The server answered a command with {got} where {wanted.__name__} belongs. "
        "Bring client and server to the same version of jaato."
    )
