"""Unit files for a user's systemd: the service, and the socket that starts it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    return SERVICE.format(command=" ".join(quoted(part) for part in command))


def socket_unit(path: Path | None) -> str:
    """The unit `jaato.socket` that goes beside it; None: at the usual place in the runtime directory."""
    return SOCKET.format(path="%t/jaato/jaato.sock" if path is None else str(path).replace("%", "%%"))


def quoted(part: str) -> str:
    """A part of a command as systemd reads it (systemd.service(5))."""
    text = part.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if any(letter in text for letter in " \t\"'\\;") or not text else text
