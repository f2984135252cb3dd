"""A person's part of a login: the address, opened in a browser without a shell, and the answer, received on loopback."""

from __future__ import annotations

import hmac
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketStream

from jaato.plugins.mcp.oauth.options import OAuthFault, plain
from jaato.plugins.mcp.oauth.requests import secure_url
from jaato.tools.network.addresses import AddressRefused, parse_url
from jaato.tools.processes.environment import find_program, is_inside, split_search_path

SAFE = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+/[A-Za-z0-9._~%/:@+,=&?!*;-]*")
MAX_URL_CHARS = 8_192
KEPT_NAMES = frozenset(
    "PATH HOME USER LOGNAME LANG SHELL TERM TMPDIR DISPLAY WAYLAND_DISPLAY XAUTHORITY BROWSER SystemRoot".split()
)
KEPT_PREFIXES = ("XDG_", "LC_", "DBUS_", "VSCODE_")
PATH = "/callback"
MAX_HEAD_BYTES = 16_384
HEAD_WITHIN_S = 10.0
MAX_CONNECTIONS = 16
MAX_WRONG = 50
KEPT = frozenset(("code", "state", "iss", "error", "error_description"))
THANKS = "The answer has reached jaato. You can close this page and go back."
WRONG = "This is not the answer jaato is waiting for."
GONE = "There is nothing here."


class Prompt(NamedTuple):
    """A request to the user to log in to `server` at `url`, where `host` grants what `issuer` stands for."""

    server: str
    url: str
    host: str
    issuer: str


Ask = Callable[[Prompt], Awaitable[str | None]]
"""Shows a person the prompt; may return the address the browser was sent to in the end, for those who copy it."""


def check_url(text: str) -> str:
    """A URL that may be given to a browser: https, or http to this machine. Raises `OAuthFault`."""
    url = str(secure_url(text, "The address to log in at"))
    if len(url) > MAX_URL_CHARS or not SAFE.fullmatch(url):
        raise OAuthFault("The address to log in at has characters that are not handed to a browser.")
    return url


def opener(environ: Mapping[str, str]) -> list[str] | None:
    """The program that opens an address on this machine, None where there is no browser to show; never one below the
    directory that jaato works in."""
    path = split_search_path(environ.get("PATH"))
    place = Path.cwd().resolve()
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
    if sys.platform == "darwin":
        return ["/usr/bin/open"]
    if sys.platform == "win32":
        return ["rundll32.exe", "url.dll,FileProtocolHandler"]
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return None
    program = find_program("xdg-open", path, refused)
    return None if program is None else [program]


def open_browser(text: str, environ: Mapping[str, str]) -> bool:
    """Open a URL in the person's browser; whether there is one. Raises `OAuthFault` for a URL that is not opened.

    The browser belongs to the user and outlives jaato, so it is not supervised. It is given no secret of the
    environment.
    """
    url = check_url(text)
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


def browser_prompt(write: Callable[[str], None], environ: Mapping[str, str]) -> Ask:
    """An `Ask` that prints the address with `write` and opens the browser."""

    async def ask(prompt: Prompt) -> None:
        url = check_url(prompt.url)
        write(f"Log in to {plain(prompt.server)} at {prompt.host} ({plain(prompt.issuer)}):\n{url}\n")
        opened = await anyio.to_thread.run_sync(open_browser, url, environ, abandon_on_cancel=True)
        write("Waiting for the browser.\n" if opened else "Open this address in a browser on this machine.\n")

    return ask


class CallbackServer:
    """Waits for one answer that carries the `state` of this login; all others are rejected and counted."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self.authority = f"{host}:{port}"
        self.path = path
        self.redirect_uri = f"http://{self.authority}{path}"
        self.state = ""
        self._wrong = 0
        self._answer: dict[str, str] | None = None
        self._done = anyio.Event()
        self._connections = anyio.Semaphore(MAX_CONNECTIONS)

    async def answer(self) -> dict[str, str] | None:
        """The parameters of the answer, None when wrong ones keep coming."""
        await self._done.wait()
        return self._answer

    def accept_redirect(self, query: str) -> bool:
        """Accept the query of a redirect if it is the awaited one; whether it was."""
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50, errors="strict")
        except (ValueError, UnicodeError):
            pairs = []
        given = dict(pairs)
        once = len(given) == len(pairs) and all(len(value) <= 8_192 for value in given.values())
        right = (
            once and self.state and hmac.compare_digest(given.get("state", "").encode(), self.state.encode())
        )
        if not right or self._answer is not None:
            self._wrong += 1
            return False
        self._answer = {name: value for name, value in given.items() if name in KEPT}
        return True

    def _finish_if_done(self) -> None:
        """End the wait when there is an answer, or too many wrong ones."""
        if self._answer is not None or self._wrong >= MAX_WRONG:
            self._done.set()

    def paste(self, text: str) -> bool:
        """Accept the address a person copied from the browser; whether it was the awaited one."""
        try:
            url = parse_url(text.strip())
        except AddressRefused:
            return False
        taken = url.target.partition("?")[0] == self.path and self.accept_redirect(
            url.target.partition("?")[2]
        )
        self._finish_if_done()
        return taken

    async def serve(self, stream: SocketStream) -> None:
        """Answer one request of a browser."""
        async with stream, self._connections:
            try:
                with anyio.fail_after(HEAD_WITHIN_S):
                    head = await read_head(stream)
                    await stream.send(self._respond(head))
            except (TimeoutError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            finally:
                self._finish_if_done()  # only now, so that the page is sent before the receiver goes

    def _respond(self, head: bytes) -> bytes:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        hosts = [line.partition(":")[2].strip() for line in lines[1:] if line.lower().startswith("host:")]
        if len(words) != 3 or words[0] != "GET" or hosts != [self.authority]:
            return page("400 Bad Request", GONE)  # a name that was bent to this address asks for another host
        path, _, query = words[1].partition("?")
        if path != self.path:
            return page("404 Not Found", GONE)
        return page("200 OK", THANKS) if self.accept_redirect(query) else page("400 Bad Request", WRONG)


async def read_head(stream: SocketStream) -> bytes:
    """The head of a request, or what there is of it."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < MAX_HEAD_BYTES:
        try:
            data += await stream.receive(4_096)
        except anyio.EndOfStream:
            break
    return data if b"\r\n\r\n" in data else b""


def page(status: str, text: str) -> bytes:
    """A plain text page without data of the request."""
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def receiver(
    port: int = 0, *, only: bool = False, host: str = "127.0.0.1", path: str = PATH
) -> AsyncIterator[CallbackServer]:
    """A receiver at work on 127.0.0.1, which may be called `host`: at `port`, or at any free one unless `only` that
    will do. Raises OSError."""
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError:
        if only or port == 0:
            raise
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    failure: Exception | None = None
    async with listener:
        at = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's, not Django's
        found = CallbackServer(host, at, path)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, found.serve)
            try:
                yield found
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group that would wrap it
                failure = error
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
