"""What clients are told beside the conversation: who said what, which models there are, and the bytes events refer to."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from tests.kit import call, say
from tests.server.serving import Raw, served

from jaato.client.connection import connect
from jaato.errors import StoreError
from jaato.protocol.events import (
    ClarificationQuestion,
    Event,
    MessageUser,
    MidTurnQueued,
    PermissionRequested,
    SessionInfo,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.frames import Blob, Opened, Taken
from jaato.protocol.messages import Media
from jaato.protocol.specs import ModelInfo
from jaato.providers.scripted import ScriptedProvider
from jaato.server.auth.tokens import add_token
from jaato.server.sessions.session_pool import Resume
from jaato.tools.tool import tool

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def begun(client: Raw, path: Path, **more: Any) -> str:
    """A new session that this client watches."""
    made = await client.ask("session.create", workspace=str(path / "work"), **more)
    assert isinstance(made.result, Opened), made
    return made.result.session_id


async def over(client: Raw, turns: int = 1) -> None:
    """Until so many turns have ended."""
    while sum(isinstance(event, TurnCompleted) for event in client.events) < turns:
        await client.next()


def test_a_message_says_whose_it_is(tmp_path: Path) -> None:
    """Each of several clients finds its own message in the log by the reply, and all learn who has said which."""
    (tmp_path / "work/.jaato").mkdir(parents=True)
    (tmp_path / "work/.jaato/.sessions.json").write_text('{"request_description_after_turns": 1}')

    async def main() -> None:
        script = [say("one"), say("two"), say("three"), say("four")]
        async with (
            served(tmp_path, script) as server,
            server.client("ana") as ana,
            server.client("bea") as bea,
        ):
            session_id = await begun(ana, tmp_path)
            await bea.ask("session.attach", session_id=session_id)
            for text in ("hello", "describe it"):
                await ana.ask("message.send", text=text)
                await over(bea, 1 + (text != "hello"))
            asked = told(bea)[1].message
            assert asked.words == "describe it", "what a plugin adds is for the model"
            assert "session_describe" in asked.text
            bea.events.clear()
            replies: dict[str, int] = {}

            async def says(client: Raw, name: str) -> None:
                reply = await client.ask("message.send", text=f"this is {name}")
                assert isinstance(reply.result, Taken)
                replies[name] = reply.result.seq

            async with anyio.create_task_group() as group:
                group.start_soon(says, ana, "ana")
                group.start_soon(says, bea, "bea")
            while len({event.message.by for event in told(bea)}) < 2:
                await bea.next()
            for name, seq in replies.items():
                found = next(event for event in told(bea) if event.seq == seq)
                assert (found.message.by, found.message.words) == (name, f"this is {name}")

    anyio.run(main)


def told(client: Raw) -> list[MessageUser | MidTurnQueued]:
    """The messages of users a client has heard of."""
    return [event for event in client.events if isinstance(event, MessageUser | MidTurnQueued)]


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.8")
@pytest.mark.spec("C8", "Server and events")
def test_the_snapshot_names_the_models(tmp_path: Path) -> None:
    """Whoever attaches is told which models there are, those of the session's provider, and of a resting session its own."""

    class Two(ScriptedProvider):
        asked = 0

        async def models(self) -> list[ModelInfo]:
            Two.asked += 1
            return [self.model_info("big"), self.model_info("small")]

    async def main() -> None:
        async with served(tmp_path, Two([])) as server, server.client("ana") as ana:
            session_id = await begun(ana, tmp_path)
            while not (known := infos(ana)) or known[-1].models == ["script"]:
                await ana.next()
            assert known[-1].models == ["big", "small"]
            await begun(ana, tmp_path)
            async with server.client("bea") as bea:
                await bea.ask("session.attach", session_id=session_id)
                while not infos(bea):
                    await bea.next()
                assert infos(bea)[0].models == ["big", "small"]
            assert Two.asked == 1

    anyio.run(main)


def infos(client: Raw) -> list[SessionInfo]:
    """What a client was told beside events."""
    return [event for event in client.events if isinstance(event, SessionInfo)]


def test_a_client_gets_what_an_event_refers_to(tmp_path: Path) -> None:
    """The image a message shows and the whole of a long result come over the connection, piece by piece, for who watches
    only; of another session's, and under names that are none, nothing does."""
    long = "".join(f"line {number}\n" for number in range(60_000))

    @tool(access="read", core=True)
    async def tell() -> str:
        """Say much."""
        return long

    async def main() -> None:
        async with (
            served(tmp_path, [call("tell"), say("done")], tools=(tell,)) as server,
            connect(server.path, name="ana") as client,
        ):
            session = await client.create(tmp_path / "work")
            file = {"name": "a.png", "mime_type": "image/png", "data": base64.b64encode(PNG).decode()}
            async with server.client() as raw:
                await raw.ask("session.attach", session_id=session.id)
                await raw.ask("message.send", text="look", files=[file])
                await over(raw)
                image = told(raw)[0]
                handle = ends(raw)[0].result.handle
                assert handle is not None
                media = image.message.parts[1]
                assert isinstance(media, Media)
                assert await session.blob(media.blob) == PNG
                assert (await session.blob(handle)).decode() == long
                piece = await raw.ask("blob.request", blob=media.blob, offset=1, limit=3)
                assert isinstance(piece.result, Blob)
                assert (piece.result.data, piece.result.size_bytes) == (PNG[1:4], len(PNG))
                past = await raw.ask("blob.request", blob=media.blob, offset=10**9)
                assert isinstance(past.result, Blob)
                assert past.result.data == b""
                other = await client.create(tmp_path / "work")
                for wrong in ({"blob": "../../x"}, {"blob": "0" * 64}, {"blob": ""}):
                    refused = await raw.ask("blob.request", session_id=session.id, **wrong)
                    assert refused.error is not None, wrong
                with pytest.raises(StoreError, match="no blob"):
                    await other.blob(media.blob)
            token = add_token(tmp_path / "state", "eye", "viewer", None)
            async with server.remote() as remote:
                await remote.hello("eye", token=token)
                seen = await remote.ask("blob.request", session_id=session.id, blob=media.blob)
                assert isinstance(seen.result, Blob)

    anyio.run(main)


def test_images_that_providers_refuse_are_refused(tmp_path: Path) -> None:
    """Of a message with a damaged, a foreign or a much too large image nothing is recorded, and the error names the image;
    other images get the type of their bytes. So it is with an attachment that the session has already."""

    def file(name: str, data: bytes) -> dict[str, str]:
        return {"name": name, "mime_type": "IMAGE/gif", "data": base64.b64encode(data).decode()}

    refused = {
        "cut.png": (PNG[:40], "cut.png: This is a damaged file"),
        "text.png": (b"text", "text.png: This is no PNG"),
        "a\n\x1b[2Jb" * 99: (b"", "This is no PNG"),
        "big.png": (bytes((5 << 20) + 1), "big.png: This image has more than 5 MB"),
    }

    async def main() -> None:
        async with served(tmp_path, [say("seen"), say("again")]) as server, server.client() as raw:
            session_id = await begun(raw, tmp_path)
            for name, (data, problem) in refused.items():
                reply = await raw.ask(
                    "message.send", text="look", files=[file("a.png", PNG), file(name, data)]
                )
                assert reply.error is not None
                assert reply.error.code == "image_refused"
                assert problem in reply.error.message
                assert "\x1b" not in reply.error.message
            text = server.hub.store.put_blob(session_id, b"text")
            for blob, code in (("0" * 64, "store"), (text, "image_refused")):
                given = {"type": "media", "mime_type": "image/png", "blob": blob}
                reply = await raw.ask("message.send", text="look", attachments=[given])
                assert reply.error is not None
                assert reply.error.code.startswith(code)
            await raw.ask("message.send", text="look", files=[file("a.gif", PNG)])
            await over(raw)
            [message] = told(raw)
            media = message.message.parts[1]
            assert isinstance(media, Media)
            assert (media.mime_type, media.size_bytes) == ("image/png", len(PNG))
            await raw.ask(
                "message.send", text="again", attachments=[to_builtins(replace(media, size_bytes=1))]
            )
            await over(raw, 2)
            assert told(raw)[1].message.parts[1] == media
            token = add_token(tmp_path / "state", "eye", "viewer", None)
            async with server.remote() as remote:
                await remote.hello("eye", token=token)
                reply = await remote.ask(
                    "message.send", session_id=session_id, text="x", files=[file("a", b"")]
                )
                assert reply.error is not None
                assert reply.error.code == "not_allowed"

    anyio.run(main)


def ends(client: Raw) -> list[ToolCallEnd]:
    """The results of the calls a client has heard of."""
    return [event for event in client.events if isinstance(event, ToolCallEnd)]


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.7")
def test_snapshots_come_again_when_something_changes(tmp_path: Path) -> None:
    """Who watches one session is told of others that begin, are named, forked and removed, and of another model."""

    async def main() -> None:
        async with served(tmp_path, [say("x")], 0.02) as server, server.client("ana") as ana:
            other = replace(server.hub.base, model="other")
            session_id = await begun(ana, tmp_path)

            async def until(names: set[str | None]) -> None:
                while not infos(ana) or {entry.name for entry in infos(ana)[-1].sessions} != names:
                    await ana.next()

            async with server.client("bea") as bea:
                second = await begun(bea, tmp_path, name="second")
                await until({None, "second"})
                await bea.ask("session.update", name="renamed")
                await until({None, "renamed"})
                await bea.ask("session.fork", name="forked")
                await until({None, "renamed", "forked"})
                await bea.ask("session.delete", session_id=second)
                await until({None, "forked"})
            await server.hub.reload_session(session_id, Resume(blueprint=other))
            while infos(ana)[-1].model_name != "other":
                await ana.next()

    anyio.run(main)


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.6")
@pytest.mark.spec("S3", "Event Protocol", "S3.events.2")
def test_what_plugins_ask_and_plan_reaches_every_client(tmp_path: Path) -> None:
    """Permission and clarification questions, the plan, calls and output are events on every client's socket."""

    async def main() -> None:
        questions = [{"question": "Which?"}]
        script = [
            call("createPlan", title="tidy", steps=["look"]),
            call("get_tool_schemas", names=["request_clarification"]),
            call("request_clarification", context="c", questions=questions),
            call("run", command="touch made", need=["write"]),
            say("All is well.", chunks=3),
        ]
        wanted = [
            "plan.updated", "clarification.question", "clarification.resolved", "permission.requested",
            "permission.resolved", "tool.call_start", "tool.call_end", "agent.output", "message.model",
            "context.updated", "turn.completed",
        ]  # fmt: skip
        async with (
            served(tmp_path, script) as server,
            server.client("ana") as ana,
            server.client("bea") as bea,
        ):
            session_id = await begun(ana, tmp_path)
            await bea.ask("session.attach", session_id=session_id)
            await ana.ask("message.send", text="go")
            asked = await bea.until(ClarificationQuestion)
            await bea.ask("clarification.response", question_id=asked.question_id, answers=["this"])
            may = await bea.until(PermissionRequested)
            await bea.ask("permission.response", question_id=may.question_id, answer="y")
            for client in (ana, bea):
                await over(client)
                assert set(wanted) <= {event_name(event) for event in client.events}

    anyio.run(main)


def event_name(event: Event) -> str:
    """An event's type on the wire."""
    return str(event.__struct_config__.tag)
