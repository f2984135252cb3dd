"""An MCP client's session: its calls under way, and the results it can read again."""

from __future__ import annotations

import re
import secrets
from typing import Any

import anyio

from jaato.agent.session import Session
from jaato.errors import ConfigError, StoreError
from jaato.protocol.events import Event, ToolActivated, ToolCallEnd, ToolOutput
from jaato.protocol.messages import Media
from jaato.protocol.specs import ToolSpec
from jaato.server.mcp.calls import Held, clarify

SCHEME = "jaato://results/"
READ = re.compile(r'\breadFile\(path="(result:[0-9a-f]{64})"\)')
"""How a session's model reads what was left out of a long text."""


def uri_of(handle: str) -> str:
    """Where the client reads what is behind a handle."""
    return SCHEME + handle.removeprefix("result:")


MAX_CALLS = 64
MAX_HANDLES = 200


class Visit:
    """A session that a client's calls run in. `activated` counts the activations, so that a change is seen."""

    def __init__(self, session: Session, client: str) -> None:
        self.session = session
        self.client = client
        self.activated = 0
        self.handles: dict[str, str] = {}
        """The handles of results and media, newest last, and the tool each came from."""
        self.last_used = anyio.current_time()
        self._calls: dict[str, Held] = {}
        self._parked: dict[str, Held] = {}
        session.services["clarify"] = clarify
        session.journal.bus.listen(self._heard)

    @property
    def busy(self) -> bool:
        """Whether a call is under way."""
        return bool(self._calls)

    def declared(self) -> list[ToolSpec]:
        """The tools the client is shown now."""
        return list(self.session.model.request().tools)

    async def begin(self, name: str, arguments: dict[str, Any], *, answerable: bool) -> Held:
        """Start a call. Raises `ConfigError` when too many are under way."""
        self.last_used = anyio.current_time()
        if len(self._calls) >= MAX_CALLS:
            raise ConfigError(f"{MAX_CALLS} calls of this client are under way; wait for one of them to end.")
        held = Held(self.session, self.client, name, arguments, answerable=answerable)
        self._calls[held.asked.call_id] = held

        async def body() -> None:
            try:
                await held.run()
            finally:
                self._calls.pop(held.asked.call_id, None)

        try:
            await self.session.background(body)
        except BaseException:
            self._calls.pop(held.asked.call_id, None)
            raise
        return held

    def park(self, held: Held) -> str:
        """Keep a call that waits for an answer; gives the secret by which the answer finds it."""
        token = secrets.token_urlsafe(24)
        self._parked = {key: one for key, one in self._parked.items() if not one.over}
        self._parked[token] = held
        return token

    def unpark(self, token: str, name: str, arguments: dict[str, Any]) -> Held | None:
        """The call that waits for this answer, if it is that very call; once."""
        held = self._parked.pop(token, None)
        if held is None:
            return None
        if (held.asked.name, held.asked.arguments) != (name, arguments):
            if held.form is not None:
                held.form.fill(None)
            return None
        self.last_used = anyio.current_time()
        return held

    def read(self, digest: str, offset: int, limit: int) -> bytes:
        """Bytes of a result or media of this visit. Raises `StoreError` for one that is not its own."""
        if f"result:{digest}" not in self.handles:
            raise StoreError(f"There is no result {digest[:80]!r} of this session.")
        return self.session.tools.results.read(f"result:{digest}", offset, limit)

    def told(self, words: str) -> str:
        """A text of a result as this client can follow it: where it has no `readFile`, what was left out is a resource."""
        if READ.search(words) is None or any(spec.name == "readFile" for spec in self.declared()):
            return words
        return READ.sub(
            lambda one: f"the resource {uri_of(one[1])}" if one[1] in self.handles else one[0], words
        )

    def _heard(self, event: Event) -> None:
        match event:
            case ToolOutput():
                held = self._calls.get(event.call_id)
                if held is not None:
                    held.said(event.text)
            case ToolCallEnd():
                held = self._calls.get(event.call_id)
                if held is not None:
                    held.result = event.result
                    self._keep(event)
            case ToolActivated():
                self.activated += 1

    def _keep(self, event: ToolCallEnd) -> None:
        result = event.result
        blobs = [f"result:{part.blob}" for part in result.content if isinstance(part, Media)]
        blobs += READ.findall(result.error.message) if result.error is not None else []
        for handle in ([result.handle] if result.handle else []) + blobs:
            self.handles.pop(handle, None)
            self.handles[handle] = event.tool
        while len(self.handles) > MAX_HANDLES:
            del self.handles[next(iter(self.handles))]
