"""What a client hears while a session is made that needs something first."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from tests.server.serving import served

from jaato.client.connection import connect
from jaato.errors import ModelNotFound
from jaato.protocol.commands import SessionCreate
from jaato.protocol.events import InitProgress

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.spec("C8", "Server and events", "C8.events.4")
def test_the_client_that_begins_a_session_hears_how_far_its_model_is(tmp_path: Path) -> None:
    """The embedded model has to be fetched first: `init.progress` says so to whoever waits, and the reply what failed."""
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": os.devnull}
    environ |= {"HTTPS_PROXY": NOWHERE, "PIP_INDEX_URL": f"{NOWHERE}/simple", "PIP_RETRIES": "0"}
    told: list[InitProgress] = []

    async def main() -> None:
        async with served(tmp_path, [], environ=environ) as server, connect(server.path) as client:
            client.on_progress = told.append
            begun = SessionCreate(
                workspace=str(tmp_path / "work"),
                provider="local",
                model="qwen2.5-coder-0.5b-instruct",
                yes=True,
            )
            with pytest.raises(ModelNotFound):
                await client.ask(begun)

    anyio.run(main)
    assert told
    assert {(event.step, event.done, event.unit) for event in told} == {("fetching the model", 0, "bytes")}
    assert {event.total for event in told} == {told[0].total}
    assert (told[0].total or 0) > 100_000_000
