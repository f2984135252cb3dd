"""The state of a long log: kept beside it, taken only where it holds, and made without keeping others waiting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from tests.server.happenings import Happenings
from tests.server.serving import served

from jaato.agent.journal import Journal
from jaato.agent.state import State as AgentState
from jaato.errors import SessionNotFound
from jaato.protocol.codec import encode
from jaato.protocol.events import MessageUser
from jaato.protocol.events.state import State
from jaato.protocol.messages import Message, Text
from jaato.runtime.session_store import load_session_in_steps
from jaato.server.sessions import snapshot as module
from jaato.server.sessions.snapshot import SAVED_STATE, StateFold
from jaato.tools.redaction.redactor import Redactor


@pytest.fixture(params=range(3))
def happenings(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Happenings]:
    """A session in which things have happened."""
    made = Happenings(tmp_path, request.param)
    for _ in range(600):
        made.step()
    yield made
    made.store.close()


def folded(happenings: Happenings, secrets: Redactor | None = None) -> tuple[State, int]:
    """The state of the stored session, and how often others had their turn."""
    folding = StateFold(happenings.store, secrets or Redactor.none(), happenings.journal.state.session_id)
    turns = sum(1 for _ in folding)
    return folding.state, turns


def test_what_is_kept_and_the_rest_give_the_same_state(
    happenings: Happenings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it was kept in between, the state is that of the whole log, to the byte, and only what has come since
    is read."""
    monkeypatch.setattr(module, "SAVE_AFTER", 40)
    monkeypatch.setattr(module, "AT_ONCE", 1)
    session_id = happenings.journal.state.session_id
    for _ in range(6):
        before = happenings.journal.state.seq
        folded(happenings)
        assert happenings.store.load_snapshot(session_id) is not None
        for _ in range(happenings.random.randint(1, 400)):
            happenings.step()
        state, turns = folded(happenings)
        since = happenings.journal.state.seq - before
        assert since <= turns < since + 40
        with monkeypatch.context() as patch:
            patch.setattr(module, "SAVE_AFTER", 10**9)
            patch.setattr(type(happenings.store), "load_snapshot", lambda *_: None)
            whole, all_turns = folded(happenings)
        assert all_turns == happenings.journal.state.seq
        assert encode(state) == encode(whole)


def test_what_does_not_hold_is_not_taken(happenings: Happenings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept by other code, of another session, as of another event, or is damaged, is as good as nothing."""
    monkeypatch.setattr(module, "SAVE_AFTER", 40)
    session_id = happenings.journal.state.session_id
    whole = encode(folded(happenings)[0])
    data = happenings.store.load_snapshot(session_id)
    assert data is not None
    kept = SAVED_STATE.decode(data)
    wrong = replace(kept, state=State(session_id="another", seq=kept.seq))
    for bad in (
        encode(replace(wrong, made_by="other code")),
        encode(replace(wrong, session_id="s2")),
        encode(replace(wrong, event="another")),
        encode(replace(wrong, seq=kept.seq - 1)),
        encode(replace(wrong, seq=10**9)),
        b"",
        b"[" * 100_000,
        b"\xff" + data,
        data[:-20],
    ):
        happenings.store.save_snapshot(session_id, bad)
        assert encode(folded(happenings)[0]) == whole


def test_what_is_kept_goes_with_its_session(happenings: Happenings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is private, is removed with the session, and nothing is kept of one that is gone."""
    monkeypatch.setattr(module, "SAVE_AFTER", 40)
    store, session_id = happenings.store, happenings.journal.state.session_id
    folded(happenings)
    (file,) = (store.path.parent / "folds").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.with_suffix(".part").touch()  # another process was killed at it
    store.release(session_id)
    store.delete(session_id)
    assert not list((store.path.parent / "folds").iterdir())
    with pytest.raises(SessionNotFound):
        store.save_snapshot(session_id, b"x")
    assert not list((store.path.parent / "folds").iterdir())


def test_a_secret_that_is_known_since_is_masked(
    happenings: Happenings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state is shown without what is secret now, also where it was kept when that was not known."""
    monkeypatch.setattr(module, "SAVE_AFTER", 40)
    words = Message("user", [Text("the word is kq7-winter-garden")], id="m1")
    happenings.record(MessageUser, message=words, turn_id="t1")
    assert b"kq7-winter-garden" in encode(folded(happenings)[0])
    assert b"kq7-winter-garden" in (
        happenings.store.load_snapshot(happenings.journal.state.session_id) or b""
    )
    state, _ = folded(happenings, Redactor({"KEY": "kq7-winter-garden"}))
    assert b"kq7-winter-garden" not in encode(state)


def test_a_log_that_is_not_read_to_its_end_is_let_go(happenings: Happenings) -> None:
    """Going on with a long session holds it from the first piece, and lets it go where that comes to nothing."""
    store, session_id = happenings.store, happenings.journal.state.session_id
    store.release(session_id)
    with closing(load_session_in_steps(Journal(store, AgentState()), session_id)) as pieces:
        next(pieces)
        assert store.holder(session_id) is not None
    assert store.holder(session_id) is None


def test_others_have_their_turn_while_a_long_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that attaches to a long session keeps nobody waiting, and is told all the same what is due first."""
    (tmp_path / "state").mkdir()
    made = Happenings(tmp_path / "state")
    for _ in range(400):
        made.step()
    seq, session_id = made.journal.state.seq, made.journal.state.session_id
    made.store.close()
    monkeypatch.setattr(module, "AT_ONCE", 1)
    turns = 0

    async def counting() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0)
            turns += 1

    async def main() -> None:
        async with served(tmp_path, []) as server, server.client() as one, server.client() as other:
            async with anyio.create_task_group() as group:
                group.start_soon(counting)
                async with anyio.create_task_group() as both:
                    both.start_soon(lambda: one.ask("session.attach", session_id=session_id))
                    both.start_soon(lambda: other.ask("history.request", session_id=session_id, limit=5))
                before = turns
                while session_id not in one.states:
                    await one.next()
                group.cancel_scope.cancel()
            assert before > seq
            assert one.states[session_id].seq == seq
            assert len(server.hub.rooms) == 1

    anyio.run(main)
