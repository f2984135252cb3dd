"""systemd: the unit files of a user's service, socket activation (sd_listen_fds(3)) and notification (sd_notify(3))."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from jaato.errors import ConfigError

FIRST_DESCRIPTOR = 3
SERVICE = """[Unit]
Description=jaato, the server of your sessions
After=jaato.socket

[Service]
Type=notify
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
TimeoutStopSec=40
UMask=0077

[Install]
WantedBy=default.target
"""
SOCKET = """[Unit]
Description=jaato, the socket of the server of your sessions

[Socket]
ListenStream={path}
SocketMode=0600
DirectoryMode=0700

[Install]
WantedBy=sockets.target
"""


def service_unit(command: Sequence[str]) -> str:
    """The unit `jaato.service`, for `~/.config/systemd/user/`."""
    return SERVICE.format(command=" ".join(quote(part) for part in command))


def socket_unit(path: Path | None) -> str:
    """The unit `jaato.socket` beside it; None: at the default path in the runtime directory."""
    return SOCKET.format(path="%t/jaato/jaato.sock" if path is None else str(path).replace("%", "%%"))


def quote(part: str) -> str:
    """A part of a command in systemd's syntax (systemd.service(5))."""
    text = part.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if any(letter in text for letter in " \t\"'\\;") or not text else text


def get_inherited_listeners(environ: Mapping[str, str]) -> list[socket.socket]:
    """The sockets that systemd has opened for this process. Raises `ConfigError` for other descriptors."""
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = environ.get("LISTEN_FDS", "")
    listeners: list[socket.socket] = []
    for offset in range(int(count) if count.isdecimal() and len(count) < 4 else 0):
        fd = FIRST_DESCRIPTOR + offset
        try:
            os.set_inheritable(fd, False)
            one = socket.socket(fileno=fd)
            is_listening = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError as error:
            raise ConfigError(f"Descriptor {fd}, inherited as a socket, is none: {error.strerror}.") from None
        families = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
        if not is_listening or one.family not in families or one.type != socket.SOCK_STREAM:
            raise ConfigError(f"Descriptor {fd}, inherited as a socket, is not a listening stream socket.")
        listeners.append(one)
    return listeners


def notify_systemd(environ: Mapping[str, str], state: str) -> None:
    """Report the state of the service, if systemd has asked for it."""
    path = environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect(f"\0{path[1:]}" if path[0] == "@" else path)
        line.sendall(state.encode())
