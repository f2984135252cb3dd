"""Model calls that fail: which are tried again, and how the others end the turn."""

from __future__ import annotations

from pathlib import Path

import anyio
from tests.agent.echo import echo
from tests.kit import call, say, session

from jaato.protocol.events import Retry


def test_a_failed_try_is_repeated_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    """A cut stream is retried: its partial text is void, the reply appears once, usage counts once."""

    async def main() -> None:
        retries: list[Retry] = []
        script = [say("half", error="provider_unreachable"), call("echo", text="x"), say("whole")]
        async with session(tmp_path, script, [echo]) as live:
            live.journal.bus.listen(lambda event: retries.append(event) if isinstance(event, Retry) else None)
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            assert len(retries) == 1
            assert retries[0].error.code == "provider_unreachable"
            assert [m.text for m in live.state.messages if m.role == "assistant"] == ["", "whole"]
            assert turn.usage.output_tokens == 20
            assert live.model.ledger.totals()["model_calls"] == 2

    anyio.run(main)


def test_an_error_that_no_retry_helps_ends_the_turn_with_its_code(tmp_path: Path) -> None:
    """A typed provider error ends the turn with reason error; the session goes on with the next message."""

    async def main() -> None:
        script = [say("", error="provider_authentication"), say("better")]
        async with session(tmp_path, script, []) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.error is not None
            assert (turn.reason, turn.error.code) == ("error", "provider_authentication")
            again = await live.post("again")
            assert again is not None
            assert again.reason == "stop"

    anyio.run(main)


def test_a_retry_after_longer_than_we_wait_is_an_error_at_once(tmp_path: Path) -> None:
    """Nobody is left waiting for an hour without being told."""

    async def main() -> None:
        async with session(tmp_path, [say("", error="rate_limited", retry_after_s=3600.0)], []) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.error is not None
            assert turn.error.code == "rate_limited"

    anyio.run(main)
