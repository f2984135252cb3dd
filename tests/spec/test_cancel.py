"""`CancelToken` and what belongs to it."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit import call, provider_of, say, session

from jaato.agent.retry import RetryPolicy, interruptible_sleep, with_retry
from jaato.errors import CancelledException
from jaato.protocol.events import Event, Retry
from jaato.runtime.embedding.types import FinishReason
from jaato.tools.call import Call
from jaato.tools.cancel import CancelToken
from jaato.tools.tool import tool


@pytest.mark.spec("S3", "CancelToken", "S3.token.1")
def test_a_token_is_cancelled_once_for_all() -> None:
    """False at first, true after cancel(), whoever asks and however often it is called."""
    token = CancelToken()
    assert token.is_cancelled is False
    token.raise_if_cancelled()
    thread = threading.Thread(target=token.cancel)
    thread.start()
    thread.join(60)
    token.cancel()
    assert token.is_cancelled is True
    with pytest.raises(CancelledException):
        token.raise_if_cancelled()


@pytest.mark.spec("S3", "CancelToken", "S3.token.2")
@pytest.mark.spec("S3", "CancelToken", "S3.token.3")
def test_cancel_wakes_everybody_who_waits() -> None:
    """Eight threads that wait are all woken with True; without cancel a wait ends with False."""
    token = CancelToken()
    assert token.wait(timeout=0) is False
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(token.wait(30))) for _ in range(8)]
    for thread in threads:
        thread.start()
    token.cancel()
    for thread in threads:
        thread.join(60)
    assert woken == [True] * 8
    assert token.wait(timeout=0) is True


@pytest.mark.spec("S3", "CancelToken", "S3.token.4")
def test_callbacks_run_once_in_order() -> None:
    """Registered before: on cancel; after: at once; forgotten: never; one that raises keeps no other from running."""
    token = CancelToken()
    heard: list[str] = []

    def bad() -> None:
        heard.append("bad")
        raise RuntimeError("mine")

    token.on_cancel(lambda: heard.append("first"))
    token.on_cancel(bad)
    forget = token.on_cancel(lambda: heard.append("forgotten"))
    token.on_cancel(lambda: heard.append("last"))
    forget()
    with pytest.raises(RuntimeError, match="mine"):
        token.cancel()
    token.cancel()
    assert heard == ["first", "bad", "last"]
    token.on_cancel(lambda: heard.append("late"))
    assert heard[-1] == "late"


@given(st.lists(st.integers(0, 6), min_size=1, max_size=7), st.data())
def test_cancelling_reaches_all_below_and_nobody_else(parents: list[int], data: st.DataObject) -> None:
    """In any tree of tokens, cancelling one cancels exactly itself and its descendants."""
    tokens = [CancelToken()]
    above = [-1]
    for parent in parents:
        above.append(parent % len(tokens))
        tokens.append(CancelToken(tokens[above[-1]]))
    chosen = data.draw(st.integers(0, len(tokens) - 1))
    tokens[chosen].cancel()
    for index, token in enumerate(tokens):
        line = [index]
        while above[line[-1]] >= 0:
            line.append(above[line[-1]])
        assert token.is_cancelled is (chosen in line)


@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.7")
def test_the_finish_reason_is_the_word() -> None:
    """FinishReason.CANCELLED == "cancelled"."""
    assert FinishReason("cancelled") is FinishReason.CANCELLED
    assert {FinishReason.CANCELLED: 1}["cancelled"] == 1  # type: ignore[index]  # it is the word itself


@pytest.mark.spec("S3", "Interruptible Retry", "S3.retry.1")
@pytest.mark.spec("S3", "Cancellation Points", "S3.points.3")
def test_a_cancelled_token_ends_retries_and_sleeps() -> None:
    """Between attempts and within the wait CancelledException is raised; no further attempt is made."""
    token = CancelToken()
    attempts: list[int] = []

    def failing() -> None:
        attempts.append(1)
        token.cancel()
        raise ConnectionError("cut")

    with pytest.raises(CancelledException):
        with_retry(failing, context="send_message", cancel_token=token, policy=RetryPolicy(first_s=3600))
    assert attempts == [1]
    with pytest.raises(CancelledException):
        interruptible_sleep(3600, cancel_token=token)
    response, stats = with_retry(lambda: "ok", context="send_message", cancel_token=CancelToken())
    assert (response, stats.attempts) == ("ok", 1)


@pytest.mark.spec("S3", "Cancellation Points", "S3.points.3")
@pytest.mark.spec("S3", "Cancellation Points", "S3.points.4")
def test_a_stop_between_tries_asks_the_model_no_more(tmp_path: Path) -> None:
    """Stopped when the retry is announced, the session makes no second request."""

    async def main() -> None:
        async with session(tmp_path, [say("", error="rate_limited"), say("never")]) as live:

            def stop(event: Event) -> None:
                if isinstance(event, Retry):
                    live.stop()

            live.journal.bus.listen(stop)
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "cancelled"
            assert len(provider_of(live).requests) == 1

    anyio.run(main)


@pytest.mark.spec("S4", "10. Streaming with Cancellation Tokens", "S4.streaming.2")
@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.8")
@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_a_tool_that_never_returns_can_be_stopped(tmp_path: Path, kind: str) -> None:
    """The turn ends at once as cancelled; the tool's token is cancelled, so that one that looks can end."""
    seen: list[Call] = []
    ended = threading.Event()

    @tool(name="hang", core=True, access="read")
    def blocking(*, call: Call) -> str:
        """Never return by itself."""
        seen.append(call)
        call.token.wait(30)
        ended.set()
        return "late"

    @tool(name="hang", core=True, access="read")
    async def waiting(*, call: Call) -> str:
        """Never return."""
        seen.append(call)
        await anyio.sleep_forever()
        return "never"

    async def main() -> None:
        async with (
            session(
                tmp_path, [call("hang"), say("never")], [blocking if kind == "thread" else waiting]
            ) as live,
            anyio.create_task_group() as group,
        ):
            group.start_soon(stop_when_running)
            with anyio.fail_after(60):
                turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "cancelled"
            assert seen[0].token.is_cancelled
            assert live.state.open_calls == {}
            running.append(live)

    running: list[object] = []

    async def stop_when_running() -> None:
        while not seen:
            await anyio.sleep(0.001)
        seen[0].services["session"].stop()

    anyio.run(main)
    assert kind == "loop" or ended.wait(60)
