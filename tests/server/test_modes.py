"""The sandbox and the mode of a session of the server: told to clients, changed by its owner alone, kept over a rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import say
from tests.server.serving import served

from jaato.client.connection import connect
from jaato.client.session import RemoteSession
from jaato.errors import ConfigError
from jaato.protocol.codec import encode
from jaato.protocol.events import SessionInfo, SessionUpdated
from jaato.protocol.frames import Role
from jaato.protocol.specs import Mode, SandboxView
from jaato.server.auth.tokens import add_token

C8 = pytest.mark.spec("C8", "Server and events")


def view_of(session: RemoteSession) -> SandboxView:
    """What a client was told last."""
    assert session.info is not None
    assert session.info.sandbox is not None
    return session.info.sandbox


async def told(session: RemoteSession, mode: Mode) -> None:
    """Wait until a client is told a mode."""
    with anyio.fail_after(60):
        while view_of(session).mode != mode:
            await anyio.sleep(0.02)


@C8
def test_a_client_is_told_how_commands_are_confined(tmp_path: Path) -> None:
    """Back end, profiles, mode, hosts and directories of `session.create` come back in `session.info`."""
    beside = tmp_path / "beside"
    beside.mkdir()

    async def main() -> None:
        async with served(tmp_path, []) as server, connect(server.path, name="one") as one:
            session = await one.create(
                tmp_path / "work", mode="auto", allow_domains=["PyPI.org"], add_dirs=[str(beside)]
            )
            view = view_of(session)
            assert view.backend
            assert set(view.profiles) >= {"read-only", "workspace-write"}
            assert (view.mode, view.domains, view.paths, view.full) == (
                "auto",
                ["pypi.org"],
                [str(beside)],
                False,
            )
            full = await one.create(tmp_path / "work", sandbox="full")
            assert view_of(full).full

    anyio.run(main)


@C8
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"add_dirs": ["beside"]}, "absolute path"),
        ({"add_dirs": ["/"]}, "whole machine"),
        ({"allow_domains": ["https://x.example"]}, "is no host"),
        ({"read_only": True, "mode": "auto"}, "--read-only"),
        ({"read_only": True, "sandbox": "full"}, "read-only nothing can be opened"),
    ],
)
def test_what_cannot_be_opened_is_refused(tmp_path: Path, how: dict[str, Any], said: str) -> None:
    """The client gets the reason, and no session begins."""

    async def main() -> None:
        async with served(tmp_path, []) as server, connect(server.path, name="one") as one:
            with pytest.raises(ConfigError, match=said):
                await one.create(tmp_path / "work", **how)
            assert (await one.list()).sessions == []

    anyio.run(main)


@C8
def test_the_owner_changes_the_mode_and_everybody_is_told(tmp_path: Path) -> None:
    """It is in the log as one event and in every client's state; a viewer and an approver may not, nor may a stranger to
    the list of modes."""

    async def main() -> None:
        async with served(tmp_path, [say("Hello.")]) as server, connect(server.path, name="one") as one:
            session = await one.create(tmp_path / "work")
            roles: tuple[Role, ...] = ("viewer", "approver")
            tokens = {role: add_token(tmp_path / "state", role, role, None) for role in roles}
            for role, token in tokens.items():
                async with server.remote() as remote:
                    await remote.hello(role, token=token)
                    await remote.ask("session.attach", session_id=session.id)
                    reply = await remote.ask(
                        "command.execute", session_id=session.id, name="mode", arguments="auto"
                    )
                    assert reply.error is not None
                    assert "owner" in reply.error.message
            assert view_of(session).mode == "ask"
            async with server.client("two") as two:
                await two.ask("session.attach", session_id=session.id)
                assert (await session.execute("mode", "accept-edits")).startswith("The mode is accept-edits")
                await told(session, "accept-edits")
                changed = await two.until(SessionUpdated)
                assert changed.mode == "accept-edits"
                await two.until(SessionInfo)
                assert two.states[session.id].mode == "accept-edits"
            with pytest.raises(ConfigError, match="There is no mode"):
                await session.execute("mode", "yolo")
            assert "* accept-edits" in await session.execute("mode")
            stored = list(server.hub.store.read(session.id))
            assert [event.mode for event in stored if isinstance(event, SessionUpdated)] == ["accept-edits"]
            live = server.hub.pool.loaded[session.id].session
            assert live.gate.policy.mode == "accept-edits"
            [notice] = [one for one in live.inbox.messages if "accept-edits" in encode(one).decode()]
            assert notice.source == "system"

    anyio.run(main)


@C8
def test_a_session_that_rested_goes_on_in_its_mode(tmp_path: Path) -> None:
    """Put down and resumed, it is in the mode that was chosen in it, or with which it was made; `read-only` can be left where
    it was chosen in it."""

    async def main() -> None:
        async with served(tmp_path, []) as server, connect(server.path, name="one") as one:
            made = await one.create(tmp_path / "work", mode="plan")
            closed = await one.create(tmp_path / "work", read_only=True)
            changed = await one.create(tmp_path / "work")
            await changed.execute("mode", "auto")
            for session, mode in ((made, "plan"), (closed, "read-only"), (changed, "auto")):
                await server.hub.evict(session.id)
                live = await server.hub.load(session.id)
                assert live.session.gate.policy.mode == mode
            with pytest.raises(ConfigError, match="begin another one"):
                await closed.execute("mode", "ask")
            for mode in ("read-only", "ask", "read-only"):
                await changed.execute("mode", mode)
                await server.hub.evict(changed.id)
                assert (await server.hub.load(changed.id)).session.gate.mode == mode
            await changed.execute("mode", "auto")
            assert server.hub.pool.loaded[changed.id].session.gate.mode == "auto"

    anyio.run(main)


@C8
@pytest.mark.parametrize("base", [{"read_only": True}, {"mode": "read-only"}])
def test_no_client_opens_what_the_server_closes(tmp_path: Path, base: dict[str, Any]) -> None:
    """A server that was started to read only makes no other sessions, whatever a client says."""

    async def main() -> None:
        async with served(tmp_path, [], **base) as server, connect(server.path, name="one") as one:
            session = await one.create(tmp_path / "work")
            assert view_of(session).mode == "read-only"
            with pytest.raises(ConfigError, match="read-only"):
                await one.create(tmp_path / "work", mode="auto")
            with pytest.raises(ConfigError, match="begin another one"):
                await session.execute("mode", "auto")

    anyio.run(main)
