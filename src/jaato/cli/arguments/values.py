"""From arguments to the description of a session."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.errors import ConfigError

if TYPE_CHECKING:
    from jaato.runtime.known_providers import ProviderChoice
    from jaato.runtime.session_options import SessionOptions

MAX_SCHEMA_BYTES = 1_000_000


def workspace_of(args: Namespace) -> Path:
    """The directory to work in. Raises `ConfigError` when it is none."""
    try:
        workspace = Path(args.workspace) if args.workspace else Path.cwd()
    except OSError:
        raise ConfigError(
            "This directory is gone; change to one that exists, or name one with --workspace."
        ) from None
    try:
        if workspace.is_dir():
            return workspace.resolve()
    except OSError as error:
        raise ConfigError(f"The workspace {workspace} cannot be used: {error.strerror}.") from None
    raise ConfigError(f"The workspace {workspace} is not a directory; create it or pass another one.")


def directories_of(args: Namespace) -> tuple[str, ...]:
    """The directories of `--add-dir`, absolute; whether they can be opened is seen when they are."""
    return tuple(os.path.abspath(path) if path else "" for path in args.add_dir)


def serving_options(args: Namespace, plugins: tuple[str, ...] | None) -> SessionOptions:
    """The sessions that clients of a served registry or MCP server get; `plugins` None: the tools of all."""
    from jaato.runtime.session_options import SessionOptions

    return SessionOptions(
        workspace=workspace_of(args),
        plugins=plugins,
        allow=tuple(args.allow),
        deny=tuple(args.deny),
        yes=args.yes,
        read_only=args.read_only,
    )


def blueprint_of(
    args: Namespace,
    *,
    chosen: Callable[[ProviderChoice, str], None],
    progress: Callable[[str, int, int | None], None],
    confirm: Callable[[str], Awaitable[bool]] | None,
    schema: dict[str, Any] | None = None,
) -> SessionOptions:
    """What `run` and `chat` were asked for. Raises `ConfigError`."""
    from jaato.agent.turn import Limits
    from jaato.protocol.specs import ModelSettings
    from jaato.runtime.session_options import SessionOptions

    if args.session and args.resume:
        raise ConfigError("--session and --continue are two ways to name a session; give one of them.")
    return SessionOptions(
        model=clean_text(args.model),
        provider=clean_text(args.provider),
        workspace=workspace_of(args),
        session=clean_text(args.session),
        resume=args.resume,
        name=clean_text(args.name),
        prompt=clean_text(args.system_prompt),
        allow=tuple(args.allow),
        deny=tuple(args.deny),
        yes=args.yes,
        read_only=args.read_only,
        mode=args.mode,
        sandbox=args.sandbox,
        allow_domains=tuple(args.allow_domain),
        add_dirs=directories_of(args),
        settings=ModelSettings(temperature=args.temperature, effort=args.effort, response_schema=schema),
        limits=Limits(model_calls=args.max_turns) if args.max_turns else None,
        base_url=clean_text(args.base_url),
        interface=args.interface,
        progress=progress,
        chosen=chosen,
        confirm=confirm,
    )


def clean_text(text: str | None) -> str | None:
    """An argument as Unicode: bytes that are none become U+FFFD."""
    return None if text is None else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def listed(text: str | None) -> tuple[str, ...]:
    """The names of a list with commas."""
    return tuple(name.strip() for name in (clean_text(text) or "").split(",") if name.strip())


def schema_of_argument(text: str | None) -> dict[str, Any] | None:
    """The JSON Schema an argument gives, or the file it names. Raises `ConfigError` saying what is wrong with it."""
    if text is None:
        return None
    where = "--schema"
    if not text.lstrip().startswith("{"):
        where = text
        try:
            with Path(text).open("rb") as file:
                data = file.read(MAX_SCHEMA_BYTES + 1)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The schema {text} cannot be read: {getattr(error, 'strerror', error)}."
            ) from None
        if len(data) > MAX_SCHEMA_BYTES:
            raise ConfigError(f"The schema {text} is larger than {MAX_SCHEMA_BYTES} bytes.")
        text = data.decode("utf-8", "replace")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is not JSON: {error}.") from None
    if not isinstance(schema, dict):
        raise ConfigError(f'{where} must be a JSON object, a schema such as {{"type": "object"}}.')
    return schema
