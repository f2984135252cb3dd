"""What the command line says of a session, as the server is told it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jaato.abc.asker import Answer
from jaato.cli.arguments.values import clean_text, directories_of, workspace_of
from jaato.cli.connect import own_environment
from jaato.client.blocking import Client
from jaato.errors import ConfigError
from jaato.protocol.commands import (
    ClarificationResponse,
    Command,
    File,
    PermissionResponse,
    SessionCreate,
)


def creation(
    args: Namespace, *, local: bool, in_process: bool = False, schema: dict[str, Any] | None = None
) -> SessionCreate:
    """The session that `run` and `chat` were asked for, as the server is told it, which is `local` on this machine and
    `in_process` in this program. Raises `ConfigError`."""
    elsewhere = not in_process
    if args.session and args.resume:
        raise ConfigError("--session and --continue are two ways to name a session; give one of them.")
    if local:
        workspace = clean_text(str(workspace_of(args))) or ""
    elif args.workspace:
        workspace = args.workspace
    else:
        raise ConfigError("Say which directory of the server's machine to work in: --workspace DIR.")
    return SessionCreate(
        workspace=workspace,
        session_id=clean_text(args.session) or "",
        resume=args.resume,
        name=clean_text(args.name),
        provider=clean_text(args.provider),
        model=clean_text(args.model),
        base_url=clean_text(args.base_url),
        interface=args.interface,
        system_prompt=clean_text(args.system_prompt),
        allow=clean_list(args.allow),
        deny=clean_list(args.deny),
        yes=args.yes,
        read_only=args.read_only,
        mode=args.mode,
        sandbox=args.sandbox,
        allow_domains=clean_list(args.allow_domain),
        add_dirs=clean_list(directories_of(args) if local else args.add_dir),
        temperature=args.temperature,
        effort=args.effort,
        max_turns=args.max_turns,
        response_schema=schema,
        environment=own_environment() if local and elsewhere else {},
        alone=local and elsewhere,
        passing=True,
        attach=False,
        once=Client.word() if elsewhere else "",
    )


def clean_list(texts: Iterable[str]) -> list[str]:
    """Arguments as Unicode."""
    return [clean_text(text) or "" for text in texts]


def file_at(path: Path) -> File:
    """A file to send along. Raises `ConfigError`."""
    from jaato.runtime.embedding.attachments import file_of

    mime_type, data = file_of(path)
    return File(path.name, mime_type, data)


def response_to(session_id: str, question_id: str, answer: Answer | list[str | None]) -> Command:
    """The command that answers a question."""
    if isinstance(answer, Answer):
        return PermissionResponse(
            session_id=session_id,
            question_id=question_id,
            answer=answer.answer,
            arguments=answer.arguments,
            comment=answer.comment,
        )
    return ClarificationResponse(session_id=session_id, question_id=question_id, answers=answer)
