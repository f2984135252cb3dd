"""What a client asks of a session, as one closed union."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from jaato.protocol.messages import Media


class CommandBase(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every command has; `id` comes back in the reply."""

    id: str = ""


class MessageSend(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="message.send"):
    """Say something to the agent; while it works, the message waits for the next pause."""

    text: str
    attachments: list[Media] = field(default_factory=list)


class PermissionResponse(
    CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="permission.response"
):
    """Answer a permission question: y, n, a, t, i, once, never, all, e (with `arguments`) or c (with `comment`)."""

    question_id: str
    answer: str
    arguments: dict[str, Any] | None = None
    comment: str | None = None


class ClarificationResponse(
    CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="clarification.response"
):
    """Answer the model's questions, in their order; None leaves one open."""

    question_id: str
    answers: list[str | None]


class SessionStop(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="session.stop"):
    """Stop what the agent is doing, now."""


class CommandExecute(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="command.execute"):
    """Run a user command of a plugin."""

    name: str
    arguments: str = ""


class ToolsDisable(CommandBase, frozen=True, kw_only=True, omit_defaults=True, tag="tools.disable"):
    """Switch tools off (or on again)."""

    tools: list[str]
    disabled: bool = True


Command = (
    MessageSend | PermissionResponse | ClarificationResponse | SessionStop | CommandExecute | ToolsDisable
)
