"""`jaato serve`: start the server in the foreground or background, show its status, reload or stop it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

from jaato.cli.clean_environment import pass_environment
from jaato.cli.exit_codes import OK, print_message
from jaato.client.address import socket_path
from jaato.errors import ConfigError
from jaato.settings import environment, user_dir
from jaato.version import __version__

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from jaato.server.lock_file import ServerRecord

READY = "JAATO_READY_FD"
"""The variable with the descriptor on which a background server reports that it is ready."""


def program() -> int:
    """`python -m server`: the arguments of `jaato serve`."""
    from jaato.cli import run_program

    return run_program(["serve", *sys.argv[1:]], own=True)


def main(args: Namespace) -> int:
    """Start the server, or show its status, reload or stop it."""
    from jaato.server.lock_file import find_last_server, find_server

    path = Path(args.ipc_socket).absolute() if args.ipc_socket else socket_path(environment())
    check_flags(args)
    if args.status or args.reload or args.stop:
        if not args.ipc_socket and find_server(path) is None:
            path = find_last_server() or path
        return status(path) if args.status else reload(path) if args.reload else stop(path)
    if args.print_unit:
        return print_unit(args)
    for flag, given in (
        ("--mcp-workspace", args.mcp_workspace),
        ("--openai-workspace", args.openai_workspace),
    ):
        if given and not Path(given).is_dir():
            raise ConfigError(f"{flag}: {given} is not a directory.")
    if args.daemon:
        return start_daemon(args, path)
    return serve(args, path)


def check_flags(args: Namespace) -> None:
    """Raise `ConfigError` for flags that cannot be combined."""
    control = next((f"--{name}" for name in ("status", "reload", "stop") if getattr(args, name)), "")
    network = {
        "--allow-host": args.allow_host,
        "--allow-origin": args.allow_origin,
        "--tls-cert": args.tls_cert,
        "--tls-key": args.tls_key,
    }
    others = network | {
        "--mcp-workspace": args.mcp_workspace,
        "--openai-workspace": args.openai_workspace,
        "--log": args.log,
    }
    if control and (given := [flag for flag, value in others.items() if value]):
        raise ConfigError(f"{given[0]} cannot be used with {control}, which starts no server.")
    if bool(args.tls_cert) != bool(args.tls_key):
        raise ConfigError("TLS needs both --tls-cert FILE and --tls-key FILE.")
    listens = args.web_socket or args.print_unit or (not args.daemon and "LISTEN_FDS" in environment())
    if not listens and (given := [flag for flag, value in network.items() if value]):
        raise ConfigError(f"{given[0]} needs a network address: add --web-socket [HOST]:PORT.")


def serve(args: Namespace, path: Path) -> int:
    """Serve until a signal."""
    import anyio

    from jaato.runtime.session_options import SessionOptions
    from jaato.server import daemon
    from jaato.server.app import ServerOptions

    options = ServerOptions(
        hosts=args.allow_host,
        origins=args.allow_origin,
        idle_after_s=args.idle_after,
        base=SessionOptions(),
        tls=(Path(args.tls_cert), Path(args.tls_key)) if args.tls_cert else None,
        mcp=Path(args.mcp_workspace).resolve() if args.mcp_workspace else None,
        openai=Path(args.openai_workspace).resolve() if args.openai_workspace else None,
    )
    web = (args.web_socket,) if args.web_socket else ()
    daemon.configure_logging(Path(args.log).absolute() if args.log else None)
    anyio.run(daemon.serve, path, web, options, notify_ready)
    return OK


def check_running(args: Namespace, running: ServerRecord) -> None:
    """Raise `ConfigError` for options that a running server was perhaps not started with: nothing would come of them."""
    from jaato.server.http.listeners import parse_host_port

    options = {"--openai-workspace": args.openai_workspace, "--mcp-workspace": args.mcp_workspace}
    missing = [option for option, value in options.items() if value]
    if args.web_socket:
        port = parse_host_port(args.web_socket)[1]
        ports = [parse_host_port(address.partition("://")[2])[1] for address in running.web]
        missing += [] if port in ports or (ports and not port) else ["--web-socket"]  # port 0 is any
    if missing:
        raise ConfigError(
            f"A server is already running (process {running.pid}) at {running.socket}, and {' and '.join(missing)} cannot be "
            "added to it. Stop it with `jaato serve --stop`, and start it again; its sessions are kept."
        )


def report_running(args: Namespace, path: Path) -> bool:
    """Print which server runs, if one does; whether one does. Raises `ConfigError` as `check_running` does."""
    from jaato.server.lock_file import find_server

    running = find_server(path)
    if running is None:
        return False
    check_running(args, running)
    text = f"a server is already running (process {running.pid}) at {running.socket}"
    print_message("; ".join(filter(None, [text, explain_version(running.version)])))
    return True


def explain_version(running: str) -> str:
    """A note about a running server of another version than this program's; empty for the same one."""
    if running in ("", __version__):
        return ""
    return f"it is jaato {running}, and this is {__version__}: `jaato serve --stop` ends it, and the next one is of this version"


def start_daemon(args: Namespace, path: Path) -> int:
    """Start the server in the background, and wait until it is ready. Raises `ConfigError` when it fails."""
    if report_running(args, path):
        return OK
    environ = environment()
    log = (
        Path(args.log).absolute()
        if args.log
        else user_dir(environ, "XDG_STATE_HOME", ".local/state") / "server.log"
    )
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-m", "jaato", "serve", *server_arguments(args), "--log", str(log)]
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as ready, open(log, "ab", opener=open_private) as out:
        start = out.tell()
        try:
            with pass_environment({**absolute_environment(environ), READY: str(writing)}) as (given, passed):
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    cwd="/",
                    env=given,
                    pass_fds=(writing, *passed),
                    start_new_session=True,
                )
        finally:
            os.close(writing)
        message = ready.readline().decode("utf-8", "replace").strip()
    if not message:
        child.wait()
        if report_running(args, path):  # another process has started one at the same time
            return OK
        with log.open("rb") as file:
            file.seek(start)
            why = file.read(4_000).decode("utf-8", "replace").strip().removeprefix("jaato: ")
        raise ConfigError(f"The server did not start. {why or f'Its log is {log}.'}")
    child.returncode = 0  # the server outlives this process: do not wait for it
    print_message(f"{message} (process {child.pid}; log: {log})")
    return OK


def notify_ready(text: str) -> None:
    """Report to the process that started this server in the background, else on stderr, that it is ready."""
    fd = environment().get(READY, "")
    if fd.isdigit():
        os.write(int(fd), text.encode() + b"\n")
        os.close(int(fd))
    else:
        print_message(text)


def server_arguments(args: Namespace) -> list[str]:
    """The arguments for a server in another process with these options."""
    found: list[str] = []
    for name in ("ipc_socket", "mcp_workspace", "openai_workspace", "tls_cert", "tls_key"):
        if given := getattr(args, name):
            found += [f"--{name.replace('_', '-')}", str(Path(given).absolute())]
    if args.web_socket:
        found += ["--web-socket", args.web_socket]
    found += [part for host in args.allow_host for part in ("--allow-host", host)]
    found += [part for origin in args.allow_origin for part in ("--allow-origin", origin)]
    return [*found, "--idle-after", str(args.idle_after)]


def absolute_environment(environ: dict[str, str]) -> dict[str, str]:
    """The environment with absolute paths in PYTHONPATH, for a process in another directory."""
    if not (places := environ.get("PYTHONPATH")):
        return environ
    return {**environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, places.split(os.pathsep)))}


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def print_unit(args: Namespace) -> int:
    """Print a systemd unit file for a server with these options."""
    from jaato.server import systemd as units

    if args.print_unit == "socket":
        sys.stdout.write(units.socket_unit(Path(args.ipc_socket).absolute() if args.ipc_socket else None))
    else:
        sys.stdout.write(
            units.service_unit([sys.executable, "-m", "jaato", "serve", *server_arguments(args)])
        )
    return OK


def status(path: Path) -> int:
    """Print the server's addresses, process and uptime; the exit code is 1 when none is running."""
    from jaato.server.lock_file import find_server

    record = find_server(path)
    if record is None:
        print(f"no server at {path}")
        return 1
    print(f"serving at {record.socket}" + "".join(f" and {address}" for address in record.web))
    up = time.time() - record.started
    print(f"process {record.pid}, jaato {record.version}, up {up:.0f} s")
    if note := explain_version(record.version):
        print(note)
    return OK


def reload(path: Path) -> int:
    """Have the server restart its sessions with current settings. Raises `ServerGone`, `ConfigError`."""
    from jaato.client.address import Address
    from jaato.client.blocking import Client
    from jaato.protocol.commands import ServerReload

    with Client(Address(path=path)) as client:
        client.ask(ServerReload())
    print_message("sessions are reloaded, each as soon as it is idle")
    return OK


def stop(path: Path) -> int:
    """Stop the server."""
    from jaato.server import lock_file

    record = lock_file.stop_server(path)
    print_message("the server has stopped" if record is not None else f"no server at {path}")
    return OK
