"""Ten clients at one session: of every kind, and one that reads nothing."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio.from_thread import start_blocking_portal
from tests.page.browser import need_chromium
from tests.page.node import CLIENT, node
from tests.page.serve_page import HOLD
from tests.page.test_fold import assert_same
from tests.pairs.faces import InEditor, Line, Page, QuickServer, Scene, Terminal, scene
from websockets.asyncio.client import unix_connect

from jaato.client.address import Address
from jaato.client.connection import connect
from jaato.client.state import apply
from jaato.protocol.events import Event, SessionInfo, TurnCompleted
from jaato.protocol.events.state import State
from jaato.protocol.frames import FRAMES
from jaato.settings import environment

pytestmark = pytest.mark.system
WORDS = 2_000
STORY = f"{HOLD} " + " ".join(f"w{number}" for number in range(WORDS)) + "\n\nThe end of it."


async def follow(stage: Scene, session_id: str, joined: asyncio.Event) -> State:
    """The state of a client in Python at the end of the turn."""
    async with connect(Address(path=stage.socket)) as client:
        session = await client.attach(session_id)
        with session.events() as events:
            joined.set()
            async for event in events:
                if isinstance(event, TurnCompleted):
                    break
        return session.state


async def stall(stage: Scene, session_id: str, joined: asyncio.Event, over: asyncio.Event) -> State:
    """The state of a client that reads nothing until the others are at the end, and then all there is for it."""
    async with unix_connect(str(stage.socket), "ws://jaato/v1/connect", compression=None, max_queue=1) as ws:
        await ws.send(json.dumps({"type": "hello", "protocol": 1}))
        await ws.send(json.dumps({"type": "session.attach", "id": "1", "session_id": session_id}))
        joined.set()
        await over.wait()
        state = State()
        while not state.turns:
            frame = FRAMES.decode(await ws.recv())
            if isinstance(frame, SessionInfo) and frame.state is not None:
                state = frame.state
            elif isinstance(frame, Event):
                apply(state, frame)
        return state


@contextmanager
def followed_in_typescript(stage: Scene, session_id: str) -> Iterator[subprocess.Popen[str]]:
    """A client in TypeScript whose connection is lost every few frames; it prints its state in the end."""
    token = (stage.server.home / "state/server-token").read_text().strip()
    words = [node(), "tests/follow.ts", f"ws://127.0.0.1:{stage.server.port}/v1/connect", session_id]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=CLIENT, env={**environment(), "JAATO_TOKEN": token}, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


class Wide(Terminal):
    """A terminal in which the whole text has room."""

    size = (200, 100)


def test_ten_clients_have_the_same_transcript(tmp_path: Path) -> None:
    """Every word once and in its order at each of them, the same state in Python and TypeScript, and none waits for the
    one that does not read."""
    need_chromium()
    with scene(tmp_path, {"text": STORY, "chunks": WORDS}, kind=QuickServer) as stage, ExitStack() as stack:
        first = Line(stage)
        stack.enter_context(first.open())
        first.send("Tell a story.")
        first.see(HOLD)
        session_id = stage.session_id()
        faces = [first, Wide(stage), Page(stage), InEditor(stage)]
        for face in faces[1:]:
            stack.enter_context(face.open(session_id))
            face.see("Tell a story", HOLD)
        portal = stack.enter_context(start_blocking_portal())
        over = portal.call(asyncio.Event)
        states = []
        for number in range(5):
            joined = portal.call(asyncio.Event)
            if number < 4:
                states.append(portal.start_task_soon(follow, stage, session_id, joined))
            else:
                states.append(portal.start_task_soon(stall, stage, session_id, joined, over))
            portal.call(joined.wait)
        process = stack.enter_context(followed_in_typescript(stage, session_id))
        (stage.work / "go").touch()
        for face in faces:
            face.see("The end of it")
            found = [int(number) for number in re.findall(r"\bw(\d+)\b", face.shown())]
            assert found == list(range(WORDS)), face.kind
        assert process.stdout is not None
        printed = json.loads(process.stdout.read())
        portal.call(over.set)
        here, *others = [state.result(60) for state in states]
        for state in [*others, msgspec.convert(printed["state"], State)]:
            for agent in state.agents.values():
                agent.status = here.agents[agent.id].status  # the last one may still be on its way
            assert_same(state, here)
        for face in faces:
            face.leave()
