"""One reply of the model: streamed, retried, and kept as far as it came."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import anyio.lowlevel

from jaato.abc.provider import CallDelta, ModelRequest, Provider, Reply, TextDelta, ThinkingDelta
from jaato.agent.journal import Journal
from jaato.agent.retry import RetryPolicy
from jaato.errors import CancelledException, ConnectionFault, ProviderError
from jaato.protocol.events import AgentOutput, Retry
from jaato.tools.call import problem_of

AT_ONCE = 32
"""Pieces of a reply that are shown before others have their turn."""


class ReplyStream:
    """Reads replies for one session. What has arrived of an unfinished reply is in `partial`."""

    def __init__(self, journal: Journal, retry: RetryPolicy) -> None:
        self._journal = journal
        self._retry = retry
        self._said: list[str] = []
        self.streaming = True
        self.stopped = False

    @property
    def partial(self) -> str:
        """The text of the reply that is being written."""
        return "".join(self._said)

    def clear(self) -> None:
        """Forget the partial text: it is recorded, or void."""
        self._said.clear()

    async def read(self, provider: Provider, request: ModelRequest) -> Reply:
        """The model's whole reply. Failed tries are repeated while that can help; raises the last `ProviderError`."""
        attempt = 1
        while True:
            self.clear()
            try:
                return await self._read_once(provider, request)
            except ProviderError as error:
                wait_s = self._retry.wait_s(attempt, error)
                if wait_s is None:
                    raise
                attempt += 1
                self._journal.show(
                    Retry(
                        **self._journal.shown(),
                        attempt=attempt,
                        max_attempts=self._retry.attempts,
                        wait_s=wait_s,
                        error=problem_of(error),
                    )
                )
                self.clear()
                await anyio.sleep(wait_s)

    async def _read_once(self, provider: Provider, request: ModelRequest) -> Reply:
        head = self._journal.shown()
        said = self._said
        shown = Shown(self._journal, head) if self.streaming else None
        stream = provider.stream(request)
        chunks = 0
        try:
            async for chunk in stream:
                if self.stopped:
                    raise CancelledException("Stopped while the model was speaking.")
                chunks += 1
                if chunks % AT_ONCE == 0:
                    await anyio.lowlevel.checkpoint()  # a model may say more at once than others can wait for
                match chunk:
                    case TextDelta(text=text):
                        said.append(text)
                        if shown:
                            shown.thinking.end()
                            shown.model.feed(text)
                    case ThinkingDelta(text=text):
                        if shown:
                            shown.thinking.feed(text)
                    case CallDelta():
                        pass
                    case Reply():
                        if not shown:
                            self._show_whole(head, chunk)
                        return chunk
        finally:
            if shown:
                shown.thinking.end()
                shown.model.end()
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        raise ConnectionFault(
            f"{provider.name} ended its stream before the reply was complete.", provider=provider.name
        )

    def _show_whole(self, head: dict[str, Any], reply: Reply) -> None:
        """The text of a reply at once, where nobody wants it as it comes."""
        if reply.message.text:
            self._journal.show(output(head, "model", reply.message.text, 0))


class Shown:
    """The deltas of one reply on their way to the watchers, without the secrets that lie across them."""

    def __init__(self, journal: Journal, head: dict[str, Any]) -> None:
        self.model = Deltas(journal, head, "model")
        self.thinking = Deltas(journal, head, "thinking")


class Deltas:
    """What one source says; `offset` counts what was shown."""

    def __init__(self, journal: Journal, head: dict[str, Any], source: Literal["model", "thinking"]) -> None:
        self._publish = journal.bus.publish
        self._head = head
        self._source: Literal["model", "thinking"] = source
        self._stream = journal.secrets.stream()
        self._offset = 0

    def feed(self, text: str) -> None:
        """Show what can be shown by now."""
        if text := self._stream.feed(text):
            self._show(text)

    def end(self) -> None:
        """Show what was held back."""
        if text := self._stream.end():
            self._show(text)

    def _show(self, text: str) -> None:
        self._publish(output(self._head, self._source, text, self._offset))
        self._offset += len(text)


def output(head: dict[str, Any], source: Literal["model", "thinking"], text: str, offset: int) -> AgentOutput:
    """A piece of text as the event that shows it."""
    mode: Literal["write", "append"] = "append" if offset else "write"
    return AgentOutput(**head, source=source, text=text, mode=mode, offset=offset)
