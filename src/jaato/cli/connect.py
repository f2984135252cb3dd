"""Whether a command works in the server, and the way to it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jaato.cli.output.terminal import Screen
from jaato.client.address import Address, address_of, socket_path
from jaato.client.blocking import Client
from jaato.errors import ConfigError, JaatoError, ServerGone
from jaato.settings import environment, load, user_dir

if TYPE_CHECKING:
    from jaato.protocol.frames import Role
    from jaato.runtime.session_options import SessionOptions

MAX_TOKEN_BYTES = 4_000
PASSING = {"_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES", "WINDOWID", "TERM_SESSION_ID", "JAATO_READY_FD"}
"""Variables that differ from one command to the next and mean nothing to a tool."""
MAX_VARIABLES = 1_000
MAX_VARIABLE_CHARS = 100_000
NO_LINE = "it does not hold one line of ASCII"


def address_given(args: Namespace) -> Address | None:
    """The server that `--connect` names, None where it names none. Raises `ConfigError`."""
    if args.token_file and not args.connect:
        raise ConfigError(
            "--token-file goes with --connect ws://HOST:PORT; the own server asks for no token."
        )
    if not args.connect:
        return None
    if "://" in args.connect and not args.token_file and not environment().get("JAATO_TOKEN"):
        raise ConfigError(
            "A server over the network asks for a token: --token-file FILE "
            "(the server keeps its own in server-token of its state directory)."
        )
    token_from = f"--token-file {args.token_file}" if args.token_file else "JAATO_TOKEN"
    return replace(address_of(args.connect, token_of(args)), token_from=token_from)


def token_of(args: Namespace) -> str | None:
    """The token of the file, else of JAATO_TOKEN. Raises `ConfigError`."""
    if not args.token_file:
        return environment().get("JAATO_TOKEN") or None
    try:
        with open(args.token_file, "rb") as file:
            data = file.read(MAX_TOKEN_BYTES + 1)
        token = data.decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise no_token(args.token_file, getattr(error, "strerror", None) or NO_LINE) from None
    if not token:
        raise no_token(args.token_file, "it is empty")
    if len(data) > MAX_TOKEN_BYTES or not token.isprintable() or " " in token:
        raise no_token(args.token_file, NO_LINE)
    return token


def no_token(file: str, why: str) -> ConfigError:
    """What to say of a file without a token."""
    return ConfigError(
        f"--token-file: {file} cannot be used: {why}. It holds what `jaato tokens add` has printed."
    )


def connect(args: Namespace, screen: Screen, *, role: Role = "owner", maintain: bool = False) -> Client:
    """A greeted client of the server this command is to work in, else of a hub in this process, which works only while the
    client waits, lets it in as `role`, and with `maintain` looks after its sessions. Raises `JaatoError`s."""
    if (client := open_server(args, screen)) is not None:
        return client
    from functools import partial

    from jaato.server.in_memory import LoopTransport, serve_in_memory

    base = memory_blueprint(args, screen)
    transport = LoopTransport(partial(serve_in_memory, base, role=role, maintain=maintain))
    return Client(transport=transport, name=own_name()).open()


def memory_blueprint(args: Namespace, screen: Screen) -> SessionOptions:
    """What every session of a hub in this process begins with: somebody at the terminal is asked before a download."""
    from jaato.cli.arguments.values import workspace_of
    from jaato.runtime.session_options import SessionOptions

    async def confirmed(text: str) -> bool:
        from jaato.cli.repl.questions import confirm

        return await confirm(screen, text)

    asks = sys.stdin.isatty() and screen.err_is_terminal
    return SessionOptions(workspace=workspace_of(args), confirm=confirmed if asks else None)


def open_server(args: Namespace, screen: Screen) -> Client | None:
    """A greeted client of the server this command is to work in, None when it works in this process.

    The setting `server` decides where no flag does; with `auto` a server is used that keeps its sessions where this
    process would. Raises `ConfigError`, `ServerGone` for a server that was asked for and does not answer.
    """
    if args.no_daemon:
        if args.connect:
            raise ConfigError("--no-daemon and --connect say the opposite of each other; give one of them.")
        return None
    given = address_given(args)
    if given is not None:
        return greeted(given)
    environ = environment()
    wanted = load(environ=environ)["server"]
    path = socket_path(environ)
    if wanted == "never" or (wanted == "auto" and (not path.exists() or is_below_call())):
        return None
    if wanted == "always":
        return started(path)
    try:
        client = greeted(Address(path=path))
    except ServerGone as error:
        if not isinstance(error.__cause__, OSError):
            screen.note(f"without the server: {error}", "yellow")
        return None  # nobody is behind the socket any more
    if not same_place(client.welcome.state_dir, environ):
        client.close()
        return None
    return client


def is_below_call() -> bool:
    """Whether a tool has started this command, which then works where it is: a server does not let it in."""
    from jaato.tools.processes.call_processes import (
        find_calling_tool,  # where there is no server, nobody asks
    )

    return find_calling_tool() is not None


def greeted(address: Address) -> Client:
    """A client of this server. Raises `ServerGone`, `NotAllowed`."""
    return Client(address, name=own_name()).open()


def started(path: Path) -> Client:
    """A client of the user's server, which is started when there is none. Raises `ConfigError`, `ServerGone`."""
    try:
        return greeted(Address(path=path))
    except ServerGone as error:
        if not isinstance(error.__cause__, OSError):
            raise
    from jaato.cli.arguments.parser import make_parser
    from jaato.cli.daemon_start import start_daemon

    start_daemon(make_parser("serve").parse_args(["serve", "--daemon"]), path)
    return greeted(Address(path=path))


def same_place(state_dir: str, environ: dict[str, str]) -> bool:
    """Whether a server keeps its sessions where this process would."""
    own = user_dir(environ, "XDG_STATE_HOME", ".local/state")
    return bool(state_dir) and os.path.realpath(state_dir) == os.path.realpath(own)


def own_name() -> str:
    """Who sits here, as others who watch the session are told."""
    environ = environment()
    user = environ.get("USER") or environ.get("LOGNAME") or "somebody"
    try:
        return f"{user} at {os.ttyname(sys.stdin.fileno()).removeprefix('/dev/')}"
    except (OSError, ValueError, AttributeError):
        return f"{user}, process {os.getpid()}"


def own_environment() -> dict[str, str]:
    """This process's variables, as far as a session at the server can be given them."""
    found = {
        name: value
        for name, value in environment().items()
        if name not in PASSING and len(name + value) <= MAX_VARIABLE_CHARS and encodable(name + value)
    }
    return dict(list(found.items())[:MAX_VARIABLES])


def encodable(text: str) -> bool:
    """Whether a text is Unicode throughout."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def lost(error: JaatoError, session_id: str) -> JaatoError:
    """What to say when the server goes away under a command."""
    return ServerGone(
        f"{error} Nothing that was recorded is lost: `jaato attach {session_id}` goes on, once a server runs."
    )
