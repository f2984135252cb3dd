"""Choose where a command works, a server or this process, and connect a client to it."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jaato.client.address import Address, Disconnected, address_of, socket_path
from jaato.client.blocking import Client
from jaato.errors import ConfigError, ServerGone
from jaato.settings import environment, load, user_dir

if TYPE_CHECKING:
    from jaato.cli.output.console import Console
    from jaato.client.connection import Client as AsyncClient
    from jaato.protocol.commands import SessionCreate
    from jaato.protocol.frames import Role
    from jaato.runtime.session_options import SessionOptions

MAX_TOKEN_BYTES = 4_000
START_S = 10.0
"""How long a server that another process starts or ends is waited for."""
CONTRADICTION = "--no-daemon and --connect contradict each other; use one of them."
NOT_ONE_LINE = "it does not contain one line of ASCII"


def parse_address(args: Namespace) -> Address | None:
    """The server given by `--connect`, or None. Raises `ConfigError`."""
    if args.token_file and not args.connect:
        raise ConfigError("--token-file is for --connect ws://HOST:PORT; the local server needs no token.")
    if not args.connect:
        return None
    if "://" in args.connect and not args.token_file and not environment().get("JAATO_TOKEN"):
        raise ConfigError(
            "A remote server needs a token: pass --token-file FILE, or set JAATO_TOKEN "
            "(the server's own token is in server-token of its state directory)."
        )
    token_from = f"--token-file {args.token_file}" if args.token_file else "JAATO_TOKEN"
    return replace(address_of(args.connect, read_token(args)), token_from=token_from)


def read_token(args: Namespace) -> str | None:
    """The token in `--token-file`, else in JAATO_TOKEN. Raises `ConfigError`."""
    if not args.token_file:
        return environment().get("JAATO_TOKEN") or None
    try:
        with open(args.token_file, "rb") as file:
            data = file.read(MAX_TOKEN_BYTES + 1)
        token = data.decode("ascii").strip()
        why = "" if token else "it is empty"
        if len(data) > MAX_TOKEN_BYTES or not token.isprintable() or " " in token:
            why = NOT_ONE_LINE
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or NOT_ONE_LINE
    if why:
        raise ConfigError(
            f"--token-file: {args.token_file} cannot be used: {why}. It must contain the output of `jaato tokens add`."
        )
    return token


def connect(args: Namespace, console: Console, *, role: Role = "owner", maintain: bool = False) -> Client:
    """A connected client of the server this command uses, else of an in-process server. Raises `JaatoError`s.

    The in-process server runs only while the client waits. It gives the client `role` and, with `maintain`, does the
    maintenance of its sessions.
    """
    if (client := connect_to_server(args, console)) is not None:
        return client
    from functools import partial

    from jaato.server.in_memory import LoopTransport, serve_in_memory

    base = in_process_options(args, console)
    transport = LoopTransport(partial(serve_in_memory, base, role=role, maintain=maintain))
    return Client(transport=transport, name=client_name()).open()


def in_process_options(args: Namespace, console: Console) -> SessionOptions:
    """The base options of sessions in this process; downloads are confirmed at the terminal, if there is one."""
    from jaato.cli.arguments.values import workspace_of
    from jaato.runtime.session_options import SessionOptions

    async def confirm_download(text: str) -> bool:
        from jaato.cli.repl.questions import confirm

        return await confirm(console, text)

    return SessionOptions(workspace=workspace_of(args), confirm=confirm_download if console.can_ask else None)


def connect_to_server(args: Namespace, console: Console) -> Client | None:
    """A connected client of the server this command uses, None when it works in this process.

    Without a flag the setting `server` decides; `auto` uses a running server that has the same state directory as this
    process. Raises `ConfigError`, and `ServerGone` for a requested server that does not answer.
    """
    if args.no_daemon:
        if args.connect:
            raise ConfigError(CONTRADICTION)
        return None
    address = parse_address(args)
    if address is not None:
        return connect_to(address)
    environ = environment()
    choice = load(environ=environ)["server"]
    path = socket_path(environ)
    if choice == "never" or (choice == "auto" and (not path.exists() or is_in_tool_call())):
        return None
    if choice == "always":
        return connect_or_start(path)
    try:
        client = connect_to(Address(path=path))
    except ServerGone as error:
        if not isinstance(error, Disconnected):
            console.note(f"not using the server: {error}", "yellow")
        return None  # a stale socket
    if not same_state_dir(client.welcome.state_dir, environ):
        client.close()
        return None
    return client


def find_or_start_server(args: Namespace) -> Address | None:
    """The server of a command that wants one, started if it is not running; None when it works in this process.

    Raises `JaatoError`s."""
    if args.no_daemon:
        if args.connect:
            raise ConfigError(CONTRADICTION)
        return None
    if (address := parse_address(args)) is not None:
        return address
    environ = environment()
    if load(environ=environ)["server"] == "never" or is_in_tool_call():
        return None
    with connect_or_start(socket_path(environ)) as client:
        return client.address if same_state_dir(client.welcome.state_dir, environ) else None


def is_in_tool_call() -> bool:
    """Whether a tool call started this command; such a command runs in its own process, as the server refuses it."""
    from jaato.tools.processes.call_processes import find_calling_tool  # not needed without a server

    return find_calling_tool() is not None


def connect_to(address: Address) -> Client:
    """A connected client of this server. Raises `ServerGone`, `NotAllowed`."""
    return Client(address, name=client_name()).open()


def connect_or_start(path: Path) -> Client:
    """A connected client of the user's server, which is started if it is not running; one that is about to serve or to end
    is waited for. Raises `ConfigError`, `ServerGone`."""
    until = time.monotonic() + START_S
    while True:
        try:
            return connect_to(Address(path=path))
        except Disconnected:
            if time.monotonic() > until:
                raise
        from jaato.cli.arguments.parser import make_parser
        from jaato.cli.commands.serve import start_daemon
        from jaato.server.lock_file import find_server

        if find_server(path) is None:
            start_daemon(make_parser("serve").parse_args(["serve", "--daemon"]), path)
        else:
            time.sleep(0.05)


def same_state_dir(state_dir: str, environ: dict[str, str]) -> bool:
    """Whether a server's state directory is that of this process."""
    own = user_dir(environ, "XDG_STATE_HOME", ".local/state")
    return bool(state_dir) and os.path.realpath(state_dir) == os.path.realpath(own)


def account_name() -> str:
    """The name of this process's account, else its number: in containers no variable has it."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def client_name(program: str = "") -> str:
    """The name that other clients of a session see for this one: the user's, and the terminal, else the program."""
    environ = environment()
    user = environ.get("USER") or environ.get("LOGNAME") or account_name()
    if program:
        return f"{user}, {program}, process {os.getpid()}"
    try:
        return f"{user} at {os.ttyname(sys.stdin.fileno()).removeprefix('/dev/')}"
    except (OSError, ValueError, AttributeError):
        return f"{user}, process {os.getpid()}"


async def find_busy_session(client: AsyncClient, creation: SessionCreate) -> str | None:
    """The session to attach to where `creation` would resume one that is at work; None if it would create one."""
    if not creation.resume:
        return creation.session_id or None
    found = (await client.list(creation.workspace)).sessions
    return min(found, key=lambda row: not row.busy).id if found else None
