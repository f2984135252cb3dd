"""Watchers of a session: each has its state, to the byte, however it stalls, leaves and comes back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.server.happenings import Happenings

from jaato.client.state import apply
from jaato.protocol.codec import encode
from jaato.protocol.events import SessionInfo
from jaato.protocol.events.state import State
from jaato.protocol.frames import FRAMES
from jaato.protocol.specs import ClientView
from jaato.server.sessions import subscription as subscriptions
from jaato.server.sessions.room import Room
from jaato.server.sessions.snapshot import StateFold
from jaato.server.sessions.subscription import EventBuffer, Subscription
from jaato.storage.sqlite import SqliteStore
from jaato.tools.redaction.redactor import Redactor


class Client:
    """A client with a state of its own behind a pipe of some size."""

    def __init__(self, room: Room, size: int) -> None:
        self.room = room
        self.size = size
        self.pipe: list[bytes] = []
        self.state: State | None = None
        self.subscription: Subscription | None = None
        self.seen: list[int] = []

    @property
    def ready(self) -> bool:
        """Whether the pipe takes more."""
        return len(self.pipe) < self.size

    def write(self, frame: bytes) -> None:
        """Into the pipe."""
        self.pipe.append(frame)

    def come(self) -> None:
        """Watch, from where this client is."""
        after = self.state.seq if self.state is not None else None
        self.subscription = self.room.subscribe(self, ClientView("k", "somebody", "owner"), after)
        self.subscription.send_pending()

    def go(self) -> None:
        """Leave, and what is in the pipe is lost."""
        assert self.subscription is not None
        self.room.unsubscribe(self.subscription)
        self.subscription = None
        self.pipe.clear()

    def read(self, most: int) -> None:
        """Take some out of the pipe."""
        for frame in self.pipe[:most]:
            event = FRAMES.decode(payload(frame))
            if isinstance(event, SessionInfo) and event.state is not None:
                self.state = event.state
                continue
            assert self.state is not None
            if event.durable:
                assert event.seq == self.state.seq + 1, "a gap, or an event twice"
            apply(self.state, event)
        del self.pipe[:most]
        if self.subscription is not None:
            self.subscription.send_pending()


def payload(frame: bytes) -> bytes:
    """What a frame carries."""
    length = frame[1]
    return frame[2:] if length < 126 else frame[4:] if length == 126 else frame[10:]


@pytest.fixture(params=range(6))
def happenings(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Happenings]:
    """A session in which things happen."""
    made = Happenings(tmp_path, request.param)
    yield made
    made.store.close()


def room_of(happenings: Happenings) -> Room:
    """The room of the session."""
    session_id = happenings.journal.state.session_id
    room = Room(happenings.store, Redactor.none(), folded(happenings.store, session_id))
    happenings.journal.bus.listen(room.publish)
    return room


def folded(store: SqliteStore, session_id: str) -> State:
    """The state of a stored session."""
    folding = StateFold(store, Redactor.none(), session_id)
    for _ in folding:
        pass
    return folding.state


@pytest.mark.spec("S4", "2. Server-First Architecture", "S4.server.1")
def test_every_client_has_the_servers_state_to_the_byte(
    happenings: Happenings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that stall, leave at any moment and come back end with the state of the server, byte for byte."""
    monkeypatch.setattr(subscriptions, "MAX_REPLAYED", 40)
    room = room_of(happenings)
    room.ring = EventBuffer(kept_events=60)
    choose = random.Random(happenings.random.random())
    clients = [Client(room, size) for size in (1, 2, 5, 40, 1_000)]
    cut_back = 0
    for turn in range(3_000):
        happenings.step()
        client = clients[(turn // 100 + choose.randint(0, 3)) % 5]  # one of them stalls for a while
        match choose.randint(0, 40):
            case 0 if client.subscription is not None:
                cut_back += client.subscription.snapshots
                client.go()
            case n if n > 5 and client.subscription is None:
                client.come()
            case _:
                client.read(choose.choice((0, 1, 3, 100)))
    cut_back += sum(client.subscription.snapshots for client in clients if client.subscription is not None)
    for client in clients:
        if client.subscription is None:
            client.come()
        while client.pipe:
            client.read(1_000)
        assert client.state is not None
        assert encode(client.state) == encode(room.state)
    assert cut_back > len(clients), "nobody was ever cut back"


def test_a_state_from_the_log_alone_is_the_one_that_was_heard(happenings: Happenings) -> None:
    """StateFold the stored log gives what listening gave, but for what no log holds."""
    room = room_of(happenings)
    for _ in range(1_500):
        happenings.step()
    stored = folded(happenings.store, room.session_id)
    mine = msgspec.convert(msgspec.to_builtins(room.state), State)
    for state in (stored, mine):
        for agent in state.agents.values():
            agent.streaming, agent.status, agent.reason = {}, "idle", None
            agent.context_tokens, agent.context_limit = 0, None
        for call in state.calls.values():
            call.output, call.output_start = "", 0
    assert encode(stored) == encode(mine)


def test_a_stalled_client_keeps_nothing(happenings: Happenings) -> None:
    """For a client that takes nothing more, nothing is queued, and others are served as before."""
    room = room_of(happenings)
    stalled, other = Client(room, 1), Client(room, 1_000_000)
    stalled.come()
    other.come()
    for _ in range(5_000):
        happenings.step()
    assert len(stalled.pipe) <= 2
    assert len(other.pipe) > 5_000
    assert room.ring.end - room.ring.start <= 2_000
