"""While a message is worked on: output as it is said, stops, retries, messages sent meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from tests.kit import call, say
from tests.spec.facades import Connect, approved, provider_of

from jaato.abc.provider import Chunk, ModelRequest
from jaato.providers.scripted import Answer, ScriptedProvider


class Paced(ScriptedProvider):
    """A scripted model that pauses between chunks until the test lets it go on."""

    def __init__(self, script: Sequence[Answer]) -> None:
        super().__init__(script, keep_requests=True)
        self.spoke = threading.Event()

    async def stream(self, request: ModelRequest) -> Any:
        said: list[Chunk] = []
        async for chunk in super().stream(request):
            yield chunk
            said.append(chunk)
            if len(said) == 2:
                self.spoke.set()
                await anyio.sleep(30)


@pytest.mark.spec("S3", "Typical Client Usage", "S3.usage.1")
@pytest.mark.spec("S3", "Client API", "S3.client.3")
def test_output_comes_as_it_is_said(connect: Connect) -> None:
    """on_output(source, text, mode): a first "write", then "append", each piece as it arrives."""
    heard: list[tuple[str, str, str]] = []
    client = connect([say("one two three", chunks=3)])
    text = client.send_message("go", on_output=lambda *said: heard.append(said))
    assert "".join(piece for _, piece, _ in heard) == text == "one two three"
    assert [(source, mode) for source, _, mode in heard] == [
        ("model", "write"),
        ("model", "append"),
        ("model", "append"),
    ]


@pytest.mark.spec("S3", "Client API", "S3.client.4")
def test_without_streaming_output_comes_in_one_batch(connect: Connect) -> None:
    """set_streaming_enabled(False) before or after the session began: one "write" with the whole text."""
    heard: list[tuple[str, str, str]] = []
    client = connect([say("one two three", chunks=3), say("four five", chunks=2), say("six seven", chunks=2)])
    client.set_streaming_enabled(False)
    client.send_message("go", on_output=lambda *said: heard.append(said))
    assert heard == [("model", "one two three", "write")]
    client.send_message("go", on_output=lambda *said: heard.append(said))
    assert heard[1:] == [("model", "four five", "write")]
    client.set_streaming_enabled(True)
    client.send_message("go", on_output=lambda *said: heard.append(said))
    assert len(heard) == 4


@pytest.mark.spec("S3", "Client API", "S3.client.1")
@pytest.mark.spec("S3", "Client API", "S3.client.2")
@pytest.mark.spec("S3", "Cancellation Architecture", "S3.cancel.1")
@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.4")
@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.6")
@pytest.mark.parametrize("stopper", ["client", "session"])
def test_stop_from_another_thread_returns_the_partial_text(connect: Connect, stopper: str) -> None:
    """While a message is worked on is_processing is true; stop ends it with what was said, and asks no model."""
    provider = Paced([say("once upon a time", chunks=4), say("never")])
    client = connect(provider)
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(client.send_message("Tell me a long story")))
    assert not client.is_processing
    assert client.stop() is False
    thread.start()
    assert provider.spoke.wait(60)
    assert client.is_processing
    assert client.stop() if stopper == "client" else client.get_session().request_stop()
    thread.join(60)
    assert answers[0].startswith("once up")
    assert answers[0].endswith("[Generation cancelled]")
    assert "time" not in answers[0]
    assert not client.is_processing
    assert len(provider.requests) == 1


def test_a_stop_before_anything_was_said_still_says_so(connect: Connect) -> None:
    """With no partial text the response is the mark alone."""
    running = threading.Event()

    def wait(_args: dict[str, Any]) -> str:
        running.set()
        from jaato.tools.call import CURRENT

        current = CURRENT.get()
        assert current is not None
        current.token.wait(60)
        return "late"

    client = connect([call("do", text="x"), say("never")], approved("mine", wait))
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(client.send_message("go")))
    thread.start()
    assert running.wait(60)
    client.stop()
    thread.join(60)
    assert answers == ["[Generation cancelled]"]


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.5")
def test_retries_go_to_the_callback(connect: Connect, capsys: pytest.CaptureFixture[str]) -> None:
    """set_retry_callback hears (problem, attempt, attempts, wait); nothing is printed."""
    heard: list[tuple[str, int, int, float]] = []
    client = connect([say("", error="rate_limited", retry_after_s=0.001), say("better")])
    client.set_retry_callback(lambda *said: heard.append(said))
    assert client.send_message("go") == "better"
    ((problem, attempt, most, wait_s),) = heard
    assert "rate_limited" in problem
    assert (attempt, most, wait_s) == (2, 5, 0.001)
    assert capsys.readouterr() == ("", "")


def test_a_message_sent_meanwhile_waits_and_returns_at_once(connect: Connect) -> None:
    """From another thread, while a message is worked on: queued, answered at the next pause, empty text back."""
    answers: list[str] = []

    def meanwhile(_args: dict[str, Any]) -> str:
        answers.append(client.send_message("also this"))
        return "ok"

    client = connect([call("do", text="x"), say("both")], approved("mine", meanwhile))
    assert client.send_message("go") == "both"
    assert answers == [""]
    assert [m.text for m in provider_of(client).requests[1].messages if m.role == "user"] == [
        "go",
        "also this",
    ]


def test_a_blocking_call_on_the_loop_is_refused(connect: Connect) -> None:
    """A tool that is a coroutine and calls send_message gets an error instead of waiting for itself for ever."""

    async def inside(_args: dict[str, Any]) -> str:
        return client.send_message("inner")

    client = connect([call("do", text="x"), say("done")], approved("mine", inside))
    assert client.send_message("go") == "done"
    (result,) = [part for m in client.get_history() if m.role == "tool" for part in m.parts]
    assert "own event loop" in result.error.message  # type: ignore[union-attr]  # a tool result
