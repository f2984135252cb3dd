"""A server with a scripted model for the API of OpenAI, and the official SDK at it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from jaato.abc.provider import Provider
from jaato.providers.scripted import Answer, ScriptedProvider
from jaato.runtime.session_options import SessionOptions
from jaato.server.app import ServerOptions, run_server
from jaato.server.http.listeners import bind_unix
from jaato.server.sessions.hub import Hub


class Api:
    """A server in this process: its hub, its socket, and the SDK with the owner's token."""

    def __init__(self, hub: Hub, root: Path, port: int, token: str, sdk: AsyncOpenAI) -> None:
        self.hub = hub
        self.root = root
        self.socket = root / "run/jaato.sock"
        self.work = root / "work"
        self.port = port
        self.token = token
        self.sdk = sdk

    async def ask(self, *messages: tuple[str, str], **options: Any) -> Any:
        """The SDK's completion for messages, given as role and text."""
        listed: Any = [{"role": role, "content": text} for role, text in messages]
        return await self.sdk.chat.completions.create(**{"model": "jaato", "messages": listed} | options)

    def sessions(self) -> list[str]:
        """The ids of all stored sessions."""
        return [row.id for row in self.hub.store.sessions(None, limit=500)]


@asynccontextmanager
async def serving(
    root: Path, script: Sequence[Answer] | Provider, *, workspace: bool = True, **base: Any
) -> AsyncIterator[Api]:
    """A server whose model plays a script."""
    work = root / "work"
    work.mkdir(parents=True, exist_ok=True)
    options = SessionOptions(
        provider=ScriptedProvider(script, keep_requests=True) if isinstance(script, Sequence) else script,
        model="script",
        state_dir=root / "state",
        **({"environ": {"HOME": str(root), "PATH": "/usr/bin:/bin", "JAATO_DEFERRED_TOOLS": "0"}} | base),
    )
    tcp = socket.create_server(("127.0.0.1", 0))
    listeners = [bind_unix(root / "run/jaato.sock"), tcp]
    async with run_server(
        ServerOptions(listeners, base=options, openai=work if workspace else None)
    ) as server:
        token = (root / "state/server-token").read_text().strip()
        port = tcp.getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        async with AsyncOpenAI(api_key=token, base_url=url, max_retries=0, timeout=30) as sdk:
            yield Api(server.hub, root, port, token, sdk)
