"""What many sessions, many clients and much text cannot do to a server."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.server.happenings import Happenings
from tests.server.serving import served
from tests.server.test_feed import Client, room_of
from tests.server.test_stored_sessions import finished

from jaato.abc.provider import ModelRequest
from jaato.agent.active_tools import ActiveTools
from jaato.agent.model import ModelClient
from jaato.agent.retry import RetryPolicy
from jaato.protocol.events import AgentOutput, MessageUser, PermissionRequested, SessionInfo, TurnCompleted
from jaato.protocol.frames import FRAMES, Opened, Taken
from jaato.protocol.specs import ModelSettings
from jaato.providers.scripted import ScriptedCall, ScriptedProvider, Step
from jaato.server.sessions import messages as said
from jaato.server.sessions import room as rooms
from jaato.server.sessions import session_pool as open_sessions
from jaato.server.sessions.room import Room
from jaato.tools.catalog import Catalog
from jaato.tools.ledger import TokenLedger


def test_sessions_at_hand_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When as many sessions are at hand as may be, the one that has rested longest is put down, and goes on when it is
    spoken to; when all are watched, a further one is refused, and can be begun when one is left."""
    monkeypatch.setattr(open_sessions, "max_loaded", lambda: 3)

    async def main() -> None:
        async with served(tmp_path, [Step(text="well")] * 9) as server, server.client() as client:
            made = []
            for _ in range(5):
                reply = await client.ask("session.create", workspace=str(tmp_path / "work"), attach=False)
                assert isinstance(reply.result, Opened), reply.error
                made.append(reply.result.session_id)
                assert len(server.hub.pool.loaded) <= 3
            assert list(server.hub.pool.loaded) == made[2:]
            await client.ask("session.attach", session_id=made[0])
            await finished(client, made[0], "go on")
            assert len(server.hub.pool.loaded) == 3
            for session_id in made[1:3]:
                await client.ask("session.attach", session_id=session_id)
                await client.ask("command.execute", session_id=session_id, name="help")
            assert sorted(server.hub.pool.loaded) == sorted(made[:3])
            refused = await client.ask("session.create", workspace=str(tmp_path / "work"))
            assert refused.error is not None
            assert (refused.error.code, refused.error.retryable) == ("overloaded", True)
            await client.ask("session.detach", session_id=made[1])
            assert (await client.ask("session.create", workspace=str(tmp_path / "work"))).error is None

    async def bounded() -> None:
        with anyio.fail_after(30):
            await main()

    anyio.run(bounded)


def test_what_waits_for_an_agent_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that wait for a pause are bounded in number and size: one more is answered `overloaded`, with what to do,
    and is in no log; sent again after the turn, it is taken."""
    monkeypatch.setattr(said, "MOST_WAITING", 3)
    script = [
        Step(calls=[ScriptedCall("run", {"command": "touch made", "need": ["write"]})]),
        Step(text="over"),
        Step(text="yes"),
    ]

    async def main() -> None:
        async with served(tmp_path, script) as server, server.client() as client:
            made = await client.ask("session.create", workspace=str(tmp_path / "work"))
            assert isinstance(made.result, Opened)
            session_id = made.result.session_id
            assert (await client.ask("message.send", text="work")).error is None
            earlier = [event for event in client.events if isinstance(event, PermissionRequested)]
            asked = earlier[0] if earlier else await client.until(PermissionRequested)
            for number in range(3):
                queued = await client.ask("message.send", text=f"and {number}")
                assert isinstance(queued.result, Taken), queued.error
                assert queued.result.queued
            refused = await client.ask("message.send", text="too much", once="w1")
            assert refused.error is not None
            assert (refused.error.code, refused.error.retryable) == ("overloaded", True)
            assert "stop the turn" in refused.error.message
            await client.ask("permission.response", question_id=asked.question_id, answer="n")
            if not any(isinstance(event, TurnCompleted) for event in client.events):
                await client.until(TurnCompleted)
            assert (await client.ask("message.send", text="too much", once="w1")).error is None
            words = [
                event.message.words
                for event in client.states[session_id].entries
                if isinstance(event, MessageUser)
            ]
            assert words.count("too much") == 1

    async def bounded() -> None:
        with anyio.fail_after(30):
            await main()

    anyio.run(bounded)


def test_few_files_mean_few_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions leave most of the files a process may have open to connections and work."""
    for soft, most in ((64, 16), (1_024, 256), (1 << 20, 1_000), (resource.RLIM_INFINITY, 1_000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert open_sessions.max_loaded() == most


@pytest.fixture
def happenings(tmp_path: Path) -> Happenings:
    """A session on a store of its own."""
    return Happenings(tmp_path)


def test_many_who_come_at_once_are_told_of_once(
    happenings: Happenings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of many clients that come is told at once, of all others together; whoever comes has everybody in the
    snapshot. So the cost of a crowd grows with the crowd, and not with its square."""
    monkeypatch.setattr(rooms, "INFO_INTERVAL_S", 3_600.0)
    room: Room = room_of(happenings)
    room._info_sent_at = -3_600.0
    due: list[Callable[[], None]] = []
    room.call_later = lambda _wait_s, work: due.append(work)
    clients = [Client(room, 1_000) for _ in range(30)]
    for number, client in enumerate(clients):
        client.come()
        (snapshot,) = infos(client)
        assert snapshot.state is not None
        assert len(snapshot.clients) == 1, "all of these say they are the same client"
        assert len(room._subscriptions) == number + 1
    assert len(due) == 1
    due.pop()()
    for client in clients:
        (told,) = infos(client)
        assert told.state is None
    for client in clients:
        client.go()
    assert len(due) <= 1
    happenings.store.close()


def infos(client: Client) -> list[SessionInfo]:
    """What a client was told of who is there, taken out of its pipe."""
    frames = [FRAMES.decode(payload) for payload in map(unframed, client.pipe)]
    client.read(len(client.pipe))
    return [frame for frame in frames if isinstance(frame, SessionInfo)]


def unframed(frame: bytes) -> bytes:
    """What a frame carries."""
    return frame[2:] if frame[1] < 126 else frame[4:] if frame[1] == 126 else frame[10:]


def test_a_model_that_says_all_at_once_keeps_nobody_waiting(happenings: Happenings) -> None:
    """However much of a reply is there already, others have their turns while it is shown, and all of it is shown."""
    shown: list[str] = []
    happenings.journal.bus.listen(
        lambda event: shown.append(event.text) if isinstance(event, AgentOutput) else None
    )
    provider = ScriptedProvider([Step(text="a word " * 1_000, chunks=1_000)])
    journal = happenings.journal
    model = ModelClient(
        journal,
        provider,
        ActiveTools(journal, Catalog(), deferred=True, core=None),
        settings=ModelSettings(),
        retry=RetryPolicy(),
        ledger=TokenLedger(),
    )
    turns = 0

    async def counting() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0)
            turns += 1

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(counting)
            await model.stream_reply(ModelRequest("m", [], "s", []), lambda: False)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert "".join(shown) == "a word " * 1_000
    assert turns >= 30
    happenings.store.close()
