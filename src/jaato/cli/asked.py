"""What the command line says of a session, as the server is told it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from jaato.cli.options import clean_text, directories_of, workspace_of
from jaato.cli.reach import own_environment
from jaato.client.blocking import Client
from jaato.errors import ConfigError
from jaato.protocol.commands import File, SessionCreate


def creation(args: Namespace, *, local: bool, schema: dict[str, Any] | None = None) -> SessionCreate:
    """The session that `run` and `chat` were asked for; `local` where the server is on this machine. Raises `ConfigError`."""
    if args.session and args.resume:
        raise ConfigError("--session and --continue are two ways to name a session; give one of them.")
    if local:
        workspace = str(workspace_of(args))
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
        allow=list(args.allow),
        deny=list(args.deny),
        yes=args.yes,
        read_only=args.read_only,
        mode=args.mode,
        sandbox=args.sandbox,
        allow_domains=list(args.allow_domain),
        add_dirs=list(directories_of(args) if local else args.add_dir),
        temperature=args.temperature,
        effort=args.effort,
        max_turns=args.max_turns,
        response_schema=schema,
        environment=own_environment() if local else {},
        alone=local,
        passing=True,
        attach=False,
        once=Client.word(),
    )


def file_at(path: Path) -> File:
    """A file to send along. Raises `ConfigError`."""
    from jaato.runtime.message import file_of

    mime_type, data = file_of(path)
    return File(path.name, mime_type, data)
