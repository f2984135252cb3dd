"""What clients ask of the store through a server: searches, forks, and what a crash has cut off."""

from __future__ import annotations

from pathlib import Path

import anyio
from tests.server.serving import Raw, served
from tests.server.test_resume import Script, begun, server, until

from jaato.client.blocking import Client
from jaato.protocol.commands import (
    PermissionResponse,
    SessionAttach,
    SessionCreate,
    SessionList,
    TurnContinue,
)
from jaato.protocol.events import PermissionRequested, ToolCallStart, TurnCompleted
from jaato.protocol.frames import Opened, Sessions
from jaato.protocol.specs import SessionEntry
from jaato.providers.scripted import Step


async def talked(client: Raw, path: Path, name: str, text: str) -> str:
    """A session in which something was said and answered."""
    made = await client.ask("session.create", workspace=str(path / "work"), name=name)
    assert isinstance(made.result, Opened)
    await finished(client, made.result.session_id, text)
    return made.result.session_id


async def finished(client: Raw, session_id: str, text: str) -> None:
    """Say something, and wait for the end of the turn."""
    client.events.clear()
    await client.ask("message.send", text=text, session_id=session_id)
    if not any(isinstance(event, TurnCompleted) for event in client.events):
        await client.until(TurnCompleted)


async def listed(client: Raw, **fields: object) -> list[SessionEntry]:
    """The sessions a client is shown."""
    reply = await client.ask("session.list", **fields)
    assert isinstance(reply.result, Sessions), reply.error
    return reply.result.sessions


def test_a_client_searches_and_forks(tmp_path: Path) -> None:
    """A search gives the sessions with the words, a line from each, page by page; a fork has what was asked for, is listed,
    and can be worked in; what cannot be is answered with an error."""

    async def main() -> None:
        async with (
            served(tmp_path, [Step(text=f"Answer {index}.") for index in range(9)]) as server,
            server.client("one") as client,
        ):
            first = await talked(client, tmp_path, "first", "a needle in a haystack")
            second = await talked(client, tmp_path, "second", "another needle")
            found = await listed(client, query="needle")
            assert [(entry.id, entry.found) for entry in found] == [
                (second, "another needle"),
                (first, "a needle in a haystack"),
            ]
            page = await client.ask("session.list", query="needle", limit=1)
            assert isinstance(page.result, Sessions)
            rest = await listed(client, query="needle", limit=1, cursor=page.result.cursor)
            assert [entry.id for entry in rest] == [first]
            assert await listed(client, query="needle", workspace="/elsewhere") == []
            assert all(entry.found is None for entry in await listed(client))
            refused = await client.ask("session.list", query="***")
            assert refused.error is not None
            made = await client.ask("session.fork", session_id="first", seq=5, name="another way")
            assert isinstance(made.result, Opened), made.error
            assert (made.result.seq, made.result.name) == (6, "another way")
            fork = made.result.session_id
            assert (await listed(client))[0].id == fork
            await client.ask("session.attach", session_id=fork)
            await finished(client, fork, "and now?")
            for fields in ({"session_id": "first", "seq": 4000}, {"session_id": "../x"}, {"session_id": ""}):
                refused = await client.ask("session.fork", **fields)
                assert refused.error is not None

    anyio.run(main)


def test_a_session_without_a_name_is_titled_by_its_first_message(tmp_path: Path) -> None:
    """As soon as it has one, in lists and searches; a name or description counts first."""

    async def main() -> None:
        async with (
            served(tmp_path, [Step(text="One."), Step(text="Two.")]) as server,
            server.client("one") as client,
        ):
            made = await client.ask("session.create", workspace=str(tmp_path / "work"))
            assert isinstance(made.result, Opened)
            assert [entry.description for entry in await listed(client)] == [None]
            for text in ("a needle\nin a haystack", "another needle"):
                await finished(client, made.result.session_id, text)
                for fields in ({}, {"query": "needle"}):
                    (entry,) = await listed(client, **fields)
                    assert entry.description == "a needle in a haystack"
            await client.ask("session.update", session_id=made.result.session_id, description="sewing")
            assert [entry.description for entry in await listed(client)] == ["sewing"]

    anyio.run(main)


def test_what_a_crash_cut_off_is_listed_so(tmp_path: Path) -> None:
    """After kill -9 the session that was in a turn is listed as interrupted, one that was at rest is not; when the turn has
    gone on to its end, none is."""
    script: Script = [{"call": "run", "with": {"command": "sleep 30", "need": ["write"]}}, {"say": "done"}]

    def interrupted(client: Client) -> list[str]:
        reply = client.ask(SessionList())
        assert isinstance(reply, Sessions)
        return [entry.id for entry in reply.sessions if entry.interrupted]

    with server(tmp_path, script) as process:
        client, session_id = begun(tmp_path)
        asked = until(client, PermissionRequested)
        client.ask(PermissionResponse(question_id=asked.question_id, answer="y"))
        until(client, ToolCallStart)
        client.ask(SessionCreate(workspace=str(tmp_path / "work"), name="at rest"))
        process.kill()
        process.wait()
        client.__exit__()
    with server(tmp_path, script), Client(tmp_path / "run/jaato.sock") as client:
        assert interrupted(client) == [session_id]
        client.ask(SessionAttach(session_id=session_id))
        client.ask(TurnContinue(session_id=session_id))
        until(client, TurnCompleted)
        assert interrupted(client) == []
