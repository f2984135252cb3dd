"""The documented faces of the server: sessions of one process, and the doors to them."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jaato.client.connection import connect
from jaato.errors import ConfigError, ConnectionFault, NotAllowed, SessionNotFound
from jaato.protocol.commands import SessionUpdate
from jaato.protocol.events import Event, TurnCompleted
from jaato.providers.scripted import ScriptedCall, ScriptedProvider, Step
from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.tokens import load_or_create_token
from server.core import JaatoServer
from server.events import AgentOutputEvent, SessionInfoEvent, ToolCallStartEvent
from server.ipc import JaatoIPCServer
from server.session_manager import SessionManager
from server.websocket import JaatoWSServer


def blueprint(path: Path, *steps: Step) -> SessionOptions:
    """Sessions that are answered by a script."""
    return SessionOptions(
        provider=ScriptedProvider(list(steps)),
        model="script",
        state_dir=path / "state",
        environ={"HOME": str(path), "PATH": "/usr/bin:/bin"},
    )


async def completed(session: JaatoServer, text: str) -> list[Event]:
    """What happens until the turn of a message is over."""
    heard: list[Event] = []
    over = anyio.Event()

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, TurnCompleted):
            over.set()

    leave = session.subscribe(hear)
    await session.send_message(text)
    await over.wait()
    leave()
    return heard


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.4")
def test_a_server_emits_events_to_whoever_subscribes(tmp_path: Path) -> None:
    """A session has no user interface: commands go in, events come out, and its state is the fold of them."""

    async def main() -> None:
        (tmp_path / "a.txt").write_text("here")
        call = Step(calls=[ScriptedCall("readFile", {"path": "a.txt"})])
        async with JaatoIPCServer(tmp_path / "run/s", blueprint(tmp_path, call, Step(text="Done."))) as door:
            session = await door.sessions.create_session(tmp_path, name="first")
            heard = await completed(session, "Read it.")
            kinds = [type(event) for event in heard]
            assert ToolCallStartEvent in kinds
            assert AgentOutputEvent in kinds
            assert session.state.name == "first"
            assert session.state.seq == max(event.seq for event in heard)
            await session.execute(SessionUpdate(session_id=session.session_id, description="read a file"))
            assert session.state.description == "read a file"
            await session.stop()

    anyio.run(main)


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.5")
def test_a_session_is_loaded_when_somebody_attaches_and_put_down_after(tmp_path: Path) -> None:
    """Attaching loads a stored session; when the last client leaves it is put down at once, and nothing is lost."""

    async def main() -> None:
        made = blueprint(tmp_path, Step(text="One."), Step(text="Two."))
        async with JaatoIPCServer(tmp_path / "run/s", made) as door:
            manager: SessionManager = door.sessions
            first = await manager.create_session(tmp_path, name="kept")
            await completed(first, "Say one.")
            second = await manager.attach_session("kept")
            while manager.list_sessions()[0].busy:
                await anyio.sleep(0.01)
            await manager.detach_client(first)
            assert [one.is_loaded for one in manager.list_sessions()] == [True], "somebody else is there"
            await manager.detach_client(second)
            assert [one.is_loaded for one in manager.list_sessions()] == [False]
            again = await manager.attach_session(first.session_id)
            assert again.state.entries == first.state.entries
            await completed(again, "Say two.")
            await manager.detach_client(again)
            with pytest.raises(SessionNotFound):
                await manager.attach_session("none")
            await manager.delete_session("kept")
            assert manager.list_sessions() == []

    anyio.run(main)


def test_a_door_on_a_socket_and_one_on_an_address(tmp_path: Path) -> None:
    """Clients of the same user come by the socket, others with the token; after the end neither is there."""

    async def main() -> None:
        door = JaatoIPCServer(tmp_path / "run/s", blueprint(tmp_path))
        with pytest.raises(ConfigError):
            _ = door.sessions
        async with door, connect(tmp_path / "run/s") as client:
            assert (await client.list()).sessions == []
        assert not (tmp_path / "run/s").exists()
        with pytest.raises(ConnectionFault):
            async with connect(tmp_path / "run/s"):
                pass
        web = JaatoWSServer(0, blueprint=blueprint(tmp_path))
        async with web:
            url = f"ws://{web.host}:{web.port}"
            token = load_or_create_token(tmp_path / "state", "server-token")[0]
            async with connect(url, token=token) as client:
                assert (await client.list()).sessions == []
            with pytest.raises(NotAllowed):
                async with connect(url, token="wrong"):
                    pass

    anyio.run(main)


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.2")
def test_the_first_event_is_the_whole_state(tmp_path: Path) -> None:
    """Whoever attaches gets `session.info` with the session, its sessions, tools and models, before anything else."""

    async def main() -> None:
        async with JaatoIPCServer(tmp_path / "run/s", blueprint(tmp_path)) as door:
            await door.sessions.create_session(tmp_path)
            seen: list[Event] = []

            class Watching(JaatoServer):
                def emit(self, event: Event) -> None:
                    seen.append(event)
                    super().emit(event)

            session = await door.sessions.create_session(tmp_path, name="second")
            Watching(door.sessions._hub, session.session_id)
            info = seen[0]
            assert isinstance(info, SessionInfoEvent)
            assert (info.session_id, info.session_name) == (session.session_id, "second")
            assert len(info.sessions) == 2
            assert "readFile" in [tool["name"] for tool in info.tools]

    anyio.run(main)
