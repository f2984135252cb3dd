"""`jaato serve`: the server, at the terminal or in the background; how it is, and its end."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from pathlib import Path

from jaato.cli.clean_environment import protect
from jaato.cli.daemon_start import notify_ready, server_arguments, start_daemon
from jaato.cli.ending import OK, say
from jaato.client.address import socket_path
from jaato.errors import ConfigError
from jaato.settings import environment


def program() -> int:
    """`python -m server`: the arguments of `jaato serve`."""
    from jaato.cli import main as jaato

    protect()
    return jaato(["serve", *sys.argv[1:]])


def main(args: Namespace) -> int:
    """Serve, or say how the server is, or have it read its files anew, or stop it."""
    path = Path(args.ipc_socket).absolute() if args.ipc_socket else socket_path(environment())
    check(args)
    if args.status:
        return status(path if args.ipc_socket else known(path))
    if args.reload:
        return reload(path if args.ipc_socket else known(path))
    if args.stop:
        return stop(path if args.ipc_socket else known(path))
    if args.print_unit:
        return print_unit(args)
    if args.mcp_workspace and not Path(args.mcp_workspace).is_dir():
        raise ConfigError(f"--mcp-workspace: {args.mcp_workspace} is no directory.")
    if args.daemon:
        return start_daemon(args, path)
    return serve(args, path)


def check(args: Namespace) -> None:
    """Raises `ConfigError` for flags that do not go together."""
    asking = next((f"--{name}" for name in ("status", "reload", "stop") if getattr(args, name)), "")
    network = {
        "--allow-host": args.allow_host,
        "--allow-origin": args.allow_origin,
        "--tls-cert": args.tls_cert,
        "--tls-key": args.tls_key,
    }
    others = network | {
        "--mcp-workspace": args.mcp_workspace,
        "--log": args.log,
    }
    if asking and (given := [flag for flag, value in others.items() if value]):
        raise ConfigError(f"{asking} begins no server, so {given[0]} has no meaning beside it.")
    if bool(args.tls_cert) != bool(args.tls_key):
        raise ConfigError("TLS takes both --tls-cert FILE and --tls-key FILE.")
    reached = args.web_socket or (args.print_unit or (not args.daemon and "LISTEN_FDS" in environment()))
    if not reached and (given := [flag for flag, value in network.items() if value]):
        raise ConfigError(f"{given[0]} is about the network: say the address with --web-socket [HOST]:PORT.")


def serve(args: Namespace, path: Path) -> int:
    """Serve until a signal."""
    import anyio

    from jaato.runtime.session_options import SessionOptions
    from jaato.server import daemon
    from jaato.server import log_file as logs
    from jaato.server.app import ServerOptions

    options = ServerOptions(
        hosts=args.allow_host,
        origins=args.allow_origin,
        idle_after_s=args.idle_after,
        base=SessionOptions(),
        tls=(Path(args.tls_cert), Path(args.tls_key)) if args.tls_cert else None,
        mcp=Path(args.mcp_workspace).resolve() if args.mcp_workspace else None,
    )
    web = (args.web_socket,) if args.web_socket else ()
    logs.configure_logging(Path(args.log).absolute() if args.log else None)
    anyio.run(daemon.serve, path, web, options, notify_ready)
    return OK


def print_unit(args: Namespace) -> int:
    """A unit file for systemd, with these arguments."""
    from jaato.server import systemd as units

    if args.print_unit == "socket":
        sys.stdout.write(units.socket_unit(Path(args.ipc_socket).absolute() if args.ipc_socket else None))
    else:
        sys.stdout.write(
            units.service_unit([sys.executable, "-m", "jaato", "serve", *server_arguments(args)])
        )
    return OK


def known(path: Path) -> Path:
    """Where the server meant is when no socket is named: at the usual place, else where the last one was begun."""
    from jaato.server.lock_file import find_last_server, find_server

    return path if find_server(path) is not None else find_last_server() or path


def status(path: Path) -> int:
    """How the server is: exit code 0 when it serves, 1 when none does."""
    from jaato.server.lock_file import find_server

    record = find_server(path)
    if record is None:
        print(f"no server at {path}")
        return 1
    print(f"serving at {record.socket}" + "".join(f" and {address}" for address in record.web))
    up = time.time() - record.started
    print(f"process {record.pid}, jaato {record.version}, up {up:.0f} s")
    return OK


def reload(path: Path) -> int:
    """Have the server's open sessions begin anew, as its owner. Raises `ServerGone`, `ConfigError`."""
    from jaato.cli.connect import greeted
    from jaato.client.address import Address
    from jaato.protocol.commands import ServerReload

    with greeted(Address(path=path)) as client:
        client.ask(ServerReload())
    say("open sessions begin anew, each once it rests")
    return OK


def stop(path: Path) -> int:
    """End the server."""
    from jaato.server import lock_file

    record = lock_file.stop_server(path)
    say("the server has stopped" if record is not None else f"no server at {path}")
    return OK
