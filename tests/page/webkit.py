"""WebKit for the tests of the page, driven by WebDriver over HTTP; Debian has both in `webkit2gtk-driver`."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.page.webdriver import WAIT_S, Page
from tests.ports import unused_port

from jaato.settings import environment

DRIVER = shutil.which("WebKitWebDriver") or ""
XVFB = shutil.which("Xvfb") or ""
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, ALT = "\ue007", "\ue00a"
LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class WebKit(Page):
    """One page."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._base = f"http://127.0.0.1:{port}/session"
        wanted = {"acceptInsecureCerts": True, "timeouts": {"script": int(WAIT_S * 1e3)}}
        made = self._ask("POST", "", capabilities={"alwaysMatch": wanted})
        self._base += "/" + made["sessionId"]
        self.version = str(made["capabilities"]["browserVersion"])

    def _ask(self, method: str, path: str, **fields: Any) -> Any:
        body = json.dumps(fields).encode() if method == "POST" else None
        request = urllib.request.Request(self._base + path, body, method=method)
        try:
            with LOCAL.open(request, timeout=WAIT_S) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path} {fields}: {error.read().decode()}") from None

    def open(self, url: str) -> None:
        """Load a page."""
        self._ask("POST", "/url", url=url)

    def resize(self, width: int, height: int) -> None:
        """Give the window a size."""
        self._ask("POST", "/window/rect", width=width, height=height)

    def run(self, script: str) -> Any:
        """Run a script in the page; what it returns."""
        return self._ask("POST", "/execute/sync", script=script, args=[])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        return self.run(f"return {expression}")

    def click(self, selector: str) -> None:
        """Press an element with the mouse, once it can be pressed."""
        element = self.find(selector)
        self._ask("POST", f"/element/{element[ELEMENT]}/click")

    def type(self, text: str, *held: str) -> None:
        """Press keys, with others held down."""
        steps = [
            *({"type": "keyDown", "value": key} for key in held),
            *({"type": kind, "value": char} for char in text for kind in ("keyDown", "keyUp")),
            *({"type": "keyUp", "value": key} for key in held),
        ]
        self._ask("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": steps}])

    def close(self) -> None:
        """End the browser."""
        self._ask("DELETE", "")


@contextmanager
def webkit(home: Path) -> Iterator[WebKit]:
    """A browser on a display and in a home of its own; skips the test where there is none."""
    if not (DRIVER and XVFB):
        pytest.skip("WebKit is not installed (Debian's packages webkit2gtk-driver and xvfb)")
    home.mkdir(mode=0o700)
    environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PATH": environment()["PATH"]}
    port = unused_port()
    with (
        running(
            [XVFB, "-displayfd", "1", "-screen", "0", "1400x1000x24", "-nolisten", "tcp"], environ
        ) as shown,
        running([DRIVER, f"--port={port}"], environ | {"DISPLAY": f":{read_line(shown)}"}),
    ):
        wait_for(port)
        browser = WebKit(port)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def running(words: list[str], environ: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the body."""
    process = subprocess.Popen(
        words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line that a process writes."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_for(port: int) -> None:
    """Wait until the driver accepts connections."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return
