"""Background tasks of a session: promised, watched, stopped, and told to the model."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, plan, provider_of, recorded, results, runtime, say, session
from tests.processes import alive

from jaato.protocol.events import BackgroundUpdated, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import ToolResult
from jaato.tools.call import Call
from jaato.tools.tool import tool

PLUGINS = ["introspection", "background", "cli"]
NAMES = [
    "start_background",
    "check_background",
    "get_background_output",
    "stop_background",
    "list_background",
]


def activate() -> Any:
    """The first reply: make the five tools known."""
    return call("get_tool_schemas", names=NAMES)


def last(request: Any) -> ToolResult:
    """The result the model was given last."""
    part = request.messages[-1].parts[-1] if request.messages[-1].role == "tool" else None
    for message in reversed(request.messages):
        if message.role == "tool":
            part = message.parts[-1]
            break
    assert isinstance(part, ToolResult)
    assert part.ok, part.error
    return part


async def until(condition: Any) -> None:
    """Wait for something to become true."""
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.005)


@pytest.mark.spec("S3", "Background Task Flow", "S3.background.3")
@pytest.mark.spec("C1", "Tool names", "C1.names.2")
@pytest.mark.parametrize(
    ("start", "arguments", "status", "output"),
    [
        ("start_background", {"tool": "work", "args": {"n": 3}}, "check_background", "get_background_output"),
        (
            "startBackgroundTask",
            {"plugin": "test", "tool": "work", "args": {"n": 3}},
            "getBackgroundTaskStatus",
            "getBackgroundTaskResult",
        ),
        (
            "startBackgroundTask",
            {"tool_name": "work", "arguments": {"n": 3}, "timeout_seconds": 60},
            "checkBackgroundTask",
            "getBackgroundOutput",
        ),
    ],
)
def test_the_model_starts_watches_and_reads_a_task(
    tmp_path: Path, start: str, arguments: dict[str, Any], status: str, output: str
) -> None:
    """In every spelling: a task_id at once, running, then completed with output and result, listed, told."""

    @tool(core=True, access="read")
    async def work(n: int, *, call: Call) -> dict[str, int]:
        """Work."""
        call.output("half way\n")
        await gates[0].wait()
        return {"did": n}

    async def main() -> None:
        gates.append(anyio.Event())

        def check(request: Any) -> Any:
            ids.append(last(request).structured["task_id"])
            return call(status, task_id=ids[0])

        script = [
            activate(),
            call(start, **arguments),
            check,
            say("meanwhile"),
            lambda _request: call(output, task_id=ids[0]),
            call("listBackgroundTasks"),
            say("done"),
        ]
        async with session(tmp_path, script, [work], PLUGINS) as live:
            first = await live.post("go")
            assert first is not None
            assert first.reason == "stop"
            assert results(live)[-1].structured["status"] == "running"
            gates[0].set()
            await until(lambda: live.tasks.get(ids[0]).done.is_set())  # type: ignore[union-attr]  # it is there
            await live.post("and now?")
            read, listed = results(live)[-2:]
            assert read.structured["status"] == "completed"
            assert read.structured["result"] == {"did": 3}
            assert read.structured["output"] == "half way\n"
            assert listed.structured["tasks"][0]["task_id"] == ids[0]
            notices = [m.text for m in provider_of(live).requests[-1].messages if m.source == "system"]
            assert any(ids[0] in text and "completed" in text for text in notices)
            states = [event.status for event in recorded(live) if isinstance(event, BackgroundUpdated)]
            assert states == ["running", "completed"]

    gates: list[anyio.Event] = []
    ids: list[str] = []
    anyio.run(main)


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.6")
@pytest.mark.spec("S0", "Tool Execution Pipeline", "S0.pipeline.3")
def test_a_slow_command_is_promised_once_and_stop_ends_its_processes(tmp_path: Path) -> None:
    """Past the threshold the call gives its promise and goes on; it ran once; stop leaves no process alive."""
    pidfile = tmp_path / "pid"

    async def main() -> None:
        def stop(request: Any) -> Any:
            promise = last(request).structured
            assert promise["auto_backgrounded"] is True
            assert set(promise) >= {"task_id", "plugin_name", "tool_name", "threshold_seconds", "message"}
            ids.append(promise["task_id"])
            pids.append(int(pidfile.read_text()))
            assert alive(pids[0])
            return call("cancelBackgroundTask", task_id=ids[0])

        script = [
            activate(),
            call("run", command=f"echo $$ >> {pidfile}; sleep 1000", need=["write"]),
            stop,
            say("done"),
        ]
        made = runtime(tmp_path, [], PLUGINS)
        found = made.registry.catalog.find("run")
        assert found is not None
        found.tool.background_after_s = 2  # by then it has written who it is
        async with made.create(plan(tmp_path, script)) as live:
            await live.post("go")
            await until(lambda: not alive(pids[0]))
            await until(lambda: live.tasks.get(ids[0]).done.is_set())  # type: ignore[union-attr]  # it is there
            assert live.tasks.get(ids[0]).status.value == "cancelled"  # type: ignore[union-attr]
            starts = [e for e in recorded(live) if isinstance(e, ToolCallStart) and e.tool == "run"]
            ends = [e for e in recorded(live) if isinstance(e, ToolCallEnd) and e.tool == "run"]
            assert len(starts) == len(ends) == 1
            assert starts[0].permission == ends[0].permission
            assert starts[0].permission is not None
        assert len(pidfile.read_text().split()) == 1
        made.close()

    ids: list[str] = []
    pids: list[int] = []
    try:
        anyio.run(main)
    finally:
        for pid in pids:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_task_ends_with_its_session(tmp_path: Path) -> None:
    """Closing the session stops what still runs, and the log says so."""

    @tool(core=True, access="read")
    async def forever() -> str:
        """Never end."""
        await anyio.sleep_forever()
        return "never"

    async def main() -> None:
        script = [activate(), call("start_background", tool="forever"), say("done")]
        made = runtime(tmp_path, [forever], PLUGINS)
        async with made.create(plan(tmp_path, script)) as live:
            await live.post("go")
            (task,) = live.tasks.all()
        assert task.done.is_set()
        states = [event.status for event in recorded(live) if isinstance(event, BackgroundUpdated)]
        assert states == ["running", "cancelled"]
        made.close()

    anyio.run(main)


def test_a_background_call_is_bound_by_activation_and_permission(tmp_path: Path) -> None:
    """What the model may not call it may not start in the background either."""
    from jaato.tools.permissions.gate import Policy

    ran: list[int] = []

    @tool(access="execute")
    async def later() -> None:
        """A discoverable tool."""
        ran.append(1)

    @tool(core=True, access="execute")
    async def denied() -> None:
        """A tool nobody may use."""
        ran.append(2)

    async def main() -> None:
        policy = Policy.of({"defaultPolicy": "allow", "blacklist": {"tools": ["denied"]}})
        script = [
            activate(),
            call("start_background", tool="later"),
            call("start_background", tool="denied"),
            say("done"),
        ]
        async with session(tmp_path, script, [later, denied], PLUGINS, policy=policy) as live:
            await live.post("go")
            assert results(live)[1].error is not None
            assert "not active" in results(live)[1].error.message  # type: ignore[union-attr]  # checked above
            (task,) = live.tasks.all()
            await until(task.done.is_set)
            assert task.status.value == "failed"

    anyio.run(main)
    assert ran == []
