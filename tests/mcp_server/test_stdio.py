"""The server at the standard streams, as a process: its streams carry the protocol, and it ends with its client."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import anyio
import pytest
from tests.mcp_server.raw import PATIENCE_S, PING, Raw
from tests.mcp_server.serving import ERAS, NOISY, House, answering, decides, text_of

from jaato.protocol.events import ToolCallEnd

Begin = Callable[..., Raw]


@pytest.fixture
def begin(house: House) -> Iterator[Begin]:
    """Starts servers that are gone after the test."""
    begun: list[Raw] = []

    def start(*flags: str, fresh: bool = False) -> Raw:
        begun.append(Raw(house, *flags, fresh=fresh))
        return begun[-1]

    yield start
    for raw in begun:
        raw.close()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raw]:
    """A server that several tests speak with, one after the other; in the end it ends well."""
    raw = Raw(House(tmp_path_factory.mktemp("lasting")))
    try:
        raw.greet()
        yield raw
        assert raw.end() == (0, b"")
    finally:
        raw.close()


def alive(pid: int) -> bool:
    """Whether a process lives."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def awaited(path: Path) -> str:
    """The content of a file as soon as there is some."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if path.exists() and (text := path.read_text()).endswith("\n"):
            return text
        time.sleep(0.01)
    raise AssertionError(f"{path} was not written")


def gone(pid: int) -> bool:
    """Whether a process has ended within the patience of a test."""
    until = time.monotonic() + PATIENCE_S
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


SLEEPER = "sleep 300 & echo $! > pid.txt; wait"


@pytest.mark.parametrize("mode", ERAS)
def test_a_client_works_at_the_standard_streams(house: House, mode: str) -> None:
    """List, activate, be asked, call, hear progress, over real pipes."""
    heard: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async def main() -> None:
        user = answering(decides("allow"))
        async with house.client(mode, fresh=True, elicitation_callback=user) as client:
            assert client.instructions is not None
            assert "get_tool_schemas" in client.instructions
            command = "echo one; sleep 0.2; echo two"
            result = await client.call_tool("run", {"command": command}, progress_callback=progress)
            assert "one\\ntwo" in text_of(result)

    anyio.run(main)
    assert "".join(text or "" for text in heard) == "one\ntwo\n"


@pytest.mark.parametrize("mode", ERAS)
def test_a_call_the_client_gives_up_is_killed(house: House, mode: str) -> None:
    """What a cancelled call had started is gone, the log says so, and the client goes on."""

    async def main() -> None:
        async with house.client(mode, "--yes") as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "run", {"command": SLEEPER})
                pid = int(await anyio.to_thread.run_sync(awaited, house.work / "pid.txt"))
                group.cancel_scope.cancel()
            assert await anyio.to_thread.run_sync(gone, pid)
            assert not (await client.call_tool("get_environment", {})).is_error

    anyio.run(main)
    ends = [event for event in house.events() if isinstance(event, ToolCallEnd)]
    assert ends[0].result.error is not None
    assert ends[0].result.error.code == "cancelled"


@pytest.mark.parametrize("called", [True, False])
def test_what_prints_does_not_touch_the_protocol(house: House, begin: Begin, called: bool) -> None:
    """A plugin that prints at import, in a tool, in a child and at the end writes to stderr; the protocol it cannot read."""
    plugins = house.home / ".config" / "jaato" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "noisy.py").write_text(NOISY)
    raw = begin(fresh=True)
    raw.greet()
    if called:
        raw.call("shout")
        answer = raw.read()
        assert answer["result"]["content"][0]["text"] == "stdin said ''"
    rest, said = raw.process.communicate(timeout=PATIENCE_S)
    assert (raw.process.returncode, bytes(raw.heard) + rest) == (0, b"")
    assert b"printed at import" in said
    assert b"printed at the end" in said


@pytest.mark.parametrize("ending", ["eof", "SIGTERM", "SIGINT", "SIGHUP", "broken pipe"])
def test_it_ends_with_its_client_and_leaves_nothing(house: House, begin: Begin, ending: str) -> None:
    """Whatever ends it, in mid-call: exit code 0 at once, what the call had started is gone, the log has its end."""
    raw = begin("--yes", fresh=ending == "SIGTERM")
    raw.greet()
    raw.call("run", command=SLEEPER)
    pid = int(awaited(house.work / "pid.txt"))
    match ending:
        case "eof":
            assert raw.process.stdin is not None
            raw.process.stdin.close()
        case "broken pipe":
            raw.said.close()
            raw.send(PING)
        case name:
            raw.process.send_signal(signal.Signals[name])
    assert raw.process.wait(PATIENCE_S) == 0
    assert gone(pid)
    (end,) = [event for event in house.events() if isinstance(event, ToolCallEnd)]
    assert end.result.error is not None


def test_a_server_that_is_killed_takes_its_children_along(house: House, begin: Begin) -> None:
    """After kill -9 nothing that a call had started lives on."""
    raw = begin("--yes")
    raw.greet()
    raw.call("run", command=SLEEPER)
    pid = int(awaited(house.work / "pid.txt"))
    raw.process.kill()
    raw.process.wait(PATIENCE_S)
    assert gone(pid)


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"\xff\xfe\x00\n",
        b"[]\n",
        b"{}\n",
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"jsonrpc": "2.0", "id": ' + b"9" * 10_000 + b', "method": "ping"}\n',
        b"x" * 20_000_000 + b"\n",
        b'{"a": "' + b"y" * 20_000_000 + b'"}\n',
    ],
    ids=["words", "bytes", "batch", "empty", "version", "id", "deep", "number", "huge", "huge json"],
)
def test_what_is_no_message_is_refused_and_the_next_one_is_served(lasting: Raw, line: bytes) -> None:
    """A line that is no message, or a far too long one, gets an error without an id; the connection goes on."""
    lasting.send(b"\n\r\n")
    lasting.send(line)
    refused = lasting.read()
    assert refused["id"] is None or refused["id"] == 1, refused
    assert refused["error"]["code"] in (-32700, -32600, -32602, -32601)
    lasting.send(PING)
    assert lasting.read() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_half_a_message_at_the_end_is_refused(begin: Begin) -> None:
    """A client that dies in the middle of a line has asked for nothing with it."""
    raw = begin()
    raw.greet()
    raw.send(json.dumps(PING).encode()[:-5])
    code, said = raw.end()
    assert code == 0
    assert json.loads(said)["error"]["code"] == -32700


def test_a_client_that_does_not_read_holds_up_nobody_and_grows_nothing(begin: Begin) -> None:
    """Thousands of requests whose answers nobody reads wait in the pipe, not in the server's memory."""
    raw = begin()
    raw.greet()
    assert raw.process.stdin is not None
    os.set_blocking(raw.process.stdin.fileno(), False)
    data, asked = b"", count(10)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        if not data:
            lines = [{"jsonrpc": "2.0", "id": next(asked), "method": "tools/list"} for _ in range(100)]
            data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        try:
            data = data[os.write(raw.process.stdin.fileno(), data) :]
        except BlockingIOError:
            time.sleep(0.02)
    status = Path(f"/proc/{raw.process.pid}/status").read_text()
    resident_kb = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
    assert resident_kb < 120_000
    raw.process.terminate()
    assert raw.process.wait(PATIENCE_S) == 0
