"""Showing a person where to log in: the address is checked, printed, and opened without a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from jaato.plugins.mcp.oauth_data import OAuthFault, plain
from jaato.plugins.mcp.oauth_wire import secure_url
from jaato.tools.programs import directories_of, find_program, is_inside

SAFE = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+/[A-Za-z0-9._~%/:@+,=&?!*;-]*")
MAX_URL_CHARS = 8_192
KEPT_NAMES = frozenset(
    "PATH HOME USER LOGNAME LANG SHELL TERM TMPDIR DISPLAY WAYLAND_DISPLAY XAUTHORITY BROWSER SystemRoot".split()
)
KEPT_PREFIXES = ("XDG_", "LC_", "DBUS_", "VSCODE_")


class Prompt(NamedTuple):
    """What a person is asked: to log in to `server` at `url`, where `host` grants what `issuer` stands for."""

    server: str
    url: str
    host: str
    issuer: str


Ask = Callable[[Prompt], Awaitable[str | None]]
"""Shows a person the prompt; may return the address the browser was sent to in the end, for those who copy it."""


def checked_url(text: str) -> str:
    """A URL that may be given to a browser: https, or http to this machine. Raises `OAuthFault`."""
    url = str(secure_url(text, "The address to log in at"))
    if len(url) > MAX_URL_CHARS or not SAFE.fullmatch(url):
        raise OAuthFault("The address to log in at has characters that are not handed to a browser.")
    return url


def opener(
    environ: Mapping[str, str], platform: str = sys.platform, here: Path | None = None
) -> list[str] | None:
    """The program that opens an address on this machine, None where there is no browser to show; never one below the
    directory that jaato works in."""
    path = directories_of(environ.get("PATH"))
    place = (here or Path.cwd()).resolve()
    refused = (
        [place] if place != place.parent else []
    )  # a server works in the root directory, and in no workspace
    chosen = environ.get("BROWSER", "")
    if chosen and re.fullmatch(r"[\w./+@-]+", chosen) and not chosen.startswith("-"):
        if os.path.isabs(chosen):
            usable = os.access(chosen, os.X_OK) and not is_inside(Path(chosen), refused)
            return [chosen] if usable else None
        program = find_program(chosen, path, refused) if "/" not in chosen else None
        return None if program is None else [program]
    if platform == "darwin":
        return ["/usr/bin/open"]
    if platform == "win32":
        return ["rundll32.exe", "url.dll,FileProtocolHandler"]
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return None
    program = find_program("xdg-open", path, refused)
    return None if program is None else [program]


def open_browser(text: str, environ: Mapping[str, str]) -> bool:
    """Open a URL in the person's browser; whether there is one. Raises `OAuthFault` for a URL that is not opened.

    The browser is the person's: it goes on when jaato ends, so nothing watches it. It is given no secret of the
    environment.
    """
    url = checked_url(text)
    program = opener(environ)
    if program is None:
        return False
    kept = {
        name: value for name, value in environ.items() if name in KEPT_NAMES or name.startswith(KEPT_PREFIXES)
    }
    try:
        started = subprocess.Popen(
            [*program, url],
            env=kept,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            close_fds=True,
        )
    except OSError:
        return False
    try:
        return started.wait(2.0) == 0
    except subprocess.TimeoutExpired:
        started.returncode = 0  # it became the browser itself, which is not ours to wait for
        return True


def asking(write: Callable[[str], None], environ: Mapping[str, str]) -> Ask:
    """An `Ask` that prints the address with `write` and opens the browser."""

    async def ask(prompt: Prompt) -> None:
        url = checked_url(prompt.url)
        write(f"Log in to {plain(prompt.server)} at {prompt.host} ({plain(prompt.issuer)}):\n{url}\n")
        opened = await anyio.to_thread.run_sync(open_browser, url, environ, abandon_on_cancel=True)
        write("Waiting for the browser.\n" if opened else "Open this address in a browser on this machine.\n")

    return ask
