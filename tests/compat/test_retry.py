"""`with_retry` and `interruptible_sleep`, as programs without an event loop use them."""

from __future__ import annotations

import threading
import time

import pytest

from jaato.agent.retry import RetryPolicy, interruptible_sleep, with_retry
from jaato.errors import AuthenticationError, CancelledException, RateLimited, ServerFault
from jaato.tools.cancel import CancelToken

FAST = RetryPolicy(attempts=4, first_s=0.001)
SLOW = RetryPolicy(attempts=4, first_s=600)


@pytest.mark.spec("S3", "Interruptible Retry")
def test_what_can_be_helped_is_tried_again() -> None:
    """The response comes with what it took; each wait is told with its cause, and the server's wish is kept to."""
    told: list[tuple[str, int, int, float]] = []
    waiting: list[Exception] = [
        ServerFault("busy"),
        RateLimited("slow down", retry_after_s=0.002),
        TimeoutError("late"),
    ]

    def fn() -> str:
        if waiting:
            raise waiting.pop(0)
        return "answer"

    response, stats = with_retry(
        fn, context="send_message", on_retry=lambda *what: told.append(what), policy=FAST
    )
    assert (response, stats.attempts) == ("answer", 4)
    assert stats.errors == ["ServerFault: busy", "RateLimited: slow down", "TimeoutError: late"]
    assert [(problem, attempt, most) for problem, attempt, most, _ in told] == [
        ("send_message: busy", 2, 4),
        ("send_message: slow down", 3, 4),
        ("send_message: late", 4, 4),
    ]
    assert told[1][3] == 0.002
    assert stats.waited_s == pytest.approx(sum(wait for *_, wait in told))


def test_the_last_error_is_raised() -> None:
    """After the policy's attempts the error itself comes out."""
    calls: list[int] = []

    def fn() -> None:
        calls.append(1)
        raise ServerFault(f"busy {len(calls)}")

    with pytest.raises(ServerFault, match="busy 4"):
        with_retry(fn, policy=FAST)
    assert len(calls) == 4


@pytest.mark.parametrize("error", [AuthenticationError("wrong key"), ValueError("ours"), KeyError("x")])
def test_what_cannot_be_helped_is_raised_at_once(error: Exception) -> None:
    """A refusal or a bug is not repeated."""
    calls: list[int] = []

    def fn() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        with_retry(fn, policy=FAST)
    assert len(calls) == 1


@pytest.mark.spec("S3", "Cancellation Points", "S3.points.3")
def test_cancelling_between_attempts_raises() -> None:
    """A token that is cancelled before an attempt ends it all: the function is not called again."""
    token, calls = CancelToken(), []

    def fn() -> None:
        calls.append(1)
        token.cancel()
        raise ServerFault("busy")

    with pytest.raises(CancelledException):
        with_retry(fn, cancel_token=token, policy=FAST)
    with pytest.raises(CancelledException):
        with_retry(fn, cancel_token=token, policy=FAST)
    assert len(calls) == 1


@pytest.mark.spec("S3", "Cancellation Points", "S3.points.4")
def test_cancelling_wakes_the_backoff() -> None:
    """A wait of ten minutes ends when somebody cancels, with `CancelledException`."""
    token, calls = CancelToken(), []

    def fn() -> None:
        calls.append(1)
        raise ServerFault("busy")

    def stop(*_: object) -> None:
        threading.Timer(0.05, token.cancel).start()

    with pytest.raises(CancelledException):
        with_retry(fn, cancel_token=token, on_retry=stop, policy=SLOW)
    assert len(calls) == 1


@pytest.mark.spec("S3", "Interruptible Retry")
def test_an_interruptible_sleep_wakes_if_cancelled() -> None:
    """It returns when the time is over, and raises as soon as the token is cancelled, or was already."""
    interruptible_sleep(0.001)
    interruptible_sleep(-1)
    token = CancelToken()
    begun = time.monotonic()
    interruptible_sleep(0.02, cancel_token=token)
    assert time.monotonic() - begun >= 0.02
    threading.Timer(0.05, token.cancel).start()
    with pytest.raises(CancelledException):
        interruptible_sleep(600.0, cancel_token=token)
    with pytest.raises(CancelledException):
        interruptible_sleep(600.0, cancel_token=token)
