"""Tracing in a server: the same file from every session, figures, and nothing twice after a crash."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import anyio
import httpx2
from tests.kit import say
from tests.server.serving import served
from tests.server.test_resume import begun, server, until
from tests.tracing.collecting import spans_of, stored, tree

from jaato.client.blocking import Client
from jaato.protocol.commands import PermissionResponse, SessionAttach, TurnContinue
from jaato.protocol.events import PermissionRequested, SessionInfo, TurnCompleted
from jaato.protocol.frames import Opened


def configured(home: Path) -> Path:
    """A home whose sessions are traced into a file, and that file."""
    config = home / ".config/jaato"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('trace_file = "~/spans.jsonl"\n')
    return home / "spans.jsonl"


def test_sessions_of_a_server_are_traced(tmp_path: Path) -> None:
    """Sessions of a server write into one file; its metrics say how many spans went out."""
    path = configured(tmp_path)

    async def main() -> None:
        async with served(tmp_path, [say("x"), say("y")]) as here, here.client() as client:
            for turns in (1, 2):
                made = await client.ask("session.create", workspace=str(tmp_path / "work"))
                assert isinstance(made.result, Opened)
                await client.ask("session.attach", session_id=made.result.session_id)
                await client.ask("message.send", session_id=made.result.session_id, text="go")
                while sum(isinstance(event, TurnCompleted) for event in client.events) < turns:
                    await client.next()
            while here.hub.pool.spans.exported < 4:
                await anyio.sleep(0.005)
            async with httpx2.AsyncClient(trust_env=False) as web:
                url = f"http://127.0.0.1:{here.port}/metrics"
                text = (await web.get(url, headers={"Authorization": f"Bearer {here.token}"})).text
            assert "jaato_spans_exported_total 4" in text
            assert "jaato_spans_dropped_total 0" in text

    anyio.run(main)
    spans = spans_of(path)
    assert tree(spans) == {"": ["invoke_agent main"] * 2, "invoke_agent main": ["chat script"] * 2}
    assert len({span.trace_id for span in spans}) == 2


def test_a_crash_doubles_no_span(tmp_path: Path) -> None:
    """A server that is killed in mid-turn, asks what came of it and goes on writes every span once, in one trace, with the
    ids that the log gives."""
    path = configured(tmp_path)
    asks = {
        "call": "run",
        "with": {"command": "touch begun; sleep 600", "need": ["write"]},
    }
    script: list[dict[str, Any]] = [{"call": "readFile", "with": {"path": "none"}}, asks, {"say": "done"}]
    with server(tmp_path, script) as process:
        client, session_id = begun(tmp_path)
        asked = until(client, PermissionRequested)
        client.ask(PermissionResponse(question_id=asked.question_id, answer="y", digest=asked.digest))
        while not (tmp_path / "work/begun").exists():
            signal.sigtimedwait((), 0.01)
        while len(spans_of(path)) < 4:
            signal.sigtimedwait((), 0.01)
        process.kill()
        process.wait()
        client.__exit__()
    with server(tmp_path, script) as process, Client(tmp_path / "run/jaato.sock", name="second") as client:
        client.ask(SessionAttach(session_id=session_id))
        until(client, SessionInfo)
        client.ask(TurnContinue(session_id=session_id))
        assert until(client, TurnCompleted).reason == "stop"
        process.terminate()
        process.wait()
    spans = spans_of(path)
    assert len({span.span_id for span in spans}) == len(spans)
    assert len({span.trace_id for span in spans}) == 1
    assert {span.span_id for span in spans} == {span.span_id for span in stored(tmp_path, session_id)}
    assert sorted(span.name for span in spans) == [
        "chat script",
        "chat script",
        "chat script",
        "clarification",
        "execute_tool readFile",
        "execute_tool run",
        "invoke_agent main",
        "permission run",
    ]
    ran = next(span for span in spans if span.name == "execute_tool run")
    assert ran.problem == "interrupted"
