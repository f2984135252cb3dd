"""Stopping a turn: before the model is asked, while it speaks, during calls, between tries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.agent.echo import echo
from tests.kit import calls, provider_of, recorded, results, say, session

from jaato.protocol.events import AgentOutput, Event, Retry, ToolCallStart
from jaato.tools.tool import tool


@pytest.mark.spec("S3", "Cancellation Points")
def test_stop_during_streaming_keeps_the_partial_text(tmp_path: Path) -> None:
    """A stopped stream ends the turn as cancelled and what was said stays in the history."""

    async def main() -> None:
        async with session(tmp_path, [say("one two three four", chunks=4)], []) as live:

            def stop(event: Event) -> None:
                if isinstance(event, AgentOutput) and event.offset > 0:
                    live.stop()

            live.journal.bus.listen(stop)
            original = provider_of(live).stream

            async def paced(request: Any) -> Any:
                async for chunk in original(request):
                    yield chunk
                    await anyio.sleep(0)

            live.model.provider.stream = paced  # type: ignore[method-assign]  # the same provider, with pauses
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "cancelled"
            last = live.state.messages[-1]
            assert last.role == "assistant"
            assert last.text.startswith("one two")
            assert "four" not in last.text

    anyio.run(main)


@pytest.mark.spec("S3", "Cancellation Points")
@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_stop_during_calls_skips_the_remaining_and_keeps_what_is_done(tmp_path: Path, parallel: int) -> None:
    """Finished results stay, running calls are cancelled, those not begun are marked as not run."""

    async def main() -> None:
        @tool(core=True, access="read")
        async def forever() -> str:
            """Never end."""
            await anyio.sleep_forever()
            return "never"

        script = [calls(("echo", {"text": "a"}), ("forever", {}), ("echo", {"text": "b"})), say("never")]
        async with session(tmp_path, script, [echo, forever], parallel=parallel) as live:

            def stop(event: Event) -> None:
                if isinstance(event, ToolCallStart) and event.tool == "forever":
                    anyio.lowlevel.current_token()
                    live.stop()

            live.journal.bus.listen(stop)
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "cancelled"
            found = results(live)
            assert [result.ok for result in found] == [True, False, False]
            assert {result.error.code for result in found if result.error} == {"cancelled"}
            assert not live.state.open_calls

    anyio.run(main)


@pytest.mark.spec("S3", "Cancellation Points")
def test_a_call_that_had_not_begun_never_begins(tmp_path: Path) -> None:
    """A stop when the first of several calls starts: no start of another one is in the log."""

    async def main() -> None:
        script = [calls(*[("echo", {"text": text}) for text in "abcd"]), say("never")]
        async with session(tmp_path, script, [echo]) as live:

            def stop(event: Event) -> None:
                if isinstance(event, ToolCallStart):
                    live.stop()

            live.journal.bus.listen(stop)
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "cancelled"
            assert sum(isinstance(event, ToolCallStart) for event in recorded(live)) == 1
            assert not any(result.ok for result in results(live)[1:])
            assert len(results(live)) == 4

    anyio.run(main)


@pytest.mark.spec("S3", "Cancellation Points")
def test_a_stop_before_the_message_is_sent_returns_at_once(tmp_path: Path) -> None:
    """With a stop pending before the model is asked, it is not asked."""

    async def main() -> None:
        async with session(tmp_path, [say("never")], []) as live:

            def stop(event: Event) -> None:
                if type(event).__name__ == "MessageUser":
                    live.stop()

            live.journal.bus.listen(stop)
            turn = await live.post("go")
            assert turn is not None
            assert (turn.reason, turn.model_calls) == ("cancelled", 0)
            assert provider_of(live).requests == []

    anyio.run(main)


@pytest.mark.spec("S3", "Cancellation Points")
def test_a_stop_wakes_the_wait_between_tries(tmp_path: Path) -> None:
    """A retry's wait ends at once when the turn is stopped."""
    from jaato.agent.retry import RetryPolicy

    async def main() -> None:
        script = [say("", error="rate_limited"), say("never")]
        async with session(tmp_path, script, [], retry=RetryPolicy(first_s=3600, longest_s=3600)) as live:
            live.journal.bus.listen(lambda event: live.stop() if isinstance(event, Retry) else None)
            with anyio.fail_after(60):
                turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "cancelled"

    anyio.run(main)
