"""`jaato acp` as a process: its streams, its end, a server that dies, and input that is no protocol."""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from acp.exceptions import RequestError
from tests.acp.editor import editing, run
from tests.acp.raw import HELLO, Raw, message
from tests.cli.environment import CliEnvironment, call, say
from tests.processes import alive


@pytest.fixture
def raw(alone: CliEnvironment) -> Iterator[Raw]:
    """An agent in one process, which is gone after the test."""
    made = Raw(alone, *alone.script(say("hello"), say("again")), "--no-daemon")
    try:
        made.send(HELLO)
        assert made.read()["id"] == 0
        yield made
    finally:
        made.close()


BAD = [
    (b"not json\n", -32700),
    (b'{"jsonrpc": "2.0", "id": 1\n', -32700),
    (b"\xff\xfe\x00\n", -32700),
    (b"[" * 100_000 + b"\n", -32700),
    (b"[]\n", -32600),
    (b'"text"\n', -32600),
    (b"{}\n", -32600),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "initialize"}\n', -32600),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "initialize"}\n', -32600),
    (b'{"jsonrpc": "2.0", "id": true, "method": "initialize"}\n', -32600),
    (b'{"jsonrpc": "2.0", "id": null, "method": "initialize"}\n', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": ["initialize"]}\n', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": [1]}\n', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "session/none", "params": {}}\n', -32601),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "_other/extension", "params": {}}\n', -32601),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"prompt": 4}}\n', -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "relative"}}\n', -32602),
    (
        b'{"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"cwd": "/", "sessionId": "\\ud800"}}\n',
        -32602,
    ),
    (b'{"jsonrpc": "2.0", "id": "x", "result": {}}\n', 0),
    (b'{"jsonrpc": "2.0", "id": "x", "error": {"code": 1}}\n', 0),
    (b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "no JSON"}}\n', 0),
    (b'{"jsonrpc": "2.0", "method": "session/none", "params": {"sessionId": 4}}\n', 0),
    (
        b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": Infinity}}\n',
        -32700,
    ),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 65536}}\n', -32602),
    ('{"jsonrpc": "2.0", "id": 1, "method": "session/list"}'.encode("utf-16-le") + b"\n", -32700),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 100_000 + b'", "params": {}}\n', -32601),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {"cwd": "work"}}\n', -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {"cursor": "\\ud800"}}\n', -32602),
    (
        b'{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/a\\u0000b", "mcpServers": []}}\n',
        -32602,
    ),
    (b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}}\n', 0),
    (b'{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}\n', 0),
    (b'{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": [1]}}\n', 0),
    (b'{"jsonrpc": "2.0", "method": "$/cancel_request"}\n', 0),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "session/delete", "params": {"sessionId": 4}}\n', -32602),
    (b"\n \n", 0),
]


def test_bad_input_is_answered_and_loses_nothing(raw: Raw, alone: CliEnvironment) -> None:
    """Each is answered with the error of JSON-RPC or ignored, and a session goes on after all of it."""
    session = raw.ask("s", "session/new", cwd=str(alone.work), mcpServers=[])["result"]["sessionId"]
    prompt = [{"type": "text", "text": "hi"}]
    assert (
        raw.ask("p", "session/prompt", sessionId=session, prompt=prompt)["result"]["stopReason"] == "end_turn"
    )
    for data, code in BAD:
        raw.send(data)
        if code:
            answer = raw.read()
            assert answer["error"]["code"] == code, (data[:80], answer)
            assert len(json.dumps(answer)) < 4_000
    assert (
        raw.ask("q", "session/prompt", sessionId=session, prompt=prompt)["result"]["stopReason"] == "end_turn"
    )
    assert raw.end() == 0


def test_a_prompt_is_cancelled_by_the_id_of_its_request(alone: CliEnvironment) -> None:
    """As by its session; the id of another request, or of one that was answered, cancels nothing."""
    raw = Raw(
        alone,
        *alone.script(call("run", command="touch begun; sleep 300"), say("over")),
        "--yes",
        "--no-daemon",
    )
    try:
        raw.send(HELLO)
        assert raw.read()["id"] == 0
        session = raw.ask("s", "session/new", cwd=str(alone.work), mcpServers=[])["result"]["sessionId"]
        prompt = [{"type": "text", "text": "wait"}]
        raw.send(message("session/prompt", "p", sessionId=session, prompt=prompt))
        alone.wait_for("begun")
        for request in ("s", 0, "none", None, "p"):
            raw.send(message("$/cancel_request", requestId=request))
        answer = raw.read()
        assert (answer["id"], answer["result"]["stopReason"]) == ("p", "cancelled")
        raw.send(message("$/cancel_request", requestId="p"))
        answer = raw.ask("q", "session/prompt", sessionId=session, prompt=prompt)
        assert (answer["id"], answer["result"]["stopReason"], raw.text) == ("q", "end_turn", "over")
    finally:
        raw.close()


def test_each_request_that_has_an_id_is_answered_with_it(raw: Raw) -> None:
    """Also one whose parameters are missing, null or of the wrong kind, so that the editor waits for nothing."""
    for params, has_result in (("null", True), ("{}", True), ("[]", False), ("4", False)):
        raw.send(b'{"jsonrpc":"2.0","id":"l","method":"session/list","params":%s}\n' % params.encode())
        answer = raw.read()
        assert (answer["id"], "result" in answer) == ("l", has_result)
    raw.send({"jsonrpc": "2.0", "id": 7, "method": "session/list"})
    assert raw.read()["result"] == {"sessions": []}


def test_capabilities_of_another_form_are_none(raw: Raw, alone: CliEnvironment) -> None:
    """What an editor declares in a way that the protocol does not have is taken as not declared."""
    wrong = {
        "fs": "all",
        "terminal": "maybe",
        "elicitation": {"form": 3},
        "auth": {"terminal": "x"},
        "_meta": 5,
    }
    for declared in (*({name: value} for name, value in wrong.items()), wrong):
        answer = raw.ask(1, "initialize", protocolVersion=1, clientCapabilities=declared)
        assert [one["id"] for one in answer["result"]["authMethods"]] == ["jaato-login"], declared
    raw.ask("s", "session/new", cwd=str(alone.work), mcpServers=[])
    assert raw.end() == 0


def test_metadata_replaces_no_parameter(raw: Raw, alone: CliEnvironment) -> None:
    """What an editor adds under `_meta` may have any names."""
    meta = {"cwd": "/", "self": 1, "session_id": ["none"], "traceparent": "00-1-2-3"}
    made = raw.ask("s", "session/new", cwd=str(alone.work), mcpServers=[], _meta=meta)["result"]
    prompt = [{"type": "text", "text": "hi"}]
    ended = raw.ask("p", "session/prompt", sessionId=made["sessionId"], prompt=prompt, _meta=meta)
    assert ended["result"]["stopReason"] == "end_turn"
    listed = raw.ask("l", "session/list", cwd=str(alone.work), _meta=meta)["result"]["sessions"]
    assert [row["cwd"] for row in listed] == [str(alone.work)]


@pytest.mark.parametrize("error", ["no", [1], None, {}, {"code": "x", "message": 5}])
def test_an_error_of_any_shape_denies_and_ends_nothing(alone: CliEnvironment, error: Any) -> None:
    """The editor's answer to a permission request is no error of JSON-RPC: the call is denied, the session goes on."""
    script = alone.script(
        call("get_tool_schemas", names=["writeNewFile"]),
        call("writeNewFile", path="a.txt", content="hello\n"),
        say("denied"),
        say("again"),
    )
    raw = Raw(alone, *script, "--no-daemon")
    try:
        raw.send(HELLO)
        raw.read()
        session = raw.ask("s", "session/new", cwd=str(alone.work), mcpServers=[])["result"]["sessionId"]
        prompt = [{"type": "text", "text": "hi"}]
        asked = raw.ask("p", "session/prompt", sessionId=session, prompt=prompt)
        assert asked["method"] == "session/request_permission"
        raw.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        assert raw.read()["result"]["stopReason"] == "end_turn"
        assert (
            raw.ask("q", "session/prompt", sessionId=session, prompt=prompt)["result"]["stopReason"]
            == "end_turn"
        )
        assert raw.end() == 0
    finally:
        raw.close()
    assert not (alone.work / "a.txt").exists()


def test_a_line_is_whole_when_its_session_is_closed(desk: CliEnvironment) -> None:
    """The editor does not read while long texts are sent, and closes their sessions: no line begins within another."""
    raw = Raw(desk, *desk.script(say("y" * 1_000_000)))
    try:
        raw.send(HELLO)
        raw.read()
        sessions = [
            raw.ask(number, "session/new", cwd=str(desk.work), mcpServers=[])["result"]["sessionId"]
            for number in range(3)
        ]
        for number, session in enumerate(sessions):
            params = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
            raw.send({"jsonrpc": "2.0", "id": f"p{number}", "method": "session/prompt", "params": params})
        for session in sessions:
            while not any(event["type"] == "turn.completed" for event in desk.events(session)):
                select.select([], [], [], 0.1)
        for session in sessions:
            params = {"sessionId": session}
            raw.send({"jsonrpc": "2.0", "id": f"c{session}", "method": "session/close", "params": params})
        answers = {raw.read()["id"] for _ in range(6)}
        assert answers == {"p0", "p1", "p2", *(f"c{session}" for session in sessions)}
        assert raw.end() == 0
    finally:
        raw.close()


def test_a_huge_message_is_refused(raw: Raw) -> None:
    """A line beyond the limit is answered with an error, and not kept; one that is invalid is not sent back."""
    raw.send(b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"text": "')
    for _ in range(20):
        raw.send(b"x" * 1_000_000)
    raw.send(b'"}}\n')
    assert raw.read()["error"]["code"] == -32700
    answer = raw.ask(2, "session/new", cwd=["x" * 1_000_000], mcpServers=[])
    assert answer["error"]["code"] == -32602
    assert len(json.dumps(answer)) < 4_000
    assert raw.end() == 0


def test_a_flood_of_requests_is_bounded(alone: CliEnvironment) -> None:
    """Beyond a number of unanswered requests further ones are refused, and each of them has one response."""
    raw = Raw(alone, *alone.script(call("run", command="sleep 5"), say("over")), "--yes", "--no-daemon")
    try:
        raw.send(HELLO)
        raw.read()
        session = raw.ask("s", "session/new", cwd=str(alone.work), mcpServers=[])["result"]["sessionId"]
        prompt = [{"type": "text", "text": "hi"}]
        params = {"sessionId": session, "prompt": prompt}
        for number in range(200):
            raw.send({"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params})
        answers = [raw.read() for _ in range(200 - 64)]
        assert all(answer["error"]["code"] == -32800 for answer in answers)
        assert raw.end() == 0
    finally:
        raw.close()


def test_an_editor_that_does_not_read_gets_each_text_once(desk: CliEnvironment) -> None:
    """More events than are kept while it does not read: what was dropped is taken from the state, and what that does not
    hold any more, long texts and early calls, from the store."""
    text = "".join(f"{number:014} " for number in range(40_000))
    (desk.work / "a.txt").write_text("text")
    reads = [
        {"name": "readFile", "arguments": {"path": "a.txt", "limit": number}} for number in range(1, 211)
    ]
    raw = Raw(desk, *desk.script(say(text, chunks=40_000, calls=reads), say("over")))
    try:
        raw.send(HELLO)
        raw.read()
        session = raw.ask("s", "session/new", cwd=str(desk.work), mcpServers=[])["result"]["sessionId"]
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        raw.send({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params})
        while not any(event["type"] == "turn.completed" for event in desk.events(session)):
            select.select([], [], [], 0.1)
        memory = psutil.Process(raw.process.pid).memory_info().rss
        assert memory < 300_000_000
        assert raw.read()["result"]["stopReason"] == "end_turn"
        assert raw.text == text + "over"
        assert raw.completed == len(reads)
        assert raw.end() == 0
    finally:
        raw.close()


def test_stdout_has_the_protocol_alone(alone: CliEnvironment) -> None:
    """What a plugin of the workspace prints goes to stderr, and stdin is not its."""
    plugin = alone.work / ".jaato" / "plugins"
    plugin.mkdir(parents=True)
    script = alone.script(call("run", command="cat; echo visible"), say("over"))
    raw = Raw(alone, *script, "--no-daemon")
    try:
        raw.send(HELLO)
        assert raw.read()["id"] == 0
        session = raw.ask("s", "session/new", cwd=str(alone.work), mcpServers=[])["result"]["sessionId"]
        prompt = [{"type": "text", "text": "hi"}]
        answer = raw.ask("p", "session/prompt", sessionId=session, prompt=prompt)
        assert answer["result"]["stopReason"] == "end_turn"
        assert raw.end() == 0
    finally:
        raw.close()


def test_the_end_of_the_editor_ends_the_process(desk: CliEnvironment) -> None:
    """The end of stdin in mid-turn: the process ends, the turn goes on in the server."""
    script = desk.script(call("run", command="sleep 1; echo over"), say("finished"))
    raw = Raw(desk, *script)
    raw.send(HELLO)
    raw.read()
    session = raw.ask("s", "session/new", cwd=str(desk.work), mcpServers=[])["result"]["sessionId"]
    prompt = [{"type": "text", "text": "hi"}]
    raw.send(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": prompt},
        }
    )
    assert raw.process.stdout is not None
    while b"tool_call" not in os.read(raw.process.stdout.fileno(), 1 << 16):
        pass
    assert raw.end() == 0
    assert raw.process.stderr is not None
    assert b"Traceback" not in raw.process.stderr.read()
    raw.close()
    for _ in range(200):
        if any(event["type"] == "turn.completed" for event in desk.events(session)):
            break
        select.select([], [], [], 0.1)
    (turn,) = [event for event in desk.events(session) if event["type"] == "turn.completed"]
    assert turn["reason"] == "stop"


def test_a_killed_agent_leaves_no_process(alone: CliEnvironment) -> None:
    """SIGKILL of the agent in mid-command: the command ends with it."""
    script = alone.script(call("run", command="echo $$ ; exec sleep 300"), say("never"))

    async def story() -> int:
        async with editing(alone, *script, "--no-daemon", command=alone.command) as editor:
            session = await editor.new(alone)
            prompt = asyncio.create_task(editor.say(session, "wait"))
            await editor.wait(lambda: editor.of("tool_call_update"))
            found = set(descendants(editor.process.pid))
            assert found
            os.kill(editor.process.pid, signal.SIGKILL)
            await editor.process.wait()
            prompt.cancel()
            for _ in range(1200):
                if not any(alive(pid) for pid in found):
                    break
                await asyncio.sleep(0.05)
            assert not any(alive(pid) for pid in found)
            return 0

    with pytest.raises(AssertionError):  # an agent that was killed does not end well
        run(story())


def descendants(pid: int) -> list[int]:
    """The processes below one."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def test_a_killed_server_is_started_again_and_the_turn_goes_on(desk: CliEnvironment) -> None:
    """SIGKILL of the daemon in mid-turn: the agent starts it, resumes the turn, and the prompt ends."""
    script = desk.script(call("run", command="echo begun; sleep 3"), say("recovered"), say("and on"))

    async def story() -> None:
        async with editing(desk, *script) as editor:
            session = await editor.new(desk)
            prompt = asyncio.create_task(editor.say(session, "work"))
            await editor.wait(lambda: "begun" in str(editor.of("tool_call_update")))
            await asyncio.to_thread(desk.kill_server)
            assert (await prompt).stop_reason == "end_turn"
            assert editor.text() == "recovered"
            assert (await editor.say(session, "more")).stop_reason == "end_turn"
            assert editor.text() == "recoveredand on"

    run(story())


def test_a_server_at_another_machine_works_in_the_editors_directory(alone: CliEnvironment) -> None:
    """By its address and the token of a file, without a directory on the command line."""
    alone.env["XDG_RUNTIME_DIR"] = str(alone.home)
    assert alone.run("serve", "--daemon", "--web-socket", ":0").returncode == 0
    try:
        found = re.search(r"ws://[\d.:]+", alone.run("serve", "--status").stdout)
        assert found is not None
        token = str(alone.state / "server-token")

        async def story() -> None:
            script = alone.script(say("far"))
            async with editing(alone, *script, "--connect", found[0], "--token-file", token) as editor:
                session = await editor.new(alone)
                assert (await editor.say(session, "hi")).stop_reason == "end_turn"
                (row,) = (await editor.agent.list_sessions(cwd=str(alone.work))).sessions
                assert row.cwd == str(alone.work)

        run(story())
    finally:
        alone.run("serve", "--stop")


def test_a_prompt_while_the_server_is_gone_runs_whole(desk: CliEnvironment) -> None:
    """The server died before the prompt: the session is opened with the editor's options first, so that its turn is not
    ended by that."""
    script = desk.script(call("run", command="sleep 1"), say("done"))

    async def story() -> None:
        async with editing(desk, *script) as editor:
            session = await editor.new(desk)
            await asyncio.to_thread(desk.kill_server)
            assert (await editor.say(session, "work")).stop_reason == "end_turn"
            assert editor.text() == "done"

    run(story())


def test_a_session_that_could_not_be_opened_again_is_tried_with_the_next_prompt(desk: CliEnvironment) -> None:
    """A new server that cannot open it, such as without its provider, is an error of each prompt until it can: none is sent
    under other options, or waits for an answer that does not come."""
    script = desk.script(say("one"), call("run", command="touch ran", need=["write"]), say("two"))

    async def story() -> None:
        async with editing(desk, *script, "--yes") as editor:
            session = await editor.new(desk)
            await editor.say(session, "before")
            path, gone = desk.root / "script.json", desk.root / "gone.json"
            path.rename(gone)
            desk.kill_server()
            for _ in range(2):
                with pytest.raises(RequestError, match="neither a file"):
                    await editor.say(session, "meanwhile")
            gone.rename(path)
            assert (await editor.say(session, "after")).stop_reason == "end_turn"
            assert (editor.text(), editor.requests) == ("onetwo", [])
            users = [one["message"] for one in desk.events(session) if one["type"] == "message.user"]
            assert [one["parts"][0]["text"] for one in users] == ["before", "after"]

    run(story())


def test_a_cancel_while_the_server_is_gone_keeps_the_prompt(desk: CliEnvironment) -> None:
    """A prompt that waits for the server is cancelled at once, and its message never sent; the next one is."""
    raw = Raw(desk, *desk.script(say("next"), say("never")))
    try:
        raw.send(HELLO)
        raw.read()
        session = raw.ask("s", "session/new", cwd=str(desk.work), mcpServers=[])["result"]["sessionId"]
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        desk.kill_server()
        assert raw.process.stderr is not None
        while b"lost the connection" not in raw.process.stderr.readline():
            pass
        raw.send({"jsonrpc": "2.0", "id": "c", "method": "session/prompt", "params": params})
        raw.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
        assert raw.read()["result"]["stopReason"] == "cancelled"
        assert raw.ask("n", "session/prompt", **params)["result"]["stopReason"] == "end_turn"
        assert raw.text == "next"
        assert raw.end() == 0
    finally:
        raw.close()


def test_a_question_survives_the_death_of_the_server(desk: CliEnvironment) -> None:
    """SIGKILL of the daemon while the editor is asked: its answer counts afterwards, and nothing runs twice."""
    script = desk.script(
        call("get_tool_schemas", names=["writeNewFile"]),
        call("writeNewFile", path="a.txt", content="hello\n"),
        say("written"),
    )

    async def story() -> None:
        async with editing(desk, *script, choose=lambda *_: None) as editor:
            session = await editor.new(desk)
            prompt = asyncio.create_task(editor.say(session, "write"))
            await editor.wait(lambda: editor.requests)
            await asyncio.to_thread(desk.kill_server)
            await editor.wait(lambda: "reconnected" in (desk.root / "acp.log").read_text())
            editor.choose = lambda *_: "allow_once"
            editor.decided.set()
            assert (await prompt).stop_reason == "end_turn"
            assert editor.text() == "written"
            assert len(editor.requests) == 1

    run(story())
    assert (desk.work / "a.txt").read_text() == "hello\n"
