"""Turn parsed arguments into values: the workspace, lists, a JSON Schema, the prompt with its piped input, and the session
to create."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaato.cli.exit_codes import print_message
from jaato.errors import ConfigError
from jaato.settings import environment

if TYPE_CHECKING:
    from jaato.protocol.commands import File, SessionCreate
    from jaato.runtime.session_options import SessionOptions

MAX_JSON_BYTES = 4_000_000
TERMINAL_VARIABLES = {
    *("_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES", "WINDOWID", "TERM_SESSION_ID", "JAATO_READY_FD"),
}
"""Environment variables that differ between two commands of one shell and do not matter to tools."""
MAX_STDIN_BYTES = 4_000_000
STDIN_NOTICE_S = 1.0
SCRIPTS = (".json", ".jsonl", ".jaato")
MAX_VARIABLES = 1_000
MAX_VARIABLE_CHARS = 100_000


def workspace_of(args: Namespace) -> Path:
    """The workspace directory. Raises `ConfigError` when it is not a directory."""
    try:
        workspace = Path(args.workspace) if args.workspace else Path.cwd()
    except OSError:
        raise ConfigError(
            "The current directory no longer exists; change to another one, or pass --workspace DIR."
        ) from None
    try:
        if workspace.is_dir():
            return workspace.resolve()
    except OSError as error:
        raise ConfigError(f"The workspace {workspace} cannot be used: {error.strerror}.") from None
    raise ConfigError(f"The workspace {workspace} is not a directory; create it or pass another one.")


def directories_of(args: Namespace) -> tuple[str, ...]:
    """The absolute paths of `--add-dir`; the sandbox checks them when they are used."""
    return tuple(os.path.abspath(path) if path else "" for path in args.add_dir)


def session_options(args: Namespace, plugins: tuple[str, ...] | None = None) -> SessionOptions:
    """The options of a session that is no conversation: of a server's clients, of rules to show; `plugins` None enables
    all plugins."""
    from jaato.runtime.session_options import SessionOptions

    return SessionOptions(
        workspace=workspace_of(args),
        plugins=plugins,
        allow=tuple(args.allow),
        deny=tuple(args.deny),
        yes=args.yes,
        read_only=args.read_only,
    )


def session_create(
    args: Namespace, *, local: bool, in_process: bool, schema: dict[str, Any] | None = None
) -> SessionCreate:
    """The command that creates or resumes the session of `run` and `chat`. Raises `ConfigError`.

    `local`: the server is on this machine; `in_process`: it is part of this process.
    """
    from jaato.client.blocking import Client
    from jaato.protocol.commands import SessionCreate

    if args.session and args.resume:
        raise ConfigError("--session and --continue both select a session; use one of them.")
    if not (local or args.workspace):
        raise ConfigError("The server is on another machine; pass a directory there with --workspace DIR.")
    return SessionCreate(
        workspace=(clean_text(str(workspace_of(args))) or "") if local else args.workspace,
        session_id=clean_text(args.session) or "",
        resume=args.resume,
        name=clean_text(args.name),
        provider=clean_text(args.provider),
        model=clean_text(absolute_model(args.provider, args.model) if local else args.model),
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
        budget=clean_list(args.budget),
        response_schema=schema,
        environment=session_environment() if local and not in_process else {},
        alone=local and not in_process,
        passing=True,
        attach=False,
        once="" if in_process else Client.word(),
    )


def session_environment() -> dict[str, str]:
    """This process's environment variables to pass to a session at the server, within the limits of a command; paths in them
    are absolute."""
    environ = environment()
    if model := environ.get("JAATO_MODEL"):
        environ["JAATO_MODEL"] = absolute_model(None, model) or ""
    if path := environ.get("JAATO_LOCAL_MODEL"):
        environ["JAATO_LOCAL_MODEL"] = os.path.abspath(os.path.expanduser(path))
    found = {
        name: value
        for name, value in environ.items()
        if name not in TERMINAL_VARIABLES
        and len(name + value) <= MAX_VARIABLE_CHARS
        and clean_text(name + value) == name + value
    }
    return dict(list(found.items())[:MAX_VARIABLES])


def absolute_model(provider: str | None, model: str | None) -> str | None:
    """A model as any process finds it: that of the scripted provider may be the relative path of a file."""
    provider = provider or environment().get("JAATO_PROVIDER")
    if not model or provider not in (None, "", "scripted") or "\0" in model:
        return model
    is_script = (provider == "scripted" or model.endswith(SCRIPTS)) and os.path.exists(model)
    return os.path.abspath(model) if is_script else model


class Attachment(NamedTuple):
    """A file for a message, and where it was read."""

    path: Path
    file: File


def read_attachment(path: Path) -> File:
    """A file to send with a message. Raises `ConfigError`."""
    from jaato.protocol.commands import File
    from jaato.runtime.embedding.attachments import file_of

    mime_type, data = file_of(path)
    return File(path.name, mime_type, data)


def clean_text(text: str | None) -> str | None:
    """An argument as valid Unicode; undecodable bytes become U+FFFD."""
    return None if text is None else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def strip_message(text: str) -> str:
    """A message without blanks around it; one blank before a slash stays, as such a text is no command."""
    stripped = text.strip()
    return f" {stripped}" if stripped.startswith("/") and text[0].isspace() else stripped


def is_command(text: str) -> bool:
    """Whether a message is a command or a stored prompt: it starts with a slash, and not with a path."""
    word = text.split(None, 1)[0] if text.strip() else ""
    return text.startswith("/") and "/" not in word[1:] and (word == "/" or not os.path.lexists(word))


def clean_list(texts: Iterable[str]) -> list[str]:
    """Arguments as valid Unicode."""
    return [clean_text(text) or "" for text in texts]


def split_list(text: str | None) -> tuple[str, ...]:
    """The items of a comma-separated list."""
    return tuple(name.strip() for name in (clean_text(text) or "").split(",") if name.strip())


def read_schema(text: str | None) -> dict[str, Any] | None:
    """The JSON Schema of `--schema`: JSON text, or the file it names. Raises `ConfigError`."""
    if text is None:
        return None
    if text.lstrip().startswith("{"):
        return parse_object(text, "--schema")
    return parse_object(read_input(text), text)


def read_input(path: str) -> str:
    """The text of a file, or of stdin for `-`. Raises `ConfigError`."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_JSON_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_JSON_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', error)}.") from None
    if len(data) > MAX_JSON_BYTES:
        raise ConfigError(f"{'stdin' if path == '-' else path} is larger than {MAX_JSON_BYTES:,} bytes.")
    return data.decode("utf-8", "replace")


def parse_object(text: str, source: str) -> dict[str, Any]:
    """Parse a JSON object; `source` names it in errors. Raises `ConfigError`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f'{source} must be a JSON object, such as {{"a": 1}}: {error}.') from None
    if not isinstance(value, dict):
        raise ConfigError(f'{source} must be a JSON object, such as {{"a": 1}}.')
    return value


def join_input(words: list[str]) -> str:
    """The words of the command line, followed by the piped input."""
    text = clean_text(" ".join(word for word in words if word != "-")) or ""
    return "\n\n".join(part for part in (strip_message(text), read_piped().strip("\n")) if part.strip())


def read_piped() -> str:
    """The piped input; empty when stdin is a terminal or closed. Raises `ConfigError` when it is too large."""
    try:
        if sys.stdin.isatty():
            return ""
        data = read_stdin(sys.stdin.fileno())
    except (OSError, ValueError):
        return ""
    if len(data) > MAX_STDIN_BYTES:
        raise ConfigError(
            f"The piped input is larger than {MAX_STDIN_BYTES:,} bytes. Save it to a file and name that in the prompt."
        )
    return data.decode("utf-8", "replace")


def read_stdin(descriptor: int) -> bytes:
    """Read stdin to its end; print a message when it blocks."""
    import select

    try:
        if not select.select([descriptor], [], [], STDIN_NOTICE_S)[0]:
            print_message("waiting for the end of stdin (use </dev/null for none)")
    except OSError:
        pass  # a file is always ready
    parts: list[bytes] = []
    left = MAX_STDIN_BYTES + 1
    while left > 0 and (data := os.read(descriptor, min(left, 1 << 20))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
