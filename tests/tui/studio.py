"""The full-screen client with a real session: in this process by default, or at a server, the model scripted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from jaato.cli.arguments.parser import make_parser
from jaato.tui.app import FullScreenClient
from jaato.tui.command import make_app
from jaato.tui.questions.panel import QuestionPanel
from jaato.tui.status_line import StatusLine

USAGE = {"input_tokens": 1000, "output_tokens": 20}
TIMEOUT_S = 60


def say(text: str, **more: Any) -> dict[str, Any]:
    """A scripted reply of text."""
    return {"text": text, "usage": USAGE, **more}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A scripted reply that makes one call."""
    return {"calls": [{"name": name, "arguments": arguments}], "usage": USAGE}


def calls(*made: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A scripted reply that makes several calls."""
    return {"calls": [{"name": name, "arguments": given} for name, given in made], "usage": USAGE}


class Studio:
    """A client on a screen, and what can be done with it."""

    def __init__(self, app: FullScreenClient, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def screen(self) -> str:
        """What is on the screen, as text."""
        width, height = self.app.size
        lines = self.app.screen._compositor.render_strips()
        if len(lines) != height:
            return ""  # a screen that was just opened, or resized
        text = [strip.text.rstrip() for strip in lines]
        assert all(strip.cell_length <= width for strip in lines), "a line is wider than the screen"
        return "\n".join(text)

    @property
    def status(self) -> str:
        """The status line."""
        return self.app.view.query_one(StatusLine).render().plain

    @property
    def panel(self) -> QuestionPanel:
        """The panel of the question."""
        return self.app.view.questions

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type text, key by key."""
        names = {" ": "space", "/": "slash", ".": "full_stop", "@": "at", "\n": "ctrl+j", "-": "minus"}
        await self.press(*[names.get(char, char) for char in text])

    async def send(self, text: str) -> None:
        """Type a message, and send it."""
        self.app.view.prompt.insert(text)
        await self.press("enter")

    async def wait(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        until = time.monotonic() + TIMEOUT_S
        while not holds():
            assert self.app.is_running, self.app.failure
            assert time.monotonic() < until, self.screen
            await self.pilot.pause(0.02)

    async def see(self, *texts: str) -> None:
        """Wait until all these texts are on the screen."""
        for text in texts:
            await self.wait(lambda text=text: text in self.screen)  # type: ignore[misc]  # a default is no inference

    async def answer(self, key: str) -> None:
        """Enter the question's panel, and press the key of an answer once it takes one."""
        await self.wait(lambda: self.panel.current is not None)
        if not self.panel.has_focus_within:
            await self.press("tab")
        await asyncio.sleep(0.55)
        await self.press(key)

    async def rest(self) -> None:
        """Wait until no turn runs."""
        await self.wait(lambda: self.app.link.is_open and not self.app.link.is_busy)
        await self.pilot.pause(0.1)


@asynccontextmanager
async def studio(
    work: Path,
    *words: str,
    steps: list[Any] | None = None,
    size: tuple[int, int] = (80, 24),
    daemon: bool = False,
) -> AsyncIterator[Studio]:
    """A client of a new session whose model says these steps."""
    given = list(words)
    if steps is not None:
        script = work.parent / "script.json"
        script.write_text(json.dumps(steps))
        given += ["--provider", "scripted", "--model", str(script)]
    if not daemon:
        given.append("--no-daemon")
    args = make_parser("tui").parse_args(["tui", "--workspace", str(work), *given])
    app = make_app(args)
    async with app.run_test(size=size) as pilot:
        one = Studio(app, pilot)
        await one.wait(lambda: app.link.is_open or app.failure is not None)
        await pilot.pause(0.05)
        yield one
        app.leave()
        await asyncio.wait_for(app.left.wait(), TIMEOUT_S)
