"""Servers that do everything wrong: the runtime stays up, and says what happened and what to do."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.mcp.hosting import call, hosted, processes, raw

from jaato.errors import ToolError
from jaato.plugins.mcp import stdio_transport
from jaato.plugins.mcp.errors import ServerFault, ServerRefusal
from jaato.plugins.mcp.pool import SessionServers
from jaato.plugins.mcp.stdio_transport import message_of
from jaato.tools.call import Call


def failure(path: Path, mode: str, *, kind: type[ToolError] = ServerFault, **entry: Any) -> str:
    """What a call of a server in this mode ends with."""

    async def talk(host: SessionServers) -> str:
        with pytest.raises(kind) as caught:
            await call(host, "raw", text="hi")
        return str(caught.value)

    return str(hosted(path, {"raw": raw(mode, **entry)}, talk))


def answer(path: Path, mode: str, **entry: Any) -> str:
    """The text a call of a server in this mode gives."""

    async def talk(host: SessionServers) -> str:
        return str((await call(host, "raw", text="hi")).text)

    return str(hosted(path, {"raw": raw(mode, **entry)}, talk))


def test_a_server_that_hangs_at_its_start_is_given_up_and_ended(tmp_path: Path) -> None:
    """The start has a deadline, and the error names it."""
    said = failure(tmp_path, "hang", start_timeout_s=0.5)
    assert "did not answer within 0.5 s of its start" in said
    assert not processes(str(tmp_path))


def test_a_server_that_ends_at_its_start_says_why(tmp_path: Path) -> None:
    """Exit code and the end of its errors are in the error."""
    said = failure(tmp_path, "exit")
    assert "exit code 7" in said
    assert "cannot find my configuration" in said


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """The error names the program."""

    async def talk(host: SessionServers) -> None:
        with pytest.raises(ServerFault, match="/no/such/server could not be started: No such file"):
            await host.connect("gone")

    hosted(tmp_path, {"gone": {"command": "/no/such/server"}}, talk)


@pytest.mark.parametrize(("mode", "wanted"), [("die", "exit code 3"), ("kill", "signal 9")])
def test_a_server_that_dies_in_mid_call_ends_that_call_at_once(
    tmp_path: Path, mode: str, wanted: str
) -> None:
    """The call fails with the exit code and errors, is not repeated, and the next call starts the server again."""

    async def talk(host: SessionServers) -> list[str]:
        said = []
        for _ in range(2):
            with pytest.raises(ServerFault) as caught:
                await call(host, "raw", text="hi")
            said.append(str(caught.value))
        return said

    trace = tmp_path / "trace"
    for said in hosted(tmp_path, {"raw": raw(mode, str(trace))}, talk):
        assert wanted in said
        assert "whether the request was carried out is not known" in said
        assert mode != "die" or "broken heart" in said
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [line["method"] for line in lines].count("tools/call") == 2
    assert len({line["pid"] for line in lines}) == 2


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("never", "did not answer the tool echo within 0.5 s"),
        ("wrong-id", "answered a request that was not made"),
        ("flood-one-line", "the tool echo"),
        ("stdin-deaf", "did not answer"),
    ],
)
def test_a_call_without_an_answer_ends_in_its_time(tmp_path: Path, mode: str, wanted: str) -> None:
    """Whatever a server does instead of answering, the call ends at its deadline and says what the server did."""
    assert wanted in failure(tmp_path, mode, call_timeout_s=0.5)


def test_a_flood_does_not_hold_up_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While servers flood both of their streams, the agent's loop goes round and another server answers; their own calls
    end at their deadlines and say what they did."""
    monkeypatch.setattr(stdio_transport, "MAX_NOTIFICATIONS_PER_S", 20)  # reached on a busy machine, too
    wanted = {
        "flood": "notifications a second, which were dropped",
        "text": "printed what is no message",
        "stderr": "complaint",
    }

    async def talk(host: SessionServers) -> None:
        await host.connect("fine")
        gaps = []

        async def flood(name: str) -> None:
            with pytest.raises(ServerFault, match=wanted[name]):
                await call(host, name, text="hi")

        async with anyio.create_task_group() as tasks:
            for name in wanted:
                tasks.start_soon(flood, name)
            last = time.monotonic()
            for _ in range(30):
                await anyio.sleep(0.02)
                gaps.append(time.monotonic() - last)
                last = time.monotonic()
            assert (await call(host, "fine", text="still here")).text == "still here"
        assert sorted(gaps)[len(gaps) // 2] < 0.5

    short = {"call_timeout_s": 1}
    servers = {
        "fine": raw(),
        "flood": raw("flood", call_timeout_s=3),
        "text": raw("flood-text", **short),
        "stderr": raw("flood-stderr", **short),
    }
    hosted(tmp_path, servers, talk)


@pytest.mark.parametrize("mode", ["id-types", "text-id", "binary", "chatty", "late"])
def test_noise_around_an_answer_is_no_harm(tmp_path: Path, mode: str) -> None:
    """Other lines, odd bytes and odd ids are passed over, and the answer is taken."""
    assert answer(tmp_path, mode) == "hi"


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("half", "text that is no JSON"), ("deep", "sent"), ("bad-result", "invalid response")],
)
def test_an_answer_that_cannot_be_read_fails_its_call_at_once(tmp_path: Path, mode: str, wanted: str) -> None:
    """Half a message, one nested without end or of the wrong shape is an error before any deadline."""
    assert wanted in failure(tmp_path, mode, kind=ToolError, call_timeout_s=30)


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    """A lone surrogate in an answer does not lose the answer."""
    assert answer(tmp_path, "surrogate") == "a?b"


def test_a_broken_byte_costs_only_itself() -> None:
    """A line of JSON with a byte that is no UTF-8 is read, that byte replaced."""
    message = message_of(b'{"jsonrpc":"2.0","method":"a","params":{"b":"\xff"}}')
    assert message.model_dump()["params"] == {"b": "\ufffd"}


def test_what_a_server_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    """Errors of the protocol and of the tool reach the model as the server put them."""
    assert "no such thing, try another" in failure(tmp_path, "refuse", kind=ServerRefusal)
    assert failure(tmp_path, "is-error", kind=ServerRefusal) == "disk on fire"


def test_a_password_prompt_on_the_terminal_is_no_hang(tmp_path: Path) -> None:
    """A server has no terminal: one that asks there fails at once."""
    assert "/dev/tty" in failure(tmp_path, "tty")
    assert "/dev/tty" in failure(tmp_path, "tty-start")


def test_structured_data_that_breaks_its_own_schema_is_left_out(tmp_path: Path) -> None:
    """The text stays, the lie does not reach programs, and the model is told."""

    async def talk(host: SessionServers) -> list[Any]:
        return [await call(host, name, text="hi") for name in ("lies", "none")]

    lying, missing = hosted(tmp_path, {"lies": raw("lies"), "none": raw("liar-text")}, talk)
    assert lying.structured is None
    assert lying.text.startswith("hi\n[The structured data this tool declares is left out: /n")
    assert missing.text == "hi\n[The structured data this tool declares is left out: there is none]"


@pytest.mark.parametrize("mode", ["ignore-term", "ignore-end", "never", "flood"])
def test_nothing_is_left_of_a_server_that_resists(tmp_path: Path, mode: str) -> None:
    """A server that heeds neither the end of its input nor a signal is killed."""
    mark = f"--{tmp_path.name}-{time.monotonic_ns()}"

    async def talk(host: SessionServers) -> None:
        await host.connect("raw")
        assert processes(mark)

    hosted(tmp_path, {"raw": raw(mode, mark)}, talk)
    assert not processes(mark)


def test_nothing_is_left_of_what_a_server_started(tmp_path: Path) -> None:
    """Children in sessions of their own end with their server."""
    mark = f"98{time.monotonic_ns() % 10**9}"

    async def talk(host: SessionServers) -> None:
        await host.connect("raw")
        while len(processes(f"sleep {mark}")) < 2:
            await anyio.sleep(0.02)

    hosted(tmp_path, {"raw": raw("setsid", mark)}, talk)
    assert not processes(mark)


def test_a_cancelled_call_is_cancelled_at_the_server_and_its_late_answer_dropped(tmp_path: Path) -> None:
    """The server hears of the cancellation; what it says afterwards harms no later call."""
    trace = tmp_path / "trace"

    async def talk(host: SessionServers) -> None:
        await host.connect("raw")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, host, "raw")
            while "tools/call" not in trace.read_text():
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert (await call(host, "raw", text="next")).text == "next"

    hosted(tmp_path, {"raw": raw("late", str(trace))}, talk)
    methods = [json.loads(line)["method"] for line in trace.read_text().splitlines()]
    assert "notifications/cancelled" in methods


def test_the_callers_trace_goes_with_the_call(tmp_path: Path) -> None:
    """A call within a span carries its W3C traceparent; one outside of any carries none."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

    trace = tmp_path / "trace"

    async def talk(host: SessionServers) -> None:
        await call(host, "raw", text="outside")
        with use_span(NonRecordingSpan(SpanContext(0xABC, 0xDEF, False, TraceFlags(1)))):
            await call(host, "raw", text="inside")

    hosted(tmp_path, {"raw": raw("late", str(trace))}, talk)
    asked = [json.loads(line) for line in trace.read_text().splitlines()]
    metas = [one["meta"] for one in asked if one["method"] == "tools/call"]
    assert [meta.get("traceparent") for meta in metas] == [None, f"00-{0xABC:032x}-{0xDEF:016x}-01"]


def test_progress_is_shown_and_gives_time(tmp_path: Path) -> None:
    """Progress appears as output of the call; a call that shows some outlives its deadline."""
    shown: list[str] = []

    async def talk(host: SessionServers) -> None:
        await call(host, "raw", text="hi", call=Call("c", "x", {}, output=shown.append))
        assert (await call(host, "slow", text="done")).text == "done"

    hosted(tmp_path, {"raw": raw("progress"), "slow": raw("slow-progress", call_timeout_s=6)}, talk)
    assert shown[-1] == "[3/3] step 3\n"


def test_servers_get_no_keys_they_are_not_given(tmp_path: Path) -> None:
    """A server's environment has what programs need and what is configured, and none of the user's secrets."""

    async def talk(host: SessionServers) -> Any:
        return json.loads((await call(host, "raw", text="")).text)

    environ = hosted(
        tmp_path,
        {"raw": raw("environ", env={"TOKEN": "${MY_TOKEN}"})},
        talk,
        MY_TOKEN="t-1",
        OPENAI_API_KEY="k",
        GITHUB_TOKEN="g",
        DATABASE_URL="d",
    )
    assert environ["TOKEN"] == "t-1"
    assert not {"OPENAI_API_KEY", "GITHUB_TOKEN", "DATABASE_URL", "MY_TOKEN"} & environ.keys()


def test_progress_too_large_for_a_number_costs_no_answer(tmp_path: Path) -> None:
    """The answer that comes with it is there at once."""
    shown: list[str] = []

    async def talk(host: SessionServers) -> Any:
        return (await call(host, "raw", text="hi", call=Call("c", "x", {}, output=shown.append))).text

    assert hosted(tmp_path, {"raw": raw("huge-progress", call_timeout_s=30)}, talk) == "hi"
    assert all("999" not in text for text in shown)
