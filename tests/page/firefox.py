"""Firefox for the tests of the page, driven by WebDriver BiDi: Debian's Firefox lacks commands that Playwright needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.page.webdriver import WAIT_S, Page
from websockets.sync.client import ClientConnection, connect

from jaato.settings import environment

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox") or ""
ENTER = "\ue007"


class Firefox(Page):
    """One page."""

    def __init__(self, ws: ClientConnection) -> None:
        super().__init__()
        self._ws = ws
        self._ids = 0
        self.version = str(self.ask("session.new", capabilities={})["capabilities"]["browserVersion"])
        self._context = self.ask("browsingContext.getTree")["contexts"][0]["context"]
        self.ask("session.subscribe", events=["log.entryAdded"])

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a command; events that come before it are taken in."""
        self._ids += 1
        self._ws.send(json.dumps({"id": self._ids, "method": method, "params": params}))
        while True:
            message = json.loads(self._ws.recv(timeout=WAIT_S))
            if message.get("method") == "log.entryAdded" and message["params"]["level"] in ("error", "warn"):
                self.complaints.append(str(message["params"]["text"]))
            if message.get("id") == self._ids:
                assert "error" not in message, (method, message)
                return message["result"]

    def open(self, url: str) -> None:
        """Load a page."""
        self.ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; an element as its handle."""
        found = self.ask(
            "script.evaluate", expression=expression, target={"context": self._context}, awaitPromise=True
        )
        assert found["type"] == "success", found
        value = found["result"]
        return value if value["type"] == "node" else value.get("value")

    def click(self, selector: str) -> None:
        """Press an element with the mouse, once it can be pressed."""
        node = self.find(selector)
        origin = {"type": "element", "element": {"sharedId": node["sharedId"]}}
        steps = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": origin},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": steps})

    def type(self, text: str) -> None:
        """Press keys."""
        steps = [{"type": kind, "value": char} for char in text for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": steps})

    def _act(self, source: dict[str, Any]) -> None:
        self.ask("input.performActions", context=self._context, actions=[source])


@contextmanager
def firefox(profile: Path) -> Iterator[Firefox]:
    """A browser without a window, with a profile of its own; skips the test where there is none."""
    if not FIREFOX:
        pytest.skip("Firefox is not installed (Debian's package firefox-esr)")
    profile.mkdir()
    words = [FIREFOX, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    environ = {"HOME": str(profile), "PATH": environment()["PATH"]}
    process = subprocess.Popen(
        words, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        url = next(
            found[1] for line in process.stderr if (found := re.search(r"BiDi listening on (ws://\S+)", line))
        )
        with connect(f"{url}/session", compression=None, proxy=None, max_size=None) as ws:
            browser = Firefox(ws)
            yield browser
            browser.ask("browser.close")
    finally:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
