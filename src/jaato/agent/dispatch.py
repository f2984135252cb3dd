"""What a client asks of a session, carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaato.abc.asker import Answer
from jaato.errors import ConfigError
from jaato.protocol.commands import (
    ClarificationResponse,
    Command,
    CommandExecute,
    MessageSend,
    PermissionResponse,
    SessionStop,
    ToolsDisable,
)

if TYPE_CHECKING:
    from jaato.agent.session import Session


async def carry_out(session: Session, command: Command) -> Any:
    """Do what a command says and give what comes of it; raises `JaatoError` when it cannot be done."""
    match command:
        case MessageSend():
            return await session.post(command.text, command.attachments)
        case PermissionResponse():
            answer = Answer(answer=command.answer, arguments=command.arguments, comment=command.comment)
            return session.desk.answer(command.question_id, answer)
        case ClarificationResponse():
            return session.desk.answer(command.question_id, list(command.answers))
        case SessionStop():
            return session.stop()
        case ToolsDisable():
            return session.disable(command.tools, command.disabled)
        case CommandExecute():
            said = (
                await session.execute(session, command.name, command.arguments) if session.execute else None
            )
            if said is None:
                raise ConfigError(f"There is no command /{command.name}.")
            return said
    raise ConfigError(f"This session has no command {type(command).__name__}.")
