"""How flows end when they are stopped, cut off, or when the model or the log fails."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.arp.serving import Shop, definition, shop, stalling
from tests.flow.using import ASKED, flow_of, planned, replayed, trace_of
from tests.kit import call, say

from jaato.errors import JaatoError, StoreError
from jaato.providers.scripted import Step
from jaato.runtime.flow.flow import Flow
from jaato.runtime.flow.trace import AnyRecord, Ended


def test_a_model_that_fails(tmp_path: Path) -> None:
    """A provider's error, a refusal and an answer that is cut off end the flow as they end any turn."""
    with shop(definition("echo")) as it:
        fails = Step(error="provider_authentication")
        for script, status, exit_code, unended in (
            ((fails,), "failed", 3, "plan"),
            ((planned("echo"), fails), "failed", 3, "step-1"),
            ((planned(), fails), "failed", 3, "chat"),
            ((planned(), say("I will not.", finish_reason="refusal")), "failed", 1, ""),
            ((planned(), say("It is fo", finish_reason="length")), "limit", 5, ""),
        ):
            done = replayed(tmp_path, *script, it=it)
            assert (done.run.status, done.run.exit_code) == (status, exit_code), script
            assert [step.step_id for step in done.run.steps if step.status == "failed"] == (
                [unended] if unended else []
            )
        assert not it.asked("POST")


def test_stopped(tmp_path: Path) -> None:
    """A flow that is stopped while a registry is slow to answer ends at once, wherever it is, and says where."""
    stalled = stalling(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
    script = [planned("echo", "echo"), call("echo", text="x"), say("Done.")]

    async def main(it: Shop, path: str, where: list[str]) -> None:
        it.lies, it.seen[:] = {path: stalled}, []
        trace_of(tmp_path).unlink(missing_ok=True)
        flow = flow_of(tmp_path, script, it.url)
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                while not it.asked(path[:4].strip(), path.rpartition(" ")[2]):
                    await anyio.sleep(0.002)
                flow.stop()

            tasks.start_soon(stop)
            run = await flow.run(ASKED)
        assert (run.status, run.exit_code) == ("cancelled", 130)
        assert [f"{step.step_id} {step.status}" for step in run.steps] == where
        assert Flow.replay(trace_of(tmp_path)) == run

    with shop(definition("echo")) as it:
        anyio.run(main, it, "GET /v1/tools", ["plan cancelled"])
        anyio.run(main, it, "GET /v1/tools/echo", ["plan ok", "step-1 cancelled", "step-2 skipped"])
        anyio.run(main, it, "POST /v1/tools/echo:invoke", ["plan ok", "step-1 cancelled", "step-2 skipped"])


def test_cancelled_from_outside(tmp_path: Path) -> None:
    """A flow whose task is cancelled has kept what it did, and says that it was cut off; another run of it may follow, and two
    at once may not."""

    async def main(it: Shop) -> None:
        flow = flow_of(tmp_path, [planned("echo"), call("echo", text="x"), planned(), say("Yes.")], it.url)
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                while not it.asked("POST"):
                    await anyio.sleep(0.002)
                with pytest.raises(JaatoError, match="at work"):
                    await flow.run(ASKED)
                tasks.cancel_scope.cancel()

            tasks.start_soon(cancel)
            await flow.run(ASKED)
        assert Flow.replay(trace_of(tmp_path)).status == "interrupted"
        trace_of(tmp_path).unlink()
        assert (await flow.run(ASKED)).answer == "Yes."

    with shop(definition("echo")) as it:
        it.lies["POST"] = stalling(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
        anyio.run(main, it)


def test_a_store_that_fails(tmp_path: Path) -> None:
    """A log that cannot be kept ends the flow with an error of its own, before any tool is called; the trace says so."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "jaato.db").write_bytes(b"no database" * 1000)
    heard: list[AnyRecord] = []
    with shop(definition("echo")) as it:
        flow = flow_of(tmp_path, [planned("echo")], it.url, on_record=heard.append)
        with pytest.raises(StoreError):
            anyio.run(flow.run, ASKED)
        assert not it.asked("POST")
    match heard[-1]:
        case Ended(status="failed", error=problem):
            assert problem is not None
        case other:
            pytest.fail(f"the last record is {other}")
