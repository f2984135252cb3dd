"""Clients of every kind at one session, each with the same few things that a user does with it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pexpect
import psutil
from anyio.from_thread import start_blocking_portal
from tests.acp.editor import editing
from tests.cli import environment as user
from tests.cli.terminal import talking
from tests.page import browser
from tests.tui.tmux import pane

from jaato.client.address import Address
from jaato.client.blocking import Client
from jaato.client.connection import connect
from jaato.protocol.codec import encode
from jaato.protocol.commands import SessionList
from jaato.protocol.events import EventBase
from jaato.protocol.events.state import State
from jaato.protocol.frames import Sessions
from jaato.storage.sqlite import SqliteStore
from jaato.tui.questions.dialogs import GUARD_S

TIMEOUT_S = 60.0


def call(command: str, *need: str, **more: Any) -> dict[str, Any]:
    """A step that runs a command."""
    arguments = {"command": command, **({"need": list(need)} if need else {})}
    return {"calls": [{"name": "run", "arguments": arguments}], **more}


class Scene:
    """A server with a session, and the directories of the people at it."""

    def __init__(self, root: Path, server: browser.Desk) -> None:
        self.server = server
        self.work = server.work
        self.socket = server.home / "run/jaato.sock"
        self.root = root

    def session_id(self) -> str:
        """The id of the only session."""
        with Client(Address(path=self.socket)).open() as client:
            found = client.ask(SessionList(limit=9))
        assert isinstance(found, Sessions)
        (row,) = found.sessions
        return row.id

    def state(self) -> State:
        """The state of the only session."""

        async def read() -> State:
            async with connect(Address(path=self.socket)) as client:
                return (await client.attach(self.session_id())).state

        return anyio.run(read)

    def event_types(self) -> list[str]:
        """The types of the stored events of the only session."""
        store = SqliteStore(self.server.home / "state/jaato.db")
        try:
            return [
                json.loads(encode(event))["type"]
                for event in store.read(self.session_id())
                if isinstance(event, EventBase)
            ]
        finally:
            store.close()

    def commands(self) -> list[list[str]]:
        """The processes below the server, without the one that starts commands."""
        found = []
        for one in psutil.Process(self.server.process.pid).children(recursive=True):
            with suppress(psutil.Error):  # it may end while it is looked at
                found.append(one.cmdline())
        return [words for words in found if "jaato.tools.processes" not in str(words)]

    def desk(self, name: str) -> user.CliEnvironment:
        """The home of a user of this name, at work in the directory of the session."""
        place = self.root / name
        place.mkdir()
        made = user.CliEnvironment(place)
        made.work = self.work
        made.env |= {"USER": name, "XDG_RUNTIME_DIR": str(place)}
        return made


class QuickServer(browser.Desk):
    """A server whose model does not pause."""

    pause_s = 0.0


@contextmanager
def scene(root: Path, *steps: dict[str, Any], kind: type[browser.Desk] = browser.Desk) -> Iterator[Scene]:
    """A server whose model says these steps."""
    server = kind(root / "server", main=list(steps))
    try:
        yield Scene(root, server)
    finally:
        server.stop()


class Face(ABC):
    """A client. `name` is a pattern of what other clients see; `can_edit` says whether it edits arguments."""

    kind: str
    name: str
    can_edit = True

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @property
    def connect(self) -> list[str]:
        """Flags for the server."""
        return ["--connect", str(self.scene.socket)]

    @abstractmethod
    def open(self, session_id: str = "") -> AbstractContextManager[object]:
        """Show a new session, or one that is there."""

    @abstractmethod
    def send(self, text: str) -> None:
        """Send a message."""

    @abstractmethod
    def shown(self) -> str:
        """All that is shown now."""

    @abstractmethod
    def questions(self) -> int:
        """How many questions it offers to answer now; one at a time counts as one."""

    @abstractmethod
    def allow(self, edited: dict[str, Any] | None = None) -> None:
        """Allow the call of the question, with other arguments."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the turn."""

    @abstractmethod
    def leave(self) -> None:
        """Leave as a user does; the program ends without a failure."""

    def expect_loss(self) -> None:  # noqa: B027 most clients need not know
        """The server will be killed."""

    @abstractmethod
    def see_loss(self) -> None:
        """Wait until it says that the connection is lost."""

    @abstractmethod
    def see_return(self) -> None:
        """Wait until it says that it is connected again."""

    def wait(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something holds."""
        until = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < until, f"the {self.kind} never shows {what}:\n{self.shown()[-4000:]}"
            time.sleep(0.03)

    def see(self, *patterns: str) -> None:
        """Wait until each pattern is shown."""
        for pattern in patterns:
            self.wait(lambda: re.search(pattern, self.shown()), pattern)  # noqa: B023 it is called at once

    def is_asked(self) -> None:
        """Wait for a question."""
        self.wait(self.questions, "a question")

    def is_not_asked(self) -> None:
        """Wait until no question is offered."""
        self.wait(lambda: not self.questions(), "that no question waits")


class Terminal(Face):
    """The full-screen client, in tmux."""

    kind = "terminal"
    name = r"tess at pts/\d+"
    size = (110, 50)

    @contextmanager
    def open(self, session_id: str = "") -> Iterator[None]:
        desk = self.scene.desk("tess")
        env = {**desk.env, "TERM": "xterm-256color"}
        words = self.words(desk, session_id)
        with pane(words, cwd=self.scene.work, env=env, size=self.size) as self._pane:
            self._pane.see("mode ask")
            yield

    def words(self, desk: user.CliEnvironment, session_id: str) -> list[str]:
        """What starts it."""
        how = ["attach", "--full-screen", session_id] if session_id else ["tui"]
        return [*desk.command, *how, *self.connect]

    def send(self, text: str) -> None:
        self._pane.type(text)
        self._pane.see(text)
        self._pane.press("Enter")

    def shown(self) -> str:
        return self._pane.screen

    def questions(self) -> int:
        return self._pane.screen.count("May run run?")

    def allow(self, edited: dict[str, Any] | None = None) -> None:
        self.is_asked()
        self._pane.press("Tab")
        self._pane.see("y  yes")
        time.sleep(GUARD_S + 0.05)
        self._pane.press("y" if edited is None else "e")
        if edited is not None:
            self._pane.see("Ctrl+S runs the call")
            self._pane.press("F7")
            self._pane.type(json.dumps(edited))
            self._pane.see(edited["command"])
            self._pane.press("C-s")

    def see_loss(self) -> None:
        self.see("reconnecting")

    def see_return(self) -> None:
        self.wait(lambda: "reconnecting" not in self.shown(), "that it is connected")

    def stop(self) -> None:
        self._pane.press("Escape")

    def leave(self) -> None:
        self._pane.press("C-c", "C-c")  # the second within two seconds of the first
        assert self._pane.exit_code() == 0


class RichClient(Terminal):
    """The same one, as `rich_client.py` starts it: in a new session of its directory, or in one that is named."""

    kind = "rich client"

    def words(self, desk: user.CliEnvironment, session_id: str) -> list[str]:
        path = Path(__file__).parents[2] / "rich_client.py"
        return [sys.executable, str(path), *([session_id] if session_id else []), *self.connect]


class Line(Face):
    """The line client: `jaato chat` for a new session, `jaato attach` for one that is there."""

    kind = "line client"
    name = r"lin at pts/\d+"
    user = "lin"

    @contextmanager
    def open(self, session_id: str = "") -> Iterator[None]:
        words = ["--connect", str(self.scene.socket), *([session_id] if session_id else [])]
        command = "attach" if session_id else "chat"
        self._text = ""
        with talking(self.scene.desk(self.user), *words, command=command) as self._child:
            self.see("session s")
            yield

    def send(self, text: str) -> None:
        self._child.sendline(text)

    def shown(self) -> str:
        while True:
            try:
                self._text += self._child.read_nonblocking(1 << 16, timeout=0)
            except (pexpect.TIMEOUT, pexpect.EOF):
                return self._text.replace("\r\n", "\n")

    def questions(self) -> int:
        """A question that was answered elsewhere is followed by a line that says so, one answered here by the answer."""
        return len(re.findall(r"May run run\?\n", self.shown())) - len(self._settled())

    def _settled(self) -> list[str]:
        return re.findall(
            r"allow\? y|arguments as JSON.*need|\S+ (?:at \S+|page|\S+ process \d+) answered:", self.shown()
        )

    def allow(self, edited: dict[str, Any] | None = None) -> None:
        self.is_asked()
        if edited is not None:
            self._child.sendline("e")
            self.see("arguments as JSON")
            self._child.sendline(json.dumps(edited))
        else:
            self._child.sendline("y")

    def see_loss(self) -> None:
        self.see("Lost the connection to the server")

    def see_return(self) -> None:
        self.see("Reconnected")

    def stop(self) -> None:
        self._child.sendintr()

    def leave(self) -> None:
        self._child.sendeof()
        self._child.expect(pexpect.EOF)
        self._child.close()
        assert self._child.exitstatus == 0


class Page(Face):
    """The page, in Chromium."""

    kind = "page"
    name = "Chrome page"

    @contextmanager
    def open(self, session_id: str = "") -> Iterator[None]:
        with browser.watched(self.scene.server) as self._seen:
            self._seen.open(self.scene.server)
            self.page = self._seen.page
            if session_id:
                self.page.goto(f"{self.scene.server.origin}/#s={session_id}")
                self.page.get_by_role("log").wait_for()
            else:
                self._seen.begin(self.scene.server)
            yield

    def send(self, text: str) -> None:
        self._seen.send(text)

    def shown(self) -> str:
        text: str = self.page.locator("body").inner_text()
        return text

    def questions(self) -> int:
        return int(self.page.locator(".question .primary").count())

    def _press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def allow(self, edited: dict[str, Any] | None = None) -> None:
        if edited is None:
            self._press("Allow")
            return
        self._press("Edit")
        self.page.get_by_label("Arguments as JSON").fill(json.dumps(edited))
        self._press("Allow with these arguments")

    def stop(self) -> None:
        self._press("Stop")

    def leave(self) -> None:
        self._seen.check()
        self.page.goto("about:blank")

    def expect_loss(self) -> None:
        self._seen.offline_is_expected = True

    def see_loss(self) -> None:
        self.see("Offline. What you see")

    def see_return(self) -> None:
        self.see("\nconnected\n")


class InEditor(Face):
    """An editor with `jaato acp`; its user is asked by the public library's client."""

    kind = "editor"
    name = r"eddi, editor, process \d+"
    can_edit = False

    @contextmanager
    def open(self, session_id: str = "") -> Iterator[None]:
        with start_blocking_portal() as self._portal:
            desk = self.scene.desk("eddi")
            opened = editing(desk, *self.connect, choose=lambda *_: None)
            self._prompts: list[Future[Any]] = []
            with self._portal.wrap_async_context_manager(opened) as self.editor:
                if session_id:
                    servers: dict[str, Any] = {"mcp_servers": []}
                    self._ask(
                        self.editor.agent.load_session,
                        cwd=str(self.scene.work),
                        session_id=session_id,
                        **servers,
                    )
                    self._session_id = session_id
                else:
                    self._session_id = self._portal.call(self.editor.new, desk)
                yield
                for prompt in self._prompts:
                    prompt.result(TIMEOUT_S)

    def _ask(self, method: Callable[..., Any], **given: Any) -> Any:
        return self._portal.call(partial(method, **given))

    def send(self, text: str) -> None:
        self._prompts.append(self._portal.start_task_soon(self.editor.say, self._session_id, text))

    def shown(self) -> str:
        lines = []
        for _, update in list(self.editor.updates):
            match update.session_update:
                case "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk":
                    lines.append(update.content.text)
                case "tool_call":
                    lines.append(f"\n{update.title}\n")
        lines += [f"stopped: {one.result().stop_reason}" for one in self._prompts if one.done()]
        return "".join(lines)

    def questions(self) -> int:
        return len(self.editor.open)

    def allow(self, edited: dict[str, Any] | None = None) -> None:
        assert edited is None
        self.is_asked()
        self._portal.call(self._allow)

    async def _allow(self) -> None:
        self.editor.choose = lambda *_: "allow_once"
        self.editor.decided.set()
        while self.questions():
            await asyncio.sleep(0)
        self.editor.decided.clear()
        self.editor.choose = lambda *_: None

    def _log(self) -> str:
        return (self.scene.root / "eddi/acp.log").read_text()

    def see_loss(self) -> None:
        self.wait(
            lambda: "lost the connection to the server" in self._log(), "in its log that the server is lost"
        )

    def see_return(self) -> None:
        self.wait(lambda: "reconnected" in self._log(), "in its log that it is connected")

    def stop(self) -> None:
        self._ask(self.editor.agent.cancel, session_id=self._session_id)

    def leave(self) -> None:
        """The end of its stream, which ends the program, is that of `open`."""


FACES: dict[str, type[Face]] = {"terminal": Terminal, "line": Line, "page": Page, "editor": InEditor}
