"""What a server may answer each command with."""

from __future__ import annotations

from jaato.errors import ConnectionFault, JaatoError, from_code
from jaato.protocol.commands import (
    BlobRequest,
    ClarificationResponse,
    Command,
    CommandExecute,
    HistoryRequest,
    MessageSend,
    PermissionResponse,
    SessionAttach,
    SessionCreate,
    SessionFork,
    SessionList,
)
from jaato.protocol.frames import Blob, Done, History, Opened, Reply, Result, Said, Sessions, Settled, Taken


def answer_kind(command: Command) -> type[Result]:
    """The kind of result a command has."""
    match command:
        case SessionCreate() | SessionAttach() | SessionFork():
            return Opened
        case MessageSend():
            return Taken
        case PermissionResponse() | ClarificationResponse():
            return Settled
        case CommandExecute():
            return Said
        case SessionList():
            return Sessions
        case HistoryRequest():
            return History
        case BlobRequest():
            return Blob
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
