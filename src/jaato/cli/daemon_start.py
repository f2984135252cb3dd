"""Start the server in the background and wait until it serves; the server's side of that wait."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from jaato.cli.clean_environment import handed_over
from jaato.cli.ending import OK, say
from jaato.errors import ConfigError
from jaato.settings import environment, user_dir

READY = "JAATO_READY_FD"


def start_daemon(args: Namespace, path: Path) -> int:
    """Start the server in the background, and wait until it serves."""
    from jaato.server.lock_file import find_server

    running = find_server(path)
    if running is not None:
        say(f"a server runs already (process {running.pid}) at {running.socket}")
        return OK
    environ = environment()
    state = user_dir(environ, "XDG_STATE_HOME", ".local/state")
    log = Path(args.log).absolute() if args.log else state / "server.log"
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-m", "jaato", "serve", *server_arguments(args), "--log", str(log)]
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as ready, open(log, "ab", opener=open_private) as out:
        start = out.tell()
        try:
            with handed_over({**absolute_environment(environ), READY: str(writing)}) as (given, passed):
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
        said = ready.readline().decode("utf-8", "replace").strip()
    if not said:
        child.wait()
        with log.open("rb") as file:
            file.seek(start)
            why = file.read(4_000).decode("utf-8", "replace").strip()
        raise ConfigError(f"The server did not start. {why or f'Its log is {log}.'}")
    child.returncode = 0  # it goes on without us
    say(f"{said} (process {child.pid}; log: {log})")
    return OK


def server_arguments(args: Namespace) -> list[str]:
    """The arguments of another process that is to serve as these say."""
    found: list[str] = []
    for name in ("ipc_socket", "mcp_workspace", "tls_cert", "tls_key"):
        if given := getattr(args, name):
            found += [f"--{name.replace('_', '-')}", str(Path(given).absolute())]
    if args.web_socket:
        found += ["--web-socket", args.web_socket]
    found += [part for host in args.allow_host for part in ("--allow-host", host)]
    found += [part for origin in args.allow_origin for part in ("--allow-origin", origin)]
    return [*found, "--idle-after", str(args.idle_after)]


def absolute_environment(environ: dict[str, str]) -> dict[str, str]:
    """The same for a process in another directory."""
    if not (places := environ.get("PYTHONPATH")):
        return environ
    return {**environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, places.split(os.pathsep)))}


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def notify_ready(text: str) -> None:
    """Tell who has started the server that it serves."""
    fd = environment().get(READY, "")
    if fd.isdigit():
        os.write(int(fd), text.encode() + b"\n")
        os.close(int(fd))
    else:
        say(text)
