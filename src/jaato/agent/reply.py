"""One reply of the model: streamed, retried, and kept as far as it came."""

from __future__ import annotations

from typing import Any, Literal

import anyio

from jaato.abc.provider import CallDelta, ModelRequest, Provider, Reply, TextDelta, ThinkingDelta
from jaato.agent.journal import Journal
from jaato.agent.retry import RetryPolicy
from jaato.errors import CancelledException, ConnectionFault, ProviderError
from jaato.protocol.events import AgentOutput, Retry
from jaato.tools.call import problem_of


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
        show = self._journal.bus.publish if self.streaming else None
        said, offset, thought = self._said, 0, 0
        stream = provider.stream(request)
        try:
            async for chunk in stream:
                if self.stopped:
                    raise CancelledException("Stopped while the model was speaking.")
                match chunk:
                    case TextDelta(text=text):
                        said.append(text)
                        if show:
                            show(output(head, "model", text, offset))
                        offset += len(text)
                    case ThinkingDelta(text=text):
                        if show:
                            show(output(head, "thinking", text, thought))
                        thought += len(text)
                    case CallDelta():
                        pass
                    case Reply():
                        if not self.streaming:
                            self._show_whole(head, chunk)
                        return chunk
        finally:
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


def output(head: dict[str, Any], source: Literal["model", "thinking"], text: str, offset: int) -> AgentOutput:
    """A piece of text as the event that shows it."""
    mode: Literal["write", "append"] = "append" if offset else "write"
    return AgentOutput(**head, source=source, text=text, mode=mode, offset=offset)
